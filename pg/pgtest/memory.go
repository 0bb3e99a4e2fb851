package pgtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/failpoint"
	"github.com/skerry-ft/skerry/pg"
)

// Memory is the network of in-memory backends: those that are configured with
// one store address meet in it. Nothing is ever dialled; the address is only a
// name. Safe for concurrent use.
type Memory struct {
	mu struct {
		sync.Mutex

		rooms map[string]*room
		cuts  map[[2]string]bool // of replicas by name, in order
	}
}

// NewMemory makes an empty network.
func NewMemory() *Memory {
	m := &Memory{}
	m.mu.rooms = make(map[string]*room)
	return m
}

// Backend makes an unconfigured backend on this network.
func (m *Memory) Backend() *MemoryBackend {
	b := &MemoryBackend{net: m}
	return b
}

// MemoryDriver registers the backends of a network of its own, and gives the name.
func MemoryDriver(t testing.TB) string {
	t.Helper()
	network := NewMemory()
	name := fmt.Sprintf("Memory-%s-%p", strings.ToLower(t.Name()), network) // new for each run of the test
	err := pg.Register(name, []string{"cpu"}, func(pg.Options) (pg.Backend, error) { return network.Backend(), nil })
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// meet gives the room of an address.
func (m *Memory) meet(c pg.Config) *room {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.mu.rooms[c.StoreAddress]
	if r == nil {
		r = newRoom(m, c)
		m.mu.rooms[c.StoreAddress] = r
	}
	return r
}

// forget drops a room that everybody has left.
func (m *Memory) forget(r *room) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.rooms[r.address] == r {
		delete(m.mu.rooms, r.address)
	}
}

// MemoryBackend is an honest backend in memory: it keeps every rule of
// pg.Backend, in one process, without sockets or goroutines. A collective is
// carried out on the goroutine of the rank that submits last.
type MemoryBackend struct {
	net    *Memory
	timers sync.WaitGroup // deadlines that may still fire

	corrupt atomic.Bool // the next shared result

	mu struct {
		sync.Mutex

		seat   *seat // in the room of the last Configure, whatever came of it
		ready  bool  // the last Configure succeeded
		err    error // of the last Configure, if it failed
		round  int64
		closed bool
		used   pg.History
	}
}

var (
	_ pg.Backend    = (*MemoryBackend)(nil)
	_ pg.Rounder    = (*MemoryBackend)(nil)
	_ pg.Configured = (*MemoryBackend)(nil)
	_ pg.Prober     = (*MemoryBackend)(nil)
)

// Sibling makes another backend on the same network, for a subgroup.
func (b *MemoryBackend) Sibling() (pg.Backend, error) { return b.net.Backend(), nil }

// Name is "memory".
func (b *MemoryBackend) Name() string { return "memory" }

