// Package perhost bounds what the hosts at the other end of connections hold of
// one thing: connections, connections that have proved nothing yet, bytes. It
// needs no more than the standard library, so that store and pg/tcp can use it.
package perhost

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
)

// ErrTooMany is returned by Take when a bound is reached.
var ErrTooMany = errors.New("too many connections")

// Limits are the bounds of a Counter. In each, 0 means none.
type Limits struct {
	// Max bounds the sum over all hosts.
	Max int64

	// PerHost bounds one remote address, so that no one machine takes all of Max.
	// Loopback is exempt: a process of this machine can do worse. Too low shuts
	// out replicas that share an address (NAT).
	PerHost int64

	// Scarce is what one address may hold at most while half of Max is taken: what
	// a few hosts hold for long must not keep out those that need one place for a
	// moment. Loopback is not exempt. Without Max it bounds nothing.
	Scarce int64
}

// Counter counts by host. Safe for concurrent use.
type Counter struct {
	limits Limits

	mu struct {
		sync.Mutex

		all  int64
		host map[netip.Addr]int64 // hosts that hold something
	}
}

// New makes a Counter that holds nothing.
func New(limits Limits) *Counter {
	c := &Counter{limits: limits}
	c.mu.host = make(map[netip.Addr]int64)
	return c
}

// HostOf is the address that a connection counts for; a host of IPv6 owns a /64.
// What has no IP address counts for the zero one, which is bounded by Max alone.
func HostOf(addr net.Addr) netip.Addr {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	if ip.Is6() && !ip.IsLoopback() {
		if p, err := ip.Prefix(64); err == nil {
			ip = p.Addr()
		}
	}
	return ip
}

// Take counts n more for host, or returns an error that wraps ErrTooMany, and
// names the bound.
func (c *Counter) Take(host netip.Addr, n int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, own := c.mu.all+n, c.mu.host[host]+n
	switch l := c.limits; {
	case l.Max > 0 && all > l.Max:
		return fmt.Errorf("%w: %d, want at most %d", ErrTooMany, all, l.Max)
	case l.PerHost > 0 && host.IsValid() && !host.IsLoopback() && own > l.PerHost:
		return fmt.Errorf("%w: %d of %v, want at most %d", ErrTooMany, own, host, l.PerHost)
	case l.Scarce > 0 && l.Max > 0 && host.IsValid() && c.mu.all >= l.Max/2 && own > l.Scarce:
		return fmt.Errorf("%w: %d of %v, want at most %d while there are %d", ErrTooMany, own, host, l.Scarce, c.mu.all)
	}
	c.mu.all, c.mu.host[host] = all, own
	return nil
}

// Give gives back n of what host has taken.
func (c *Counter) Give(host netip.Addr, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.all -= n
	if c.mu.host[host] -= n; c.mu.host[host] <= 0 {
		delete(c.mu.host, host)
	}
}

// Taken is what all hosts hold.
func (c *Counter) Taken() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.all
}

// Place is one place in a Counter. The zero value holds none.
type Place struct {
	c    *Counter
	host netip.Addr
}

// Enter takes one place for the host at addr, as Take does.
func (c *Counter) Enter(addr net.Addr) (Place, error) {
	host := HostOf(addr)
	if err := c.Take(host, 1); err != nil {
		return Place{}, err
	}
	return Place{c: c, host: host}, nil
}

// Leave gives the place back. It may be called again, by one goroutine at a time.
func (p *Place) Leave() {
	if p.c != nil {
		p.c.Give(p.host, 1)
		p.c = nil
	}
}
