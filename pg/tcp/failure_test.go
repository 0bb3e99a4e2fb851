package tcp

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
	"github.com/skerry-ft/skerry/tensor"
)

func (w *world) allReduce(members []int, n int) []error {
	w.t.Helper()
	return w.all(members, func(r int) *pg.Op {
		x := tensors(pattern(r, n))
		return &pg.Op{Kind: pg.KindAllReduce, In: x, Out: x}
	})
}

func (w *world) reduceOK(members []int, n int) {
	w.t.Helper()
	noError(w.t, w.allReduce(members, n))
}

// linkTo is b's edge to a replica.
func (b *Backend) linkTo(id string) *link {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.edges[edgeKey{id, 0}]
}

func opError(t *testing.T, err error) *pg.OpError {
	t.Helper()
	e, ok := errors.AsType[*pg.OpError](err)
	if !ok {
		t.Fatalf("error is %v, want a *pg.OpError", err)
	}
	return e
}

// TestCloseFailsPeers: a member that closes breaks the group on all ranks, who
// name it and do not accuse it.
func TestCloseFailsPeers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, Options{})
	w.configure(1)
	w.reduceOK(w.everybody(), 1000)
	var works []*pg.Work
	for r := range 2 {
		works = append(works, w.backends[r].Submit(&pg.Op{Kind: pg.KindBarrier}))
	}
	w.backends[2].Close()
	for r, work := range works {
		err := wait(t, work)
		e := opError(t, err)
		if e.Peer != 2 || e.PeerID != "replica2" || e.First || e.Rank != r || e.Op != pg.KindBarrier || e.QuorumID != 1 {
			t.Errorf("rank %d: %+v", r, e)
		}
		if !errors.Is(err, pg.ErrAborted) {
			t.Errorf("rank %d: %v, want ErrAborted", r, err)
		}
	}
	for r := range 2 {
		err := wait(t, w.backends[r].Submit(&pg.Op{Kind: pg.KindBarrier}))
		if !errors.Is(err, pg.ErrAborted) || w.backends[r].Err() == nil {
			t.Errorf("rank %d: later op gives %v", r, err)
		}
	}
}

// TestCutLink: a link cut in the middle of an op is known to all, with the
// culprits named; the other edges serve the next epoch.
func TestCutLink(t *testing.T) {
	t.Parallel()
	var armed atomic.Bool
	opts := make([]Options, 3)
	opts[0].Fault = func(f FrameInfo) Action {
		return Action{Close: f.Type == "data" && f.To == 1 && f.Offset > 0 && armed.Load()}
	}
	w := newWorldOf(t, opts)
	w.configure(1)
	w.reduceOK(w.everybody(), 1<<20)
	armed.Store(true)
	errs := w.allReduce(w.everybody(), 1<<20)
	armed.Store(false)
	for r, err := range errs {
		e := opError(t, err)
		// A rank whose link broke before it came to the op has no op to name.
		if !errors.Is(err, pg.ErrPeerLost) || e.Op == pg.KindAllReduce && e.Seq != 2 {
			t.Errorf("rank %d: %v", r, err)
		}
		if r == 2 && (e.First || e.Peer == 2) || r < 2 && e.First && e.Peer != 1-r {
			t.Errorf("rank %d: first %v, culprit %d", r, e.First, e.Peer)
		}
	}
	dials := w.dials()
	w.configure(2)
	w.reduceOK(w.everybody(), 1<<20)
	if got := w.dials() - dials; got != 1 {
		t.Errorf("%d dials after one cut link, want 1", got)
	}
}

func (w *world) dials() uint64 {
	var n uint64
	for _, b := range w.backends {
		n += b.Stats().Dials
	}
	return n
}

