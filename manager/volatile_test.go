package manager

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/tensor"
)

// statistics are what a forward pass changes: all of them are the number of passes
// that the model has had, and so is the loader's position.
type statistics struct {
	values []float32
	passes int
	taken  []float32 // of the model's part: the number of updates
	healed atomic.Int64
}

// set makes them those of so many passes.
func (s *statistics) set(passes float32) {
	s.passes = int(passes)
	for i := range s.values {
		s.values[i] = passes
	}
}

// of registers a trainer's statistics, which change in each of its forward passes,
// and checks what heals bring of others'.
func (s *statistics) of(t *testing.T, tr *trainer) {
	s.values, s.taken = make([]float32, 300_000), make([]float32, 1)
	register := func(name string, save func() checkpoint.State, load func(checkpoint.State) error, o StateOptions) {
		if err := tr.m.RegisterWith(name, save, load, o); err != nil {
			t.Fatal(err)
		}
	}
	register("count", func() checkpoint.State {
		return checkpoint.State{Tensors: map[string]tensor.Tensor{"taken": tensor.Of(s.taken)}}
	}, nil, StateOptions{})
	register("statistics", func() checkpoint.State {
		return checkpoint.State{
			Tensors: map[string]tensor.Tensor{"mean": tensor.Of(s.values)},
			Meta:    map[string]string{"loader": strconv.Itoa(s.passes)},
		}
	}, func(st checkpoint.State) error {
		s.healed.Add(1)
		lo, hi := slices.Min(s.values), slices.Max(s.values)
		if lo != hi || lo != s.taken[0] {
			t.Errorf("%s got statistics of %v to %v passes with a model of %v", tr.name, lo, hi, s.taken[0])
		}
		passes, err := strconv.Atoi(st.Meta["loader"])
		if err != nil || float32(passes) != s.taken[0] {
			t.Errorf("%s got the loader's position %q with a model of %v", tr.name, st.Meta["loader"], s.taken[0])
		}
		s.passes = passes
		return nil
	}, StateOptions{Volatile: true})
	tr.between = func(context.Context) error {
		s.set(s.taken[0]) // a pass whose step was discarded is undone
		return nil
	}
	tr.before = func(context.Context, int64) error { // the forward pass
		s.set(s.taken[0] + 1)
		return nil
	}
	tr.optimizer = func([]float32) { s.taken[0]++ }
}

// What a forward pass changes comes to a replica that heals as it was before that
// pass, with the parameters of the same step: the pass of each donor is under way
// while it is read, and so is the healer's own.
func TestVolatilePartsAreOfOneMoment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		member := func(name string) (*trainer, *statistics) {
			tr, s := w.trainer(name), &statistics{}
			s.of(t, tr)
			return tr.start(1 << 40), s
		}
		a, _ := member("a")
		b, _ := member("b")
		w.reaches(5, a, b)
		for range 4 {
			c, s := member("c")
			w.reaches(a.m.Step()+10, a, b, c)
			if s.healed.Load() == 0 {
				t.Error("c took part without the statistics")
			}
			c.kill()
		}
		w.agree(a, b)
	})
}

// momentum is an optimizer that makes its state at its first step.
type momentum struct {
	values []float32 // nil: none was made
}

func (o *momentum) of(t *testing.T, tr *trainer, room int64) {
	err := tr.m.RegisterWith("momentum", func() checkpoint.State {
		if o.values == nil {
			return checkpoint.State{}
		}
		return checkpoint.State{Tensors: map[string]tensor.Tensor{"params": tensor.Of(o.values)}}
	}, func(st checkpoint.State) error {
		o.values = nil
		if came, ok := st.Tensors["params"]; ok {
			o.values = tensor.Slice[float32](came)
		}
		return nil
	}, StateOptions{Room: room})
	if err != nil {
		t.Fatal(err)
	}
	tr.optimizer = func(grads []float32) {
		if o.values == nil {
			o.values = make([]float32, len(grads))
		}
		for i, g := range grads {
			o.values[i] = 0.9*o.values[i] + g
			grads[i] = o.values[i]
		}
	}
}

// State that an optimizer makes at its first step comes to a newcomer that has not
// made it yet, and is given on by it.
func TestNewcomerTakesStateThatWasMadeLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		member := func(name string) *trainer {
			tr := w.trainer(name)
			new(momentum).of(t, tr, 4*modelSize)
			return tr.start(1 << 40)
		}
		a := member("a")
		w.reaches(5, a)
		b := member("b")
		w.reaches(a.m.Step()+10, a, b)
		a.kill()
		c := member("c")
		w.reaches(b.m.Step()+10, b, c)
		w.agree(a, b, c)
	})
}

// There is room for so many bytes, and no more: the sizes are another process's word.
func TestNewcomerWithTooLittleRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.trainer("a"), w.trainer("b")
		new(momentum).of(t, a, 0)
		new(momentum).of(t, b, 4*modelSize-1)
		a.start(1 << 40)
		w.reaches(5, a)
		b.start(1 << 40)
		<-b.done
		if !isFinal(b.err) {
			t.Errorf("b ended with %v, want a mismatch", b.err)
		}
		b.stop()
		w.reaches(a.m.Step()+5, a)
	})
}

// lateTransport lets the members go on between the copy and the join.
type lateTransport struct {
	checkpoint.Transport

	copied func(ctx context.Context) // called when the first copy is there
}

func (l *lateTransport) Fetch(
	ctx context.Context, v checkpoint.Version, donors []string, into *checkpoint.Mirror,
) (map[string]string, error) {
	meta, err := l.Transport.Fetch(ctx, v, donors, into)
	if v == checkpoint.Any && l.copied != nil {
		l.copied(ctx)
		l.copied = nil
	}
	return meta, err
}

// SetToken implements what the manager asks of transports that prove themselves.
func (l *lateTransport) SetToken(token []byte) {
	l.Transport.(interface{ SetToken([]byte) }).SetToken(token)
}

// Run implements the transport's goroutine.
func (l *lateTransport) Run(ctx context.Context) error {
	return l.Transport.(interface{ Run(context.Context) error }).Run(ctx)
}

// An optimizer makes its state after a newcomer has copied what there was: the copy
// is set aside, and the newcomer heals, whether it does so before its first step or
// beside it.
func TestStateMadeAfterTheCopy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, sync := range []bool{false, true} {
			w := newWorld(t)
			var late atomic.Bool
			member := func(name string) *trainer {
				tr, o := w.trainer(name), &momentum{}
				o.of(t, tr, 4*modelSize)
				make := tr.optimizer
				tr.optimizer = func(grads []float32) {
					if late.Load() || o.values != nil {
						make(grads)
					}
				}
				return tr
			}
			a := member("a").start(1 << 40)
			w.reaches(5, a)
			inner := w.newHTTP(0)
			l := &lateTransport{Transport: inner}
			l.copied = func(ctx context.Context) {
				late.Store(true)
				for at := a.m.Step(); a.m.Step() < at+3 && ctx.Err() == nil; {
					<-time.After(time.Millisecond)
				}
			}
			w.tune = func(c *Config) { c.Transport, c.Sync = l, sync }
			b := member("b").start(1 << 40)
			w.tune = nil
			eventually(t, "b has committed", func() bool { return b.m.Stats().Commits > 5 })
			w.reaches(a.m.Step()+5, a, b)
			w.agree(a, b)
			b.stop()
			a.stop()
		}
	})
}
