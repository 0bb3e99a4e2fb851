package tcp

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
	"github.com/skerry-ft/skerry/tensor"
)

// Epochs never mix. Each test here poisons tensors as soon as they are the
// caller's again, makes bytes of another epoch arrive, and looks at every tensor.
// TestStopped does the same with a process that is stopped in the middle of a
// write into shared memory, and pgtest's Poison with every backend.

// tap is a proxy that knows frames: it remembers those with data that go to
// the backend, and can send them again at any time.
type tap struct {
	*proxy

	mu   sync.Mutex
	out  net.Conn // to the backend; the last one
	seen [][]byte // data frames, whole
}

func startTap(t *testing.T) *tap {
	if *overTLS {
		t.Skip("it reads frames on the wire")
	}
	return &tap{proxy: startProxy(t, nil)}
}

func (p *tap) accept() {
	for {
		from, err := p.ln.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", p.target().String())
		if err != nil {
			from.Close()
			continue
		}
		p.wg.Go(func() { p.carryFrames(from, to) })
		p.wg.Go(func() { p.carry(to, from, func(int, []byte) error { return nil }) })
	}
}

func (p *tap) carryFrames(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	pre := make([]byte, frame.PreambleBytes)
	if _, err := io.ReadFull(from, pre); err != nil {
		return
	}
	if p.write(to, pre) != nil {
		return
	}
	for {
		raw := make([]byte, frame.HeaderBytes)
		if _, err := io.ReadFull(from, raw); err != nil {
			return
		}
		var h frame.Header
		if h.Decode(raw) != nil {
			return
		}
		raw = append(raw, make([]byte, h.Length)...)
		if _, err := io.ReadFull(from, raw[frame.HeaderBytes:]); err != nil || p.write(to, raw) != nil {
			return
		}
		if h.Type == frame.TypeData && h.Length > 0 {
			p.mu.Lock()
			p.seen = append(p.seen, raw)
			p.mu.Unlock()
		}
	}
}

func (p *tap) write(to net.Conn, raw []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out = to
	_, err := to.Write(raw)
	return err
}

// data are the frames that were seen, of one quorum.
func (p *tap) data(quorum int64) [][]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.seen), func(raw []byte) bool {
		var h frame.Header
		return h.Decode(raw) != nil || h.Epoch.Quorum != quorum
	})
}

