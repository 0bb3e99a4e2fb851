package hostile

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/internal/portlease"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
)

const (
	// mostMoreMiB is by how much an attack may move its victim's memory.
	mostMoreMiB = 32

	// mostLogBytes is what an attack of less than a minute may make it log.
	mostLogBytes = 1_000_000

	bombBytes = 31 << 20
)

// soleVictim is a lighthouse alone, in a process of its own.
func soleVictim(t *testing.T, flags ...string) *server {
	t.Helper()
	if testing.Short() {
		t.Skip("a process and some seconds: not with -short")
	}
	s := &server{addr: portlease.ForTest(t, 1)[0]}
	s.Program = testkit.Start(t, s.addr, nil, append([]string{builds.Path(t, "cmd/lighthouse"), "--bind", s.addr, "--log-level", "warn"}, flags...)...)
	testkit.EventuallyNil(t, "the victim answers", func() error {
		s.alive(t)
		conn, err := net.Dial("tcp", s.addr)
		if err == nil {
			_ = conn.Close() // it listens
		}
		return err
	})
	return s
}

// mib is what /proc says of the process's memory: VmRSS is what it has, VmHWM what
// it had at most.
func (s *server) mib(t *testing.T, what string) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID()))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, what+":"); ok {
			kib, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return kib >> 10
		}
	}
	t.Fatalf("/proc names no %s", what)
	return 0
}

// unmoved runs an attack, and fails the test if it cost the victim memory, a log,
// or an answer to the job beside it, which ask asks for.
func (s *server) unmoved(t *testing.T, ask func() error, attack func()) {
	t.Helper()
	if err := ask(); err != nil {
		t.Fatalf("the job before the attack: %v", err)
	}
	// The most that it had is counted from here on.
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.PID()), []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
	before, logged := s.mib(t, "VmRSS"), s.Len()
	done := make(chan struct{})
	var beside sync.WaitGroup
	var asked, failed int
	beside.Go(func() {
		for {
			if err := ask(); err != nil {
				failed++
				t.Logf("the job beside the attack: %v", err)
			}
			asked++
			select {
			case <-done:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	attack()
	close(done)
	beside.Wait()
	s.alive(t)
	most, wrote := s.mib(t, "VmHWM"), s.Len()-logged
	t.Logf("memory %d MiB before, %d at most; %d bytes logged; %d answers beside, %d failed", before, most, wrote, asked, failed)
	if most-before >= mostMoreMiB {
		t.Errorf("memory went from %d to %d MiB, want less than %d more", before, most, mostMoreMiB)
	}
	if wrote >= mostLogBytes {
		t.Errorf("%d bytes logged, want less than %d", wrote, mostLogBytes)
	}
	if failed > 0 {
		t.Errorf("%d of %d answers to the job beside the attack were lost", failed, asked)
	}
}

// guardedVictim has certificates and a token, and a member asks beside the attack.
func guardedVictim(t *testing.T) (s *server, ask func() error, stranger func() *grpc.ClientConn, plain *tls.Config) {
	t.Helper()
	c := guardtest.New(t)
	o := c.Options(t, guard.Lighthouse, "server")
	s = soleVictim(t, "--tls-ca", o.TLSCA, "--tls-cert", o.TLSCert, "--tls-key", o.TLSKey, "--token-file", o.TokenFile)
	member := connect(t, s.addr, guardtest.Open(t, c.Options(t, guard.Replica, "member")).DialOptions(guard.Party{Role: guard.Lighthouse}, "")...)
	plain = &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}} //nolint:gosec // a stranger does not care
	return s, func() error { return quorumOfOne(member) }, func() *grpc.ClientConn {
		return connect(t, s.addr, grpc.WithTransportCredentials(credentials.NewTLS(plain.Clone())))
	}, plain
}

// tokenVictim has a token alone, and a job of torchft's asks beside the attack.
func tokenVictim(t *testing.T, flags ...string) (*server, func() error) {
	t.Helper()
	s := soleVictim(t, append(flags, "--open-joins", "--token-file", filepath.Join(guardtest.New(t).Dir, "token"))...)
	conn := connect(t, s.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	return s, func() error { return quorumOfOne(conn) }
}

func connect(t *testing.T, addr string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+addr, append(options,
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(64<<20)))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // it may be gone
	return conn
}

func quorumOfOne(conn *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, wire.JobMetadata, "beside")
	_, err := torchftpb.NewLighthouseServiceClient(conn).Quorum(ctx, &torchftpb.LighthouseQuorumRequest{
		Requester: &torchftpb.QuorumMember{ReplicaId: "beside:1", Step: 1, WorldSize: 1}}, grpc.WaitForReady(true))
	return err
}

