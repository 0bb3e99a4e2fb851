package tcp

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
	"github.com/skerry-ft/skerry/store"
	"github.com/skerry-ft/skerry/tensor"
)

// configureWith has each of two ranks be configured with a TLS of its own, and gives
// what both say, in the bound of a test.
func (w *world) configureWith(q int64, all ...*store.TLS) []error {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for r, t := range all {
		wg.Go(func() {
			errs[r] = (&sealedBackend{w.backends[r], t, w.storeTLS}).Configure(ctx, w.config(q, w.everybody(), r))
		})
	}
	wg.Wait()
	return errs
}

// TestTLSRefuses: a peer that has no right certificate, as who dials and as who is
// dialled, makes an error that says what is wrong, soon, on both ranks, and no edge.
func TestTLSRefuses(t *testing.T) {
	t.Parallel()
	c, foreign := guardtest.New(t), guardtest.New(t)
	good := certified(t, c, replica, "replica")
	stranger := certified(t, foreign, replica, "stranger")
	edited := func(edit func(*tls.Config)) *store.TLS {
		return &store.TLS{Server: good.Server, Client: func(host string) *tls.Config {
			cfg := good.Client(host)
			edit(cfg)
			return cfg
		}}
	}
	withForeign := edited(func(cfg *tls.Config) { cfg.Certificates = stranger.Client("x").Certificates })
	for _, tc := range []struct {
		name            string
		stranger        *store.TLS
		dials, isDialed string // in the errors, if the stranger does or is
	}{
		{"another CA", stranger, "unknown authority", "unknown authority"},
		{"a certificate of another CA", withForeign, "unknown authority", ""},
		{"an operator", certified(t, c, guard.Party{Role: guard.Operator}, "operator"), "has role operator, want replica", "incompatible key usage"},
		{"a lighthouse", certified(t, c, guard.Party{Role: guard.Lighthouse}, "lighthouse"), "has role lighthouse, want replica", "has role lighthouse, want replica"},
		{"no role", certified(t, c, guard.Party{}, "none"), "has no role", "has no role"},
		{"another job", certified(t, c, guard.Party{Role: guard.Replica, Job: "text"}, "text"), `bound to job`, `bound to job`},
		{"no certificate", edited(func(cfg *tls.Config) { cfg.Certificates = nil }), "client didn't provide a certificate", ""},
		{"TLS 1.2", edited(func(cfg *tls.Config) { cfg.MinVersion, cfg.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 }), "protocol version", ""},
		{"in the clear", nil, "set SKERRY_TLS_DATA=false", "set SKERRY_TLS_DATA=false"},
	} {
		for order, want := range map[string]string{"dials": tc.dials, "is dialled": tc.isDialed} {
			if want == "" {
				continue
			}
			t.Run(tc.name+" "+order, func(t *testing.T) {
				t.Parallel()
				var log lines
				w := newWorld(t, 2, Options{Transport: TransportTCP, Logger: log.logger()})
				all := []*store.TLS{tc.stranger, good} // the first dials
				if order == "is dialled" {
					all[0], all[1] = all[1], all[0]
				}
				errs := w.configureWith(1, all...)
				for r, err := range errs {
					if err == nil || errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("rank %d: %v, want it refused, and not by a deadline", r, err)
					}
				}
				// Who dials has no more than an alert of who refuses it, whose log has the reason.
				if said := fmt.Sprint(errors.Join(errs...), log.text()); !strings.Contains(said, want) {
					t.Errorf("%v; want something with %q", said, want)
				}
				for r, b := range w.backends {
					eventually(t, "no socket is left", func() bool { return b.Stats().Links == 0 && b.newcomers.Taken() == 0 })
					if n := b.Stats().DataFrames; n > 0 {
						t.Errorf("rank %d sent %d frames", r, n)
					}
				}
				noError(t, w.configureWith(2, good, good)) // nothing is left of it
				w.reduceOK(w.everybody(), 1000)
			})
		}
	}
}

