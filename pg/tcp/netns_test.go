package tcp

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// rounds: `make interfaces` takes 10.
var rounds = flag.Int("tcp.interfaces", 0, "how often TestInterfacesOfHosts measures, and cuts; 0: a short look")

// envNetNS names the network namespace that a rank's process moves to before it
// does anything.
const envNetNS = "SKERRY_TCP_NETNS"

// enterNetNS executes this process again in the namespace that it is to be in.
func enterNetNS() {
	name := os.Getenv(envNetNS)
	if name == "" {
		return
	}
	runtime.LockOSThread() // of all threads, exec keeps this one's namespace
	self, err := os.Executable()
	if err == nil {
		err = os.Unsetenv(envNetNS)
	}
	var space *os.File
	if err == nil {
		space, err = os.Open("/run/netns/" + name)
	}
	if err == nil {
		err = unix.Setns(int(space.Fd()), unix.CLONE_NEWNET)
	}
	if err == nil {
		err = syscall.Exec(self, os.Args, os.Environ())
	}
	fmt.Fprintf(os.Stderr, "enter network namespace %s: %v\n", name, err)
	os.Exit(1)
}

// hosts are two network namespaces, joined by a pair of interfaces for the store
// and two for data, each of which is limited to linkRate.
type hosts struct {
	t     *testing.T
	names [2]string
	net   int // the second byte of all addresses
}

const (
	storeLink = "ctl0"
	linkRate  = "100mbit"
)

var dataLinks = []string{"data0", "data1"}

func newHosts(t *testing.T) *hosts {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("network namespaces take root")
	}
	for _, command := range []string{"ip", "tc"} {
		if _, err := exec.LookPath(command); err != nil {
			t.Skipf("no command %s (Debian: iproute2): %v", command, err)
		}
	}
	id := fmt.Sprintf("skt%08x", rand.Uint32())
	h := &hosts{t: t, names: [2]string{id + "a", id + "b"}, net: rand.N(256)}
	for _, name := range h.names {
		h.may("ip", "netns", "add", name)
		t.Cleanup(func() {
			if err := h.run("ip", "netns", "del", name); err != nil {
				t.Error(err)
			}
		})
	}
	for i, link := range append([]string{storeLink}, dataLinks...) {
		h.may("ip", "link", "add", link, "netns", h.names[0], "type", "veth", "peer", "name", link, "netns", h.names[1])
		for host, name := range h.names {
			h.may("ip", "-n", name, "addr", "add", h.address(host, i)+"/24", "dev", link)
			h.may("ip", "-n", name, "link", "set", link, "up")
			if link != storeLink {
				h.may("tc", "-n", name, "qdisc", "add", "dev", link, "root", "tbf",
					"rate", linkRate, "burst", "256kb", "latency", "100ms")
			}
		}
	}
	for _, name := range h.names {
		h.may("ip", "-n", name, "link", "set", "lo", "up")
	}
	return h
}

// address is that of a host on the i-th link.
func (h *hosts) address(host, i int) string { return fmt.Sprintf("10.%d.%d.%d", h.net, i, host+1) }

// may runs a command of the preparation, or skips the test: this machine cannot do
// it.
func (h *hosts) may(command ...string) {
	h.t.Helper()
	if err := h.run(command...); err != nil {
		h.t.Skip(err)
	}
}

// carries says that both ends of a link are up: the system may take a second to see it.
func (h *hosts) carries(link string) bool {
	for _, name := range h.names {
		out, err := exec.Command("ip", "-n", name, "-o", "link", "show", "dev", link).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "state UP") {
			return false
		}
	}
	return true
}

func (h *hosts) run(command ...string) error {
	if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, out)
	}
	return nil
}

// plug pulls the cable of a data link at the second host, or puts it back.
func (h *hosts) plug(link, state string) {
	h.t.Helper()
	if err := h.run("ip", "-n", h.names[1], "link", "set", link, state); err != nil {
		h.t.Fatal(err)
	}
}

// sent is what each data link has carried from a host, in bytes, as its own
// interface counts it.
func (a *answer) sent(links []string) (all []int64) {
	for _, link := range links {
		all = append(all, a.Traffic[link])
	}
	return all
}