// call makes a unary call with these bytes.
func call(conn *grpc.ClientConn, method string, body []byte, headers ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var answer []byte
	return conn.Invoke(metadata.AppendToOutgoingContext(ctx, headers...), method, &body, &answer, grpc.ForceCodecV2(raw{}))
}

// fresh is a proof that looks like one.
func fresh() string {
	return guard.FixedToken(guard.RandomSecret()).Prove("nothing", nil)
}

// TestUnaryBombs: 31 MiB of empty elements, without a certificate; and with the
// token alone, without a proof, with a false one, and to a method that needs none.
func TestUnaryBombs(t *testing.T) {
	t.Parallel()
	bomb := bytes.Repeat([]byte{0x52, 0}, bombBytes/2) // founders
	body := append(binary.AppendUvarint([]byte{0x0a}, uint64(len(bomb))), bomb...)
	introduce := skerrypb.Cluster_Introduce_FullMethodName
	t.Run("guarded", func(t *testing.T) {
		s, ask, stranger, _ := guardedVictim(t)
		s.unmoved(t, ask, func() {
			var all sync.WaitGroup
			for range 5 {
				conn := stranger()
				all.Go(func() {
					if err := call(conn, introduce, body); status.Code(err) != codes.Unauthenticated {
						t.Errorf("without a certificate: %v, want Unauthenticated", err)
					}
				})
			}
			all.Wait()
		})
	})
	t.Run("token", func(t *testing.T) {
		s, ask := tokenVictim(t)
		conn := connect(t, s.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		s.unmoved(t, ask, func() {
			if err := call(conn, introduce, body); status.Code(err) != codes.Unauthenticated {
				t.Errorf("without a proof: %v, want Unauthenticated", err)
			}
			for range 4 {
				if err := call(conn, introduce, body, guard.ProofMetadata, fresh()); status.Code(err) != codes.ResourceExhausted {
					t.Errorf("with a false proof: %v, want ResourceExhausted", err)
				}
				if err := call(conn, skerrypb.Lighthouse_History_FullMethodName, body); status.Code(err) != codes.ResourceExhausted {
					t.Errorf("to a method for all: %v, want ResourceExhausted", err)
				}
			}
		})
	})
}

// TestSessionBombs: hellos of millions of empty elements, eight at a time, as large
// as messages may be and larger.
func TestSessionBombs(t *testing.T) {
	t.Parallel()
	s, ask := tokenVictim(t)
	s.unmoved(t, ask, func() {
		var all sync.WaitGroup
		for i := range 8 {
			size := wire.MaxRequestBytes - 64
			if i%2 == 0 {
				size = bombBytes
			}
			bomb := bytes.Repeat([]byte{0x42, 0}, size/2) // accusations
			if i%4 > 1 {
				bomb = bytes.Repeat([]byte{0x1a, 0}, size/2)
				bomb = append(binary.AppendUvarint([]byte{0x3a}, uint64(len(bomb))), bomb...) // of last: members
			}
			body := append(binary.AppendUvarint([]byte{0x0a}, uint64(len(bomb))), bomb...)
			conn := connect(t, s.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
			all.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
					skerrypb.Lighthouse_Session_FullMethodName, grpc.ForceCodecV2(raw{}))
				if err != nil {
					t.Error(err)
					return
				}
				_ = stream.SendMsg(&body) // it may be refused before it is sent
				var answer []byte
				if err := stream.RecvMsg(&answer); err == nil || errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("a hello of %d bytes: %v, %x", len(body), err, answer)
				}
			})
		}
		all.Wait()
	})
}

// TestDeniedCallsFlood: calls without a certificate, as fast as they go.
func TestDeniedCallsFlood(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	s, ask, stranger, _ := guardedVictim(t)
	s.unmoved(t, ask, func() {
		var all sync.WaitGroup
		for range 4 {
			conn := stranger()
			all.Go(func() {
				for range 1_000 {
					if err := call(conn, skerrypb.Lighthouse_Evict_FullMethodName, nil); err == nil {
						t.Error("a call without a certificate is answered")
					}
				}
			})
		}
		all.Wait()
	})
}

// TestInventedJobs: 1,100 sessions of invented jobs without the token keep no new
// job from its first quorum.
func TestInventedJobs(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	s, ask := tokenVictim(t)
	s.unmoved(t, ask, func() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for from := 0; from < 1_100; from += 100 {
			invent(ctx, t, connect(t, s.addr, grpc.WithTransportCredentials(insecure.NewCredentials())), from)
		}
		if err := askOnce(ctx, s.addr, "real"); err != nil {
			t.Errorf("a new job beside the invented ones: %v", err)
		}
	})
}

