package guard_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/guard"
)

// talk runs both sides over a pipe, and records what went over it.
func talk(t *testing.T, client, server guard.Dialogue) (wire []byte, clientErr, serverErr error) {
	t.Helper()
	a, b := net.Pipe()
	_ = a.SetDeadline(time.Now().Add(patience))
	_ = b.SetDeadline(time.Now().Add(patience))
	server.Server = true
	done := make(chan struct{})
	rec := &recorder{Conn: b}
	go func() {
		defer close(done)
		serverErr = server.Run(rec)
		b.Close()
	}()
	clientErr = client.Run(buffered(t, a))
	a.Close()
	<-done
	return rec.seen.Bytes(), clientErr, serverErr
}

// buffered makes writes to a pipe not wait for the reader, as a socket's do.
func buffered(t *testing.T, c net.Conn) io.ReadWriter {
	t.Helper()
	out := make(chan []byte, 8)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for b := range out {
			_, _ = c.Write(b)
		}
	}()
	t.Cleanup(func() { close(out); <-done })
	return struct {
		io.Reader
		io.Writer
	}{c, writerFunc(func(p []byte) (int, error) { out <- bytes.Clone(p); return len(p), nil })}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

type recorder struct {
	net.Conn
	seen bytes.Buffer
}

func (r *recorder) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	r.seen.Write(p[:n])
	return n, err
}

func (r *recorder) Write(p []byte) (int, error) {
	r.seen.Write(p)
	return r.Conn.Write(p)
}

func TestDialogue(t *testing.T) {
	t.Parallel()
	s := guard.RandomSecret()
	token, other := guard.FixedToken(s), guard.FixedToken(guard.RandomSecret())
	good := guard.Dialogue{Token: token, Purpose: "raft"}
	wire, clientErr, serverErr := talk(t, good, good)
	if clientErr != nil || serverErr != nil {
		t.Fatalf("with one token: client %v, server %v", clientErr, serverErr)
	}
	if bytes.Contains(wire, s.Reveal()) {
		t.Error("the token went over the wire")
	}
	for name, client := range map[string]guard.Dialogue{
		"another token":   {Token: other, Purpose: "raft"},
		"another purpose": {Token: token, Purpose: "gossip"},
		"no token":        {Token: guard.FixedToken(guard.Secret{}), Purpose: "raft"},
	} {
		if _, clientErr, serverErr := talk(t, client, good); clientErr == nil || serverErr == nil {
			t.Errorf("%s: client %v, server %v; want both refused", name, clientErr, serverErr)
		}
	}
}

// TestReplayedDialogue: what was recorded of one dialogue opens no other.
func TestReplayedDialogue(t *testing.T) {
	t.Parallel()
	token := guard.FixedToken(guard.RandomSecret())
	var said bytes.Buffer
	a, b := net.Pipe()
	done := make(chan error, 1)
	go func() { done <- guard.Dialogue{Token: token, Server: true}.Run(b) }()
	rw := buffered(t, a)
	err := guard.Dialogue{Token: token}.Run(struct {
		io.Reader
		io.Writer
	}{rw, io.MultiWriter(rw, &said)})
	if err != nil || <-done != nil {
		t.Fatal("the first dialogue was refused")
	}
	a, b = net.Pipe()
	go func() { done <- guard.Dialogue{Token: token, Server: true}.Run(b) }()
	go func() { _, _ = io.Copy(io.Discard, a) }()
	if _, err := a.Write(said.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, guard.ErrDenied) {
		t.Errorf("a replay: %v, want ErrDenied", err)
	}
	a.Close()
	b.Close()
}

// TestMirrorLearnsNothing: a client cannot have the server answer its own
// challenge, by sending back what the server says.
func TestMirrorLearnsNothing(t *testing.T) {
	t.Parallel()
	token := guard.FixedToken(guard.RandomSecret())
	a, b := net.Pipe()
	done := make(chan error, 1)
	go func() { done <- guard.Dialogue{Token: token, Server: true}.Run(b); b.Close() }()
	head := make([]byte, 24)
	if _, err := io.ReadFull(a, head); err != nil {
		t.Fatal(err)
	}
	_, _ = a.Write(head)
	_, _ = a.Write(make([]byte, 32))
	if rest, _ := io.ReadAll(a); len(rest) > 0 {
		t.Errorf("a client that proved nothing was told %d bytes", len(rest))
	}
	if err := <-done; !errors.Is(err, guard.ErrDenied) {
		t.Errorf("got %v, want ErrDenied", err)
	}
	a.Close()
}

// script is a peer that says what it was told to say, and then nothing.
type script struct {
	io.Reader
	heard bytes.Buffer
}

func (s *script) Write(p []byte) (int, error) { return s.heard.Write(p) }

// FuzzDialogue has a peer say anything to either side: without the token nothing
// that it says proves one, a server tells it no more than a nonce, and neither side
// reads on behind its end.
func FuzzDialogue(f *testing.F) {
	token := guard.FixedToken(guard.RandomSecret())
	magic := "SKERRYG\x02"
	f.Add([]byte(magic+"0123456789abcdef"+"0123456789abcdef0123456789abcdef"), true)
	f.Add([]byte(magic), false)
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), true)
	f.Add([]byte{}, false)
	f.Fuzz(func(t *testing.T, said []byte, server bool) {
		peer := &script{Reader: bytes.NewReader(said)}
		err := guard.Dialogue{Token: token, Purpose: "raft", Server: server}.Run(peer)
		if err == nil {
			t.Fatalf("%q proved a token that it does not hold", said)
		}
		const head, mac = 8 + 16, 32
		most := head
		if !server && len(said) >= head && string(said[:8]) == magic {
			most += mac // a client proves first
		}
		if peer.heard.Len() > most {
			t.Errorf("%q was told %d bytes, want at most %d", said, peer.heard.Len(), most)
		}
		if rest, _ := peer.Reader.(*bytes.Reader); rest.Len() > 0 && len(said)-rest.Len() > head+mac {
			t.Errorf("%d bytes were read", len(said)-rest.Len())
		}
	})
}
