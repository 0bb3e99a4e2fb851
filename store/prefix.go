package store

import (
	"context"
	"strings"
	"time"
)

// WithPrefix is a view of s in which every key stands under prefix, as
// PyTorch's PrefixStore: "key" is "prefix/key" in s. Views nest. NumKeys still
// counts the whole store, and SetTimeout changes s.
//
// The view borrows s: its Close does nothing, whoever opened s closes it. An
// empty prefix is the store itself, borrowed.
func WithPrefix(s Store, prefix string) Store {
	return &prefixed{below: s, prefix: joinPrefix(prefix), owned: false}
}

// prefixed is safe for concurrent use if the store below is.
type prefixed struct {
	below  Store
	prefix string // with its slash, or empty
	owned  bool   // Close closes the store below
}

func joinPrefix(prefix string) string {
	prefix = strings.TrimSuffix(prefix, "/")
	if prefix == "" {
		return ""
	}
	return prefix + "/"
}

// prefixAll puts prefix before each of keys.
func prefixAll(prefix string, keys []string) []string {
	if prefix == "" {
		return keys
	}
	out := make([]string, len(keys))
	for i, key := range keys {
		out[i] = prefix + key
	}
	return out
}

func (p *prefixed) Get(ctx context.Context, key string) ([]byte, error) {
	return p.below.Get(ctx, p.prefix+key)
}

func (p *prefixed) MultiGet(ctx context.Context, keys []string) ([][]byte, error) {
	return p.below.MultiGet(ctx, prefixAll(p.prefix, keys))
}

func (p *prefixed) Wait(ctx context.Context, keys ...string) error {
	return p.below.Wait(ctx, prefixAll(p.prefix, keys)...)
}

func (p *prefixed) Check(ctx context.Context, keys ...string) (bool, error) {
	return p.below.Check(ctx, prefixAll(p.prefix, keys)...)
}

func (p *prefixed) NumKeys(ctx context.Context) (int64, error) { return p.below.NumKeys(ctx) }

func (p *prefixed) Set(ctx context.Context, key string, value []byte) error {
	return p.below.Set(ctx, p.prefix+key, value)
}

func (p *prefixed) MultiSet(ctx context.Context, keys []string, values [][]byte) error {
	return p.below.MultiSet(ctx, prefixAll(p.prefix, keys), values)
}

func (p *prefixed) Append(ctx context.Context, key string, value []byte) error {
	return p.below.Append(ctx, p.prefix+key, value)
}

func (p *prefixed) Add(ctx context.Context, key string, delta int64) (int64, error) {
	return p.below.Add(ctx, p.prefix+key, delta)
}

func (p *prefixed) CompareSet(ctx context.Context, key string, expected, desired []byte) ([]byte, error) {
	return p.below.CompareSet(ctx, p.prefix+key, expected, desired)
}

func (p *prefixed) Delete(ctx context.Context, key string) (bool, error) {
	return p.below.Delete(ctx, p.prefix+key)
}

func (p *prefixed) DeletePrefix(ctx context.Context, prefix string) (int64, error) {
	return p.below.DeletePrefix(ctx, p.prefix+prefix)
}

func (p *prefixed) Push(ctx context.Context, key string, value []byte) error {
	return p.below.Push(ctx, p.prefix+key, value)
}

func (p *prefixed) Pop(ctx context.Context, key string, block bool) ([]byte, error) {
	return p.below.Pop(ctx, p.prefix+key, block)
}

func (p *prefixed) Len(ctx context.Context, key string) (int64, error) {
	return p.below.Len(ctx, p.prefix+key)
}

func (p *prefixed) SetTimeout(d time.Duration) { p.below.SetTimeout(d) }

func (p *prefixed) Close() error {
	if !p.owned {
		return nil
	}
	return p.below.Close()
}
