package chaos

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hosts are network namespaces, each with one TUN device, and the test in their middle,
// which carries every packet, or does to it what a bad network does. So it is the kernel's
// TCP that meets a bad network; this machine's own is left alone.
type hosts struct {
	names   []string
	devices []*os.File
	roads   [][]road // by the host that sends, and the one that receives
	carried sync.WaitGroup
}

// road is one direction between two hosts. Its fields may be set at any time.
type road struct {
	cut   atomic.Bool
	bad   atomic.Bool  // one of what follows is in force
	lose  atomic.Int64 // of a thousand packets
	delay atomic.Int64 // ns
	spoil atomic.Int64 // how many packets with data of replicas are yet to be spoiled
}

const (
	tunName   = "road0"
	maxPacket = 64 << 10
	// roadMTU lets a message be few packets: each one costs this process a read and a write.
	roadMTU = 60_000
	// spoilFrom is how much data a packet must have to be spoiled: beats and calls have less.
	spoilFrom = 1000
	// serverPorts are the lighthouse's: what is said there is under TCP's checksum alone, unless
	// there are certificates, and a packet that is spoiled under a right one is not survived.
	serverPorts, behindServerPorts = 29510, 29513
)

// newHosts makes n, until the test ends, or says what this machine cannot do.
func newHosts(t *testing.T, n int) (*hosts, error) {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil, errors.New("network namespaces take root")
	}
	h := &hosts{roads: make([][]road, n)}
	id := ownName("skc-") + "-"
	t.Cleanup(h.remove)
	for i := range n {
		name := fmt.Sprint(id, i)
		h.roads[i] = make([]road, n)
		if err := ip("netns", "add", name); err != nil {
			return nil, err
		}
		h.names = append(h.names, name)
		err := errors.Join(ip("-n", name, "link", "set", "lo", "up"),
			ip("-n", name, "tuntap", "add", "dev", tunName, "mode", "tun"),
			ip("-n", name, "addr", "add", h.address(i)+"/24", "dev", tunName),
			ip("-n", name, "link", "set", tunName, "mtu", fmt.Sprint(roadMTU), "up"))
		if err != nil {
			return nil, err
		}
		device, err := openTUN(name)
		if err != nil {
			return nil, err
		}
		h.devices = append(h.devices, device)
	}
	for i := range n {
		h.carried.Go(func() { h.carry(i) })
	}
	return h, nil
}

func (h *hosts) remove() {
	for _, d := range h.devices {
		d.Close()
	}
	h.carried.Wait()
	for _, name := range h.names {
		_ = ip("netns", "del", name) // as far as it was made
	}
}

func (h *hosts) address(i int) string { return fmt.Sprintf("10.69.0.%d", i+1) }

// carry passes on what a host sends, until its device is closed.
func (h *hosts) carry(from int) {
	buf := make([]byte, maxPacket)
	for {
		n, err := h.devices[from].Read(buf)
		if err != nil {
			return
		}
		if n < 20 || buf[0]>>4 != 4 {
			continue
		}
		to := int(buf[19]) - 1 // the last byte of an IPv4 packet's destination
		if to < 0 || to >= len(h.devices) || to == from {
			continue
		}
		r := &h.roads[from][to]
		if r.cut.Load() || rand.Int64N(1000) < r.lose.Load() {
			continue
		}
		if r.spoil.Load() > 0 && spoil(buf[:n]) {
			r.spoil.Add(-1)
		}
		delay := time.Duration(r.delay.Load())
		if delay == 0 {
			_, _ = h.devices[to].Write(buf[:n]) // the host may be gone: then it is lost
			continue
		}
		held := append([]byte(nil), buf[:n]...)
		time.AfterFunc(delay, func() {
			if !r.cut.Load() {
				_, _ = h.devices[to].Write(held) // the same
			}
		})
	}
}

// spoil flips a bit of the data in a TCP packet of replicas, if it has much, and makes the
// packet's checksum right again, as a broken router or network card does.
func spoil(p []byte) bool {
	const tcpProtocol = 6
	if p[9] != tcpProtocol {
		return false
	}
	segment := p[int(p[0]&15)*4:]
	if len(segment) < 20 {
		return false
	}
	for _, at := range []int{0, 2} {
		if port := binary.BigEndian.Uint16(segment[at:]); port >= serverPorts && port < behindServerPorts {
			return false
		}
	}
	data := segment[int(segment[12]>>4)*4:]
	if len(data) < spoilFrom {
		return false
	}
	data[len(data)/2] ^= 4
	binary.BigEndian.PutUint16(segment[16:], 0)
	binary.BigEndian.PutUint16(segment[16:], tcpChecksum(p[12:20], segment))
	return true
}

// tcpChecksum is that of a segment between the addresses.
func tcpChecksum(addresses, segment []byte) uint16 {
	sum := uint32(6) + uint32(len(segment))
	for _, b := range [][]byte{addresses, segment} {
		for ; len(b) > 1; b = b[2:] {
			sum += uint32(binary.BigEndian.Uint16(b))
		}
		if len(b) == 1 {
			sum += uint32(b[0]) << 8
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// ip runs the command of that name.
func ip(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// setns moves the calling thread to a namespace.
func setns(name string) error {
	f, err := os.Open("/run/netns/" + name)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was only read
	return unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
}

// openTUN opens the device in a namespace; it may then be used from anywhere.
func openTUN(namespace string) (device *os.File, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		if err = setns(namespace); err == nil {
			device, err = attachTUN()
		}
	}()
	<-done
	return device, err
}

func attachTUN() (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("/dev/net/tun: %w", err)
	}
	request := struct {
		name  [unix.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}{flags: unix.IFF_TUN | unix.IFF_NO_PI}
	copy(request.name[:], tunName)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TUNSETIFF, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return nil, errors.Join(fmt.Errorf("TUNSETIFF: %w", errno), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), tunName), nil
}

// What a worker's process becomes before it does anything.
const (
	envNetNS   = "SKERRY_CHAOS_NETNS"   // moved to that network namespace
	envProgram = "SKERRY_CHAOS_PROGRAM" // that program, with its arguments, apart by argumentsApart

	argumentsApart = "\x1f"
)

// become executes this process again as what it is to be, and where. The parent's pipe, and
// that it ends with its parent, stay.
func become() {
	program, namespace := os.Getenv(envProgram), os.Getenv(envNetNS)
	if program == "" && namespace == "" {
		return
	}
	runtime.LockOSThread() // of all threads, exec keeps this one's namespace
	argv := os.Args
	path, err := os.Executable()
	if program != "" {
		argv = strings.Split(program, argumentsApart)
		path = argv[0]
	}
	err = errors.Join(err, os.Unsetenv(envNetNS), os.Unsetenv(envProgram))
	if err == nil && namespace != "" {
		err = setns(namespace)
	}
	if err == nil {
		err = syscall.Exec(path, argv, os.Environ())
	}
	fmt.Fprintf(os.Stderr, "become %s in network namespace %q: %v\n", path, namespace, err)
	os.Exit(1)
}
