package lighthouse

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

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
		"/jobs/../replicas/a/drain", "/status.json", "/debug/pprof/cmdline", "//", "/jobs/default/replicas/\xff/drain",
		"/api/v1/jobs/default/replicas/a/drain", "/api/v1/jobs/default/replicas/a%2Fb/undo", "/api/v1/jobs//rules", "/api/v1/leader/transfer",
		"/api/v1/events?since=x", "/api/v1/stream", "/api/v1/", "/api/v1/jobs/default/replicas/%E2%80%AE/kill"} {
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
