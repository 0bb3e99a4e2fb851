//go:build mpi && cgo

package mpi

/*
#cgo pkg-config: ompi-c
#include <mpi.h>
#include <stdlib.h>

static int start(int *rank, int *size) {
	int have, err = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &have);
	if (err != MPI_SUCCESS) return err;
	if (have < MPI_THREAD_MULTIPLE) return MPI_ERR_OTHER;
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_rank(MPI_COMM_WORLD, rank);
	return MPI_Comm_size(MPI_COMM_WORLD, size);
}
static void place(int *rank, int *size) {
	MPI_Comm_rank(MPI_COMM_WORLD, rank);
	MPI_Comm_size(MPI_COMM_WORLD, size);
}
static int dup(MPI_Comm *c) {
	int err = MPI_Comm_dup(MPI_COMM_WORLD, c);
	if (err == MPI_SUCCESS) MPI_Comm_set_errhandler(*c, MPI_ERRORS_RETURN);
	return err;
}
static void say(int err, char *text) { int n; MPI_Error_string(err, text, &n); }
*/
import "C"

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"github.com/skerry-ft/skerry/pg"
)

// Name is what pg's registry calls this backend.
const Name = "mpi"

// pollPause is between two looks at what MPI has done.
const pollPause = 20 * time.Microsecond

// maxTag is the highest tag that fits MPI's int.
const maxTag = 1<<31 - 1

// Start initialises MPI for this process and tells its place in the job.
func Start() (rank, size int, err error) {
	var r, s C.int
	err = check("MPI_Init_thread", C.start(&r, &s))
	return int(r), int(s), err
}

// Stop ends MPI in this process. Every process must call it.
func Stop() error { return check("MPI_Finalize", C.MPI_Finalize()) }

// Register makes this backend known to pg.Open as "mpi".
func Register() error {
	return pg.Register(Name, []string{"cpu"}, func(pg.Options) (pg.Backend, error) { return New(), nil })
}

func check(what string, code C.int) error {
	if code == C.MPI_SUCCESS {
		return nil
	}
	var text [C.MPI_MAX_ERROR_STRING]C.char
	C.say(code, &text[0])
	return fmt.Errorf("%s: %s", what, C.GoString(&text[0]))
}

// Backend is a pg.Backend over MPI; see the package comment. Make one with New.
type Backend struct {
	worker sync.WaitGroup
	work   chan struct{} // capacity 1: there is something to look at

	mu struct {
		sync.Mutex

		comm    C.MPI_Comm
		config  pg.Config
		used    pg.History
		err     error // why the group is broken
		seq     uint64
		round   int64
		pending []*transfer
		running bool
		closed  bool
	}
}

var _ pg.Backend = (*Backend)(nil)

// New makes an unconfigured backend.
func New() *Backend {
	b := &Backend{work: make(chan struct{}, 1)}
	b.mu.err = pg.ErrUnconfigured
	return b
}

// Name is "mpi".
func (b *Backend) Name() string { return Name }

// Configure takes a config of all processes of the job, in MPI's order. It
// blocks until all have come, which MPI cannot interrupt.
func (b *Backend) Configure(_ context.Context, c pg.Config) error {
	var rank, size C.int
	C.place(&rank, &size)
	if c.Rank != int(rank) || c.WorldSize() != int(size) {
		return fmt.Errorf("%w: mpi configured as rank %d of %d, the job has made it %d of %d",
			pg.ErrUnsupported, c.Rank, c.WorldSize(), rank, size)
	}
	b.Abort(b.epoch(), fmt.Errorf("%w: configured for %v", pg.ErrAborted, c.Epoch()))
	b.mu.Lock()
	closed, err := b.mu.closed, b.mu.used.Use(&c)
	b.mu.Unlock()
	if closed {
		return pg.ErrClosed
	}
	if err != nil {
		return err
	}
	var comm C.MPI_Comm
	if err := check("MPI_Comm_dup", C.dup(&comm)); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.comm, b.mu.config, b.mu.round, b.mu.err, b.mu.seq = comm, c, c.Round, nil, 0
	if !b.mu.running {
		b.mu.running = true
		b.worker.Go(b.poll)
	}
	return nil
}

func (b *Backend) epoch() pg.Epoch {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.config.Epoch()
}

// Config is that of the last Configure.
func (b *Backend) Config() (pg.Config, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.config, b.mu.config.WorldSize() > 0
}

