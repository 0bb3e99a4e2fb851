package netaddr

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/skerry-ft/skerry/internal/backoff"
)

// lookupAgain is the pause between two tries to find names that nobody knows.
const lookupAgain = 250 * time.Millisecond

// Meeting is the first of some addresses, "host:port" each, at which a process and
// its peers meet that is not this host's loopback, and this host's own address on
// the way there: where peers on other hosts reach it. If all are loopback, or there
// are none, meeting is "", and own is loopback of the first one's family.
//
// Names that nobody knows are tried again until ctx ends, for they may be made at
// this moment, above all in Kubernetes; one that is known is enough.
func Meeting(ctx context.Context, addresses []string) (meeting string, own netip.Addr, err error) {
	for {
		var problem error
		for _, address := range addresses {
			at, elsewhere, err := toward(ctx, address)
			switch {
			case err != nil && problem != nil:
				problem = fmt.Errorf("%w; %s: %w", problem, address, err)
			case err != nil:
				problem = fmt.Errorf("%s: %w", address, err)
			case elsewhere:
				return address, at, nil
			case !own.IsValid():
				own = at
			}
		}
		if problem == nil || own.IsValid() {
			return "", own, nil
		}
		if backoff.Sleep(ctx, lookupAgain) != nil {
			return "", netip.Addr{}, problem
		}
	}
}

// toward is this host's address on the way to another, and whether that is
// elsewhere: not loopback. A name is elsewhere even if this host knows it as its own
// loopback, as Debian does with the host's own name: others know it as something
// else.
func toward(ctx context.Context, address string) (own netip.Addr, elsewhere bool, err error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return netip.Addr{}, false, err
	}
	all, err := Lookup(ctx, host)
	if err != nil {
		return netip.Addr{}, false, err
	}
	for i, ip := range all {
		if ip.IsUnspecified() { // is dialled as loopback
			all[i] = netip.IPv6Loopback()
			if ip.Is4() {
				all[i] = netip.AddrFrom4([4]byte{127, 0, 0, 1})
			}
			return all[i], false, nil
		}
		if ip.IsLoopback() {
			continue
		}
		if own, err = RouteFrom(ip); err == nil {
			return own, true, nil
		}
	}
	if err != nil { // there is no way to any of them
		return netip.Addr{}, false, err
	}
	if !Loopback(host) {
		if own, ok := Outward(); ok {
			return own, true, nil
		}
	}
	return all[0], false, nil
}
