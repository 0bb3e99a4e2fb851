package hostile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/portlease"
	"github.com/skerry-ft/skerry/internal/testkit"
)

// patience bounds every wait, on a loaded machine.
const patience = 90 * time.Second

// server is a lighthouse in a process of its own.
type server struct {
	addr, raft, gossip string
	cmd                *exec.Cmd
	ended              chan error
	log                *noise
}

// noise keeps the end of a server's log, and whether it panicked.
type noise struct {
	mu   sync.Mutex
	kept []byte
	all  int // bytes, kept or not
}

// Write keeps the end of what was written.
func (n *noise) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all += len(p)
	n.kept = append(n.kept, p...)
	n.kept = n.kept[max(len(n.kept)-(64<<10), 0):]
	return len(p), nil
}

func (n *noise) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if at := bytes.Index(n.kept, []byte("panic:")); at >= 0 {
		return string(n.kept[at:])
	}
	return string(n.kept[max(len(n.kept)-(4<<10), 0):])
}

// cluster runs n servers that found a cluster together.
func cluster(t *testing.T, n int) []*server {
	t.Helper()
	path := build(t, "cmd/lighthouse")
	var all []*server
	for i := range n {
		s := &server{log: &noise{}, ended: make(chan error, 1)}
		ports := portlease.ForTest(t, 3)
		s.addr, s.raft, s.gossip = ports[0], ports[1], ports[2]
		args := []string{"--bind", s.addr, "--raft-address", s.raft, "--gossip-address", s.gossip, "--data-dir", t.TempDir(),
			"--bootstrap-expect", strconv.Itoa(n), "--log-level", "warn"}
		if i > 0 {
			args = append(args, "--join", all[0].addr)
		}
		s.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), path, args...)
		s.cmd.Stderr = s.log
		s.start(t)
		all = append(all, s)
	}
	for _, s := range all {
		s.healthy(t)
	}
	return all
}

// start runs the process until the test ends.
func (s *server) start(t *testing.T) {
	t.Helper()
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { s.ended <- s.cmd.Wait() }()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // gone is as good
		<-s.ended
		if t.Failed() {
			t.Logf("log of %s:\n%s", s.addr, s.log)
		}
	})
}

// alive fails the test if the process has ended.
func (s *server) alive(t *testing.T) {
	t.Helper()
	select {
	case err := <-s.ended:
		s.ended <- err
		t.Fatalf("server %s ended: %v", s.addr, err)
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
