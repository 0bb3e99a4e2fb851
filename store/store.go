package store

import (
	"context"
	"time"
)

// Store is a small shared key-value store. See the package comment for what
// blocks and what ends it.
type Store interface {
	Reader
	Writer
	Queue

	// SetTimeout sets the default timeout of calls whose ctx has no deadline.
	// Zero and less mean DefaultTimeout.
	SetTimeout(d time.Duration)
	// Close ends all calls under way with ErrClosed and releases what the
	// store holds. Safe to call twice.
	Close() error
}

// Bounds of what a store takes. They are PyTorch's; a server ends the
// connection of a client that passes them.
const (
	MaxKeyBytes   = 8 << 10   // of one key, the prefixes included
	MaxValueBytes = 8 << 20   // of one value
	MaxKeys       = 128 << 10 // of one call
	// MaxCallBytes bounds the keys and values of one call together. PyTorch
	// has no such bound; without it one call may ask for a terabyte.
	MaxCallBytes = 256 << 20
)

// DefaultTimeout is how long a call whose ctx has no deadline may block.
const DefaultTimeout = 300 * time.Second

// Reader has the calls that change nothing.
type Reader interface {
	// Get waits for key and returns a copy of its value.
	Get(ctx context.Context, key string) ([]byte, error)
	MultiGet(ctx context.Context, keys []string) ([][]byte, error)
	// Wait blocks until all keys are there.
	Wait(ctx context.Context, keys ...string) error
	// Check tells at once whether all keys are there.
	Check(ctx context.Context, keys ...string) (bool, error)
	// NumKeys counts the keys of the whole store, whatever the prefix; a client of a
	// guarded server has those that its token allows.
	NumKeys(ctx context.Context) (int64, error)
}

// Writer has the calls that change keys.
type Writer interface {
	Set(ctx context.Context, key string, value []byte) error
	MultiSet(ctx context.Context, keys []string, values [][]byte) error
	Append(ctx context.Context, key string, value []byte) error
	// Add adds delta to the decimal number under key (0 if absent) and returns
	// the sum.
	Add(ctx context.Context, key string, delta int64) (int64, error)
	// CompareSet sets key to desired if its value is expected, or if it is
	// absent and expected is empty, and returns the value now there; for an
	// absent key and an expected that is not empty it returns expected and
	// sets nothing.
	CompareSet(ctx context.Context, key string, expected, desired []byte) ([]byte, error)
	// Delete tells whether the key was there.
	Delete(ctx context.Context, key string) (bool, error)
	// DeletePrefix deletes every key and queue that a view WithPrefix(s,
	// prefix) could name, and says how many. An empty prefix deletes all keys.
	// PyTorch's own server does not know it: ErrUnsupported.
	DeletePrefix(ctx context.Context, prefix string) (int64, error)
}

// Queue has first-in first-out queues, which live beside the keys.
type Queue interface {
	Push(ctx context.Context, key string, value []byte) error
	// Pop takes the oldest value; with block it waits for one, without it
	// returns ErrEmpty.
	Pop(ctx context.Context, key string, block bool) ([]byte, error)
	Len(ctx context.Context, key string) (int64, error)
}
