package dist

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// checkMeeting refuses an address of rank 0's store at which no rank can ever meet, which
// else would be tried until the deadline. Serve says that this rank is to listen there;
// any other one dials it. Names are left to the resolver.
func checkMeeting(address string, worldSize int, serve bool) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("dist: meet at %q: %w", address, err)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 && worldSize > 1 {
		return fmt.Errorf("dist: meet at %q: port %q, want a number from 1 to 65535 that all ranks are given", address, port)
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return nil // a name, or empty: checked by who needs it
	}
	if err := checkMeetingIP(ip.Unmap(), serve); err != nil {
		return fmt.Errorf("dist: meet at %q: %w", address, err)
	}
	return nil
}

func checkMeetingIP(ip netip.Addr, serve bool) error {
	switch {
	case ip.IsMulticast():
		return errors.New("a multicast address, want one of rank 0's host")
	case ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return errors.New("the broadcast address, want one of rank 0's host")
	case ip.IsUnspecified() && !serve:
		return errors.New("the unspecified address, at which only rank 0 can listen; want one of rank 0's host")
	case ip.Is6() && ip.IsLinkLocalUnicast() && ip.Zone() == "":
		return errors.New("a link-local address without a zone, want one like fe80::1%eth0 (in a URL: fe80::1%25eth0)")
	}
	return nil
}
