package tcp

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/pg"
)

// proxy stands in the way of edges to one backend, and does to the bytes what
// networks do.
type proxy struct {
	ln     net.Listener
	target func() net.Addr
	wg     sync.WaitGroup

	// toll is asked for each chunk that goes to the backend, with the number of
	// bytes before it; it may change the chunk, wait, or end the connection.
	toll func(at int, chunk []byte) error

	tune func(*net.TCPConn)                      // of a connection to the proxy, if not nil
	each func() func(at int, chunk []byte) error // makes the toll of each connection; nil: they share toll
}

func startProxy(t *testing.T, toll func(at int, chunk []byte) error) *proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{ln: ln, toll: toll}
	t.Cleanup(func() {
		ln.Close()
		p.wg.Wait() // the backends, made later, are closed by now
	})
	return p
}

func (p *proxy) accept() {
	for {
		from, err := p.ln.Accept()
		if err != nil {
			return
		}
		target := p.target()
		if target == nil { // from another test: the port was somebody else's before
			from.Close()
			continue
		}
		to, err := net.Dial("tcp", target.String())
		if err != nil {
			from.Close()
			continue
		}
		if p.tune != nil {
			p.tune(from.(*net.TCPConn))
		}
		toll := p.toll
		if p.each != nil {
			toll = p.each()
		}
		p.wg.Go(func() { p.carry(from, to, toll) })
		p.wg.Go(func() { p.carry(to, from, func(int, []byte) error { return nil }) })
	}
}

func (p *proxy) carry(from, to net.Conn, toll func(int, []byte) error) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 16<<10)
	for at := 0; ; {
		n, err := from.Read(buf)
		if n > 0 {
			if toll(at, buf[:n]) != nil {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
			at += n
		}
		if err != nil {
			return
		}
	}
}

// proxied is two backends whose edge goes through p.
func proxied(t *testing.T, p *proxy, opt Options) *world {
	t.Helper()
	opt.Transport = TransportTCP
	opts := []Options{opt, opt}
	opts[1].Advertise = p.ln.Addr().String() // rank 0 dials
	w := newWorldOf(t, opts)
	p.target = func() net.Addr { return w.backends[1].Addr() }
	p.wg.Go(p.accept)
	w.configure(1)
	w.reduceOK(w.everybody(), 1000)
	return w
}

// TestProxyCorrupts: a bit that flips on the way, wherever in the stream, is
// found; nobody's sum has it; the next epoch works over a new socket.
func TestProxyCorrupts(t *testing.T) {
	t.Parallel()
	for _, where := range []int{100_000, 1_000_003, 3_000_001} {
		var once sync.Once
		p := startProxy(t, func(at int, chunk []byte) error {
			if at <= where && where < at+len(chunk) {
				once.Do(func() { chunk[where-at] ^= 4 })
			}
			return nil
		})
		w := proxied(t, p, Options{})
		errs := w.allReduce(w.everybody(), 2<<20)
		if !errors.Is(errs[1], ErrCorrupt) || errs[0] == nil {
			t.Errorf("bit %d: %v and %v, want ErrCorrupt at rank 1 and an error at rank 0", where, errs[0], errs[1])
		}
		w.configure(2)
		sums := w.sums(2 << 20)
		for r := range sums {
			equal(t, "after a corrupt frame", sums[r], sumOf(2, 2<<20))
		}
	}
}

// sums reduces everybody's pattern and returns the results.
func (w *world) sums(n int) [][]float32 {
	w.t.Helper()
	data := make([][]float32, len(w.backends))
	noError(w.t, w.all(w.everybody(), func(r int) *pg.Op {
		data[r] = pattern(r, n)
		x := tensors(data[r])
		return &pg.Op{Kind: pg.KindAllReduce, In: x, Out: x}
	}))
	return data
}

// TestProxyCuts: a connection that ends in the middle of a frame fails the op on
// both sides, naming the peer.
func TestProxyCuts(t *testing.T) {
	t.Parallel()
	var once sync.Once
	p := startProxy(t, func(at int, _ []byte) (err error) {
		if at > 1_000_000 {
			once.Do(func() { err = io.ErrUnexpectedEOF })
		}
		return err
	})
	w := proxied(t, p, Options{})
	for r, err := range w.allReduce(w.everybody(), 2<<20) {
		if e := opError(t, err); !errors.Is(err, pg.ErrPeerLost) || e.Peer != 1-r {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	w.configure(2)
	w.reduceOK(w.everybody(), 2<<20)
}

// TestProxySlow: a link that delays and throttles, so that an op takes several
// beat timeouts and beats come late behind data, is slow, not dead.
func TestProxySlow(t *testing.T) {
	t.Parallel()
	const timeout = quietLimit // the machine has its own pauses
	p := startProxy(t, func(at int, chunk []byte) error {
		if at > 20_000 {
			<-time.After(time.Duration(len(chunk)) * 2 * time.Microsecond) // half a megabyte a second
		}
		return nil
	})
	w := proxied(t, p, Options{BeatTimeout: timeout})
	start := time.Now()
	sums := w.sums(500_000)
	for r := range sums {
		equal(t, "over a slow link", sums[r], sumOf(2, 500_000))
	}
	if took := time.Since(start); took < timeout {
		t.Errorf("took %v: too fast to show anything", took)
	}
}
