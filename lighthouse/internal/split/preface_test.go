package split

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/guard"
)

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
	s := New(listener, time.Minute, inTheClear, zerolog.Nop())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run()
	}()
	connect := func() net.Conn {
		client, server := net.Pipe()
		t.Cleanup(func() { _ = client.Close() })
		listener.conns <- server
		return client
	}
	silent := connect()
	for _, tc := range []struct {
		name, text string
		half       *half
	}{
		{"HTTP/1", "GET / HTTP/1.1\r\n\r\n", s.HTTP},
		{"HTTP/2", http2Preface + "\r\n\r\nSM\r\n\r\nframes", s.GRPC},
		{"a method that begins alike", "PROPFIND / HTTP/1.1\r\n\r\n", s.HTTP},
		{"preface that goes wrong at its end", "PRI * HTTP/2.1\r\n", s.HTTP},
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
		got, err := io.ReadAll(conn)
		if err != nil || string(got) != tc.text {
			t.Errorf("%s: read %q, %v; want %q", tc.name, got, err, tc.text)
		}
		_ = conn.Close()
		writing.Wait()
	}
	if err := errors.Join(s.GRPC.Close(), s.HTTP.Close()); err != nil {
		t.Error(err)
	}
	<-done
	if _, err := silent.Read(make([]byte, 1)); err == nil {
		t.Error("the silent connection was left open")
	}
	if _, err := s.HTTP.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept after the end: %v, want net.ErrClosed", err)
	}
}

// inTheClear is what a splitter without certificates makes of a connection.
func inTheClear(conn net.Conn) (guard.Secured, error) {
	return new(guard.Guard).Secure(context.Background(), conn, time.Minute)
}
