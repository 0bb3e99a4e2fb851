package tcp

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
	"github.com/skerry-ft/skerry/tensor"
)

// striped are edges of several sockets.
func striped(n int) Options { return Options{Transport: TransportTCP, Streams: n} }

// shuffled delays frames at random, so that the streams of an edge overtake each
// other, and counts by stream what it saw of collectives.
func shuffled(seen *[MaxStreams]atomic.Int64) Fault {
	var mu sync.Mutex
	order := rand.New(rand.NewPCG(1, 9))
	return func(f FrameInfo) Action {
		if f.Type != "data" {
			return Action{}
		}
		seen[f.Stream].Add(1)
		mu.Lock()
		defer mu.Unlock()
		return Action{Delay: time.Duration(order.IntN(3)*order.IntN(1000)) * time.Microsecond}
	}
}

// TestStreamsKinds: over several streams that overtake each other every kind has
// the result that it has over one, and all of them carry some of it.
func TestStreamsKinds(t *testing.T) {
	t.Parallel()
	const world, streams = 3, 4
	sizes := []int{1, 60_000, 400_003}
	if testing.Short() {
		sizes = []int{1, 400_003}
	}
	var seen [MaxStreams]atomic.Int64
	opt := striped(streams)
	opt.Fault = shuffled(&seen)
	w := newWorld(t, world, opt)
	w.configure(1)
	for _, n := range sizes {
		for _, c := range kindCases() {
			ops := make([]*pg.Op, world)
			noError(t, w.all(w.everybody(), func(r int) *pg.Op {
				ops[r] = c.op(r, world, n)
				return ops[r]
			}))
			for r, op := range ops {
				c.check(t, op, r, world, n)
			}
		}
	}
	for i := range streams {
		if seen[i].Load() == 0 {
			t.Errorf("stream %d carried nothing", i)
		}
	}
	for r, b := range w.backends {
		s := b.Stats()
		if s.Streams != streams*(world-1) || s.Links != world-1 || s.StripedBytes == 0 || s.StaleFrames > 0 {
			t.Errorf("rank %d: %+v", r, s)
		}
	}
}

// TestStreamsCoalesced: pieces of many tensors of odd lengths, folded in rank
// order whatever order they come in; the digests of all ranks agree.
func TestStreamsCoalesced(t *testing.T) {
	t.Parallel()
	const world = 3
	var seen [MaxStreams]atomic.Int64
	opt := striped(3)
	opt.Fault = shuffled(&seen)
	w := newWorld(t, world, opt)
	w.configure(1)
	lengths := []int{100_003, 0, 7, 300_001, 65_536, 1, 200_000}
	for range 3 {
		data := make([][][]float32, world)
		noError(t, w.all(w.everybody(), func(r int) *pg.Op {
			for i, n := range lengths {
				data[r] = append(data[r], pattern(r+i, n))
			}
			x := tensors(data[r]...)
			return &pg.Op{Kind: pg.KindAllReduce, In: x, Out: x}
		}))
		for r := range data {
			for i, n := range lengths {
				want := make([]float32, n)
				for q := range world {
					for j, v := range pattern(q+i, n) {
						want[j] += v
					}
				}
				equal(t, fmt.Sprintf("rank %d tensor %d", r, i), data[r][i], want)
			}
		}
		ballots := make([]*pg.Op, world)
		noError(t, w.all(w.everybody(), func(r int) *pg.Op {
			ballots[r] = &pg.Op{Kind: pg.KindBallot}
			return ballots[r]
		}))
		for _, e := range ballots[0].Ballots {
			if e.Digest != ballots[0].Ballots[0].Digest {
				t.Errorf("digests differ: %+v", ballots[0].Ballots)
			}
		}
	}
}

// TestStreamsEarly: a rank that is late finds frames of several ops, which came
// over several streams and so not in the order of ops.
func TestStreamsEarly(t *testing.T) {
	t.Parallel()
	var seen [MaxStreams]atomic.Int64
	opt := striped(4)
	opt.Fault = shuffled(&seen)
	w := newWorld(t, 2, opt)
	w.configure(1)
	for range 10 {
		ops := func(r int) []*pg.Op {
			all := []*pg.Op{
				{Kind: pg.KindBroadcast, In: tensors(pattern(0, 200_000)), Out: fresh(1, 200_000)},
				{Kind: pg.KindBroadcast, In: tensors(pattern(0, 10)), Out: fresh(1, 10)},
				{Kind: pg.KindBroadcast, In: tensors(pattern(0, 300_000)), Out: fresh(1, 300_000)},
				{Kind: pg.KindBarrier},
			}
			if r > 0 {
				for _, op := range all {
					op.In = op.Out
				}
			}
			return all
		}
		before := w.backends[1].Stats().Buffers
		var works []*pg.Work
		for _, op := range ops(0) {
			works = append(works, w.backends[0].Submit(op))
		}
		eventually(t, "frames are early", func() bool { return w.backends[1].Stats().Buffers > before })
		late := ops(1)
		for _, op := range late {
			works = append(works, w.backends[1].Submit(op))
		}
		for _, work := range works {
			if err := wait(t, work); err != nil {
				t.Fatal(err)
			}
		}
		for i, n := range []int{200_000, 10, 300_000} {
			equal(t, "broadcast", out(late[i], 0), pattern(0, n))
		}
	}
}