// TestAbort: Abort fails what is pending on all ranks, no socket is lost, and
// frames of the old epoch do no harm.
func TestAbort(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, Options{})
	w.configure(1)
	cause := errors.New("the lighthouse said so")
	for q := int64(1); q <= 12; q++ {
		w.reduceOK(w.everybody(), 10_000)
		// Rank 2 stays away, so that the others are in the middle of it; its
		// window fills with frames that never find their op.
		var works []*pg.Work
		for r := range 2 {
			x := tensors(pattern(r, 4<<20))
			works = append(works, w.backends[r].Submit(&pg.Op{Kind: pg.KindAllReduce, In: x, Out: x}))
		}
		w.backends[1].Abort(pg.Epoch{Cluster: "test", QuorumID: q + 1}, cause) // another epoch
		if q%2 == 0 {
			eventually(t, "data arrives", func() bool {
				if err := w.backends[2].Err(); err != nil {
					t.Fatal(err)
				}
				return w.backends[2].Stats().Buffers > 0 || w.backends[2].sharedWaiting()
			})
		}
		w.backends[1].Abort(pg.Epoch{Cluster: "test", QuorumID: q}, cause)
		for r, work := range works {
			err := wait(t, work)
			if r == 1 && !errors.Is(err, cause) {
				t.Errorf("rank %d: %v, want the cause", r, err)
			}
			// Who is told blames who told it, if nobody else is to blame.
			if e := opError(t, err); e.First || e.Peer != 2*(1-r)-1 || !strings.Contains(err.Error(), cause.Error()) {
				t.Errorf("rank %d: %+v", r, e)
			}
		}
		eventually(t, "rank 2 knows", func() bool { return w.backends[2].Err() != nil })
		w.configure(q + 1)
	}
	if got := w.dials(); got != 3 {
		t.Errorf("%d dials, want 3: one per edge", got)
	}
	for _, b := range w.backends {
		eventually(t, "buffers come back", func() bool { return b.Stats().Buffers == 0 })
	}
}

// TestDelta: edges follow (replica id, group rank), not ranks.
func TestDelta(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4, Options{})
	steps := []struct {
		members []int
		dials   uint64
	}{
		{[]int{0, 1, 2}, 3},
		{[]int{2, 0, 1}, 0},    // permuted
		{[]int{0, 1, 2, 3}, 3}, // one joins
		{[]int{3, 1}, 0},       // two leave
		{[]int{3, 1}, 0},
		{[]int{1, 0, 3}, 2}, // one comes back
	}
	for i, s := range steps {
		before := w.dials()
		w.configure(int64(i+1), s.members...)
		w.reduceOK(s.members, 50_000)
		if got := w.dials() - before; got != s.dials {
			t.Errorf("step %d: %d dials, want %d", i, got, s.dials)
		}
		for _, m := range s.members {
			b := w.backends[m]
			eventually(t, "only edges to members are open", func() bool { return b.Stats().Links == len(s.members)-1 })
		}
	}
}

// TestUsed: neither a prefix nor an epoch can be used twice, and trying breaks
// nothing.
func TestUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, Options{})
	w.configure(5)
	for name, edit := range map[string]func(c *pg.Config){
		"prefix": func(c *pg.Config) { c.QuorumID = 6 },
		"epoch":  func(c *pg.Config) { c.StoreAddress += "x" },
		"older":  func(c *pg.Config) { c.StoreAddress += "y"; c.QuorumID = 4 },
	} {
		c := w.config(5, w.everybody(), 0)
		edit(&c)
		if err := w.backends[0].Configure(t.Context(), c); !errors.Is(err, pg.ErrUsedPrefix) {
			t.Errorf("%s: %v, want ErrUsedPrefix", name, err)
		}
	}
	w.reduceOK(w.everybody(), 10)
	// Another process that has used the prefix is found in the store.
	other := New(Options{})
	defer other.Close()
	if err := other.Configure(t.Context(), w.config(5, w.everybody(), 0)); !errors.Is(err, pg.ErrUsedPrefix) {
		t.Errorf("other process: %v, want ErrUsedPrefix", err)
	}
}

// TestWrongToken: a rank with another token is told so, and nobody is fooled.
func TestWrongToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	right := make(chan error, 1)
	go func() { right <- w.backends[1].Configure(ctx, w.config(1, w.everybody(), 1)) }()
	c := w.config(1, w.everybody(), 0)
	c.Token = []byte("some other token of theirs")
	err := w.backends[0].Configure(t.Context(), c)
	if err == nil || !strings.Contains(err.Error(), "does not prove the token") {
		t.Errorf("dialler: %v, want to be told of the token", err)
	}
	if err := <-right; err == nil || !strings.Contains(err.Error(), "does not prove the token") {
		t.Errorf("listener: %v, want to be told by the store", err)
	}
	if got := w.backends[1].Stats().Refused; got == 0 {
		t.Error("nothing was refused")
	}
}

// TestOtherMembers: two ranks that were told different member lists find out.
func TestOtherMembers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := w.config(1, w.everybody(), 1)
	c.ReplicaIDs = append(slices.Clone(c.ReplicaIDs), "zed")
	done := make(chan error, 1)
	go func() { done <- w.backends[1].Configure(ctx, c) }()
	err := w.backends[0].Configure(t.Context(), w.config(1, w.everybody(), 0))
	if err == nil || !strings.Contains(err.Error(), "other members") {
		t.Errorf("dialler: %v, want to be told of other members", err)
	}
	if err := <-done; err == nil || !strings.Contains(err.Error(), "other members") {
		t.Errorf("listener: %v, want the refusal in it", err)
	}
}

