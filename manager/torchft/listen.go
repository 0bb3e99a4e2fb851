package torchft

import (
	"context"
	"fmt"
	"net"

	"github.com/skerry-ft/skerry/internal/netaddr"
)

// openRemedy is what to set for a manager that other hosts reach.
const openRemedy = "torchft's ranks know no token; set Config.Open (--open, SKERRY_OPEN=1) to let whoever comes " +
	"vote for this replica or kill it, as torchft's own manager does; see docs/SECURITY.md"

// checkListen refuses a Listen that strangers would reach, one that peers would not,
// and a lighthouse whose name nobody knows within netaddr.LookupTimeout.
func (c Config) checkListen() error {
	ctx, cancel := context.WithTimeout(context.Background(), netaddr.LookupTimeout)
	defer cancel()
	var servers []string
	for _, addr := range c.Lighthouse {
		servers = append(servers, netaddr.HostPort(addr))
	}
	meeting, own, err := netaddr.Meeting(ctx, servers)
	if err != nil {
		return fmt.Errorf("lighthouse %w", err)
	}
	if err := netaddr.Check(ctx, c.Listen, c.Open, openRemedy); err != nil {
		return fmt.Errorf("Listen = %s (--listen): %w", c.Listen, err)
	}
	if reached, err := netaddr.Reached(ctx, c.Listen); err != nil || reached || meeting == "" {
		return err
	}
	return fmt.Errorf("Listen = %s (--listen) is loopback, which no other host reaches, and the lighthouse at %s is not: "+
		"set it to %s, with Open (--open, SKERRY_OPEN=1)", c.Listen, meeting, net.JoinHostPort(own.String(), "0"))
}