// SetRound sets the round of the ops to come.
func (b *Backend) SetRound(round int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.round = round
}

// Err is why the group is broken.
func (b *Backend) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.err
}

// Abort fails all pending ops of this rank. What MPI still holds of them is C's
// memory, which is freed when MPI lets go of it.
func (b *Backend) Abort(e pg.Epoch, cause error) {
	b.mu.Lock()
	if b.mu.err != nil || b.mu.config.Epoch() != e {
		b.mu.Unlock()
		return
	}
	b.mu.err = cause
	var failed []*transfer
	for _, t := range b.mu.pending {
		if t.work != nil {
			failed = append(failed, &transfer{work: t.work})
			t.work = nil
		}
	}
	b.mu.Unlock()
	for _, t := range failed {
		t.work.Complete(cause)
	}
}

// Close ends the backend. It waits for what MPI still has to do, so the peers
// must come to their ops, as MPI_Finalize wants it too.
func (b *Backend) Close() error {
	b.Abort(b.epoch(), pg.ErrClosed)
	b.mu.Lock()
	b.mu.closed, b.mu.err = true, pg.ErrClosed
	b.mu.Unlock()
	b.wake()
	b.worker.Wait()
	return nil
}

func (b *Backend) wake() {
	select {
	case b.work <- struct{}{}:
	default:
	}
}

// Submit starts op.
func (b *Backend) Submit(op *pg.Op) *pg.Work {
	if op.Kind == pg.KindBatch {
		return pg.SubmitBatch(b, op)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c := &b.mu.config
	switch {
	case errors.Is(b.mu.err, pg.ErrUnconfigured):
		return pg.Finished(op, b.mu.err)
	case b.mu.err != nil:
		return pg.Finished(op, errors.Join(pg.ErrAborted, b.mu.err))
	case op.Kind == pg.KindBallot || op.Tag > maxTag:
		return pg.Finished(op, fmt.Errorf("%w: %v with tag %d", pg.ErrUnsupported, op.Kind, op.Tag))
	}
	if err := errors.Join(op.Validate(c.Rank, c.WorldSize()), op.RequireCPU()); err != nil {
		return pg.Finished(op, err)
	}
	b.mu.seq++
	op.Seq, op.Epoch, op.Round = b.mu.seq, c.Epoch(), b.mu.round
	t, err := newTransfer(op, c.Rank, c.WorldSize())
	if err == nil {
		err = t.start(b.mu.comm)
	}
	if err != nil {
		return pg.Finished(op, err)
	}
	if t.deadline = op.Deadline; t.deadline.IsZero() {
		t.deadline = time.Now().Add(cmp.Or(c.Timeout, pg.DefaultTimeout))
	}
	t.work = pg.NewWork(op)
	b.mu.pending = append(b.mu.pending, t)
	b.wake()
	return t.work
}

// poll completes what MPI has done, until the backend is closed and MPI holds
// nothing any more.
func (b *Backend) poll() {
	for {
		b.mu.Lock()
		pending := append([]*transfer(nil), b.mu.pending...)
		closed := b.mu.closed
		b.mu.Unlock()
		if len(pending) == 0 {
			if closed {
				return
			}
			<-b.work
			continue
		}
		progress := false
		for _, t := range pending {
			done, err := t.test()
			if done || err != nil {
				b.finish(t, err)
				progress = true
			} else if time.Now().After(t.deadline) {
				b.Abort(b.epoch(), fmt.Errorf("deadline passed: %w", context.DeadlineExceeded))
			}
		}
		if !progress {
			time.Sleep(pollPause)
		}
	}
}

// finish completes a transfer that MPI is done with.
func (b *Backend) finish(t *transfer, err error) {
	b.mu.Lock()
	work := t.work
	t.work = nil
	for i, p := range b.mu.pending {
		if p == t {
			b.mu.pending = append(b.mu.pending[:i:i], b.mu.pending[i+1:]...)
			break
		}
	}
	b.mu.Unlock()
	if work != nil {
		if err == nil {
			err = t.deliver()
		}
		if err != nil {
			b.Abort(t.op.Epoch, err)
		}
		work.Complete(err)
	}
	t.free()
}

// buffer is memory of C.
func buffer(n int) []byte {
	p := C.malloc(C.size_t(max(n, 1)))
	return unsafe.Slice((*byte)(p), max(n, 1))[:n]
}