// Configure meets the other ranks of c.
func (b *MemoryBackend) Configure(ctx context.Context, c pg.Config) error {
	if c.Rank < 0 || c.Rank >= c.WorldSize() {
		return fmt.Errorf("pgtest: configure as rank %d of %d", c.Rank, c.WorldSize())
	}
	b.mu.Lock()
	if b.mu.closed {
		b.mu.Unlock()
		return pg.ErrClosed
	}
	if err := b.mu.used.Use(&c); err != nil {
		b.mu.Unlock()
		return err
	}
	old := b.mu.seat
	s := &seat{backend: b, config: c, room: b.net.meet(c), points: failpoint.From(ctx), digest: pg.Digest{Valid: true}}
	b.mu.seat, b.mu.ready, b.mu.err, b.mu.round = s, false, nil, c.Round
	b.mu.Unlock()
	if old != nil {
		old.leave(fmt.Errorf("%w: configured for epoch %v", pg.ErrAborted, c.Epoch()))
	}
	err := s.enter(ctx)
	if err != nil {
		err = fmt.Errorf("configure rank %d of %d, epoch %v: %w", c.Rank, c.WorldSize(), c.Epoch(), err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.seat == s {
		b.mu.ready, b.mu.err = err == nil, err
	}
	return err
}

// enter waits until every rank has come.
func (s *seat) enter(ctx context.Context) error {
	r := s.room
	full := r.full
	var late <-chan time.Time
	peer := s.outOfReach()
	if peer >= 0 {
		full, late = nil, time.After(reachTimeout)
	}
	if err := r.sit(s); err != nil {
		return err
	}
	s.points.At(failpoint.ConfigureDuring)
	select {
	case <-full:
		return nil
	case <-late:
		s.part(peer)
	case <-r.broken:
	case <-ctx.Done():
		r.fail(s, context.Cause(ctx))
	}
	select {
	case <-full: // everybody came at that very moment
		return nil
	default:
		return r.errFor(s)
	}
}

// Config is that of the last Configure that succeeded.
func (b *MemoryBackend) Config() (pg.Config, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.seat == nil || !b.mu.ready {
		return pg.Config{}, false
	}
	return b.mu.seat.config, true
}

// SetRound sets the round of the ops to come.
func (b *MemoryBackend) SetRound(round int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.round = round
}

// Submit implements pg.Backend.
func (b *MemoryBackend) Submit(op *pg.Op) *pg.Work {
	b.mu.Lock()
	s, ready, closed := b.mu.seat, b.mu.ready, b.mu.closed
	op.Round = b.mu.round
	b.mu.Unlock()
	switch {
	case closed:
		return pg.Finished(op, errors.Join(pg.ErrAborted, pg.ErrClosed))
	case s == nil:
		return pg.Finished(op, pg.ErrUnconfigured)
	}
	if op.Kind == pg.KindBallot {
		op.OwnBallot(s.config.Rank, s.config.WorldSize())
	}
	if err := errors.Join(op.Validate(s.config.Rank, s.config.WorldSize()), op.RequireCPU()); err != nil {
		return pg.Finished(op, err)
	}
	if !ready {
		if err := b.Err(); err != nil {
			return pg.Finished(op, errors.Join(pg.ErrAborted, err))
		}
		return pg.Finished(op, pg.ErrUnconfigured)
	}
	if op.Kind == pg.KindBatch {
		return pg.SubmitBatch(b, op)
	}
	op.Epoch = s.config.Epoch()
	work := pg.NewWork(op)
	s.room.submit(s, op, work)
	if op.Kind != pg.KindBallot {
		s.points.At(failpoint.AllReduceDuring)
	}
	return work
}

// Abort implements pg.Backend.
func (b *MemoryBackend) Abort(e pg.Epoch, cause error) {
	b.mu.Lock()
	s := b.mu.seat
	b.mu.Unlock()
	if s != nil && s.config.Epoch() == e {
		s.room.fail(s, cause)
	}
}

// Kill does to the peers what SIGKILL of this process would: the links break,
// and nobody says why. This backend itself is closed.
func (b *MemoryBackend) Kill() {
	b.mu.Lock()
	s := b.mu.seat
	b.mu.Unlock()
	if s != nil {
		s.room.lose(s)
	}
	_ = b.Close() // always nil
}

// CorruptNext flips a bit of this rank's next result that all ranks share,
// before it is folded into the digest: what a faulty memory would do.
func (b *MemoryBackend) CorruptNext() { b.corrupt.Store(true) }

// Err implements pg.Backend.
func (b *MemoryBackend) Err() error {
	b.mu.Lock()
	s, closed, err := b.mu.seat, b.mu.closed, b.mu.err
	b.mu.Unlock()
	switch {
	case closed:
		return pg.ErrClosed
	case s == nil:
		return pg.ErrUnconfigured
	case err != nil:
		return err
	}
	return s.room.errFor(s)
}

// Close implements pg.Backend.
func (b *MemoryBackend) Close() error {
	b.mu.Lock()
	s := b.mu.seat
	b.mu.closed = true
	b.mu.Unlock()
	if s != nil {
		s.leave(pg.ErrClosed)
	}
	b.timers.Wait()
	return nil
}

// MemoryHarness is the Harness of backends in memory, each within what wrap puts around
// it. Their addresses are only names, so no store is needed.
func MemoryHarness(wrap func(pg.Backend) pg.Backend) Harness {
	network := NewMemory()
	inner := func(b pg.Backend) *MemoryBackend {
		for u, ok := b.(pg.Unwrapper); ok; u, ok = b.(pg.Unwrapper) {
			b = u.Unwrap()
		}
		return b.(*MemoryBackend)
	}
	return Harness{
		New:          func(*testing.T) pg.Backend { return wrap(network.Backend()) },
		StoreAddress: func(t *testing.T) string { return t.Name() },
		Kill:         func(b pg.Backend) { inner(b).Kill() },
		Corrupt:      func(b pg.Backend) { inner(b).CorruptNext() },
	}
}
