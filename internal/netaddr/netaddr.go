// Package netaddr tells addresses that this host alone can reach from those that
// others reach, and finds the ones that they do. It sends nothing but what the
// resolver of this host asks; it has no state.
//
// The rule of all listeners is here, too: see Check.
package netaddr

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skerry-ft/skerry/internal/problems"
)

// EnvOpen is the variable that lets every program of ours listen beyond loopback
// without a guard: 1 or 0.
const EnvOpen = "SKERRY_OPEN"

// LookupTimeout bounds the search for the addresses of one name.
const LookupTimeout = 5 * time.Second

// ErrUnguarded is what Check returns for a listener that strangers would reach.
var ErrUnguarded = errors.New("nothing guards it")

// OpenFromEnv reads EnvOpen; a variable that is not set is false.
func OpenFromEnv() (bool, error) {
	text := os.Getenv(EnvOpen)
	if text == "" {
		return false, nil
	}
	open, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("%s = %q, want 1 or 0", EnvOpen, text)
	}
	return open, nil
}

// CheckAdvertised tells l what is wrong with an address to listen at, "host:port", and
// the host by which peers dial it, which may be empty unless that is every interface.
func CheckAdvertised(l *problems.List, listen, advertise string) {
	host, _, err := net.SplitHostPort(listen)
	l.Want(err == nil, "Listen", listen, "host:port")
	everywhere := err == nil && Wildcard(host)
	l.Want(advertise != "" || !everywhere, "Advertise", "", "the host that peers dial, since Listen = %q is every interface", listen)
}

// Bare is a host without the brackets of an IPv6 address.
func Bare(host string) string {
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		return host[1 : len(host)-1]
	}
	return host
}

// IsHost says whether s is a name or an IP address, without port, scheme or brackets.
func IsHost(s string) bool {
	if _, err := netip.ParseAddr(s); err == nil {
		return true
	}
	return s != "" && !strings.ContainsAny(s, "/:[] ")
}

// Check is the rule of all listeners: on loopback they need nothing; where other
// hosts reach them, a guard, or the word of whoever starts them that they shall be
// open. address is the one to listen at, "host:port"; allowed says that there is a
// guard, or that word; remedy what to set. A name is looked up, for LookupTimeout
// at most.
func Check(ctx context.Context, address string, allowed bool, remedy string) error {
	if allowed {
		return nil
	}
	reached, err := Reached(ctx, address)
	if err != nil || !reached {
		return err
	}
	return fmt.Errorf("other hosts reach %s, and %w: %s", address, ErrUnguarded, remedy)
}

// Reached says whether other hosts can connect to a listener at "host:port": not
// on loopback. An empty host is every interface.
func Reached(ctx context.Context, address string) (bool, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, fmt.Errorf("address %q, want host:port: %w", address, err)
	}
	if Wildcard(host) {
		return true, nil
	}
	all, err := Lookup(ctx, host)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(all, func(ip netip.Addr) bool { return !ip.IsLoopback() }), nil
}

// Wildcard says whether a host to listen at means every interface.
func Wildcard(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

// Loopback says whether a host, by its spelling alone, is this one's loopback.
func Loopback(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback() || host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// Lookup returns the addresses of a host as this one knows them, at least one. It
// waits for LookupTimeout at most.
func Lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return []netip.Addr{ip.Unmap()}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, LookupTimeout)
	defer cancel()
	all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err == nil && len(all) == 0 {
		err = errors.New("it has none")
	}
	if err != nil {
		return nil, fmt.Errorf("find the address of %q: %w", host, err)
	}
	for i := range all {
		all[i] = all[i].Unmap()
	}
	return all, nil
}

// RouteFrom is the address of this host from which packets to ip leave. It asks
// the routing table, and sends nothing.
func RouteFrom(ip netip.Addr) (netip.Addr, error) {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(ip, 9)))
	if err != nil {
		return netip.Addr{}, fmt.Errorf("find the route to %v: %w", ip, err)
	}
	defer c.Close() //nolint:errcheck // nothing was sent
	local, ok := c.LocalAddr().(*net.UDPAddr)
	if !ok {
		return netip.Addr{}, fmt.Errorf("find the route to %v: the local address is a %T", ip, c.LocalAddr())
	}
	return local.AddrPort().Addr().Unmap(), nil
}

// Own says whether ip is one of an interface of this host.
func Own(ip netip.Addr) bool {
	all, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(all, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(net.IP(ip.Unmap().AsSlice()))
	})
}

// Outward is the address of this host by which others most likely reach it: where
// packets to far away leave from, else the first of its interfaces that is not
// loopback. ok is false if there is none.
func Outward() (outward netip.Addr, ok bool) {
	// Addresses for documentation (RFC 5737, RFC 3849): they are nobody's.
	for _, far := range []string{"192.0.2.1", "2001:db8::1"} {
		ip, err := RouteFrom(netip.MustParseAddr(far))
		if err == nil && !ip.IsLoopback() && !ip.IsUnspecified() && !ip.IsLinkLocalUnicast() {
			return ip, true
		}
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, false
	}
	for _, a := range all {
		n, isNet := a.(*net.IPNet)
		if !isNet {
			continue
		}
		if ip, valid := netip.AddrFromSlice(n.IP); valid && ip.Unmap().IsGlobalUnicast() {
			return ip.Unmap(), true
		}
	}
	return netip.Addr{}, false
}

// HostPort strips what makes an address a URL.
func HostPort(address string) string {
	for _, scheme := range []string{"http://", "https://", "grpc://", "tcp://"} {
		address = strings.TrimPrefix(address, scheme)
	}
	return strings.TrimSuffix(address, "/")
}
