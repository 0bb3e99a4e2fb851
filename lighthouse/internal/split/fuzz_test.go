package split

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

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
		s := New(listener, time.Minute, inTheClear, zerolog.Nop())
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
		running.Go(func() { check(s.GRPC, whole) })
		running.Go(func() { check(s.HTTP, !whole && !unsure) })
		if unsure {
			<-wrote // and nobody knows what it is
		} else {
			<-arrived
		}
		_ = s.Close() // the listener of this test has no error to tell
		running.Wait()
	})
}
