package hosts

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fabric is some hosts and a switch between them, each a network namespace. The
// hosts have addresses of one family, and no others but loopback.
type fabric struct {
	t     *testing.T
	id    string
	v6    bool
	net   int // a byte of all addresses
	hosts int
}

// newFabric makes n hosts, or skips the test and says what this machine cannot do.
func newFabric(t *testing.T, n int, v6 bool) *fabric {
	t.Helper()
	if testing.Short() {
		t.Skip("makes networks and builds the programs")
	}
	if os.Getuid() != 0 {
		t.Skip("network namespaces take root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skipf("no command ip (Debian: iproute2): %v", err)
	}
	f := &fabric{t: t, id: fmt.Sprintf("skh%08x", rand.Uint32()), v6: v6, net: rand.N(256), hosts: n}
	f.makeHost(f.switchName())
	f.may("-n", f.switchName(), "link", "add", "sw", "type", "bridge")
	f.may("-n", f.switchName(), "link", "set", "sw", "up")
	for i := range n {
		f.makeHost(f.name(i))
		f.may("-n", f.switchName(), "link", "add", f.port(i), "type", "veth", "peer", "name", "cable", "netns", f.name(i))
		f.may("-n", f.switchName(), "link", "set", f.port(i), "master", "sw", "up")
		if v6 {
			f.may("-n", f.name(i), "addr", "add", f.address(i)+"/64", "dev", "cable", "nodad")
		} else {
			f.may("-n", f.name(i), "addr", "add", f.address(i)+"/24", "dev", "cable")
		}
		f.may("-n", f.name(i), "link", "set", "cable", "up")
	}
	return f
}

// makeHost makes a namespace with nothing but loopback.
func (f *fabric) makeHost(name string) {
	f.t.Helper()
	f.may("netns", "add", name)
	f.t.Cleanup(func() {
		if err := run("netns", "del", name); err != nil {
			f.t.Error(err)
		}
	})
	f.may("-n", name, "link", "set", "lo", "up")
}

func (f *fabric) switchName() string  { return f.id + "s" }
func (f *fabric) name(i int) string   { return fmt.Sprint(f.id, i) }
func (f *fabric) port(i int) string   { return fmt.Sprint("port", i) }
func (f *fabric) server(i int) string { return f.hostPort(i, 29510) }

func (f *fabric) hostPort(i, port int) string {
	if f.v6 {
		return fmt.Sprintf("[%s]:%d", f.address(i), port)
	}
	return fmt.Sprintf("%s:%d", f.address(i), port)
}

func (f *fabric) address(i int) string {
	if f.v6 {
		return fmt.Sprintf("fd88::%x:%d", f.net+1, i+1)
	}
	return fmt.Sprintf("10.88.%d.%d", f.net, i+1)
}

// servers are the addresses of the lighthouses, one on each host.
func (f *fabric) servers() string {
	var all []string
	for i := range f.hosts {
		all = append(all, f.server(i))
	}
	return strings.Join(all, ",")
}

// cable pulls a host's cable at the switch ("down"), or puts it back ("up").
func (f *fabric) cable(i int, state string) {
	f.t.Helper()
	if err := run("-n", f.switchName(), "link", "set", f.port(i), state); err != nil {
		f.t.Fatal(err)
	}
}

// knows makes a host know names by its own hosts file; programs that `ip netns exec`
// starts see it in place of /etc/hosts.
func (f *fabric) knows(i int, hosts string) {
	f.t.Helper()
	dir := filepath.Join("/etc/netns", f.name(i))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		f.t.Skipf("a hosts file of a namespace: %v", err)
	}
	f.t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			f.t.Error(err)
		}
		_ = os.Remove("/etc/netns") // unless others have theirs there
	})
	if err := os.WriteFile(filepath.Join(dir, "hosts"), []byte("127.0.0.1 localhost\n"+hosts), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

// may runs ip for the preparation, or skips the test: this machine cannot do it.
func (f *fabric) may(args ...string) {
	f.t.Helper()
	if err := run(args...); err != nil {
		f.t.Skip(err)
	}
}

func run(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}
