package durabletest

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/skerry-ft/skerry/checkpoint/durable"
)

// ErrDead is returned by a Faulty that has died.
var ErrDead = errors.New("durabletest: the process is dead")

// Moment is where in an operation a fault comes.
type Moment int

// The moments of a Put or Delete.
const (
	Before Moment = iota // nothing of it is done
	During               // half of the bytes have been read
	After                // it is done, and its caller does not learn so
)

// Faulty is a store whose writer dies, or whose disk fails, at a chosen moment. It is
// safe for concurrent use.
type Faulty struct {
	durable.Store

	// Fault is asked at each moment of each Put and Delete: nil, or the error of the
	// operation. After ErrDead, all fail.
	Fault func(op, name string, m Moment) error

	mu struct {
		sync.Mutex

		dead bool
	}
}

// fault asks Fault.
func (f *Faulty) fault(op, name string, m Moment) error {
	f.mu.Lock()
	dead := f.mu.dead
	f.mu.Unlock()
	if dead {
		return ErrDead
	}
	err := f.Fault(op, name, m)
	if errors.Is(err, ErrDead) {
		f.mu.Lock()
		f.mu.dead = true
		f.mu.Unlock()
	}
	return err
}

// Put implements durable.Store.
func (f *Faulty) Put(ctx context.Context, name string, size int64, r io.Reader) error {
	if err := f.fault("put", name, Before); err != nil {
		return err
	}
	half := io.MultiReader(io.LimitReader(r, size/2), failing(func() error { return f.fault("put", name, During) }), r)
	if err := f.Store.Put(ctx, name, size, half); err != nil {
		return err
	}
	return f.fault("put", name, After)
}

// failing is a reader of nothing that may fail.
type failing func() error

// Read implements io.Reader.
func (f failing) Read([]byte) (int, error) {
	if err := f(); err != nil {
		return 0, err
	}
	return 0, io.EOF
}

// Delete implements durable.Store.
func (f *Faulty) Delete(ctx context.Context, name string) error {
	if err := f.fault("delete", name, Before); err != nil {
		return err
	}
	if err := f.Store.Delete(ctx, name); err != nil {
		return err
	}
	return f.fault("delete", name, After)
}
