package manager

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// sends counts the bytes that are sent to one peer.
type sends struct {
	pg.Backend
	bytes *atomic.Int64
}

func (s sends) Submit(op *pg.Op) *pg.Work {
	if op.Kind == pg.KindSend {
		s.bytes.Add(int64(op.In[0].NumBytes()))
	}
	return s.Backend.Submit(op)
}

// A newcomer's state comes by groups of two where both sides have a HealBackend, over its
// own tensors if it is told so.
func TestHealByAGroup(t *testing.T) {
	t.Parallel()
	w := newKernelWorld(t)
	var sent atomic.Int64
	w.tune = func(c *Config) {
		c.HealInPlace = true
		c.HealBackend = func() (pg.Backend, error) { return sends{w.net.Backend(), &sent}, nil }
	}
	ballast := func(tr *trainer, with byte) []byte {
		large := make([]byte, 48<<20)
		for i := range large {
			large[i] = with
		}
		err := tr.m.Register("ballast", func() checkpoint.State {
			return checkpoint.State{Tensors: map[string]tensor.Tensor{"large": tensor.Of(large)}}
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return large
	}
	a, b := w.trainer("a"), w.trainer("b")
	ballast(a, 1)
	ballast(b, 1)
	a.start(1 << 40)
	b.start(1 << 40)
	w.reaches(3, a, b)
	// Streams of HTTP are there before the groups are: how much is left for these is the
	// machine's. So newcomers come until one has had a chunk by them.
	const newcomers = 10
	for n := 0; sent.Load() < checkpoint.DefaultChunkBytes; n++ {
		if n == newcomers {
			t.Fatalf("%d bytes came by groups, of %d states of %d, want a chunk at least", sent.Load(), n, 48<<20)
		}
		c := w.trainer(fmt.Sprint("c", n))
		came := ballast(c, 2)
		c.start(1 << 40)
		w.reaches(a.m.Step()+5, a, b, c)
		w.agree(a, b, c)
		c.stop()
		for i, x := range came {
			if x != 1 {
				t.Fatalf("byte %d of the state is %d, want 1", i, x)
			}
		}
	}
}

func TestHealBackendRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cfg := Config{
		ReplicaID: "a", Lighthouse: []string{w.lh.addr}, Backend: w.net.Backend(), Network: w.host("a"),
		HealBackend: func() (pg.Backend, error) { return w.net.Backend(), nil },
	}
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "HealBackend") {
		t.Errorf("New with a HealBackend and a Network: %v", err)
	}
}
