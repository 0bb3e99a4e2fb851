package lighthouse_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
	"github.com/skerry-ft/skerry/quorum"
)

// The sizes of an attack: connections at a time that cost the server nothing but
// their place, and such that cost it a TLS handshake each, again and again.
const (
	silentCrowd = 128
	busyCrowd   = 2
	busyPause   = 20 * time.Millisecond
)

// TestHostileClientsHurtNobody: while others attack the port, a replica keeps
// its session and new ones get in, and when the attack is over nothing is left.
func TestHostileClientsHurtNobody(t *testing.T) {
	t.Parallel()
	c := guardtest.New(t)
	options := c.Options(t, guard.Lighthouse, "server")
	l := lighthousetest.Start(t, func(cfg *lighthouse.Config) {
		cfg.Guard = options
		cfg.Rules.JoinTimeout = time.Second
		cfg.Rules.HeartbeatTimeout = patience // a busy machine is no dead replica
	})
	g := guardtest.Open(t, c.Options(t, guard.Replica, "member"))
	conn := guarded(t, g, l.Addr)
	good, _ := open(t, conn, hello("good"))
	q := good.answer(good.join(quorum.JoinFall, nil))

	ctx, stop := context.WithCancel(t.Context())
	var attack sync.WaitGroup
	defer attack.Wait()
	defer stop()
	for name, one := range map[string]func(net.Conn){
		"says nothing":            func(net.Conn) {},
		"half a TLS handshake":    func(c net.Conn) { _, _ = c.Write([]byte("\x16\x03\x01\x40\x00\x01\x00")) },
		"a TLS record of garbage": func(c net.Conn) { _, _ = c.Write(append([]byte("\x16\x03\x01\x40\x00"), make([]byte, 1<<14)...)) },
		"plain HTTP, slowly":      func(c net.Conn) { _, _ = c.Write([]byte("GET / HTTP/1.1\r\nX: ")) },
	} {
		attack.Go(func() { assault(ctx, t, name, l.Addr, silentCrowd, one) })
	}
	cfg := func() *tls.Config {
		c := g.TLS.Client(l.Addr, guard.Party{Role: guard.Lighthouse})
		c.NextProtos = []string{"http/1.1"}
		return c
	}
	http2 := func() *tls.Config {
		c := g.TLS.Client(l.Addr, guard.Party{Role: guard.Lighthouse})
		c.NextProtos = []string{"h2"}
		return c
	}
	attack.Go(func() { assault(ctx, t, "slow readers", l.Addr, busyCrowd, slowReader(cfg)) })
	attack.Go(func() { assault(ctx, t, "huge HTTP/2 frames", l.Addr, busyCrowd, hugeFrame(http2)) })

	// The good replica asks again and again, on its connection and on fresh ones.
	for range 5 {
		call, cancel := context.WithTimeout(ctx, patience)
		if _, err := skerrypb.NewLighthouseClient(conn).Info(call, &skerrypb.InfoRequest{}); err != nil {
			t.Errorf("a call on the connection that stands: %v", err)
		}
		if _, err := skerrypb.NewLighthouseClient(guarded(t, g, l.Addr)).Info(call, &skerrypb.InfoRequest{}); err != nil {
			t.Errorf("a call on a fresh connection: %v", err)
		}
		cancel()
	}
	st := wholeStatus(t, l)
	if len(st.Jobs) != 1 || st.Jobs[0].QuorumID != q.ID || !st.Jobs[0].Stands || !st.Jobs[0].Replicas[0].Session {
		t.Errorf("the attack cost the session or the quorum: %+v", st.Jobs)
	}
}

func wholeStatus(t *testing.T, l *lighthousetest.Server) lighthouse.Status {
	t.Helper()
	st, err := l.Lighthouse.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// assault makes connections, n at a time, until ctx ends, and leaves each to
// the server to end.
func assault(ctx context.Context, t *testing.T, name, addr string, n int, one func(net.Conn)) {
	var all sync.WaitGroup
	defer all.Wait()
	for range n {
		all.Go(func() {
			for ctx.Err() == nil {
				conn, err := net.Dial("tcp", addr)
				if err != nil {
					return // the server has stopped, or we are out of ports
				}
				end := context.AfterFunc(ctx, func() { _ = conn.Close() })
				_ = conn.SetDeadline(time.Now().Add(patience))
				one(conn)
				_, err = io.Copy(io.Discard, conn)
				if e, ok := err.(net.Error); ok && e.Timeout() && ctx.Err() == nil {
					t.Errorf("%s: the server let it be for %v", name, patience)
				}
				end()
				_ = conn.Close()
				select {
				case <-time.After(busyPause):
				case <-ctx.Done():
				}
			}
		})
	}
}

// slowReader asks for the page again and again and reads no byte of it.
func slowReader(cfg func() *tls.Config) func(net.Conn) {
	return func(c net.Conn) {
		secured := tls.Client(c, cfg())
		if secured.Handshake() != nil {
			return
		}
		ask := []byte(strings.Repeat("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 64))
		for range 64 {
			_ = c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
			if _, err := secured.Write(ask); err != nil {
				break
			}
		}
		_ = c.Close() // long before that, the server stopped to read
	}
}

// hugeFrame announces an HTTP/2 frame of 16 MiB, and header blocks without end.
func hugeFrame(cfg func() *tls.Config) func(net.Conn) {
	return func(c net.Conn) {
		secured := tls.Client(c, cfg())
		if secured.Handshake() != nil {
			return
		}
		frame := func(length uint32, kind, flags byte, stream uint32) []byte {
			b := binary.BigEndian.AppendUint32(nil, length<<8|uint32(kind))
			return binary.BigEndian.AppendUint32(append(b, flags), stream)
		}
		b := append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(0, 4, 0, 0)...) // settings
		b = append(b, frame(1<<10, 1, 0, 1)...)                                       // headers that do not end
		b = append(b, make([]byte, 1<<10)...)
		for range 64 {
			b = append(append(b, frame(1<<10, 9, 0, 1)...), make([]byte, 1<<10)...) // continued
		}
		b = append(b, frame(1<<24-1, 0, 0, 1)...) // data
		_, _ = secured.Write(b)
		_, _ = secured.Write(bytes.Repeat([]byte{0}, 1<<20))
	}
}

// TestHugeMessage: a message over the limit ends its call, and no more.
func TestHugeMessage(t *testing.T) {
	t.Parallel()
	l := lighthousetest.Start(t, nil)
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(2 * wire.MaxMessageBytes)),
	}
	conn, err := grpc.NewClient("passthrough:///"+l.Addr, options...)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	req := &skerrypb.HistoryRequest{Job: strings.Repeat("x", wire.MaxMessageBytes+1)}
	if _, err := skerrypb.NewLighthouseClient(conn).History(t.Context(), req); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v, want ResourceExhausted", err)
	}
	if _, err := skerrypb.NewLighthouseClient(conn).Info(t.Context(), &skerrypb.InfoRequest{}); err != nil {
		t.Errorf("the next call on the connection: %v", err)
	}
}
