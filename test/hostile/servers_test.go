package hostile

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/portlease"
	"github.com/skerry-ft/skerry/internal/testkit"
)

// patience bounds every wait.
const patience = testkit.Patience

// server is a program under attack, in a process of its own.
type server struct {
	*testkit.Program

	addr, raft, gossip string
}

// cluster runs n servers that found a cluster together.
func cluster(t *testing.T, n int) []*server {
	t.Helper()
	path := builds.Path(t, "cmd/lighthouse")
	var all []*server
	for i := range n {
		s := &server{}
		ports := portlease.ForTest(t, 3)
		s.addr, s.raft, s.gossip = ports[0], ports[1], ports[2]
		args := []string{path, "--bind", s.addr, "--raft-address", s.raft, "--gossip-address", s.gossip, "--data-dir", t.TempDir(),
			"--bootstrap-expect", strconv.Itoa(n), "--log-level", "warn"}
		if i > 0 {
			args = append(args, "--join", all[0].addr)
		}
		s.Program = testkit.Start(t, s.addr, nil, args...)
		all = append(all, s)
	}
	for _, s := range all {
		s.healthy(t)
	}
	return all
}

// alive fails the test if the process has ended.
func (s *server) alive(t *testing.T) {
	t.Helper()
	select {
	case <-s.Ended():
		t.Fatalf("%s ended: %v", s.Name, s.Err())
	default:
	}
}

func (s *server) healthy(t *testing.T) {
	t.Helper()
	testkit.EventuallyNil(t, "server "+s.addr+" is healthy", func() error {
		s.alive(t)
		code, _, err := s.get("/healthz")
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("status %d", code)
		}
		return err
	})
}

func (s *server) get(path string) (int, string, error) {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get("http://" + s.addr + path)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(body), err
}

// usage is what a server holds.
type usage struct{ goroutines, heapMiB, files float64 }

// usage reads what a server holds, after a collection: the heap's profile forces
// one.
func (s *server) usage() (usage, error) {
	if _, _, err := s.get("/debug/pprof/heap?gc=1"); err != nil {
		return usage{}, err
	}
	_, body, err := s.get("/metrics")
	if err != nil {
		return usage{}, err
	}
	u := usage{goroutines: -1, heapMiB: -1, files: -1}
	for line := range strings.Lines(body) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue
		}
		switch name {
		case "go_goroutines":
			u.goroutines = v
		case "go_memstats_heap_inuse_bytes":
			u.heapMiB = v / (1 << 20)
		case "process_open_fds":
			u.files = v
		}
	}
	if u.goroutines < 0 || u.heapMiB < 0 || u.files < 0 {
		return u, errors.New("the metrics have no goroutines, heap or files")
	}
	return u, nil
}