// inject sends frames between two of the peer's.
func (p *tap) inject(t *testing.T, frames [][]byte) {
	t.Helper()
	if len(frames) == 0 {
		t.Fatal("no frames to send")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, raw := range frames {
		if _, err := p.out.Write(raw); err != nil {
			t.Fatal(err)
		}
	}
}

// tapped is two backends whose edge goes through a tap, configured for quorum 1.
func tapped(t *testing.T) (*world, *tap) {
	t.Helper()
	p := startTap(t)
	opts := []Options{{Transport: TransportTCP}, {Transport: TransportTCP, Advertise: p.ln.Addr().String()}}
	w := newWorldOf(t, opts)
	p.target = func() net.Addr { return w.backends[1].Addr() }
	p.wg.Go(p.accept)
	w.configure(1)
	return w, p
}

// foreignFrames runs op on both ranks as the first of quorum 2 in another pair
// of backends, which have the same names, and gives what rank 0 sent.
func foreignFrames(t *testing.T, op func(r int) *pg.Op) [][]byte {
	t.Helper()
	w, p := tapped(t)
	w.configure(2)
	noError(t, w.all(w.everybody(), op))
	return p.data(2)
}

// reduction is an all-reduce of n numbers, in place, and its tensor.
func reduction(r, n, salt int) (*pg.Op, []float32) {
	data := pattern(r+salt, n)
	x := tensors(data)
	return &pg.Op{Kind: pg.KindAllReduce, In: x, Out: x}, data
}

// saltedSum is the result of reduction.
func saltedSum(world, n, salt int) []float32 {
	sum := pattern(salt, n)
	for r := 1; r < world; r++ {
		for i, v := range pattern(r+salt, n) {
			sum[i] += v
		}
	}
	return sum
}

// reduceSalted runs reduction on all ranks, and checks every result.
func (w *world) reduceSalted(t *testing.T, n, salt int) {
	t.Helper()
	data := make([][]float32, len(w.backends))
	noError(t, w.all(w.everybody(), func(r int) (op *pg.Op) {
		op, data[r] = reduction(r, n, salt)
		return op
	}))
	for r := range data {
		equal(t, "the sum", data[r], saltedSum(len(w.backends), n, salt))
	}
}

// TestFrameOfTheNextEpoch: data frames of the next quorum, well formed and with
// the numbers that the op under way has, come before their receiver has
// configured it. They go nowhere: not into the op under way, not into one that
// has ended, and not into the next quorum's.
func TestFrameOfTheNextEpoch(t *testing.T) {
	t.Parallel()
	const foreignSalt = 1000
	for name, n := range map[string]int{"small": 1000, "large": 400_000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			frames := foreignFrames(t, func(r int) *pg.Op {
				op, _ := reduction(r, n, foreignSalt)
				return op
			})
			w, p := tapped(t)
			// The receiver is in the op with the same number; the peer has not come to it.
			op, mine := reduction(1, n, 0)
			work := w.backends[1].Submit(op)
			p.injectStale(t, w.backends[1], frames)
			op, theirs := reduction(0, n, 0)
			noError(t, []error{wait(t, w.backends[0].Submit(op)), wait(t, work)})
			equal(t, "rank 1", mine, saltedSum(2, n, 0))
			equal(t, "rank 0", theirs, saltedSum(2, n, 0))

			// The receiver is broken, and its tensor is poisoned.
			op, poisoned := reduction(1, n, 0)
			work = w.backends[1].Submit(op)
			w.backends[1].Abort(pg.Epoch{Cluster: "test", QuorumID: 1}, errors.New("over"))
			if err := wait(t, work); err == nil {
				t.Fatal("an aborted op has no error")
			}
			poison(poisoned)
			p.injectStale(t, w.backends[1], frames)

			w.configure(2)
			w.reduceSalted(t, n, 7) // the very op that the frames are of
			untouchedPoison(t, "the tensor of the aborted op", poisoned)
		})
	}
}

// TestFrameOfTheEpochBefore: frames of the quorum before, on their way for long,
// come when the op with their number is under way in the next.
func TestFrameOfTheEpochBefore(t *testing.T) {
	t.Parallel()
	const n = 400_000
	w, p := tapped(t)
	w.reduceSalted(t, n, 1000)
	frames := p.data(1)
	w.configure(2)
	op, data := reduction(1, n, 0)
	work := w.backends[1].Submit(op)
	p.injectStale(t, w.backends[1], frames)
	op, _ = reduction(0, n, 0)
	noError(t, []error{wait(t, w.backends[0].Submit(op)), wait(t, work)})
	equal(t, "rank 1", data, saltedSum(2, n, 0))
	p.injectStale(t, w.backends[1], frames)
	w.reduceSalted(t, n, 3)
}

// injectStale injects frames, and waits until b has dropped them all.
func (p *tap) injectStale(t *testing.T, b *Backend, frames [][]byte) {
	t.Helper()
	before := b.Stats().StaleFrames
	p.inject(t, frames)
	eventually(t, "the frames are dropped", func() bool {
		return b.Stats().StaleFrames >= before+uint64(len(frames))
	})
}

const poisonValue = -7.25e-9

func poison(x []float32) {
	for i := range x {
		x[i] = poisonValue
	}
}

func untouchedPoison(t *testing.T, what string, x []float32) {
	t.Helper()
	for i, v := range x {
		if v != poisonValue {
			t.Fatalf("%s: element %d became %v after its op had ended", what, i, v)
		}
	}
}

// TestHalfFrameAtAbort: when an op is aborted a frame of it is half sent: the
// rest of it is stuck on the way. Both ranks reuse their tensors at once. What
// then arrives lands nowhere, the sender's new bytes are not in it, and the
// socket serves the next quorum.
func TestHalfFrameAtAbort(t *testing.T) {
	t.Parallel()
	for aborting, name := range []string{"by the sender", "by the receiver"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testHalfFrame(t, aborting)
		})
	}
}

