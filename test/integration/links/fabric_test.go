package links

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
)

// fabric is some hosts, each a network namespace with one TUN device, and the
// test in their middle, which carries every packet or loses it.
type fabric struct {
	names   []string
	devices []*os.File
	net     string
	cuts    []atomic.Bool // by who sends, and to whom
}

// newFabric makes n hosts, or skips the test and says what it could not do.
func newFabric(t *testing.T, n int) *fabric {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("network namespaces take root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skipf("no command ip (Debian: iproute2): %v", err)
	}
	id := fmt.Sprintf("skf%08x", rand.Uint32())
	f := &fabric{net: fmt.Sprintf("10.67.%d.", rand.N(256)), cuts: make([]atomic.Bool, n*n)}
	for i := range n {
		name := fmt.Sprintf("%s%d", id, i)
		f.names = append(f.names, name)
		ip(t, "netns", "add", name)
		t.Cleanup(func() { ip(t, "netns", "del", name) })
		ip(t, "-n", name, "link", "set", "lo", "up")
		ip(t, "-n", name, "tuntap", "add", "dev", deviceName, "mode", "tun")
		ip(t, "-n", name, "addr", "add", f.address(i)+"/24", "dev", deviceName)
		ip(t, "-n", name, "link", "set", deviceName, "up")
		device, err := openTUN(name)
		if err != nil {
			t.Skipf("TUN device in %s: %v", name, err)
		}
		f.devices = append(f.devices, device)
	}
	var carrying sync.WaitGroup
	for i := range n {
		carrying.Go(func() { f.carry(i) })
	}
	t.Cleanup(func() {
		for _, d := range f.devices {
			d.Close()
		}
		carrying.Wait()
	})
	return f
}

func (f *fabric) address(i int) string { return f.net + fmt.Sprint(i+1) }

// cut loses, from now on or no more, what goes from one host to another.
func (f *fabric) cut(from, to int, cut bool) { f.cuts[from*len(f.names)+to].Store(cut) }

// carry passes on what a host sends, until its device is closed.
func (f *fabric) carry(from int) {
	buf := make([]byte, maxPacket)
	for {
		n, err := f.devices[from].Read(buf)
		if err != nil {
			return
		}
		if n < 20 || buf[0]>>4 != 4 {
			continue
		}
		to := int(buf[19]) - 1 // the last byte of an IPv4 packet's destination
		if to < 0 || to >= len(f.devices) || f.cuts[from*len(f.names)+to].Load() {
			continue
		}
		_, _ = f.devices[to].Write(buf[:n]) // the host may be gone: then it is lost
	}
}
