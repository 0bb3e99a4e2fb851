// Package listen settles where a replica listens, so that its peers reach it and strangers
// do not, and says which quorum it can train with nobody of.
package listen

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

// Place is what is known of it: the fields of manager.Config, which has the words.
type Place struct {
	Listen, Advertise string
	Unset             bool // nobody said Listen
	Lighthouse        []string
	GroupRank         int
	GroupStore        string
	Anywhere          bool // the network is not this host's: any address will do
}

// guardRemedy is what to set for a replica that other hosts reach.
const guardRemedy = "set Config.Guard (SKERRY_TOKEN_FILE; or SKERRY_TLS_CA, SKERRY_TLS_CERT, SKERRY_TLS_KEY), " +
	"or Guard.Open (SKERRY_OPEN=1) to let whoever comes vote for this replica or kill it; see docs/OPERATIONS.md"

// Settle says where the replica listens, and refuses what its peers could not reach, or
// strangers would. It waits for names of the lighthouse for netaddr.LookupTimeout at most.
//
// Peers are where the lighthouse is: with one on loopback they are on this host;
// with one elsewhere they may be anywhere, and reach this host where packets to the
// lighthouse leave it.
func (p Place) Settle(g *guard.Guard) (listen string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), netaddr.LookupTimeout)
	defer cancel()
	if !p.Anywhere {
		meeting, own, err := p.meeting(ctx)
		if err != nil {
			return "", err
		}
		if p.Listen, err = p.settleFor(ctx, meeting, own); err != nil {
			return "", err
		}
	}
	if err := g.CheckListen(ctx, p.Listen, guardRemedy); err != nil {
		if p.Unset {
			return "", fmt.Errorf("Listen = \"\" means %s, since the lighthouse is not on loopback: %w", p.Listen, err)
		}
		return "", fmt.Errorf("Listen = %s: %w", p.Listen, err)
	}
	return p.Listen, nil
}

// settleFor settles Listen for replicas that meet at an address, "" for this host's
// loopback; own is where they reach this host.
func (p Place) settleFor(ctx context.Context, meeting string, own netip.Addr) (string, error) {
	host, _, err := net.SplitHostPort(p.Listen)
	if err != nil {
		return "", fmt.Errorf("Listen = %q, want host:port: %w", p.Listen, err)
	}
	ownPort := net.JoinHostPort(own.String(), "0")
	if meeting != "" && netaddr.Loopback(p.Advertise) {
		return "", fmt.Errorf("Advertise = %s is loopback, which no other host reaches, and the lighthouse at %s is not: "+
			"leave Advertise (SKERRY_ADVERTISE) out, or set it to %s", p.Advertise, meeting, own)
	}
	told := p.Advertise != "" && !netaddr.Loopback(p.Advertise)
	switch {
	case p.Unset && meeting != "":
		return ownPort, nil
	case p.Unset && told: // the lighthouse is on this host, and peers elsewhere
		return ":0", nil
	case p.Unset && own.Is6():
		return ownPort, nil
	case !p.Unset && meeting != "" && !netaddr.Wildcard(host):
		reached, err := netaddr.Reached(ctx, p.Listen)
		if err == nil && !reached {
			err = fmt.Errorf("Listen = %s is loopback, which no other host reaches, and the lighthouse at %s is not: "+
				"leave Listen (SKERRY_LISTEN) out, or set it to %s", p.Listen, meeting, ownPort)
		}
		return p.Listen, err
	}
	return p.Listen, nil
}

// meeting is the first of the addresses at which replicas meet that is not this
// host's loopback, and this host's own address on the way there; see
// netaddr.Meeting.
func (p Place) meeting(ctx context.Context) (meeting string, own netip.Addr, err error) {
	field, addresses := "lighthouse", session.Addresses(p.Lighthouse)
	if len(addresses) == 0 && p.GroupRank != 0 { // which need not know the lighthouse
		if a, err := store.ParseAddress(p.GroupStore); err == nil {
			field, addresses = "group store", []string{a.HostPort()}
		}
	}
	if meeting, own, err = netaddr.Meeting(ctx, addresses); err != nil {
		return "", netip.Addr{}, fmt.Errorf("%s %w", field, err)
	}
	return meeting, own, nil
}

// Astray is why a replica that is told to its peers at address can train with none of
// them: it is on loopback, and a member of q is on another host, by an address that is
// none of this one's. That shows when the lighthouse was reached over loopback, and
// peers come to it from elsewhere. nil: it can.
func Astray(address string, self quorum.ReplicaID, q *quorum.Quorum) error {
	own, _, err := net.SplitHostPort(netaddr.HostPort(address))
	if err != nil || !netaddr.Loopback(own) {
		return nil
	}
	for _, p := range peers(q) {
		host, _, err := net.SplitHostPort(netaddr.HostPort(p.Address))
		if err != nil || p.ReplicaID == self {
			continue
		}
		ip, err := netip.ParseAddr(host)
		if err == nil && !ip.IsLoopback() && !netaddr.Own(ip) {
			return fmt.Errorf("%s of quorum %d is at %s, on another host, and this replica at %s, which is loopback: "+
				"give Lighthouse the address that other hosts know, or set Listen (SKERRY_LISTEN)",
				p.ReplicaID, q.ID, p.Address, address)
		}
	}
	return nil
}

// peers are the members of a quorum, or those of whom a view tells: whose stores this replica's ranks
// meet at.
func peers(q *quorum.Quorum) (all []quorum.Peer) {
	for rank, member := range q.Members {
		all = append(all, quorum.Peer{ReplicaID: member.ReplicaID, Rank: rank, Address: member.Address})
	}
	if q.View != nil {
		for _, r := range q.View.Ranks {
			all = append(all, quorum.Peer{ReplicaID: r.Primary, Address: r.StoreAddress})
		}
	}
	return all
}
