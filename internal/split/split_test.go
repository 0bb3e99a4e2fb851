package split

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/internal/guard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pipeListener accepts connections that a test makes.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// A connection goes to the half of its protocol, with all its bytes, however
// they arrive; one that says nothing holds up nobody, not even the end.
func TestSplitter(t *testing.T) {
	t.Parallel()
	listener := newPipeListener()
	s := New(Config{Listener: listener, Timeout: time.Minute, Secure: inTheClear, Log: zerolog.Nop()})
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run()
	}()
	var server net.Conn
	connect := func() (client net.Conn) {
		client, server = net.Pipe()
		t.Cleanup(func() { _ = client.Close() })
		listener.conns <- server
		return client
	}
	silent := connect()
	for _, tc := range []struct {
		name, text string
		half       *half
	}{
		{"HTTP/1", "GET / HTTP/1.1\r\n\r\n", s.http},
		{"HTTP/2", http2Preface + "\r\n\r\nSM\r\n\r\nframes", s.grpc},
		{"a method that begins alike", "PROPFIND / HTTP/1.1\r\n\r\n", s.http},
		{"preface that goes wrong at its end", "PRI * HTTP/2.1\r\n", s.http},
	} {
		client := connect()
		var writing sync.WaitGroup
		writing.Go(func() {
			for _, b := range []byte(tc.text) { // byte by byte
				if _, err := client.Write([]byte{b}); err != nil {
					return
				}
			}
			_ = client.Close()
		})
		conn, err := tc.half.Accept()
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if below := conn.(interface{ NetConn() net.Conn }).NetConn(); below != server {
			t.Errorf("%s: below is %v, want what was accepted", tc.name, below)
		}
		got, err := io.ReadAll(conn)
		if err != nil || string(got) != tc.text {
			t.Errorf("%s: read %q, %v; want %q", tc.name, got, err, tc.text)
		}
		_ = conn.Close()
		writing.Wait()
	}
	if err := errors.Join(s.GRPC().Close(), s.HTTP().Close()); err != nil {
		t.Error(err)
	}
	<-done
	if _, err := silent.Read(make([]byte, 1)); err == nil {
		t.Error("the silent connection was left open")
	}
	if _, err := s.http.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept after the end: %v, want net.ErrClosed", err)
	}
}

// inTheClear is what a splitter without certificates makes of a connection.
func inTheClear(conn net.Conn) (guard.Secured, error) {
	return new(guard.Guard).Secure(context.Background(), conn, time.Minute)
}

// named is a connection that can be told from another.
type named struct {
	net.Conn
	n int
}

// A crowd of connections that say nothing keeps nobody out: who comes is taken,
// and who was silent for longest goes.
func TestSilentCrowdKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	s := &Splitter{sniffing: make(map[net.Conn]uint64)}
	all := make([]*named, maxSniffed+2)
	for i := range all {
		all[i] = &named{n: i}
	}
	for i, c := range all {
		if i == maxSniffed {
			s.forget(all[0]) // it spoke
		}
		switch oldest := s.begin(c); {
		case i <= maxSniffed && oldest != nil:
			t.Errorf("connection %d drives one out", i)
		case i > maxSniffed && oldest != all[1]:
			t.Errorf("connection %d drives out %v, want 1", i, oldest)
		}
	}
	if len(s.sniffing) != maxSniffed {
		t.Errorf("%d connections, want %d", len(s.sniffing), maxSniffed)
	}
}

// A connection that comes while the splitter is closed is closed, too.
func TestClosedSplitterTakesNothing(t *testing.T) {
	t.Parallel()
	s := New(Config{Listener: newPipeListener(), Timeout: time.Minute, Secure: inTheClear, Log: zerolog.Nop()})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	client, server := net.Pipe()
	s.begin(server)
	s.hand(server)
	if _, err := client.Read(make([]byte, 1)); err == nil {
		t.Error("taken by a splitter that is closed")
	}
	if len(s.sniffing) != 0 {
		t.Error("the connection is remembered")
	}
}

// FuzzSplitter sends anything as a connection's first bytes. It goes to HTTP/2
// exactly if it begins with the preface, to HTTP/1 if it does not, with all its
// bytes, and nowhere while neither is sure.
func FuzzSplitter(f *testing.F) {
	for _, seed := range []string{"", "P", "PRI", "PRI * HTTP/2.0", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "PRI * HTTP/2.1",
		"GET / HTTP/1.1\r\n\r\n", "POST /", "PUT /", "\x16\x03\x01", "\x00"} {
		f.Add([]byte(seed), 1)
		f.Add([]byte(seed), 1<<20)
	}
	f.Fuzz(func(t *testing.T, text []byte, piece int) {
		listener := newPipeListener()
		s := New(Config{Listener: listener, Timeout: time.Minute, Secure: inTheClear, Log: zerolog.Nop()})
		var running sync.WaitGroup
		running.Go(s.Run)
		client, server := net.Pipe()
		defer client.Close() //nolint:errcheck // it has been read to its end
		wrote := make(chan struct{})
		running.Go(func() {
			defer close(wrote)
			piece = max(1, piece)
			for rest := text; len(rest) > 0; {
				n, err := client.Write(rest[:min(piece, len(rest))])
				if err != nil {
					return
				}
				rest = rest[n:]
			}
		})
		listener.conns <- server
		arrived := make(chan struct{}, 1)
		check := func(half *half, want bool) {
			conn, err := half.Accept()
			if err != nil {
				return // closed below: the connection went elsewhere, or nowhere
			}
			if !want {
				t.Errorf("%q went to the wrong half", text)
			}
			got := make([]byte, len(text))
			_, err = io.ReadFull(conn, got)
			if err != nil || !bytes.Equal(got, text) {
				t.Errorf("read %q, %v; want %q", got, err, text)
			}
			_ = conn.Close() // read to its end
			arrived <- struct{}{}
		}
		whole := bytes.HasPrefix(text, []byte(http2Preface))
		unsure := !whole && bytes.HasPrefix([]byte(http2Preface), text)
		running.Go(func() { check(s.grpc, whole) })
		running.Go(func() { check(s.http, !whole && !unsure) })
		if unsure {
			<-wrote // and nobody knows what it is
		} else {
			<-arrived
		}
		_ = s.Close() // the listener of this test has no error to tell
		running.Wait()
	})
}