// TestEarlyHello: a peer that configures the next epoch first is waited for,
// and its Hello breaks the epoch before on the other side.
func TestEarlyHello(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, Options{})
	w.configure(1, 0, 1)
	pending := w.backends[0].Submit(&pg.Op{Kind: pg.KindBarrier})
	done := make(chan error, 2)
	for r, m := range []int{1, 2} { // 2 is new: its Hello comes on a new socket
		go func() { done <- w.backends[m].Configure(t.Context(), w.config(2, []int{0, 1, 2}, r+1)) }()
	}
	err := wait(t, pending)
	if e := opError(t, err); e.First || !errors.Is(err, pg.ErrAborted) {
		t.Errorf("pending op: %v", err)
	}
	eventually(t, "the new rank has published", func() bool { return w.backends[2].Addr() != nil })
	if err := w.backends[0].Configure(t.Context(), w.config(2, []int{0, 1, 2}, 0)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	w.reduceOK([]int{0, 1, 2}, 100)
}

// TestSilentPeer: a peer that stops reading and beating is found by silence.
func TestSilentPeer(t *testing.T) {
	t.Parallel()
	var mute atomic.Bool
	opts := make([]Options, 3)
	opts[2].Fault = func(f FrameInfo) Action { return Action{Drop: mute.Load()} }
	w := newWorldOf(t, opts)
	w.configure(1)
	mute.Store(true)
	var works []*pg.Work
	for r := range 2 {
		works = append(works, w.backends[r].Submit(&pg.Op{Kind: pg.KindBarrier}))
	}
	for _, b := range w.backends[:2] { // as if it were long ago: what was on its way comes now
		eventually(t, "the silence is found", func() bool {
			if l := b.linkTo("replica2"); l != nil {
				l.received.Store(b.now() - int64(2*patientBeats))
			}
			return b.Err() != nil
		})
	}
	for r, work := range works {
		err := wait(t, work)
		if e := opError(t, err); e.Peer != 2 || !errors.Is(err, pg.ErrPeerLost) {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// TestCorruptFrame: a flipped bit is found, and the group breaks on all ranks.
func TestCorruptFrame(t *testing.T) {
	t.Parallel()
	var armed atomic.Bool
	opts := make([]Options, 3)
	opts[1].Fault = func(f FrameInfo) Action {
		return Action{Corrupt: f.Type == "data" && f.To == 0 && armed.Load()}
	}
	w := newWorldOf(t, opts)
	for q, n := range []int{0, 100, 1 << 20} { // header, small, large
		armed.Store(false)
		w.configure(int64(q + 1))
		w.reduceOK(w.everybody(), 1000)
		armed.Store(true)
		for r, err := range w.allReduce(w.everybody(), n) {
			if r > 0 && err == nil && n <= 100 {
				continue // in one hop it can have everything before it is told
			}
			if !errors.Is(err, pg.ErrPeerLost) {
				t.Errorf("n %d rank %d: %v", n, r, err)
			}
			if e := opError(t, err); r == 0 && (!errors.Is(err, ErrCorrupt) || !e.First || e.Peer != 1) {
				t.Errorf("n %d rank 0: %+v", n, e)
			}
		}
	}
}

// TestMismatch: ranks that called different collectives are all told what each
// one called.
func TestMismatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, Options{})
	reduce := func(r, n int) *pg.Op {
		x := tensors(pattern(r, n))
		return &pg.Op{Kind: pg.KindAllReduce, In: x, Out: x}
	}
	bcast := func(root int) *pg.Op {
		x := tensors(pattern(root, 10))
		return &pg.Op{Kind: pg.KindBroadcast, In: x, Out: x, Root: root}
	}
	avg := func(div int) *pg.Op {
		op := reduce(0, 10)
		op.Reduce, op.Divisor = tensor.Avg, div
		return op
	}
	cases := []struct {
		name string
		a, b *pg.Op
		want []string
	}{
		{"kinds", reduce(0, 10), &pg.Op{Kind: pg.KindBarrier}, []string{"all-reduce of 10 float32 sum", "barrier"}},
		{"sizes", reduce(0, 10), reduce(1, 11), []string{"of 10 ", "of 11 "}},
		{"large sizes", reduce(0, 100_000), reduce(1, 100_001), []string{"of 100000 ", "of 100001 "}},
		{"roots", bcast(1), bcast(0), []string{"root 0", "root 1"}},
		{"divisors", avg(2), avg(3), []string{"avg"}},
		{"messages", &pg.Op{Kind: pg.KindSend, In: fresh(1, 3), Peer: 1},
			&pg.Op{Kind: pg.KindRecv, Out: fresh(1, 4), Peer: 0}, []string{"12 bytes", "16 of float32"}},
	}
	for i, c := range cases {
		w.configure(int64(i + 1))
		for r, err := range w.all(w.everybody(), func(r int) *pg.Op { return []*pg.Op{c.a, c.b}[r] }) {
			if c.name == "messages" && r == 0 {
				continue // the send may be done before it is known
			}
			if !errors.Is(err, pg.ErrMismatch) {
				t.Errorf("%s rank %d: %v, want ErrMismatch", c.name, r, err)
				continue
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%s rank %d: %v, want %q in it", c.name, r, err, part)
				}
			}
		}
	}
	w.configure(100)
	w.backends[1].SetRound(1)
	for r, err := range w.allReduce(w.everybody(), 10) {
		if !errors.Is(err, pg.ErrMismatch) || !strings.Contains(err.Error(), "round 1") {
			t.Errorf("rounds, rank %d: %v", r, err)
		}
	}
}