// invent opens 100 sessions, each of a job of its own, and keeps them.
func invent(ctx context.Context, t *testing.T, conn *grpc.ClientConn, from int) {
	t.Helper()
	for i := from; i < from+100; i++ {
		stream, err := skerrypb.NewLighthouseClient(conn).Session(ctx)
		if err == nil {
			err = stream.Send(&skerrypb.Up{Message: &skerrypb.Up_Hello{Hello: &skerrypb.SessionHello{
				Job: fmt.Sprintf("invented-%d", i), ReplicaId: fmt.Sprintf("x:%d", i), GroupWorldSize: 1, Position: &skerrypb.Position{}}}})
		}
		if err == nil {
			_, err = stream.Recv()
		}
		if err != nil {
			t.Fatalf("session %d: %v", i, err)
		}
	}
}

// frame is one of HTTP/2.
func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	b = binary.BigEndian.AppendUint32(append(b, flags), stream)
	return append(b, payload...)
}

// headers opens a call of a method.
func headers(stream uint32, method string, more ...string) []byte {
	var block []byte
	fields := append([]string{":method", "POST", ":scheme", "http", ":path", method, ":authority", "x",
		"content-type", "application/grpc", "te", "trailers"}, more...)
	for i := 0; i < len(fields); i += 2 {
		block = append(append(block, 0, byte(len(fields[i]))), fields[i]...)
		block = append(appendLength(block, len(fields[i+1])), fields[i+1]...)
	}
	return frame(1, 4, stream, block)
}

// appendLength is HPACK's length of a string.
func appendLength(b []byte, n int) []byte {
	if n < 127 {
		return append(b, byte(n))
	}
	b = append(b, 127)
	return binary.AppendUvarint(b, uint64(n-127))
}

// floodWith sends frames until the victim cuts the connection, or most times.
func floodWith(t *testing.T, s *server, secure *tls.Config, most int, next func(i int) []byte) (cut bool) {
	t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if secure != nil {
		conn = tls.Client(conn, secure)
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	gone := make(chan struct{})
	go func() { // reads what it is sent, and ends with the connection
		defer close(gone)
		buf := make([]byte, 64<<10)
		for {
			if _, err := conn.Read(buf); err != nil {
				return
			}
		}
	}()
	defer func() { _ = conn.Close(); <-gone }()
	if _, err := conn.Write(append([]byte(preface), frame(4, 0, 0, nil)...)); err != nil {
		return true
	}
	for i := range most {
		if _, err := conn.Write(next(i)); err != nil {
			return true
		}
	}
	select {
	case <-gone:
		return true
	case <-time.After(15 * time.Second):
		return false
	}
}

// TestFrameFloods: who resets its calls at once, sends settings, priorities, or
// frames that nobody knows without end, who opens calls and says nothing on them, and
// who says nothing at all is cut; with certificates and with the token alone.
func TestFrameFloods(t *testing.T) {
	t.Parallel()
	guarded, askGuarded, _, secure := guardedVictim(t)
	open, askOpen := tokenVictim(t)
	session := skerrypb.Lighthouse_Session_FullMethodName
	id := func(i int) uint32 { return uint32(2*i + 1) }
	for name, next := range map[string]func(i int) []byte{
		"rapid reset": func(i int) []byte {
			return append(headers(id(i), session), frame(3, 0, id(i), []byte{0, 0, 0, 8})...)
		},
		"mute streams":  func(i int) []byte { return headers(id(i), session) },
		"pings":         func(int) []byte { return frame(6, 0, 0, make([]byte, 8)) },
		"settings":      func(int) []byte { return frame(4, 0, 0, nil) },
		"continuations": func(i int) []byte { return continued(i, session) },
		"references": func(i int) []byte {
			if i == 0 {
				return headers(1, session) // a call that may be made, at first
			}
			return references(id(i), session)
		},
		"window updates":  func(int) []byte { return frame(8, 0, 0, []byte{0, 0, 0, 1}) },
		"priorities":      func(int) []byte { return frame(2, 0, 1, make([]byte, 5)) },
		"unknown frames":  func(int) []byte { return frame(0x77, 0, 0, make([]byte, 64)) },
		"unknown methods": func(i int) []byte { return headers(id(i), "/no.Such/Method") },
	} {
		t.Run(name, func(t *testing.T) {
			if !slices.Contains([]string{"rapid reset", "continuations", "references"}, name) {
				testkit.Long(t)
			}
			for kind, v := range map[string]struct {
				s      *server
				ask    func() error
				secure *tls.Config
			}{"guarded": {guarded, askGuarded, secure}, "token": {open, askOpen, nil}} {
				v.s.unmoved(t, v.ask, func() {
					if !floodWith(t, v.s, v.secure, 50_000, next) {
						t.Errorf("%s: it was not cut", kind)
					}
				})
			}
		})
	}
	t.Run("silence", func(t *testing.T) {
		guarded.unmoved(t, askGuarded, func() {
			if !floodWith(t, guarded, secure, 0, nil) {
				t.Error("it was not cut")
			}
		})
	})
}

// continued is the i-th frame of headers that never end.
func continued(i int, method string) []byte {
	if i == 0 {
		begun := headers(1, method)
		begun[4] = 0 // more of them follow
		return begun
	}
	return frame(9, 0, 1, []byte{0, 1, 'x', 1, 'y'})
}

// references opens a call whose headers name one of 3,900 bytes 2,000 times.
func references(stream uint32, method string) []byte {
	call := headers(stream, method)
	block := append(call[9:], 0x40, 1, 'x') // literal, kept in the table as its newest entry, 62
	block = append(appendLength(block, 3_900), bytes.Repeat([]byte("y"), 3_900)...)
	return frame(1, 4, stream, append(block, bytes.Repeat([]byte{0x80 | 62}, 2_000)...))
}

// TestRefusedMessages: what announces 4 GiB, what is compressed, and what may take
// until the year 13000 is refused, or ends, as all else.
func TestRefusedMessages(t *testing.T) {
	t.Parallel()
	s, ask := tokenVictim(t)
	history := skerrypb.Lighthouse_History_FullMethodName // for all
	small := append([]byte{1}, binary.BigEndian.AppendUint32(nil, 20)...)
	for name, c := range map[string]struct {
		more []string
		body []byte
	}{
		"4 GiB":      {nil, []byte{0, 0xff, 0xff, 0xff, 0xff}},
		"compressed": {[]string{"grpc-encoding", "gzip"}, append(small, 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff, 1, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0)},
		"endless":    {[]string{"grpc-timeout", "99999999H"}, []byte{0, 0, 0, 1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			s.unmoved(t, ask, func() {
				conn, err := net.Dial("tcp", s.addr)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(patience))
				const streams = 100
				ended := make(chan int, 1)
				go func() { ended <- endedStreams(conn, streams) }()
				if _, err := conn.Write(append([]byte(preface), frame(4, 0, 0, nil)...)); err != nil {
					t.Fatal(err)
				}
				for i := range streams {
					id := uint32(2*i + 1)
					if _, err := conn.Write(append(headers(id, history, c.more...), frame(0, 0, id, c.body)...)); err != nil {
						t.Fatalf("stream %d: %v", i, err)
					}
				}
				if n := <-ended; n != streams {
					t.Errorf("%d of %d calls were ended", n, streams)
				}
			})
		})
	}
}

