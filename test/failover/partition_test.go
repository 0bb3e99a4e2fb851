package failover

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/train/spawn"
)

var namespaces = flag.Bool("failover.netns", false, "run the partitions, in network namespaces; needs root")

// envNetNS names the network namespace that a server's process moves to before
// it does anything.
const envNetNS = "SKERRY_FAILOVER_NETNS"

// enterNetNS executes this process again in the namespace that it is to be in.
func enterNetNS() {
	name := os.Getenv(envNetNS)
	if name == "" {
		return
	}
	self, err := os.Executable()
	if err == nil {
		err = os.Unsetenv(envNetNS)
	}
	var ip string
	if err == nil {
		ip, err = exec.LookPath("ip")
	}
	if err == nil {
		err = syscall.Exec(ip, append([]string{"ip", "netns", "exec", name, self}, os.Args[1:]...), os.Environ())
	}
	fmt.Fprintf(os.Stderr, "enter network namespace %s: %v\n", name, err)
	os.Exit(1)
}

// lab is a bridge, and a namespace per server.
type lab struct {
	t     *testing.T
	id    string
	net   int
	hosts int
}

// newLab builds it, or skips the test and says which command it could not do.
func newLab(t *testing.T, hosts int) *lab {
	t.Helper()
	if !*namespaces {
		t.Skip("partitions change this host's network: run with -failover.netns, as root")
	}
	l := &lab{t: t, id: fmt.Sprintf("skf%04x", rand.N(1<<16)), net: 64 + rand.N(128), hosts: hosts}
	t.Cleanup(func() {
		for i := range hosts {
			_ = exec.Command("ip", "netns", "del", l.name(i)).Run() // may not have been made
		}
		_ = exec.Command("ip", "link", "del", l.id).Run() // likewise
	})
	l.must("link", "add", l.id, "type", "bridge")
	l.must("addr", "add", fmt.Sprintf("10.77.%d.1/24", l.net), "dev", l.id)
	l.must("link", "set", l.id, "up")
	for i := range hosts {
		out, in := fmt.Sprint(l.id, "o", i), fmt.Sprint(l.id, "i", i)
		l.must("netns", "add", l.name(i))
		l.must("link", "add", out, "type", "veth", "peer", "name", in)
		l.must("link", "set", out, "master", l.id, "up")
		l.must("link", "set", in, "netns", l.name(i))
		l.must("-n", l.name(i), "addr", "add", l.address(i)+"/24", "dev", in)
		l.must("-n", l.name(i), "link", "set", in, "up")
		l.must("-n", l.name(i), "link", "set", "lo", "up")
	}
	return l
}

func (l *lab) name(i int) string    { return fmt.Sprint(l.id, "n", i) }
func (l *lab) address(i int) string { return fmt.Sprintf("10.77.%d.%d", l.net, i+2) }

func (l *lab) must(args ...string) {
	l.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		l.t.Skipf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// cut drops what one server sends to another; heal ends that.
func (l *lab) cut(from, to int)  { l.route("add", from, to) }
func (l *lab) heal(from, to int) { l.route("del", from, to) }

func (l *lab) route(verb string, from, to int) {
	l.t.Helper()
	args := []string{"-n", l.name(from), "route", verb, "blackhole", l.address(to) + "/32"}
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		l.t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// isolate cuts a server off from the others, both ways or only what it sends.
func (l *lab) isolate(i int, both bool, do func(from, to int)) {
	for j := range l.hosts {
		if j != i {
			do(i, j)
			if both {
				do(j, i)
			}
		}
	}
}

// A leader that the other servers cannot reach, though the replicas can, leads no
// more; whatever is cut, and how often, there are never two quorums from two
// leaders, no step is discarded, and once it is healed a joiner soon gets in.
func TestPartition(t *testing.T) {
	l := newLab(t, 3)
	c := &servers{t: t}
	var addrs []string
	for i := range 3 {
		addrs = append(addrs, l.address(i)+":29510")
	}
	for i, addr := range addrs {
		c.args = append(c.args, serverArgs{
			Listen: addr, DataDir: filepath.Join(t.TempDir(), fmt.Sprint("server-", i)), Join: addrs, Expect: 3,
			Timing: *timing, Verbose: *verbose, NetNS: l.name(i)})
		c.procs = append(c.procs, (*spawn.Process)(nil))
	}
	t.Cleanup(c.end)
	for i := range c.args {
		c.start(i)
	}
	for i := range c.args {
		c.awaitServing(i)
	}
	f := newFleet(t, addrs, 4)
	f.awaitMembers()
	joins := func(what string) {
		t.Helper()
		began := time.Now()
		f.add()
		f.awaitMembers()
		f.awaitSteps(5)
		t.Logf("%s: a joiner was in after %v", what, time.Since(began).Round(time.Millisecond))
	}
	for _, both := range []bool{true, false} {
		leader := c.leader(-1)
		l.isolate(leader, both, l.cut)
		c.leader(leader)
		joins(fmt.Sprintf("leader cut off, both ways: %t", both))
		l.isolate(leader, both, l.heal)
		c.awaitServing(leader)
		joins("healed")
	}
	for range 6 { // flapping
		leader := c.leader(-1)
		l.isolate(leader, false, l.cut)
		time.Sleep(rand.N(600 * time.Millisecond))
		l.isolate(leader, false, l.heal)
		time.Sleep(rand.N(600 * time.Millisecond))
	}
	joins("after flapping")
	testkit.EventuallyNil(t, "all servers name one leader", func() error {
		var leaders []string
		for i := range c.args {
			info, err := c.info(t.Context(), i)
			if err != nil {
				return err
			}
			leaders = append(leaders, info.GetLeader())
		}
		if leaders[0] != leaders[1] || leaders[1] != leaders[2] {
			return errors.New(strings.Join(leaders, ", "))
		}
		return nil
	})
	f.check()
}