// TestDeadline: an op that a peer never joins ends at its deadline, everywhere.
func TestDeadline(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, Options{})
	w.configure(1)
	op := &pg.Op{Kind: pg.KindBarrier, Deadline: time.Now().Add(30 * time.Millisecond)}
	err := wait(t, w.backends[0].Submit(op))
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "rank 1") {
		t.Errorf("%v, want a deadline that names rank 1", err)
	}
	eventually(t, "the peer knows", func() bool { return errors.Is(w.backends[1].Err(), context.DeadlineExceeded) })
}

// TestConfigureEnds: Configure ends by ctx, by Abort and by Close, and a dead
// address is named.
func TestConfigureEnds(t *testing.T) {
	t.Parallel()
	end := func(name string, f func(b *Backend, cancel func()), want error) {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, Options{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- w.backends[1].Configure(ctx, w.config(1, w.everybody(), 1)) }()
			eventually(t, "it listens", func() bool { return w.backends[1].Addr() != nil })
			f(w.backends[1], cancel)
			if err := <-done; !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		})
	}
	cause := errors.New("enough")
	end("ctx", func(b *Backend, cancel func()) { cancel() }, context.Canceled)
	end("abort", func(b *Backend, _ func()) { b.Abort(pg.Epoch{Cluster: "test", QuorumID: 1}, cause) }, cause)
	end("close", func(b *Backend, _ func()) { b.Close() }, pg.ErrClosed)
}

// TestDeadAddress: a peer that has published and died is named at once.
func TestDeadAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- w.backends[1].Configure(ctx, w.config(1, w.everybody(), 1)) }()
	eventually(t, "it listens", func() bool { return w.backends[1].Addr() != nil })
	eventually(t, "it has published", func() bool {
		b := w.backends[1]
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.mu.group != nil && b.mu.group.attached
	})
	w.backends[1].Close()
	<-done
	err := w.backends[0].Configure(t.Context(), w.config(1, w.everybody(), 0))
	if e := opError(t, err); e.Peer != 1 || e.PeerID != "replica1" || !errors.Is(err, pg.ErrPeerLost) {
		t.Errorf("%v, want replica1 named", err)
	}
}

// TestStrangers: sockets that say nothing, or nonsense, disturb nobody.
func TestStrangers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, Options{})
	w.configure(1)
	for _, say := range []string{"", "GET / HTTP/1.1\r\n\r\n", strings.Repeat("x", 1000), frame.PreambleMagic + strings.Repeat("y", 500)} {
		c, err := net.Dial("tcp", w.backends[1].Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte(say)); err != nil {
			t.Fatal(err)
		}
		c.Close()
		w.reduceOK(w.everybody(), 100)
	}
	eventually(t, "they are gone", func() bool { return w.backends[1].Stats().Links == 1 })
}

// TestLeaveAfterBarrier: whoever leaves, or moves on, right after a barrier or
// a ballot does not spoil it for those who are a moment behind.
func TestLeaveAfterBarrier(t *testing.T) {
	t.Parallel()
	const world = 4
	w := newWorld(t, world, Options{})
	for q := int64(1); q <= 20; q++ {
		w.configure(q)
		var wg sync.WaitGroup
		for r, b := range w.backends {
			wg.Go(func() {
				kind := pg.KindBarrier
				if q%2 == 0 {
					kind = pg.KindBallot
				}
				if err := wait(t, b.Submit(&pg.Op{Kind: kind})); err != nil {
					t.Errorf("quorum %d rank %d: %v", q, r, err)
				}
				if q == 20 {
					b.Close()
					return
				}
				b.Abort(pg.Epoch{}, nil) // another epoch
			})
		}
		wg.Wait()
	}
}