// fleet starts two ranks on each host, with so many of the data links.
func (h *hosts) fleet(links []string) ([]*rankProcess, order) {
	h.t.Helper()
	var ranks []*rankProcess
	for i := range 4 {
		ranks = append(ranks, startRank(h.t, fmt.Sprintf("replica%d", i), envNetNS+"="+h.names[i/2]))
	}
	ranks[0].send(h.t, order{Do: "serve", Listen: h.address(0, 0)})
	o := order{
		Store: ranks[0].receive(h.t).Store, Bytes: 4 << 20,
		Opt: rankOptions{BeatTimeout: quietLimit},
	}
	for _, link := range links {
		o.Opt.Interfaces = append(o.Opt.Interfaces, "="+link)
	}
	return ranks, o
}

// TestInterfacesOfHosts: what two hosts exchange goes over all the interfaces that
// are named, alike; a cable that is pulled breaks the group on every rank, which
// names a rank of the other host; when it is back everything works again. How
// much faster two interfaces are than one is logged, not judged.
func TestInterfacesOfHosts(t *testing.T) {
	if testing.Short() && *rounds == 0 {
		t.Skip("makes networks")
	}
	t.Parallel()
	h := newHosts(t)
	took := make([][]time.Duration, len(dataLinks)+1)
	for n := 1; n <= len(dataLinks); n++ {
		took[n] = h.reduce(dataLinks[:n])
		slices.Sort(took[n])
	}
	one, two := took[1][len(took[1])/2], took[2][len(took[2])/2]
	t.Logf("all-reduce of 4 ranks on 2 hosts, %s each link: %v over one, %v over two: %.2f times as fast",
		linkRate, one, two, float64(one)/float64(two))
	ranks, o := h.fleet(dataLinks)
	links := dataLinks[1:]
	if *rounds > 0 {
		links = slices.Repeat(dataLinks, *rounds)
	}
	for _, link := range links {
		h.cut(ranks, &o, link)
	}
}

// reduce measures all-reduces over the links, and looks at what each carried.
func (h *hosts) reduce(links []string) (took []time.Duration) {
	h.t.Helper()
	ranks, o := h.fleet(links)
	times := 1 + 3**rounds
	if *rounds == 0 {
		o.Bytes = 1 << 20
	}
	o.Q, o.Do = 1, "configure"
	orderAll(h.t, ranks, o)
	o.Do = "check"
	before := orderAll(h.t, ranks, o)
	for range times {
		start := time.Now()
		orderAll(h.t, ranks, o)
		took = append(took, time.Since(start))
	}
	after := orderAll(h.t, ranks, o)
	for _, rank := range []int{0, 2} {
		least := int64(o.Bytes) * int64(times) / int64(len(links)) / 4
		was, is := before[rank].sent(dataLinks), after[rank].sent(dataLinks)
		for i := range dataLinks {
			bytes := is[i] - was[i]
			if used := i < len(links); used && bytes < least || !used && bytes > least/10 {
				h.t.Errorf("over %q: rank %d's host sent %d bytes over %s, want %d if it is one of them",
					links, rank, bytes, dataLinks[i], least)
			}
		}
	}
	for _, r := range ranks {
		r.end()
	}
	return took
}

// cut pulls the cable of one link in the middle of a storm.
func (h *hosts) cut(ranks []*rankProcess, o *order, link string) {
	h.t.Helper()
	o.Q, o.Do = o.Q+1, "configure"
	orderAll(h.t, ranks, *o)
	stormAll(h.t, ranks, *o)
	h.plug(link, "down")
	start := time.Now()
	named := false
	for i, r := range ranks {
		a := r.receive(h.t)
		culprit := slices.IndexFunc(ranks, func(r *rankProcess) bool { return r.id == a.Culprit })
		if a.Err == "" || culprit < 0 || a.First && culprit/2 == i/2 {
			h.t.Errorf("%s is cut: rank %d: %q blames %q, want one of the other host", link, i, a.Err, a.Culprit)
		}
		named = named || strings.Contains(a.Err, errSilent.Error())
	}
	h.t.Logf("%s is cut: all ranks know after %v", link, time.Since(start).Round(time.Millisecond))
	if !named {
		h.t.Errorf("%s is cut: nobody speaks of silence", link)
	}
	h.plug(link, "up")
	eventually(h.t, link+" carries again", func() bool { return h.carries(link) })
	o.Q, o.Do = o.Q+1, "configure"
	orderAll(h.t, ranks, *o)
	o.Do = "check"
	orderAll(h.t, ranks, *o)
}
