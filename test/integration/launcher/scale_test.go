package launcher

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

// begun are the replicas that a launcher has started, sorted.
func begun(p *testkit.Program) []string {
	all := make(map[string]bool)
	for _, m := range started.FindAllStringSubmatch(p.String(), -1) {
		all[m[3]] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// scale runs skerry scale, and wants it to end well.
func scale(t *testing.T, args ...string) {
	t.Helper()
	p := testkit.Start(t, "skerry scale", nil, append([]string{builds.Path(t, "cmd/skerry"), "scale"}, args...)...)
	if status := p.Exits(); status != 0 {
		t.Fatalf("status %d\n%s", status, p)
	}
}

// twoHosts has two launchers share a job, and waits until the first replica of each trains.
func twoHosts(t *testing.T, job string, args ...string) (hosts []*testkit.Program) {
	t.Helper()
	for rank := range 2 {
		args := slices.Concat([]string{"--nnodes=2", fmt.Sprintf("--node-rank=%d", rank), "--grace=1m", "--job=" + job}, args,
			[]string{"--", builds.Path(t, "examples/digits/trainer"), "-steps=100000", "-step-time=20ms"})
		hosts = append(hosts, run(t, args...))
	}
	for rank, p := range hosts {
		p.Says(fmt.Sprintf("replica-%d | step 50: ", rank), 0)
	}
	return hosts
}

// twoEachWere ends the job of twoHosts, and wants each to have had two of four replicas, in turn,
// none of which was started twice or ended badly.
func twoEachWere(t *testing.T, hosts []*testkit.Program) {
	t.Helper()
	for rank, want := range [][]string{{"replica-0", "replica-2"}, {"replica-1", "replica-3"}} {
		if got := begun(hosts[rank]); !slices.Equal(got, want) {
			t.Errorf("host %d has started %q, want %q", rank, got, want)
		}
	}
	for _, p := range hosts {
		p.Signal(syscall.SIGTERM)
	}
	for rank, p := range hosts {
		if status, text := p.Exits(), p.String(); status != 0 || !strings.Contains(text, "replicas: 2 done; restarts: 0") || crashed.MatchString(text) {
			t.Errorf("host %d: status %d\n%s", rank, status, text)
		}
	}
}

// Two hosts have two of four replicas each when four are wanted in place of two, and one of them one
// less when three are: the highest drains, and no other is touched. All of it is told by one command,
// which need not run on either host.
func TestScaleOverHosts(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the programs: run without -short")
	}
	l := lighthousetest.Start(t, nil)
	job := "digits"
	hosts := twoHosts(t, job, "--lighthouse="+l.Addr, "--replicas=1")
	shows := func(text string) {
		t.Helper()
		testkit.Eventually(t, "skerry status shows "+text, func() bool {
			p := testkit.Start(t, "skerry status", nil, builds.Path(t, "cmd/skerry"), "status", "--lighthouse="+l.Addr)
			return p.Exits() == 0 && strings.Contains(p.String(), text)
		})
	}
	scale(t, job, "4", "--lighthouse="+l.Addr, "--reason=more machines")
	hosts[0].Says("replica-2 | step ", 0)
	hosts[1].Says("replica-3 | step ", 0)
	shows("replicas wanted: 4, by 2 launchers: more machines\n")
	scale(t, job, "3", "--lighthouse="+l.Addr)
	hosts[1].Says("replica ended outcome=done replica_id=replica-3", hosts[1].Says("replica-3 | draining: ", 0))
	shows("replicas wanted: 3, by 2 launchers: asked for with skerry scale\n")
	shows("3 participants")
	twoEachWere(t, hosts)
}

// crashed is what a launcher says of a replica that did not end well.
var crashed = regexp.MustCompile("replica crashed|replica given up")

// runs counts those of a test in one process.
var runs atomic.Int64

// A host without a share waits, and ends when the others have finished the job. Where no lighthouse is
// named, the launcher of this host passes the order on to its own.
func TestHostWithoutAShare(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the programs: run without -short")
	}
	l := lighthousetest.Start(t, nil)
	job := fmt.Sprintf("shared-by-%d-%d", os.Getpid(), runs.Add(1)) // the launchers of this machine are found by it
	hosts := twoHosts(t, job, "--lighthouse="+l.Addr)
	scale(t, job, "1")
	hosts[1].Says("replica ended outcome=done replica_id=replica-1", 0)
	hosts[0].Says("replica-0 | step ", len(hosts[0].String()))
	select {
	case <-hosts[1].Ended():
		t.Fatalf("the host without a share has ended while the job goes on\n%s", hosts[1])
	default:
	}
	hosts[0].Signal(syscall.SIGTERM) // its replica leaves in good order, as the last one
	for rank, p := range hosts {
		if status, text := p.Exits(), p.String(); status != 0 || !strings.Contains(text, "replicas: 1 done; restarts: 0") {
			t.Errorf("host %d: status %d\n%s", rank, status, text)
		}
	}
}

// A lighthouse leader that stops while launchers wait for orders loses none: each launcher hears the next
// order from the next leader, also after both leaders have changed.
func TestScaleOverALeader(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the programs: run without -short")
	}
	c := lighthousetest.StartCluster(t, 3, lighthousetest.Options{})
	job := fmt.Sprintf("led-%d-%d", os.Getpid(), runs.Add(1)) // the launchers of this machine are found by it
	at := "--lighthouse=" + strings.Join(c.Addresses(), ",")
	hosts := twoHosts(t, job, at, "--replicas=1")
	scale(t, job, "3", at)
	hosts[0].Says("replica-2 | step ", 0)
	first := c.Leader()
	c.Stop(first)
	second := c.Leader()
	scale(t, job, "4", at, "--timeout=1m")
	hosts[1].Says("replica-3 | step ", 0)
	c.Restart(first)
	c.Eventually("the first leader follows the second", func() error {
		if st, err := c.Servers[first].Lighthouse.Status(t.Context()); err != nil || st.Leader != c.Servers[second].Addr {
			return fmt.Errorf("it follows %q (%w), want %q", st.Leader, err, c.Servers[second].Addr)
		}
		return nil
	})
	c.Stop(second)
	c.Leader()
	scale(t, job, "2", at, "--timeout=1m")
	hosts[0].Says("replica ended outcome=done replica_id=replica-2", 0)
	hosts[1].Says("replica ended outcome=done replica_id=replica-3", 0)
	twoEachWere(t, hosts)
}
