package baby

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"sync"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// Group is what a Baby adds to a backend. *Backend implements it.
type Group interface {
	pg.Backend

	// Active is the number of ops in flight in the child.
	Active() int
	// Child tells which process runs the ops; ok is false when there is none.
	Child() (pid int, ok bool)
	// Warm starts the spare that the next Configure takes. It returns when the
	// spare is ready or ctx ends.
	Warm(ctx context.Context) error
}

// Importer is implemented by backends that open device memory which another
// process has exported (tensor.DeviceMemory.Export). The memory is the importer's
// until it is closed with the backend.
type Importer interface {
	ImportMemory(d tensor.Device, handle []byte, size int) (tensor.DeviceMemory, error)
}

// Backend runs another backend in a child process. Safe for concurrent use.
type Backend struct {
	opt Options
	mem memory

	configMu sync.Mutex      // one Configure, or Close, at a time
	warmMu   sync.Mutex      // one Warm at a time
	life     context.Context // ends with Close
	endLife  context.CancelCauseFunc
	running  sync.WaitGroup

	mu struct {
		sync.Mutex

		child    *child // of the last Configure
		entering entering
		spare    *child
		err      error // why there is no usable child
		used     pg.History
		cfg      pg.Config
		hadGroup bool
		closed   bool
	}
}

var _ Group = (*Backend)(nil)

// New makes an unconfigured Baby. It starts nothing; Configure and Warm do.
func New(o Options) (*Backend, error) {
	if err := o.normalise(); err != nil {
		return nil, err
	}
	b := &Backend{opt: o}
	b.life, b.endLife = context.WithCancelCause(context.Background())
	b.mu.err = pg.ErrUnconfigured
	return b, nil
}

// Name is "baby:" and the name of the backend in the child.
func (b *Backend) Name() string { return namePrefix + b.opt.Backend }

// Sibling makes an unconfigured Baby with the same options, for a subgroup. It
// has children of its own.
func (b *Backend) Sibling() (pg.Backend, error) { return New(b.opt) }

// Alloc makes a zeroed tensor in memory that the child shares, so that ops on
// it, or on parts of it, copy nothing. It takes at least a page and a
// descriptor: make few and large ones. It stays mapped until Free.
func (b *Backend) Alloc(dtype tensor.DType, shape ...int) (tensor.Tensor, error) {
	return b.mem.alloc(dtype, shape)
}

// Free unmaps a tensor of Alloc, the whole of it. No op may use it, and nobody
// may read it afterwards.
func (b *Backend) Free(t tensor.Tensor) error {
	s, err := b.mem.take(t)
	if err != nil {
		return err
	}
	if c := b.inUse(); c != nil {
		c.drop(s)
		return nil
	}
	if err := s.mem.Close(); !errors.Is(err, os.ErrClosed) { // Close has closed the descriptor, if it came before
		return err
	}
	return nil
}

// Active is the number of ops in flight in the child.
func (b *Backend) Active() int {
	c := b.inUse()
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.underWay
}

// Child tells which process runs the ops; ok is false when there is none.
func (b *Backend) Child() (pid int, ok bool) {
	c := b.inUse()
	if c == nil || c.isGone() {
		return 0, false
	}
	return c.proc.PID(), true
}

// Config is that of the last Configure that succeeded; false before.
func (b *Backend) Config() (pg.Config, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.cfg, b.mu.hadGroup
}

// SetRound sets the round of the ops submitted after it; each takes it along.
func (b *Backend) SetRound(round int64) {
	if c := b.inUse(); c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.mu.round = round
	}
}

// Err is the first cause since Configure, or nil.
func (b *Backend) Err() error {
	c, err := b.current()
	if c == nil {
		return err
	}
	return c.cause()
}

// inUse is the child of the last Configure, or nil.
func (b *Backend) inUse() *child {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.child
}

// current is the child of the group, or why there is none.
func (b *Backend) current() (*child, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.err != nil {
		return nil, b.mu.err
	}
	return b.mu.child, nil
}

// Broken is closed once epoch e is broken, or over. For any epoch but that of
// the group it is closed already.
func (b *Backend) Broken(e pg.Epoch) <-chan struct{} {
	if c, err := b.current(); err == nil && c.cfg.Epoch() == e {
		return c.broken
	}
	over := make(chan struct{})
	close(over)
	return over
}

// Abort implements pg.Backend. If the child does not end its ops within Slack,
// it is killed.
func (b *Backend) Abort(e pg.Epoch, cause error) {
	b.mu.Lock()
	c, under := b.mu.child, b.mu.entering
	b.mu.Unlock()
	if c != nil && c.cfg.Epoch() == e {
		c.abort(cause)
	}
	if under.cancel != nil && under.epoch == e { // it may have no child yet
		under.cancel(cause)
	}
}

// Submit implements pg.Backend. It copies tensors that are not of Alloc, and
// never waits for the child.
func (b *Backend) Submit(op *pg.Op) *pg.Work {
	c, err := b.current()
	switch {
	case errors.Is(err, pg.ErrUnconfigured), errors.Is(err, pg.ErrClosed):
		return pg.Finished(op, err)
	case err != nil:
		return pg.Finished(op, refused(err))
	}
	if err := op.Validate(c.cfg.Rank, c.cfg.WorldSize()); err != nil {
		return pg.Finished(op, err)
	}
	if op.Kind == pg.KindBatch && !apart(op) {
		return pg.SubmitBatch(b, op) // one reads what another writes: in order
	}
	return b.inOrder(c, op)
}

func idMessage(k kind, id uint64) []byte {
	return seal(binary.LittleEndian.AppendUint64(newMessage(nil, k), id))
}

// Close implements pg.Backend. It waits until no child is left.
func (b *Backend) Close() error {
	b.mu.Lock()
	if b.mu.closed {
		b.mu.Unlock()
		return nil
	}
	b.mu.closed, b.mu.err = true, pg.ErrClosed
	b.endLife(pg.ErrClosed)
	c := b.mu.child
	b.mu.Unlock()
	if c != nil {
		c.abort(pg.ErrClosed)
	}
	b.endChildren()
	b.running.Wait() // without configMu: a refill that has not begun waits for it
	b.mem.close()
	return nil
}

// endChildren ends the child and the spare of a Backend that is closed.
func (b *Backend) endChildren() {
	b.configMu.Lock() // a Configure under way ends, because we are closing
	defer b.configMu.Unlock()
	b.mu.Lock()
	children := []*child{b.mu.child, b.mu.spare}
	b.mu.child, b.mu.spare = nil, nil
	b.mu.Unlock()
	for _, c := range children {
		if c != nil {
			b.retire(c, pg.ErrClosed)
		}
	}
}

// retire ends a child: when it returns, none of its ops is pending, and the
// process ends beside whatever comes next.
func (b *Backend) retire(c *child, cause error) {
	c.leave(cause)
	b.running.Go(c.finish)
}
