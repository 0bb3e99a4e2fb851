package manager

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/tensor"
)

// halfway lets a fetch of a version come to half of it, and then holds it.
type halfway struct {
	checkpoint.Transport

	half    chan struct{} // closed when half has come
	release chan struct{} // closed by the test
	fetches atomic.Int64  // of versions
}

func (h *halfway) Run(ctx context.Context) error {
	return h.Transport.(interface{ Run(context.Context) error }).Run(ctx)
}

func (h *halfway) SetToken(token []byte) {
	h.Transport.(interface{ SetToken([]byte) }).SetToken(token)
}

func (h *halfway) Fetch(
	ctx context.Context, v checkpoint.Version, donors []string, into *checkpoint.Mirror,
) (map[string]string, error) {
	if v != checkpoint.Any && h.fetches.Add(1) == 1 {
		// All of it has come, and the word that it has is lost with the donor.
		if _, err := h.Transport.Fetch(ctx, v, donors, into); err != nil {
			return nil, err
		}
		close(h.half)
		select {
		case <-h.release:
		case <-ctx.Done():
		}
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return h.Transport.Fetch(ctx, v, donors, into)
}

// A donor dies in the middle of a heal. That costs the quorum that its death costs
// and no other: the healer waits for the donor that is left, which is between two
// attempts, and what has come does not come again.
func TestDonorDiesInAHeal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.trainer("a"), w.trainer("b")
		gate := make(chan struct{})
		a.ops, b.ops = a.opsBehind(gate, 3), b.opsBehind(gate, 3)
		a.start(1 << 40)
		b.start(1 << 40)
		w.reaches(10, a, b)
		inner := w.newHTTP(0)
		h := &halfway{Transport: inner, half: make(chan struct{}), release: make(chan struct{})}
		w.tune = func(c *Config) { c.Transport = h }
		z := w.trainer("z")
		w.tune = nil
		z.ops = z.opsBehind(gate, 1<<30)
		z.start(1 << 40)
		<-h.half
		before, quorums := z.m.Stats().HealBytes, a.m.Stats().Quorums
		b.kill()
		close(gate)
		w.reaches(a.m.Step()+5, a, z)
		w.agree(a, z)
		close(h.release)
		s := z.m.Stats()
		if s.Heals != 1 || s.HealBytes != before {
			t.Errorf("%d heals, and %d bytes came after the donor's death; want one, and none", s.Heals, s.HealBytes-before)
		}
		// One without b, and z's part in it.
		if more := a.m.Stats().Quorums - quorums; more > 2 {
			t.Errorf("%d answers since the donor's death, want 2: without it, and with the healed one's part", more)
		}
	})
}

// opsBehind makes the collectives of a step whose quorum has so many members wait
// for the gate: nothing of it is prepared until then.
func (tr *trainer) opsBehind(gate chan struct{}, members int) func(context.Context, []float32) error {
	return func(ctx context.Context, grads []float32) error {
		if err := tr.m.WaitQuorum(ctx); err != nil {
			return err
		}
		tr.m.mu.Lock()
		size := tr.m.mu.rank.Quorum().Size()
		tr.m.mu.Unlock()
		if size >= members {
			select {
			case <-gate:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		_ = tr.m.Group().AllReduce(ctx, tensor.Of(grads), tensor.Avg) // reported to the manager
		return nil
	}
}

// Between a ShouldCommit and the next StartQuorum the tensors are the trainer's, also
// while a heal that broke off is to go on. What it writes there is not taken for what
// the first heal compared, and found to be the donor's.
func TestHealThatGoesOnComparesWhatTheTrainerWrote(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const n = 3 * checkpoint.MinChunkBytes / 4 // three chunks that are the same everywhere
		ballast := make(map[string][]float32)
		with := func(name string, wrap func(checkpoint.Transport) checkpoint.Transport) *trainer {
			inner := w.newHTTP(checkpoint.MinChunkBytes)
			w.tune = func(c *Config) { c.Transport = wrap(inner) }
			tr := w.trainer(name)
			b := make([]float32, n)
			ballast[name] = b
			if err := tr.m.Register("ballast", func() checkpoint.State {
				return checkpoint.State{Tensors: map[string]tensor.Tensor{"b": tensor.Of(b)}}
			}, nil); err != nil {
				t.Fatal(err)
			}
			return tr
		}
		plain := func(inner checkpoint.Transport) checkpoint.Transport { return inner }
		h := &halfway{half: make(chan struct{}), release: make(chan struct{})}
		a, b := with("a", plain), with("b", plain)
		z := with("z", func(inner checkpoint.Transport) checkpoint.Transport {
			h.Transport = inner
			return h
		})
		gate := make(chan struct{})
		a.ops, b.ops, z.ops = a.opsBehind(gate, 3), b.opsBehind(gate, 3), z.opsBehind(gate, 1<<30)
		a.start(1 << 40)
		b.start(1 << 40)
		w.reaches(10, a, b)
		eventually(t, "z is told whom to copy from", w.lh.pastStepZero)
		wrote := false
		z.between = func(context.Context) error {
			select {
			case <-h.half:
				if !wrote && z.m.Stats().Commits == 0 {
					wrote = true
					for i := range ballast["z"] {
						ballast["z"][i] = 7 // say a cache of its data loader
					}
				}
			default:
			}
			return nil
		}
		z.start(1 << 40)
		<-h.half
		eventually(t, "z's collective is under way", func() bool {
			z.m.mu.Lock()
			defer z.m.mu.Unlock()
			return z.m.mu.rank.Issued() > 0
		})
		b.kill()
		close(gate)
		w.reaches(a.m.Step()+5, a, z)
		a.stop()
		z.stop()
		if !wrote {
			t.Error("the trainer came round with no heal that had broken off")
		}
		if !slices.Equal(ballast["a"], ballast["z"]) {
			t.Errorf("z is at %+v with other bytes than a's at %+v, after %d heals", z.m.Position(), a.m.Position(), z.m.Stats().Heals)
		}
		close(h.release)
	})
}

// pastStepZero says that the lighthouse knows all to be past step 0: a newcomer is
// told of nobody to copy from before that.
func (l *fakeLighthouse) pastStepZero() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !slices.ContainsFunc(l.mu.machine.Status(time.Now()).Replicas, func(r quorum.ReplicaStatus) bool {
		return r.Position.Step == 0
	})
}
