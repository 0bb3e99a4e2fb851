package manager

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/netaddr"
	"github.com/skerry-ft/skerry/manager/internal/session"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/store"
)

// guardRemedy is what to set for a replica that other hosts reach.
const guardRemedy = "set Config.Guard (SKERRY_TOKEN_FILE; or SKERRY_TLS_CA, SKERRY_TLS_CERT, SKERRY_TLS_KEY), " +
	"or Guard.Open (SKERRY_OPEN=1) to let whoever comes vote for this replica or kill it; see docs/OPERATIONS.md"

// place settles where this replica listens, if nobody said so (unset), and refuses
// what its peers could not reach, or strangers would. It waits for names of the
// lighthouse for netaddr.LookupTimeout at most.
//
// Peers are where the lighthouse is: with one on loopback they are on this host;
// with one elsewhere they may be anywhere, and reach this host where packets to the
// lighthouse leave it.
func (c *Config) place(g *guard.Guard, unset bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), netaddr.LookupTimeout)
	defer cancel()
	if c.Network == nil {
		meeting, own, err := c.meeting(ctx)
		if err != nil {
			return err
		}
		if err := c.placeFor(ctx, meeting, own, unset); err != nil {
			return err
		}
	}
	if err := g.CheckListen(ctx, c.Listen, guardRemedy); err != nil {
		if unset {
			return fmt.Errorf("Listen = \"\" means %s, since the lighthouse is not on loopback: %w", c.Listen, err)
		}
		return fmt.Errorf("Listen = %s: %w", c.Listen, err)
	}
	return nil
}

// placeFor settles Listen for replicas that meet at an address, "" for this host's
// loopback; own is where they reach this host.
func (c *Config) placeFor(ctx context.Context, meeting string, own netip.Addr, unset bool) error {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return fmt.Errorf("Listen = %q, want host:port: %w", c.Listen, err)
	}
	told := c.Advertise != "" && !netaddr.Loopback(c.Advertise)
	switch {
	case unset && meeting != "":
		c.Listen = net.JoinHostPort(own.String(), "0")
	case unset && told: // the lighthouse is on this host, and peers elsewhere
		c.Listen = ":0"
	case unset && own.Is6():
		c.Listen = net.JoinHostPort(own.String(), "0")
	case !unset && meeting != "" && !netaddr.Wildcard(host):
		reached, err := netaddr.Reached(ctx, c.Listen)
		if err == nil && !reached {
			err = fmt.Errorf("Listen = %s is loopback, which no other host reaches, and the lighthouse at %s is not: "+
				"leave Listen (SKERRY_LISTEN) out, or set it to %s", c.Listen, meeting, net.JoinHostPort(own.String(), "0"))
		}
		if err != nil {
			return err
		}
	}
	if meeting != "" && netaddr.Loopback(c.Advertise) {
		return fmt.Errorf("Advertise = %s is loopback, which no other host reaches, and the lighthouse at %s is not: "+
			"leave Advertise (SKERRY_ADVERTISE) out, or set it to %s", c.Advertise, meeting, own)
	}
	return nil
}

// meeting is the first of the addresses at which replicas meet that is not this
// host's loopback, and this host's own address on the way there; see
// netaddr.Meeting.
func (c *Config) meeting(ctx context.Context) (meeting string, own netip.Addr, err error) {
	field, addresses := "lighthouse", session.Addresses(c.Lighthouse)
	if len(addresses) == 0 && c.GroupRank != 0 { // which need not know the lighthouse
		if a, err := store.ParseAddress(c.GroupStore); err == nil {
			field, addresses = "group store", []string{a.HostPort()}
		}
	}
	if meeting, own, err = netaddr.Meeting(ctx, addresses); err != nil {
		return "", netip.Addr{}, fmt.Errorf("%s %w", field, err)
	}
	return meeting, own, nil
}

// admit says whether this replica can train in a quorum, before its ranks get it.
func (m *Manager) admit(q *quorum.Quorum) error { return astray(m.Address(), m.id, q) }

// astray is why a replica that is told to its peers at address can train with none of
// them: it is on loopback, and a member of q is on another host, by an address that is
// none of this one's. That shows when the lighthouse was reached over loopback, and
// peers come to it from elsewhere.
func astray(address string, self quorum.ReplicaID, q *quorum.Quorum) error {
	own, _, err := net.SplitHostPort(netaddr.HostPort(address))
	if err != nil || !netaddr.Loopback(own) {
		return nil
	}
	for _, member := range q.Members {
		host, _, err := net.SplitHostPort(netaddr.HostPort(member.Address))
		if err != nil || member.ReplicaID == self {
			continue
		}
		ip, err := netip.ParseAddr(host)
		if err == nil && !ip.IsLoopback() && !netaddr.Own(ip) {
			return fmt.Errorf("%w: %s of quorum %d is at %s, on another host, and this replica at %s, which is loopback: "+
				"give Lighthouse the address that other hosts know, or set Listen (SKERRY_LISTEN)",
				ErrAstray, member.ReplicaID, q.ID, member.Address, address)
		}
	}
	return nil
}
