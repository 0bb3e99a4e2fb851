package links

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// envNetNS names the network namespace that a worker's process moves to before
// it does anything.
const envNetNS = "SKERRY_LINKS_NETNS"

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
	if err == nil {
		err = setns(name)
	}
	if err == nil {
		err = syscall.Exec(self, os.Args, os.Environ())
	}
	fmt.Fprintf(os.Stderr, "enter network namespace %s: %v\n", name, err)
	os.Exit(1)
}

// setns moves the calling thread.
func setns(name string) error {
	f, err := os.Open("/run/netns/" + name)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
}

// hosts are two namespaces, and the TUN devices that are their only way out.
type hosts struct {
	names   [2]string
	devices [2]*os.File
	net     string // "10.66.7.": .1 and .2
}

const deviceName = "wire0"

// newHosts makes them, or skips the test and says what it could not do.
func newHosts(t *testing.T) *hosts {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("network namespaces take root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skipf("no command ip (Debian: iproute2): %v", err)
	}
	id := fmt.Sprintf("skl%08x", rand.Uint32())
	h := &hosts{names: [2]string{id + "a", id + "b"}, net: fmt.Sprintf("10.66.%d.", rand.N(256))}
	for i, name := range h.names {
		ip(t, "netns", "add", name)
		t.Cleanup(func() { ip(t, "netns", "del", name) })
		ip(t, "-n", name, "link", "set", "lo", "up")
		ip(t, "-n", name, "tuntap", "add", "dev", deviceName, "mode", "tun")
		ip(t, "-n", name, "addr", "add", h.address(i), "peer", h.address(1-i), "dev", deviceName)
		ip(t, "-n", name, "link", "set", deviceName, "up")
		device, err := openTUN(name)
		if err != nil {
			t.Skipf("TUN device in %s: %v", name, err)
		}
		h.devices[i] = device
	}
	return h
}

func (h *hosts) address(i int) string { return h.net + fmt.Sprint(i+1) }

func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Skipf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// openTUN opens the device in a namespace; it may then be used from anywhere.
func openTUN(namespace string) (*os.File, error) {
	type result struct {
		f   *os.File
		err error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		if err := setns(namespace); err != nil {
			done <- result{err: err}
			return
		}
		f, err := attachTUN()
		done <- result{f, err}
	}()
	r := <-done
	return r.f, r.err
}

func attachTUN() (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	request := struct {
		name  [unix.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}{flags: unix.IFF_TUN | unix.IFF_NO_PI}
	copy(request.name[:], deviceName)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TUNSETIFF, uintptr(unsafe.Pointer(&request)))
	if errno != 0 {
		unix.Close(fd)
		return nil, fmt.Errorf("TUNSETIFF: %w", errno)
	}
	return os.NewFile(uintptr(fd), deviceName), nil
}
