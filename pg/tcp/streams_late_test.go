package tcp

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/pg"
)

// A socket that is to join an edge may be read before the edge's first one: it
// waits for that, and is not refused.
func TestJoinWaitsForTheFirstSocket(t *testing.T) {
	t.Parallel()
	b := New(Options{})
	var links [2]*link // the edge, and what is to join it
	for i := range links {
		c, _ := connected(t)
		var err error
		if links[i], err = b.newLink(c, false); err != nil {
			t.Fatal(err)
		}
		b.mu.links[links[i]] = struct{}{}
	}
	edge, k := links[0], &links[1].sock
	b.mu.Lock()
	behind, err := k.joinLocked(edge.mine, 1)
	b.mu.Unlock()
	if behind != edge || err != nil {
		t.Fatalf("before the edge's preamble: %v, %v, want the edge to wait for", behind, err)
	}
	joined := make(chan error, 1)
	go func() { joined <- k.joinEdge(edge.mine, 1) }()
	b.mu.Lock()
	edge.greetLocked()
	b.mu.Unlock()
	if err := <-joined; err != nil {
		t.Errorf("after it: %v", err)
	}
	if len(edge.socks) != 2 || k.l != edge {
		t.Errorf("the edge has %d sockets, want 2", len(edge.socks))
	}
}

// A farewell of an epoch that is over counts frames of that epoch: nobody waits
// for them in the next one.
func TestFarewellOfAnotherEpoch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, striped(3))
	w.configure(1)
	old := keyOf(w.config(1, w.everybody(), 0).Epoch())
	w.configure(2)
	b := w.backends[0]
	l := b.linkTo(w.ids[1])
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.awaitsLocked(old, 1000) {
		t.Error("frames of the epoch before are awaited")
	}
	if now := b.mu.group.key; !l.awaitsLocked(now, 1000) || l.awaitsLocked(now, 0) {
		t.Error("frames of this epoch are not awaited until they are there")
	}
}

// A piece that never comes over one of several sockets: the deadline names the
// rank that it should have come from.
func TestDeadlineNamesWhoIsAwaited(t *testing.T) {
	t.Parallel()
	const n = 4 << 20
	var once atomic.Bool
	over := make(chan struct{})
	opts := []Options{striped(3), striped(3)}
	opts[0].Fault = func(f FrameInfo) Action {
		if f.Type == "data" && f.Stream == 2 && once.CompareAndSwap(false, true) {
			<-over
		}
		return Action{}
	}
	w := newWorldOf(t, opts)
	w.configure(1)
	in, out := tensors(pattern(0, n)), fresh(1, n)
	limit := time.Now().Add(2 * time.Second)
	there := w.backends[1].Submit(&pg.Op{Kind: pg.KindBroadcast, In: out, Out: out, Deadline: limit})
	here := w.backends[0].Submit(&pg.Op{Kind: pg.KindBroadcast, In: in, Out: in, Deadline: limit.Add(testTimeout)})
	err := wait(t, there)
	close(over)
	if err == nil || !strings.Contains(err.Error(), "waiting for rank 0") || !strings.Contains(err.Error(), context.DeadlineExceeded.Error()) {
		t.Errorf("%v, want the deadline and rank 0 named", err)
	}
	_ = wait(t, here) // it breaks with the group, or was sent
}
