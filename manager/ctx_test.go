package manager

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerry-ft/skerry/checkpoint"
)

// heldTransport holds the target's fetches, and the donor's Pause, while it is
// held.
type heldTransport struct {
	checkpoint.Transport

	held    atomic.Bool
	waiting chan struct{} // capacity 1: something is held
	release chan struct{} // closed by the test
}

// newHTTP is a heal transport in the world's network; chunkBytes may be 0.
func (w *world) newHTTP(chunkBytes int) *checkpoint.HTTP {
	w.t.Helper()
	host := w.wire.Host("heals")
	ln, err := host.Listen("127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	h, err := checkpoint.NewHTTP(checkpoint.HTTPConfig{Listener: ln, Dial: storeDial(host), ChunkBytes: chunkBytes})
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

func (w *world) newHeldTransport() *heldTransport {
	w.t.Helper()
	inner := w.newHTTP(0)
	return &heldTransport{Transport: inner, waiting: make(chan struct{}, 1), release: make(chan struct{})}
}

// hold tells the test, and waits for it.
func (h *heldTransport) hold(ctx context.Context) {
	if !h.held.Load() {
		return
	}
	select {
	case h.waiting <- struct{}{}:
	default:
	}
	select {
	case <-h.release:
	case <-ctx.Done():
	}
}

func (h *heldTransport) Fetch(
	ctx context.Context, v checkpoint.Version, donors []string, into *checkpoint.Mirror,
) (map[string]string, error) {
	h.hold(ctx)
	return h.Transport.Fetch(ctx, v, donors, into)
}

func (h *heldTransport) Pause() {
	h.hold(context.Background())
	h.Transport.Pause()
}

// Run implements the transport's goroutine.
func (h *heldTransport) Run(ctx context.Context) error {
	return h.Transport.(interface{ Run(context.Context) error }).Run(ctx)
}

// SetToken implements what the manager asks of transports that prove themselves.
func (h *heldTransport) SetToken(token []byte) {
	h.Transport.(interface{ SetToken([]byte) }).SetToken(token)
}

// trainerWith is a trainer whose state moves by h.
func (w *world) trainerWith(name string, h *heldTransport) *trainer {
	tune := w.tune
	w.tune = func(c *Config) { c.Transport = h }
	defer func() { w.tune = tune }()
	return w.trainer(name)
}

// A ctx that ends while a reader still has the tensors: the step is committed, and
// ShouldCommit says so. Else this replica would go on with the parameters of the
// step before, at the position of this one (C1).
func TestNoErrorAfterACommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.newHeldTransport()
		a, b := w.trainer("a"), w.trainerWith("b", h)
		var once sync.Once
		b.commitCtx = func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			if h.held.Load() {
				once.Do(func() {
					go func() { // ends with the test's first wait
						<-h.waiting
						cancel()
						h.held.Store(false)
						close(h.release)
					}()
				})
			}
			return ctx, cancel
		}
		a.start(1 << 40)
		b.start(1 << 40)
		w.reaches(3, a, b)
		h.held.Store(true)
		w.reaches(b.m.Step()+20, a, b)
		w.agree(a, b)
	})
}

// A ShouldCommit whose ctx ends before its vote costs a step, and no more: the
// vote is cast for it, and the next attempt counts.
func TestShouldCommitEndsBeforeItsVote(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.trainer("a"), w.trainer("b")
		var ended atomic.Int64
		hold := make(chan struct{})
		a.before = func(ctx context.Context, step int64) error {
			if step == 5 {
				select {
				case <-hold:
				case <-ctx.Done():
				}
			}
			return nil
		}
		a.ops, b.ops = a.asyncOps, b.asyncOps
		b.commitCtx = func(ctx context.Context) (context.Context, context.CancelFunc) {
			if b.m.Step() != 5 {
				return ctx, func() {}
			}
			switch ended.Add(1) {
			case 1, 2, 3:
			case 4:
				close(hold)
				return ctx, func() {}
			default:
				return ctx, func() {}
			}
			return context.WithTimeout(ctx, 30*time.Millisecond)
		}
		a.start(20)
		b.start(20)
		w.reaches(20, a, b)
		w.agree(a, b)
		if n := ended.Load(); n < 4 {
			t.Errorf("%d calls of ShouldCommit had a ctx that ended, want 3", n-1)
		}
		// The calls that ended are discards in every count.
		discards := b.m.Stats().Discards
		if told := b.m.beat().Discarded; discards < 3 || told != discards {
			t.Errorf("Stats has %d discards, and the heartbeat %d: want the same, 3 at least", discards, told)
		}
		const measured = `skerry_manager_step_seconds_count{job="default",outcome="discarded",replica="b"}`
		if got := scraped(t, b.scraper(), b.m.Address())[measured]; got != float64(discards) {
			t.Errorf("%v discarded attempts are measured, want %d", got, discards)
		}
	})
}

// A StartQuorum that gave up waiting waits again when it is called again: the
// quorum counts on the state that it waits for.
func TestStartQuorumWaitsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.newHeldTransport()
		a := w.trainer("a").start(1 << 40)
		w.reaches(3, a)
		z := w.trainerWith("z", h)
		h.held.Store(true)
		var tries atomic.Int64
		z.startCtx = func(ctx context.Context) (context.Context, context.CancelFunc) {
			if n := tries.Add(1); n == 4 {
				h.held.Store(false)
				close(h.release)
			} else if n > 4 {
				return ctx, func() {}
			}
			return context.WithTimeout(ctx, 200*time.Millisecond)
		}
		z.start(1 << 40)
		eventually(t, "z has committed", func() bool { return z.m.Stats().Commits > 5 })
		w.reaches(z.m.Step()+3, a, z)
		w.agree(a, z)
		if z.m.Stats().Heals == 0 {
			t.Error("z took part and never healed")
		}
	})
}