// TestStreamsDelta: survivors keep all sockets of an edge, whatever the epoch
// before died of.
func TestStreamsDelta(t *testing.T) {
	t.Parallel()
	const streams = 3
	w := newWorld(t, 3, striped(streams))
	for q, s := range []struct {
		members []int
		dials   uint64
	}{{[]int{0, 1, 2}, 3 * streams}, {[]int{2, 0, 1}, 0}, {[]int{1, 2}, 0}, {[]int{0, 2, 1}, 2 * streams}} {
		before := w.dials()
		w.configure(int64(q+1), s.members...)
		w.reduceOK(s.members, 500_000)
		if got := w.dials() - before; got != s.dials {
			t.Errorf("step %d: %d dials, want %d", q, got, s.dials)
		}
		w.backends[s.members[0]].Abort(pg.Epoch{Cluster: "test", QuorumID: int64(q + 1)}, errors.New("enough"))
		for _, m := range s.members {
			eventually(t, "all sockets are open", func() bool {
				return w.backends[m].Stats().Streams == streams*(len(s.members)-1)
			})
		}
	}
	for _, b := range w.backends {
		eventually(t, "buffers come back", func() bool { return b.Stats().Buffers == 0 })
	}
}

// TestStreamsBreak: whichever stream of an edge is cut, or damaged, in the middle
// of an op, the group breaks on all ranks, naming who is at its ends; and
// the next epoch opens them all anew.
func TestStreamsBreak(t *testing.T) {
	t.Parallel()
	const world, streams = 3, 3
	for name, what := range map[string]Action{"cut": {Close: true}, "damaged": {Corrupt: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var victim atomic.Int64
			opts := []Options{striped(streams), striped(streams), striped(streams)}
			opts[0].Fault = func(f FrameInfo) Action {
				if f.Type == "data" && f.To == 1 && int64(f.Stream) == victim.Load()-1 {
					return what
				}
				return Action{}
			}
			w := newWorldOf(t, opts)
			for i := range streams {
				victim.Store(0)
				w.configure(int64(2*i + 1))
				w.reduceOK(w.everybody(), 500_000)
				victim.Store(int64(i + 1))
				for r, err := range w.allReduce(w.everybody(), 3<<20) {
					e := opError(t, err)
					if !errors.Is(err, pg.ErrPeerLost) || e.Peer < 0 || e.Peer > 1 || r < 2 && e.First && e.Peer != 1-r {
						t.Errorf("stream %d, rank %d: %v", i, r, err)
					}
					if r == 1 && name == "damaged" && !errors.Is(err, ErrCorrupt) {
						t.Errorf("stream %d, rank %d: %v, want ErrCorrupt", i, r, err)
					}
				}
				victim.Store(0)
				w.configure(int64(2*i + 2))
				w.reduceOK(w.everybody(), 500_000)
				if got := w.backends[1].Stats().Streams; got != 2*streams {
					t.Errorf("stream %d: %d sockets after the next epoch, want %d", i, got, 2*streams)
				}
			}
		})
	}
}

// TestStreamSilent: a stream that falls silent while others of its edge do not is
// given twice the time, and then breaks the edge, by name.
func TestStreamSilent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, striped(2))
	w.configure(1)
	b := w.backends[0]
	l := b.linkTo("replica1")
	silent := func(d time.Duration) {
		l.socks[1].received.Store(b.now() - int64(d))
		l.received.Store(b.now())
		b.judge(l.socks[1])
	}
	silent(patientBeats * 3 / 2)
	if err := b.Err(); err != nil {
		t.Errorf("a stream is silent for a while: %v, want patience", err)
	}
	testkit.Eventually(t, "a stream is judged before its next beat comes", func() bool {
		silent(patientBeats * 5 / 2)
		return b.Err() != nil
	})
	if err := b.Err(); !errors.Is(err, errSilent) || !strings.Contains(err.Error(), "stream 1 (127.0.0.1:") {
		t.Errorf("a stream is silent for long: %v, want it named", err)
	}
}

// TestLeaveBehindStreams: whoever leaves right after a large op does not spoil it
// for those whose last pieces are still on their way over another stream than
// the farewell.
func TestLeaveBehindStreams(t *testing.T) {
	t.Parallel()
	rounds := 9
	if testing.Short() {
		rounds = 3
	}
	leaveBehindSlow(t, rounds, time.Millisecond)
}

// TestLeaveBehindSlowStreams: the same where those pieces come long after it.
func TestLeaveBehindSlowStreams(t *testing.T) {
	t.Parallel()
	leaveBehindSlow(t, 1, 60*time.Millisecond)
}

