package chaos

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/chaos/plan"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/chaos/report"
	"github.com/skerry-ft/skerry/internal/procs"
	"github.com/skerry-ft/skerry/lighthouse/cluster"
)

// TestMajorityStays: a server that was killed counts as dead though the cluster has not seen it
// yet, until another process listens in its place.
func TestMajorityStays(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close() //nolint:errcheck // nothing was written
	at := netip.MustParseAddrPort(ln.Addr().String())
	table, err := procs.Read()
	if err != nil {
		t.Fatal(err)
	}
	s := &site{table: table, leader: place{pid: 7}}
	for _, addr := range []string{"a", "b", "c"} {
		s.members.Members = append(s.members.Members, cluster.Member{Addr: addr, Voter: true, Alive: true})
	}
	nothing := netip.MustParseAddrPort("127.0.0.1:1")
	for name, c := range map[string]struct {
		killed map[string]place
		want   bool
	}{
		"none was killed":         {nil, true},
		"one was killed":          {map[string]place{"a": {nothing, 5}}, false},
		"it has not ended yet":    {map[string]place{"a": {at, os.Getpid()}}, false},
		"another is in its place": {map[string]place{"a": {at, 5}}, true},
	} {
		s.killed = c.killed
		if transfer, kill := s.leaders(); !transfer || kill != c.want {
			t.Errorf("%s: transfer %t, kill %t, want kill %t", name, transfer, kill, c.want)
		}
	}
}

// TestMayHit: process 1 ignores signals from its own namespace, and this one is not to be hit; nor
// are replicas that live in one process.
func TestMayHit(t *testing.T) {
	t.Parallel()
	for pid, want := range map[int]bool{0: false, 1: false, os.Getpid(): false, os.Getppid() + 1<<20: true} {
		if mayHit(pid) != want {
			t.Errorf("process %d: %t, want %t", pid, !want, want)
		}
	}
	s := &site{replica: map[string]place{"a": {pid: 5}, "b": {pid: 6}, "c": {pid: 5}}}
	s.dropShared()
	if s.replica["a"].pid != 0 || s.replica["b"].pid != 6 || s.replica["c"].pid != 0 {
		t.Errorf("%v, want that b alone has a place", s.replica)
	}
}

// TestShut: a connection that has just ended does not hide that another one was cut.
func TestShut(t *testing.T) {
	t.Parallel()
	results := []error{net.ErrClosed, nil, net.ErrClosed, nil}
	next := func(procs.Conn) error {
		err := results[0]
		results = results[1:]
		return err
	}
	if n, err := shut(make([]procs.Conn, 4), next); n != 2 || err != nil {
		t.Errorf("%d, %v, want that 2 were cut", n, err)
	}
	results = []error{net.ErrClosed, errors.New("refused")}
	if n, err := shut(make([]procs.Conn, 2), next); n != 0 || !errors.Is(err, net.ErrClosed) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("%d, %v, want both errors", n, err)
	}
}

// TestDrawingIsTriedFirst: what cannot be written is told before the first fault, and nothing is
// left of the try.
func TestDrawingIsTriedFirst(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := config{svg: filepath.Join(dir, "none", "x.svg")}
	if err := c.tryDrawing(); cli.StatusOf(err) != cli.StatusUsage || !strings.Contains(err.Error(), "--svg = "+c.svg) {
		t.Error(err)
	}
	c.svg = filepath.Join(dir, "x.svg")
	if err := c.tryDrawing(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(c.svg); err == nil {
		t.Error("the try left a file")
	}
	if err := os.WriteFile(c.svg, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.tryDrawing(); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(c.svg); err != nil || string(b) != "old" {
		t.Errorf("%q, %v, want what was there", b, err)
	}
}

// TestFullOnce: a folder that is full is not filled again, though faults overlap.
func TestFullOnce(t *testing.T) {
	t.Parallel()
	var d drill
	d.under = []*underWay{{outage: &report.Outage{Fault: plan.Fault{Kind: plan.Disk}}}}
	if !d.lasts(plan.Disk) || d.lasts(plan.Stop) {
		t.Error("the disk is full, and nothing is stopped")
	}
	d.finish(d.under[0])
	if d.lasts(plan.Disk) {
		t.Error("the disk is not full any more")
	}
}