// TestTLSIsForAllOfAGroup: edges that stand are made anew when a rank gets its
// certificates, or loses them, and kept else.
func TestTLSIsForAllOfAGroup(t *testing.T) {
	t.Parallel()
	tls := certified(t, guardtest.New(t), replica, "replica")
	for _, transport := range []Transport{TransportTCP, TransportAuto} {
		w := newWorld(t, 2, Options{Transport: transport})
		for q, want := range []struct {
			tls   *store.TLS
			dials uint64
		}{{nil, 1}, {tls, 2}, {tls, 2}, {nil, 3}} {
			noError(t, w.configureWith(int64(q+1), want.tls, want.tls))
			w.reduceOK(w.everybody(), 1<<16)
			if n := w.dials(); n != want.dials {
				t.Errorf("quorum %d: %d sockets dialled, want %d", q+1, n, want.dials)
			}
			b := w.backends[0]
			b.mu.Lock()
			for _, l := range b.mu.edges {
				if !l.sealedAs(want.tls) {
					t.Errorf("quorum %d: the edge is not as it should be", q+1)
				}
			}
			b.mu.Unlock()
		}
	}
}

// listener keeps what passes.
type listener struct {
	sync.Mutex

	heard bytes.Buffer
}

func (l *listener) toll(_ int, chunk []byte) error {
	l.Lock()
	defer l.Unlock()
	l.heard.Write(chunk)
	return nil
}

// TestSnifferSeesNothing: who reads the wire finds tensors, names and tokens' proofs
// where it is in the clear, and nothing of them over TLS.
func TestSnifferSeesNothing(t *testing.T) {
	t.Parallel()
	known := []byte("a weight of the model is known. ")
	cert := certified(t, guardtest.New(t), replica, "replica")
	for name, tls := range map[string]*store.TLS{"plain": nil, "TLS": cert} {
		var heard listener
		p := startProxy(t, heard.toll)
		opts := []Options{{Transport: TransportTCP, Streams: 2}, {Transport: TransportTCP, Streams: 2, Advertise: p.ln.Addr().String()}}
		w := newWorldOf(t, opts)
		p.target = func() net.Addr { return w.backends[1].Addr() }
		p.wg.Go(p.accept)
		noError(t, w.configureWith(1, tls, tls))
		w.reduceOK(w.everybody(), 1<<20)
		noError(t, w.all(w.everybody(), func(r int) *pg.Op {
			data := bytes.Repeat(known, 1<<20/len(known))
			if r == 1 {
				clear(data)
			}
			x := []tensor.Tensor{tensor.Of(data)}
			return &pg.Op{Kind: pg.KindBroadcast, In: x, Out: x}
		}))
		heard.Lock()
		seen := heard.heard.Bytes()
		for what, text := range map[string][]byte{"tensors": known, "names": []byte("replica0"), "preambles": []byte(frame.PreambleMagic)} {
			if found := bytes.Contains(seen, text); found != (tls == nil) {
				t.Errorf("%s: %s found in %d bytes: %v", name, what, len(seen), found)
			}
		}
		if len(seen) < 5<<20 {
			t.Errorf("%s: only %d bytes passed the proxy", name, len(seen))
		}
		heard.Unlock()
	}
}

// TestTLSRelayIsRefused: who has a replica's certificate and the way between two
// ranks, but not the quorum's token, cannot stand between them: a Hello holds for its
// connection alone.
func TestTLSRelayIsRefused(t *testing.T) {
	t.Parallel()
	cert := certified(t, guardtest.New(t), replica, "replica")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var relay sync.WaitGroup
	t.Cleanup(func() { // behind the backends' own: their sockets end what is relayed
		ln.Close()
		relay.Wait()
	})
	w := newWorldOf(t, []Options{{Transport: TransportTCP}, {Transport: TransportTCP, Advertise: ln.Addr().String()}})
	relay.Go(func() {
		for {
			from, err := tls.NewListener(ln, cert.Server).Accept()
			if err != nil {
				return
			}
			to, err := tls.Dial("tcp", w.backends[1].Addr().String(), cert.Client("127.0.0.1"))
			if err != nil {
				from.Close()
				continue
			}
			for _, pair := range [][2]net.Conn{{from, to}, {to, from}} {
				relay.Go(func() {
					defer pair[0].Close()
					defer pair[1].Close()
					buf := make([]byte, 4<<10)
					for {
						n, err := pair[0].Read(buf)
						if err != nil {
							return
						}
						if _, err := pair[1].Write(buf[:n]); err != nil {
							return
						}
					}
				})
			}
		}
	})
	errs := w.configureWith(1, cert, cert)
	if err := errors.Join(errs...); err == nil || !strings.Contains(err.Error(), "does not prove the token") {
		t.Errorf("%v, want something about the token", err)
	}
}

