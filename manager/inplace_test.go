package manager

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/tensor"
)

// grown notes how much more memory the process has when a heal has brought all.
type grown struct {
	*heldTransport

	most atomic.Int64
}

func (g *grown) Fetch(
	ctx context.Context, v checkpoint.Version, donors []string, into *checkpoint.Mirror,
) (map[string]string, error) {
	before := held()
	meta, err := g.heldTransport.Fetch(ctx, v, donors, into)
	if v != checkpoint.Any && err == nil {
		g.most.Store(max(g.most.Load(), held()-before))
	}
	return meta, err
}

// held is how many bytes the process holds.
func held() int64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// A newcomer whose state changes wholly with each step has no second one beside its tensors,
// where it was told so. Alone, as it is about the memory of this process.
func TestHealInPlaceTakesNoMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("counts memory, of which the race detector has its own")
	}
	const size = 64 << 20
	for _, inPlace := range []bool{false, true} {
		w := newKernelWorld(t)
		inner, err := checkpoint.NewHTTP(checkpoint.HTTPConfig{Listen: "127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		g := &grown{heldTransport: &heldTransport{Transport: inner}}
		w.tune = func(c *Config) { c.HealInPlace, c.ParityEvery = inPlace, -1 }
		dense := func(tr *trainer) []byte {
			large := make([]byte, size)
			err := tr.m.Register("dense", func() checkpoint.State {
				return checkpoint.State{Tensors: map[string]tensor.Tensor{"large": tensor.Of(large)}}
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			tr.optimizer = func([]float32) {
				for i := range large {
					large[i]++
				}
			}
			return large
		}
		a := w.trainer("a")
		w.tune = func(c *Config) { c.HealInPlace, c.ParityEvery, c.Transport = inPlace, -1, g }
		b := w.trainer("b")
		dense(a)
		came := dense(b)
		a.start(1 << 40)
		w.reaches(3, a)
		b.start(1 << 40)
		w.reaches(a.m.Step()+3, a, b)
		w.agree(a, b)
		b.stop()
		if want := byte(b.m.Step()); came[0] != want || came[size-1] != want {
			t.Errorf("in place: %t: the state is of step %d and %d, want %d", inPlace, came[0], came[size-1], want)
		}
		// What is on its way is in buffers of both sides, eight chunks or so.
		if most := g.most.Load(); inPlace != (most < size*3/4) {
			t.Errorf("in place: %t: %d bytes more at the end of a heal, of a state of %d", inPlace, most, size)
		}
		a.stop()
	}
}
