package tcp

import (
	"context"
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
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
	old := frame.EpochOf(w.config(1, w.everybody(), 0).Epoch())
	w.configure(2)
	b := w.backends[0]
	l := b.linkTo(w.ids[1])
	b.mu.Lock()
	defer b.mu.Unlock()
	awaits := func(e frame.Epoch, frames uint64) bool {
		_, waits := l.awaitsLocked(e, frames)
		return waits
	}
	if awaits(old, 1000) {
		t.Error("frames of the epoch before are awaited")
	}
	if now := b.mu.group.key; !awaits(now, 1000) || awaits(now, 0) {
		t.Error("frames of this epoch are not awaited until they are there")
	}
}

// farewelled is an edge of two sockets in a ready group of a backend that runs
// nothing else, so that nobody finds it silent.
func farewelled(t *testing.T, beatTimeout time.Duration) (*Backend, *link, *group) {
	t.Helper()
	b := New(Options{BeatTimeout: beatTimeout, BeatInterval: time.Millisecond})
	c, _ := connected(t)
	l, err := b.newLink(c, false)
	if err != nil {
		t.Fatal(err)
	}
	c, _ = connected(t)
	further := &sock{index: 1}
	if err := further.init(l, c); err != nil {
		t.Fatal(err)
	}
	g := newGroup(pg.Config{ReplicaIDs: []string{"a", "b"}, QuorumID: 1, StoreAddress: "nowhere"})
	g.phase = groupReady
	l.socks = append(l.socks, further)
	l.group, l.rank, g.peers[1], b.mu.group = g, 1, l, g
	return b, l, g
}

// catchUpWithin has b wait for one frame more than has come, and tells whether it
// still does after that time.
func catchUpWithin(t *testing.T, b *Backend, l *link, g *group, limit time.Duration) (ended <-chan struct{}, waits bool) {
	t.Helper()
	over := make(chan struct{})
	go func() {
		defer close(over)
		b.catchUp(l, g.key, 1)
	}()
	select {
	case <-over:
		return over, false
	case <-time.After(limit):
		return over, true
	}
}

// Frames that a farewell counts are waited for as long as some of their bytes come,
// and a beat timeout longer; not at all once the group is broken.
func TestFarewellWaitsForWhatMoves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, farewellWaitsForWhatMoves)
}

func farewellWaitsForWhatMoves(t *testing.T) {
	const patience = time.Second
	b, l, g := farewelled(t, patience)
	stop := make(chan struct{})
	var moving sync.WaitGroup
	moving.Go(func() {
		for {
			select {
			case <-time.After(time.Millisecond):
				l.stripe.moved.Add(1)
			case <-stop:
				return
			}
		}
	})
	ended, waits := catchUpWithin(t, b, l, g, patience*3/2)
	close(stop)
	moving.Wait()
	if !waits {
		t.Fatal("frames of which bytes came are not waited for")
	}
	if at := l.received.Load(); at < int64(patience) {
		t.Errorf("the first socket counts as silent since %v, while its reader waits", time.Duration(at))
	}
	select {
	case <-ended:
	case <-time.After(testTimeout):
		t.Fatal("frames of which nothing came any more are waited for")
	}
	b, l, g = farewelled(t, time.Hour)
	ended, waits = catchUpWithin(t, b, l, g, 10*time.Millisecond)
	if !waits {
		t.Fatal("frames are not waited for")
	}
	b.Abort(g.epoch, errors.New("enough"))
	select {
	case <-ended:
	case <-time.After(testTimeout):
		t.Fatal("frames of a group that is broken are waited for")
	}
}

// A piece that its socket did not take keeps its op from ending well. A farewell that
// is read after that ends the op at once; else its deadline would.
func TestFarewellAfterAWriteThatFailed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, Options{Transport: TransportTCP})
	w.configure(1)
	b := w.backends[1]
	l := b.linkTo(w.ids[0])
	eventually(t, "nobody sends", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		was := l.busy
		l.busy = true
		return !was
	})
	work := b.Submit(&pg.Op{Kind: pg.KindBarrier, Deadline: time.Now().Add(testTimeout / 2)})
	theirs := w.backends[0].Submit(&pg.Op{Kind: pg.KindBarrier})
	eventually(t, "all that the peer sends is here", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		t := b.mu.group.active
		return t != nil && t.open && t.peers[0].in[0].finished()
	})
	b.mu.Lock()
	took := l.takeLocked()
	b.mu.Unlock()
	if !took || l.out.h.Call.Kind != pg.KindBarrier {
		t.Fatalf("%v is to go out, want the barrier's frame", l.out.h.Call)
	}
	l.cannotWrite(syscall.EPIPE)
	w.depart(0)
	if err := wait(t, theirs); !errors.Is(err, pg.ErrAborted) {
		t.Errorf("who leaves: %v, want ErrAborted", err)
	}
	if err := wait(t, work); !errors.Is(err, pg.ErrAborted) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("who is left: %v, want the peer's farewell", err)
	}
}

// A piece that never comes over one of several sockets: the deadline names the
// rank that it should have come from.
func TestDeadlineNamesWhoIsAwaited(t *testing.T) {
	t.Parallel()
	const n = 4 << 20
	over, taken := make(chan struct{}), make(chan struct{})
	take := sync.OnceFunc(func() { close(taken) })
	opts := []Options{striped(3), striped(3)}
	opts[0].Fault = func(f FrameInfo) Action {
		switch {
		case f.Type != "data":
		case f.Stream == 2:
			take()
			<-over
		default: // leaves it some
			select {
			case <-taken:
			case <-over:
			}
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
