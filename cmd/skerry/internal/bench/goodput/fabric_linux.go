package goodput

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// fabric connects processes, each in a network namespace of its own, by a switch in that of a
// process that does nothing else. Namespaces, switch and cables end with their processes, so
// nothing is left behind, however the bench ends.
type fabric struct {
	hub   int // process of the switch
	hosts int
	ports map[int]int // plugged so far, by host: a port's name is used once
}

// mayPartition is why this process cannot have networks of its own, or nil.
func mayPartition() error {
	if os.Getuid() != 0 {
		return errors.New("--faults = partition, want root, for network namespaces, or other faults: kill,stop")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return fmt.Errorf("--faults = partition, want the command ip (Debian: iproute2), or other faults: kill,stop: %w", err)
	}
	return nil
}

// apart starts a process in a network namespace with nothing in it.
func apart(a *syscall.SysProcAttr) { a.Cloneflags |= syscall.CLONE_NEWNET }

// newFabric makes the switch in the namespace of a process.
func newFabric(hub, hosts int) (*fabric, error) {
	f := &fabric{hub: hub, hosts: hosts, ports: make(map[int]int)}
	return f, inNetwork(hub, "link add sw type bridge", "link set sw up")
}

// address is that of a host.
func (f *fabric) address(host int) string { return fmt.Sprintf("10.88.%d.%d", host/200, host%200+1) }

func (f *fabric) port(host int) string { return fmt.Sprintf("p%dx%d", host, f.ports[host]) }

// plug makes the namespace of a process a host. The one before it must have ended.
func (f *fabric) plug(host, pid int) error {
	f.ports[host]++
	port := f.port(host)
	err := inNetwork(f.hub,
		fmt.Sprintf("link add %s type veth peer name cable netns %d", port, pid),
		fmt.Sprintf("link set %s master sw up", port))
	if err != nil {
		return err
	}
	commands := []string{
		"link set lo up",
		"link set cable address " + hardware(host),
		fmt.Sprintf("addr add %s/16 dev cable", f.address(host)),
		"link set cable up",
	}
	// The kernel's table of neighbours is one for all namespaces, and too small for those of 33
	// hosts that learn all others: entries that are told do not count.
	for other := range f.hosts {
		if other != host {
			commands = append(commands, fmt.Sprintf("neigh replace %s lladdr %s nud permanent dev cable", f.address(other), hardware(other)))
		}
	}
	return inNetwork(pid, commands...)
}

// hardware is the address of a host's cable, the same for each process of the host.
func hardware(host int) string { return fmt.Sprintf("02:88:00:00:%02x:%02x", host/200, host%200) }

// cut pulls a host's cable at the switch; mend puts it back.
func (f *fabric) cut(host int) error  { return inNetwork(f.hub, "link set "+f.port(host)+" down") }
func (f *fabric) mend(host int) error { return inNetwork(f.hub, "link set "+f.port(host)+" up") }

// inNetwork runs commands of ip in the network namespace of a process.
func inNetwork(pid int, commands ...string) error {
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return err
	}
	defer ns.Close()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread, which is in the other namespace, ends with the goroutine
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("enter the network of process %d: %w", pid, err)
			return
		}
		cmd := exec.Command("ip", "-batch", "-")
		cmd.Stdin = strings.NewReader(strings.Join(commands, "\n"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("ip %s: %w: %s", strings.Join(commands, "; "), err, out)
		}
		done <- err
	}()
	return <-done
}
