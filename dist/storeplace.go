package dist

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/skerry-ft/skerry/internal/netaddr"
	"github.com/skerry-ft/skerry/pg/netif"
)

// openRemedy is what to set for a world that other hosts reach.
const openRemedy = "set InitConfig.Token on all ranks, or InitConfig.Open (SKERRY_OPEN=1) to let whoever comes " +
	"write to the store and take part, as PyTorch does"

// storePlace is where rank 0 listens so that all ranks reach it at advertised,
// "host:port", and by which address of its own it reaches the store itself, "" for
// the listener's.
//
// Loopback is for this host alone, and one of its interfaces' addresses is listened
// at as it is. Anything else may be known to other hosts as something else than to
// this one: a name, which Debian gives the host itself as 127.0.1.1, or the address
// of a service or of a translation, which is no interface's. Then it is every
// interface, as PyTorch has it. So it is for an empty host where allowed says that
// strangers cannot enter, or may; else that is loopback.
func storePlace(ctx context.Context, advertised string, allowed bool) (bind, own string, err error) {
	host, port, err := net.SplitHostPort(advertised)
	if err != nil {
		return "", "", err
	}
	all := net.JoinHostPort("", port)
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	literal := err == nil
	switch {
	case host == "" && !allowed:
		return net.JoinHostPort("127.0.0.1", port), "", nil
	case host == "":
		bind, own = all, outwardAddress(ctx)
	case literal && ip.IsMulticast():
		return "", "", fmt.Errorf("%s is a multicast address, want one at which all ranks reach rank 0", host)
	case literal && ip.IsUnspecified():
		bind, own = advertised, outwardAddress(ctx)
	case netaddr.Loopback(host) || literal && netaddr.Own(ip):
		bind = advertised
	case literal:
		bind, own = all, outwardAddress(ctx)
	default:
		bind = all
		if own, err = ownAddress(ctx, host); err != nil {
			return "", "", err
		}
	}
	return bind, own, netaddr.Check(ctx, bind, allowed, openRemedy)
}

// ownAddress is the address among those of a name that is one of this host's
// interfaces, or else the one by which others most likely reach it.
func ownAddress(ctx context.Context, name string) (string, error) {
	all, err := netaddr.Lookup(ctx, name)
	if err != nil {
		return "", err
	}
	for _, ip := range all {
		if !ip.IsLoopback() && !ip.IsLinkLocalUnicast() && netaddr.Own(ip) {
			return ip.String(), nil
		}
	}
	return outwardAddress(ctx), nil
}

// outwardAddress is netif.HostAddress, unless that is loopback and this host has another.
func outwardAddress(ctx context.Context) string {
	named := netif.HostAddress(ctx)
	if !netaddr.Loopback(named) {
		return named
	}
	if ip, ok := netaddr.Outward(); ok {
		return ip.String()
	}
	return named
}
