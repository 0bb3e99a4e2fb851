package portlease

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
)

const (
	// lowest is above the ports that need privileges or belong to known services.
	lowest = 12_000
	// defaultEnd is where the kernel's own choice begins, unless it says otherwise.
	defaultEnd = 32_768
	// wanted is the least range that is worth searching.
	wanted    = 1_000
	rangeFile = "/proc/sys/net/ipv4/ip_local_port_range"
)

// Lease is some loopback addresses that nobody else is given until it is closed,
// or its process is gone.
type Lease struct {
	// Addrs are "127.0.0.1:port", all different.
	Addrs []string

	held []net.Listener
}

// Take leases n addresses. It opens one descriptor for each. It fails if n is not
// positive, or if too few ports of the range are free.
func Take(n int) (*Lease, error) {
	end := kernelFirst()
	if n < 1 || n > end-lowest {
		return nil, fmt.Errorf("lease %d ports: want 1 to %d", n, end-lowest)
	}
	l := &Lease{}
	for _, i := range rand.Perm(end - lowest) {
		port := lowest + i
		name, err := net.Listen("unix", "@skerry-port-"+strconv.Itoa(port))
		if err != nil {
			continue // somebody else's
		}
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		if !free(port) {
			name.Close() // nothing was sent
			continue
		}
		l.Addrs, l.held = append(l.Addrs, addr), append(l.held, name)
		if len(l.Addrs) == n {
			return l, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("lease %d ports: %d of %d to %d are free", n, len(l.Addrs), lowest, end-1), l.Close())
}

// Close gives the addresses back.
func (l *Lease) Close() error {
	var errs []error
	for _, h := range l.held {
		errs = append(errs, h.Close())
	}
	l.held = nil
	return errors.Join(errs...)
}

// free tells whether nobody listens on port, TCP or UDP, on any interface.
func free(port int) bool {
	addr := ":" + strconv.Itoa(port)
	t, err := net.Listen("tcp", addr)
	if err != nil {
		return false
	}
	defer t.Close()
	u, err := net.ListenPacket("udp", addr)
	if err != nil {
		return false
	}
	u.Close() // nothing was sent
	return true
}

// kernelFirst is the first port that the kernel chooses by itself. Where that
// leaves too little below it, leases are taken from what it usually leaves.
func kernelFirst() int {
	text, err := os.ReadFile(rangeFile)
	if err != nil {
		return defaultEnd
	}
	var first, last int
	if _, err := fmt.Sscan(string(text), &first, &last); err != nil || first < lowest+wanted || first > 1<<16-1 {
		return defaultEnd
	}
	return first
}
