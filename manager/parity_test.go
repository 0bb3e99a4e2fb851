package manager

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/tensor"
)

// parityEvery is how often the worlds below compare states.
const parityEvery = 4

// comparing is a world that compares often.
func comparing(t *testing.T) *world {
	w := newWorld(t)
	w.tune = func(c *Config) { c.ParityEvery = parityEvery }
	return w
}

// differed returns what tr was told of states that differ.
func (tr *trainer) differed() []StateDiffered {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	var out []StateDiffered
	for _, e := range tr.mu.events {
		if d, ok := e.(StateDiffered); ok {
			out = append(out, d)
		}
	}
	return out
}

// flips flips a bit of tr's parameters before it begins the first step after one.
func (tr *trainer) flips(after int64) *atomic.Int64 {
	at := new(atomic.Int64)
	tr.between = func(context.Context) error {
		if step := tr.m.Step(); step >= after && at.Load() == 0 {
			tr.params[modelSize-1] = math.Float32frombits(math.Float32bits(tr.params[modelSize-1]) ^ 1<<3)
			at.Store(step)
		}
		return nil
	}
	return at
}

// hashAt is what tr held at a position; empty if it was not there.
func (tr *trainer) hashAt(p quorum.Position) string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.mu.hashes[p]
}

// level waits until all are at one position beyond step, and compares their bytes.
func (w *world) level(step int64, trainers ...*trainer) {
	w.t.Helper()
	w.reaches(step, trainers...)
	first := trainers[0]
	first.mu.Lock()
	var at []quorum.Position
	for p := range first.mu.hashes {
		if p.Step >= step {
			at = append(at, p)
		}
	}
	first.mu.Unlock()
	for _, p := range at {
		for _, tr := range trainers {
			if got := tr.hashAt(p); got != "" && got != first.hashAt(p) {
				w.t.Errorf("%s and %s differ at %v", tr.name, first.name, p)
			}
		}
	}
}

// C1: a bit that flips in one of three replicas is found within the bound. All name
// it, nobody commits that step, it heals from the others, and keeps their bytes.
func TestC1_AFlippedBitIsNamedAndHealed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := comparing(t)
		a, b, c := w.trainer("a"), w.trainer("b"), w.trainer("c")
		at := a.flips(10) // the first of three: it is in the minority all the same
		for _, tr := range []*trainer{a, b, c} {
			tr.start(1 << 40)
		}
		w.reaches(10, a, b, c)
		eventually(t, "all have named a", func() bool {
			return len(a.differed()) > 0 && len(b.differed()) > 0 && len(c.differed()) > 0
		})
		w.level(c.m.Step()+2*parityEvery, a, b, c)
		bound := quorum.ParityBound(parityEvery, 4*modelSize)
		for _, tr := range []*trainer{a, b, c} {
			all := tr.differed()
			e := all[0]
			if len(all) != 1 || !slices.Equal(e.Replicas, []string{a.m.ReplicaID()}) || !e.Majority || e.Own != (tr == a) ||
				e.Step > at.Load()+bound || e.First != "model/params" {
				t.Errorf("%s was told %v, want a named once, by step %d", tr.name, all, at.Load()+bound)
			}
		}
		if sa, sb := a.m.Stats(), b.m.Stats(); sa.Differed != 1 || sb.Differed != 0 || sb.Heals > 1 || sb.Discards != 1 {
			t.Errorf("a differed %d times, b %d times, b healed %d times and discarded %d steps; want 1, 0, init at most, 1",
				sa.Differed, sb.Differed, sb.Heals, sb.Discards)
		}
	})
}

// Of two nobody can know which is right: both go on from the first one's state.
func TestC1_OfTwoTheFirstIsRight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := comparing(t)
		a, b := w.trainer("a"), w.trainer("b")
		a.flips(10)
		a.start(1 << 40)
		b.start(1 << 40)
		eventually(t, "b is named", func() bool { return len(a.differed()) > 0 && len(b.differed()) > 0 })
		w.level(a.m.Step()+2*parityEvery, a, b)
		if e := a.differed()[0]; e.Majority || !slices.Equal(e.Replicas, []string{b.m.ReplicaID()}) {
			t.Errorf("%v, want b named without a majority", e)
		}
		if n := len(b.differed()); n != 1 {
			t.Errorf("b was named %d times, want once", n)
		}
	})
}

// L1: a replica that comes to other bytes in each step is refused at its second time,
// for ever longer, and told what to look for; the others train on.
func TestL1_WhoDiffersAgainAndAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := comparing(t)
		a, b, c := w.trainer("a"), w.trainer("b"), w.trainer("c")
		noise := float32(1)
		c.between = func(context.Context) error {
			if c.m.Step() >= 5 {
				c.params[0] += noise // an optimizer that is not deterministic
				noise++
			}
			return nil
		}
		for _, tr := range []*trainer{a, b, c} {
			tr.start(1 << 40)
		}
		eventually(t, "c is named again", func() bool { return len(c.differed()) >= 2 })
		all := c.differed()
		if all[0].Again || !all[1].Again || !strings.Contains(all[1].String(), "deterministic") {
			t.Errorf("c was told %v, want what to look for the second time", all)
		}
		from := a.m.Step()
		w.level(from+20*parityEvery, a, b)
		if n := len(a.differed()); n > 4 {
			t.Errorf("a lost %d steps to c in %d, want ever fewer", n, a.m.Step())
		}
		if text := strings.Join(w.lh.transcript(), "\n"); !strings.Contains(text, "again after a heal") {
			t.Errorf("the lighthouse does not say why c is out:\n%s", text)
		}
	})
}

// What is registered as a replica's own is healed, and not compared.
func TestLocalStateIsNotCompared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := comparing(t)
		a, b := w.trainer("a"), w.trainer("b")
		for i, tr := range []*trainer{a, b} {
			own := make([]float32, 7)
			save := func() checkpoint.State {
				return checkpoint.State{Tensors: map[string]tensor.Tensor{"own": tensor.Of(own)}}
			}
			if err := tr.m.RegisterWith("inner", save, nil, StateOptions{Local: true}); err != nil {
				t.Fatal(err)
			}
			tr.between = func(context.Context) error {
				own[3] += float32(i + 1)
				return nil
			}
			tr.start(1 << 40)
		}
		w.level(5*parityEvery, a, b)
		w.agree(a, b)
		if all := append(a.differed(), b.differed()...); len(all) > 0 {
			t.Errorf("%v, though only Local parts differ", all)
		}
	})
}

// Where it is off nothing is compared.
func TestParityIsOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tune = func(c *Config) { c.ParityEvery = -1 }
		a, b := w.trainer("a"), w.trainer("b")
		a.flips(5)
		a.start(40)
		b.start(40)
		w.reaches(40, a, b)
		if all := append(a.differed(), b.differed()...); len(all) > 0 {
			t.Errorf("%v, though nothing is to be compared", all)
		}
	})
}