func testHalfFrame(t *testing.T, aborting int) {
	const n, stuckAt = 2 << 20, 400_000 // within the second large frame
	reached, gate := make(chan struct{}), make(chan struct{})
	var once sync.Once
	p := startProxy(t, func(at int, chunk []byte) error {
		if at+len(chunk) > stuckAt {
			once.Do(func() { close(reached) })
			<-gate
		}
		return nil
	})
	// Little fits into the sockets, so that the sender is within a frame too.
	p.tune = func(c *net.TCPConn) { c.SetReadBuffer(32 << 10) }
	w := proxied(t, p, Options{BeatTimeout: testTimeout, SocketBytes: 120 << 10})
	open := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open) // before the proxy waits for its goroutines
	dials := w.dials()

	// A broadcast goes straight out of one tensor and into the other.
	data := [][]float32{pattern(0, n), make([]float32, n)}
	works := make([]*pg.Work, 2)
	for _, r := range []int{1, 0} { // the receiver is there first
		x := tensors(data[r])
		op := &pg.Op{Kind: pg.KindBroadcast, Out: x, In: x}
		works[r] = w.backends[r].Submit(op)
	}
	<-reached
	eventually(t, "rank 1 reads the second frame", func() bool { return w.backends[1].placed(0) > MaxPayload })
	w.backends[aborting].Abort(pg.Epoch{Cluster: "test", QuorumID: 1}, errors.New("enough"))
	ended := []int{aborting}
	if aborting == 1 {
		ended = append(ended, 0) // is told over the way that is free
	}
	for _, r := range ended {
		if err := wait(t, works[r]); err == nil {
			t.Errorf("rank %d: an aborted op has no error", r)
		}
		poison(data[r])
	}
	open()
	if aborting == 0 {
		if err := wait(t, works[1]); err == nil {
			t.Error("rank 1: an aborted op has no error")
		}
		if i := slices.Index(data[1], poisonValue); i >= 0 {
			t.Errorf("element %d of rank 1 is what rank 0 wrote after its op had ended", i)
		}
		poison(data[1])
	}
	w.configure(2)
	w.reduceSalted(t, 300_000, 5)
	w.reduceSalted(t, 300_000, 6)
	if got := w.dials(); got != dials {
		t.Errorf("%d sockets were opened after an abort, want none", got-dials)
	}
	for r := range data {
		untouchedPoison(t, []string{"rank 0", "rank 1"}[r], data[r])
	}
}

// placed is up to which byte of the op under way the input of a peer has a place.
func (b *Backend) placed(peer int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.mu.group.active
	if t == nil || !t.open || t.touch == 0 {
		return 0
	}
	return t.peers[peer].in[0].done
}

// TestReuseAfterError: tensors are filled anew the moment their op fails,
// while everybody still sends; what others receive in that op or later has none
// of it, and the tensors keep it.
func TestReuseAfterError(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]Options{
		"tcp": {Transport: TransportTCP}, "streams": {Transport: TransportTCP, Streams: 3}, "shared": {Transport: TransportShared},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const n, world, rounds = 300_000, 3, 8
			w := newWorld(t, world, opt)
			var kept [][]float32
			for q := int64(1); q <= rounds; q++ {
				w.configure(q)
				var works []*pg.Work
				var data [][]float32
				for r, b := range w.backends {
					for range 3 {
						op, x := reduction(r, n, int(q))
						works, data = append(works, b.Submit(op)), append(data, x)
					}
				}
				w.backends[q%world].Abort(pg.Epoch{Cluster: "test", QuorumID: q}, errors.New("over"))
				want := saltedSum(world, n, int(q))
				for i, work := range works {
					if err := wait(t, work); err == nil {
						equal(t, "an op that was through", data[i], want)
					}
					poison(data[i])
				}
				kept = append(kept, data...)
			}
			w.configure(rounds + 1)
			w.reduceSalted(t, n, 100)
			for _, x := range kept {
				untouchedPoison(t, "a tensor that was reused", x)
			}
		})
	}
}

// TestTapKnowsFrames: the tap sees what was sent, or the tests above show
// nothing.
func TestTapKnowsFrames(t *testing.T) {
	t.Parallel()
	const n = 1000
	frames := foreignFrames(t, func(r int) *pg.Op {
		op, _ := reduction(r, n, 4)
		return op
	})
	payload := tensor.Of(pattern(4, n)).Bytes()
	if len(frames) != 1 || !bytes.Equal(frames[0][frame.HeaderBytes:], payload) {
		t.Errorf("%d frames, want one with rank 0's input", len(frames))
	}
}