// TestStalledRequests: requests of which the end never comes cost no more than their
// bounds, and end by themselves: of 31 MiB and of what is allowed, with false proofs.
func TestStalledRequests(t *testing.T) {
	t.Parallel()
	s, ask := tokenVictim(t)
	s.unmoved(t, ask, func() {
		for _, announced := range []uint32{bombBytes, wire.MaxUnaryBytes} {
			conn, err := net.Dial("tcp", s.addr)
			if err != nil {
				t.Fatal(err)
			}
			_ = conn.SetDeadline(time.Now().Add(patience))
			if _, err := conn.Write(append([]byte(preface), frame(4, 0, 0, nil)...)); err != nil {
				t.Fatal(err)
			}
			const streams = 30
			ended := make(chan int, 1)
			go func() { ended <- endedStreams(conn, streams) }()
			for i := range streams {
				id := uint32(2*i + 1)
				b := headers(id, skerrypb.Lighthouse_Evict_FullMethodName, guard.ProofMetadata, fresh())
				b = append(b, frame(0, 0, id, binary.BigEndian.AppendUint32([]byte{0}, announced))...)
				for range 3 {
					b = append(b, frame(0, 0, id, make([]byte, 16<<10))...)
				}
				if _, err := conn.Write(b); err != nil {
					t.Fatalf("stream %d: %v", i, err)
				}
			}
			if n := <-ended; n != streams {
				t.Errorf("%d of %d requests that announce %d bytes were ended", n, streams, announced)
			}
			_ = conn.Close() // it has had its answers
		}
	})
}

// endedStreams reads frames until so many streams have been ended, or reset.
func endedStreams(conn net.Conn, most int) int {
	ended := make(map[uint32]bool)
	header := make([]byte, 9)
	for len(ended) < most {
		if _, err := readFull(conn, header); err != nil {
			break
		}
		length := int(binary.BigEndian.Uint32(header) >> 8)
		if _, err := readFull(conn, make([]byte, length)); err != nil {
			break
		}
		if kind, flags := header[3], header[4]; kind == 3 || kind == 1 && flags&1 != 0 {
			ended[binary.BigEndian.Uint32(header[5:])] = true
		}
	}
	return len(ended)
}

func readFull(conn net.Conn, b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var k int
		k, err = conn.Read(b[n:])
		n += k
	}
	return n, err
}