// TestMoveOn: a rank that configures the next quorum at once after a ballot
// leaves the ballot whole.
func TestMoveOn(t *testing.T) {
	t.Parallel()
	const world = 3
	w := newWorld(t, world, Options{})
	var wg sync.WaitGroup
	for r, b := range w.backends {
		wg.Go(func() {
			for q := int64(1); q <= 30; q++ {
				if err := b.Configure(context.Background(), w.config(q, w.everybody(), r)); err != nil {
					t.Errorf("quorum %d rank %d: %v", q, r, err)
					return
				}
				op := &pg.Op{Kind: pg.KindBallot, Ballot: []byte{byte(q)}}
				if err := wait(t, b.Submit(op)); err != nil {
					t.Errorf("quorum %d rank %d: %v", q, r, err)
					return
				}
			}
			// Stay until all are through: a Close breaks who still configures.
		})
	}
	wg.Wait()
}

// TestConfigureFailsTogether: when one rank's Configure ends, those that come
// later are told, by the edge or by the store, and do not wait for a timeout.
func TestConfigureFailsTogether(t *testing.T) {
	t.Parallel()
	for quitter := range 3 {
		w := newWorld(t, 3, Options{})
		ctx, cancel := context.WithCancel(t.Context())
		quit := make(chan error, 1)
		b := w.backends[quitter]
		go func() { quit <- b.Configure(ctx, w.config(1, w.everybody(), quitter)) }()
		eventually(t, "it has published", func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.mu.group != nil && b.mu.group.attached
		})
		cancel()
		if err := <-quit; !errors.Is(err, context.Canceled) {
			t.Errorf("quitter %d: %v", quitter, err)
		}
		others := make(chan error, 2)
		for r, b := range w.backends {
			if r != quitter {
				go func() { others <- b.Configure(t.Context(), w.config(1, w.everybody(), r)) }()
			}
		}
		for range 2 {
			if err := <-others; err == nil || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("quitter %d: others get %v", quitter, err)
			}
		}
	}
}

// TestClockDoubtsItself: a silence that our own clock slept through accuses
// nobody; the same silence with the clock awake does.
func TestClockDoubtsItself(t *testing.T) {
	t.Parallel()
	const silence = patientBeats + 50*time.Millisecond
	w := newWorld(t, 2, Options{Fault: func(f FrameInfo) Action { return Action{Drop: f.Type == "beat"} }})
	w.configure(1)
	b := w.backends[0]
	l := b.linkTo("replica1")
	pretend := func() { l.received.Store(b.now() - int64(silence)) }
	pretend()
	b.look(time.Now(), silence)
	if err := b.Err(); err != nil {
		t.Errorf("after a late look: %v, want no accusation", err)
	}
	pretend()
	b.look(time.Now(), 0)
	if err := b.Err(); !errors.Is(err, errSilent) {
		t.Errorf("after a look in time: %v, want silence", err)
	}
}

// TestHelloOnPartedLink: a member that left and comes back says Hello on the old
// socket while we are about to close that one. It is not taken; a new edge is
// opened instead, and the end of the old one breaks nothing. Both ways round: who
// parts is who dials, and is not.
func TestHelloOnPartedLink(t *testing.T) {
	t.Parallel()
	for parting, name := range []string{"dialer", "answerer"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 2, Options{})
			w.configure(1)
			b := w.backends[parting]
			l := b.linkTo(w.ids[1-parting])
			// What a configuration without the peer does, but for the closing.
			b.mu.Lock()
			delete(b.mu.edges, l.key)
			l.parted = true
			b.mu.Unlock()
			var closing sync.WaitGroup
			defer closing.Wait()
			closing.Go(func() { // in the middle of the next one: its Hello has come by then
				eventually(t, "a hello of the next epoch", func() bool { return w.backends[1-parting].greetedFor(2) })
				b.leave(l)
			})
			w.configure(2)
			closing.Wait()
			w.reduceOK(w.everybody(), 1000)
			if got := b.linkTo(w.ids[1-parting]); got == l {
				t.Error("the parted link is the edge")
			}
			eventually(t, "it is gone", func() bool { return b.Stats().Links == 1 })
			w.reduceOK(w.everybody(), 1000)
		})
	}
}

// greetedFor tells whether b has said Hello for quorum q on any link.
func (b *Backend) greetedFor(q int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for l := range b.mu.links {
		if l.group != nil && l.group.cfg.QuorumID == q && l.helloSent {
			return true
		}
	}
	return false
}