// TestTLSAbortKeepsSockets: an abort in the midst of records ends all ops at once,
// leaves no half record, and the next epoch has the same sockets.
func TestTLSAbortKeepsSockets(t *testing.T) {
	t.Parallel()
	cert := certified(t, guardtest.New(t), replica, "replica")
	for _, n := range []int{1, 3} {
		w := newWorld(t, 3, Options{Transport: TransportTCP, Streams: n})
		w.tls = cert
		w.configureSealed(1)
		dials := w.dials()
		for q := int64(2); q < 8; q++ {
			const size = 8 << 20
			sent := w.backends[0].Stats().DataFrames + uint64(q)
			var works []*pg.Work
			for r := range w.backends[:2] { // rank 2 has others wait
				op, _ := reduction(r, size, 0)
				works = append(works, w.backends[r].Submit(op))
			}
			eventually(t, "frames are under way", func() bool { return w.backends[0].Stats().DataFrames >= sent })
			w.backends[0].Abort(pg.Epoch{Cluster: "test", QuorumID: q - 1}, errors.New("enough"))
			for r, work := range works {
				if err := wait(t, work); !errors.Is(err, pg.ErrAborted) {
					t.Errorf("rank %d: %v, want ErrAborted", r, err)
				}
			}
			w.configureSealed(q)
			w.reduceOK(w.everybody(), 1<<20)
		}
		if got := w.dials(); got != dials {
			t.Errorf("%d streams: %d sockets dialled, want the %d of the begin", n, got, dials)
		}
	}
}

// configureSealed is configure with w.tls, and a store in the clear.
func (w *world) configureSealed(q int64) {
	w.t.Helper()
	all := make([]*store.TLS, len(w.backends))
	for i := range all {
		all[i] = w.tls
	}
	noError(w.t, w.configureWith(q, all...))
}

