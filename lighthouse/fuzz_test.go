package lighthouse

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
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
		s := newSplitter(listener, time.Minute, inTheClear, zerolog.Nop())
		var running sync.WaitGroup
		running.Go(s.run)
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
		_ = s.close() // the listener of this test has no error to tell
		running.Wait()
	})
}

// FuzzActions posts to anything that looks like a button. No path makes a
// handler panic, none is a fault of the server, and none acts but the buttons.
func FuzzActions(f *testing.F) {
	cfg := DefaultConfig()
	cfg.Listen = "127.0.0.1:0"
	s, err := New(cfg)
	if err != nil {
		f.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); err != nil {
			f.Error(err)
		}
	})
	f.Cleanup(func() {
		stop()
		running.Wait()
	})
	lead, err := s.leadership(ctx)
	if err != nil {
		f.Fatal(err)
	}
	if _, err := lead.job(f.Context(), "default", 0); err != nil {
		f.Fatal(err)
	}
	pages := s.newWeb().HTTP().Handler
	for _, path := range []string{"/", "/jobs/default/replicas/a/drain", "/jobs/default/replicas/a%2Fb/evict", "/jobs//replicas//kill",
		"/jobs/default/replicas/%00/drain", "/jobs/a%20b/replicas/x/kill", "/jobs/default/replicas/" + strings.Repeat("x", 300) + "/evict",
		"/jobs/../replicas/a/drain", "/status.json", "/debug/pprof/cmdline", "//", "/jobs/default/replicas/\xff/drain"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		req, err := http.ReadRequest(bufio.NewReader(strings.NewReader("POST " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n")))
		if err != nil {
			t.Skip("no HTTP request:", err)
		}
		answer := httptest.NewRecorder()
		pages.ServeHTTP(answer, req.WithContext(t.Context()))
		switch code := answer.Code; {
		case code < 300, code >= 500:
			t.Errorf("POST %q: %d %s", path, code, answer.Body)
		case answer.Body.Len() > 4<<10:
			t.Errorf("POST %q: an error of %d bytes", path, answer.Body.Len())
		}
	})
}