// opens tells what the first chunk of a socket makes of it.
func opens(chunk []byte) frame.Opening {
	if len(chunk) < frame.PreambleBytes {
		return frame.OpensNothing
	}
	opening, _ := frame.DecodePreamble(chunk)
	return opening
}

// leaveBehindSlow does it so many times, with further streams that wait so long
// before each 16 KiB.
func leaveBehindSlow(t *testing.T, rounds int, pause time.Duration) {
	t.Helper()
	const n = 300_000
	p := startProxy(t, nil)
	p.each = func() func(int, []byte) error {
		joins := false
		return func(at int, chunk []byte) error {
			joins = joins || at == 0 && opens(chunk) == frame.OpensStream
			if joins && at > 1000 {
				<-time.After(pause)
			}
			return nil
		}
	}
	opt := striped(3)
	opt.Fault = func(f FrameInfo) (a Action) { // the first stream leaves them some
		if f.Type == "data" && f.Stream == 0 && f.Bytes > 0 {
			a.Delay = 5*time.Millisecond + pause
		}
		return a
	}
	w := proxied(t, p, opt)
	for q := range rounds {
		w.configure(int64(q + 2))
		w.leaveBehind(n, w.depart)
	}
	if s := w.backends[0].Stats(); s.StripedBytes == 0 {
		t.Error("nothing went over further streams")
	}
}

// TestCloseBehindStreams: the same by Close.
func TestCloseBehindStreams(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, striped(3))
	w.configure(1)
	w.leaveBehind(1_000_000, func(m int) {
		if err := w.backends[m].Close(); err != nil {
			t.Error(err)
		}
	})
}

// leaveBehind broadcasts from rank 0, which leaves as soon as it is done.
func (w *world) leaveBehind(n int, leave func(m int)) {
	w.t.Helper()
	got, x := fresh(1, n), tensors(pattern(0, n))
	work := w.backends[1].Submit(&pg.Op{Kind: pg.KindBroadcast, In: got, Out: got})
	if err := wait(w.t, w.backends[0].Submit(&pg.Op{Kind: pg.KindBroadcast, In: x, Out: x})); err != nil {
		w.t.Fatal(err)
	}
	leave(0)
	if err := wait(w.t, work); err != nil {
		w.t.Errorf("the broadcast failed, with nothing said of its bytes: %v", err)
	} else if !slices.Equal(tensor.Slice[float32](got[0]), pattern(0, n)) {
		w.t.Error("the broadcast is reported good and is not what was sent")
	}
}

// depart breaks member m's group as a Configure of the next quorum would.
func (w *world) depart(m int) {
	b := w.backends[m]
	var do todo
	b.mu.Lock()
	b.breakLocked(b.mu.group, frame.Cause{Code: frame.CodeMoved, Peer: -1, Err: errors.New("moved on")}, &do)
	b.unlock(&do)
}

// TestStreamStrangers: nobody joins a socket to an edge without its nonce, or once
// its Hello has come.
func TestStreamStrangers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, striped(2))
	w.configure(1)
	b := w.backends[1]
	l := b.linkTo("replica0")
	ask := func(nonce frame.Nonce, index int) {
		t.Helper()
		c, err := net.Dial("tcp", b.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write(frame.Join(frame.Nonce{}, nonce, index)); err != nil {
			t.Fatal(err)
		}
		if err := c.SetReadDeadline(time.Now().Add(testTimeout)); err != nil {
			t.Fatal(err)
		}
		said := make([]byte, 1<<10)
		n := 0
		for {
			got, err := c.Read(said[n:])
			n += got
			if err, ok := errors.AsType[net.Error](err); ok && err.Timeout() {
				t.Fatal("the stranger was not turned away")
			}
			if err != nil {
				break
			}
		}
		if n > frame.PreambleBytes {
			t.Errorf("the stranger was told %d bytes, want %d", n, frame.PreambleBytes)
		}
	}
	ask(newNonce(), 1)
	ask(l.mine, 1) // taken
	ask(l.mine, 2) // after the Hello
	ask(l.mine, 0)
	ask(l.mine, MaxStreams)
	w.reduceOK(w.everybody(), 500_000)
	eventually(t, "only the edge is left", func() bool { s := b.Stats(); return s.Links == 1 && s.Streams == 2 })
}

// TestStreamsOtherNonces: an edge whose ends disagree about its sockets is refused.
func TestStreamsOtherNonces(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, striped(2))
	w.configure(1)
	b := w.backends[0]
	l := b.linkTo("replica1")
	b.mu.Lock()
	l.socks[1].theirs[0] ^= 1
	b.mu.Unlock()
	for r, err := range w.tryConfigure(2, w.everybody(), func(int, *pg.Config) {}) {
		if err == nil || !strings.Contains(err.Error(), "other streams") {
			t.Errorf("rank %d: %v, want to be told of other streams", r, err)
		}
	}
	w.configure(3)
	w.reduceOK(w.everybody(), 500_000)
}