// TestTLSRenewal: a certificate that was renewed is that of new sockets; those that
// stand go on.
func TestTLSRenewal(t *testing.T) {
	t.Parallel()
	c := guardtest.New(t)
	cert := certified(t, c, replica, "replica")
	w := newWorld(t, 2, Options{Transport: TransportTCP})
	w.tls = cert
	w.configureSealed(1)
	serial := func() string {
		t.Helper()
		conn, err := tls.Dial("tcp", w.backends[1].Addr().String(), cert.Client("127.0.0.1"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	first := serial()
	c.Sign(t, replica, "replica")
	eventually(t, "the renewed certificate is shown", func() bool { return serial() != first })
	w.reduceOK(w.everybody(), 1<<18)
	w.configureSealed(2)
	if n := w.dials(); n != 1 {
		t.Errorf("%d sockets dialled, want the one that stands", n)
	}
	w.cutEdges()
	w.configureSealed(3)
	w.reduceOK(w.everybody(), 1000)
	if err := os.WriteFile(filepath.Join(c.Dir, "replica.key"), []byte("half a k"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.configureSealed(4) // half a renewal changes nothing
	w.reduceOK(w.everybody(), 1000)
}

// clientHello is what a TLS client says first.
func clientHello(t *testing.T, cfg *tls.Config) []byte {
	t.Helper()
	ours, theirs := net.Pipe()
	defer ours.Close()
	go func() {
		_ = tls.Client(theirs, cfg).Handshake() // it gets no answer
		theirs.Close()
	}()
	buf := make([]byte, handshakeBytes)
	if err := ours.SetDeadline(time.Now().Add(testTimeout)); err != nil {
		t.Fatal(err)
	}
	n, err := ours.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return buf[:n]
}

// TestTLSStrangersCostLittle: as many as are taken that say nothing, garbage, or the
// half of a handshake cost a bounded amount each and few lines of the log, are cut,
// and a group forms beside them.
func TestTLSStrangersCostLittle(t *testing.T) {
	testkit.Long(t)
	if testing.Short() {
		t.Skip("it opens some thousand sockets")
	}
	if testkit.RaceEnabled {
		t.Skip("it measures memory")
	}
	cert := certified(t, guardtest.New(t), replica, "replica")
	var log lines
	w := newWorld(t, 2, Options{Transport: TransportTCP, Logger: log.logger()})
	w.tls = cert
	w.configureSealed(1)
	hello := clientHello(t, cert.Client("127.0.0.1"))
	for _, tc := range []struct {
		name string
		say  [][]byte // in turn
	}{
		{"half a handshake", [][]byte{hello}},
		{"less, and what is none", [][]byte{
			nil, hello[:4], hello[:len(hello)/2],
			bytes.Repeat([]byte("garbage!"), 8<<10),
			append([]byte{0x16, 3, 1, 0x40, 0, 1, 0, 0xff, 0xff}, make([]byte, 64<<10)...), // a hello without end
			append([]byte(frame.PreambleMagic), make([]byte, frame.NonceBytes)...),
		}},
	} {
		t.Run(tc.name, func(t *testing.T) { w.bear(t, tc.say) })
	}
	n := strings.Count(log.text(), "\n")
	t.Logf("%d lines of the log", n)
	if n > 200 {
		t.Errorf("strangers caused %d lines of the log", n)
	}
}

// cutEdges ends all edges: the next epoch dials anew.
func (w *world) cutEdges() {
	for _, b := range w.backends {
		b.mu.Lock()
		for _, l := range b.mu.edges {
			l.conn.tcp.Close()
		}
		b.mu.Unlock()
	}
	for _, b := range w.backends {
		eventually(w.t, "the edges are gone", func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return len(b.mu.edges) == 0
		})
	}
}

// bear looks at the first rank while thousands of strangers have said that.
func (w *world) bear(t *testing.T, say [][]byte) {
	b := w.backends[0]
	before := memory()
	var strangers []net.Conn
	defer func() {
		for _, c := range strangers {
			c.Close()
		}
		eventually(t, "the strangers are forgotten", func() bool { return b.newcomers.Taken() == 0 })
	}()
	most := int64(0)
	for i := range maxNewcomers + 1 {
		c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).Dial("tcp", b.Addr().String())
		if err != nil && strings.Contains(err.Error(), "too many open files") {
			t.Skipf("%d sockets: %v", len(strangers), err)
		}
		if err != nil {
			continue // turned away so soon
		}
		_, _ = c.Write(say[i%len(say)]) // it may be cut already
		strangers = append(strangers, c)
		if i%256 == 255 {
			most = max(most, memory()-before)
		}
	}
	most = max(most, memory()-before)
	t.Logf("%d of %d held: %d KiB", b.newcomers.Taken(), len(strangers), most>>10)
	if most > 32<<20 {
		t.Errorf("%d strangers cost %d MiB, want less than 32", len(strangers), most>>20)
	}
	w.cutEdges()
	w.backends[0].mu.Lock()
	q := w.backends[0].mu.group.cfg.QuorumID + 1
	w.backends[0].mu.Unlock()
	w.configureSealed(q)
	w.reduceOK(w.everybody(), 100)
	for i, c := range strangers { // those that are held are cut in time
		if err := c.SetReadDeadline(time.Now().Add(DefaultDialTimeout + testTimeout)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 64<<10)); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("stranger %d is held still: %v", i, err)
		}
		if i == 8 {
			break
		}
	}
}

// TestTLSHalfKeys: what a member that holds all secrets says against the rules of TLS
// ends its edge, and nothing else.
func TestTLSHalfKeys(t *testing.T) {
	t.Parallel()
	cert := certified(t, guardtest.New(t), replica, "replica")
	for at := range 4 {
		var once sync.Once
		p := startProxy(t, func(pos int, chunk []byte) error {
			where := 200_000 + 70_001*at
			if pos <= where && where < pos+len(chunk) {
				once.Do(func() { chunk[where-pos] ^= 4 })
			}
			return nil
		})
		w := newWorldOf(t, []Options{{Transport: TransportTCP}, {Transport: TransportTCP, Advertise: p.ln.Addr().String()}})
		p.target = func() net.Addr { return w.backends[1].Addr() }
		p.wg.Go(p.accept)
		w.tls = cert
		w.configureSealed(1)
		errs := w.allReduce(w.everybody(), 1<<20)
		if errs[0] == nil || errs[1] == nil || !strings.Contains(errs[1].Error(), "bad record MAC") {
			t.Errorf("a bit of the ciphertext: %v, want a bad record at rank 1 and an error at rank 0", errs)
		}
		w.configureSealed(2)
		w.reduceOK(w.everybody(), 1000)
	}
}
