package lighthouse

import (
	"context"
	"fmt"
	"net"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/netaddr"
)

// What to set for a listener that other hosts reach.
const (
	guardRemedy = "set --token-file, or --tls-ca, --tls-cert and --tls-key (Config.Guard), " +
		"or --open to let whoever comes join, drain, evict and kill; see docs/OPERATIONS.md"
	gossipRemedy = "set --gossip-key-file (Config.Cluster.GossipKeys), " +
		"or --open to let whoever comes say which servers there are; see docs/OPERATIONS.md"
)

// checkListeners refuses what strangers would reach, and what those who are told
// of it would not. Names are looked up, for seconds at most.
func (c *Config) checkListeners(g *guard.Guard) error {
	ctx := context.Background() // bounded by netaddr.LookupTimeout
	if err := g.CheckListen(ctx, c.Listen, guardRemedy); err != nil {
		return fmt.Errorf("Listen = %s (--bind): %w", c.Listen, err)
	}
	if c.Cluster.Several() {
		if err := g.CheckListen(ctx, c.Cluster.RaftAddress, guardRemedy); err != nil {
			return fmt.Errorf("Cluster.RaftAddress = %s (--raft-address): %w", c.Cluster.RaftAddress, err)
		}
		keyed := c.Cluster.GossipKeys != nil || g.Open || g.Adopt.Lenient()
		if err := netaddr.Check(ctx, c.Cluster.GossipAddress, keyed, gossipRemedy); err != nil {
			return fmt.Errorf("Cluster.GossipAddress = %s (--gossip-address): %w", c.Cluster.GossipAddress, err)
		}
	}
	return c.checkAdvertised(ctx)
}

// checkAdvertised refuses a server on loopback that other hosts are told of, or
// are to make a cluster with.
func (c *Config) checkAdvertised(ctx context.Context) error {
	if reached, err := netaddr.Reached(ctx, c.Listen); err != nil || reached {
		return err
	}
	_, port, _ := net.SplitHostPort(c.Listen) // Reached has looked at it
	refused := func(field, address string) error {
		return fmt.Errorf("Listen = %s (--bind) is loopback, which no other host reaches, and %s = %s is not: set --bind :%s, or this host's address",
			c.Listen, field, address, port)
	}
	if host, _, err := net.SplitHostPort(c.Advertise); err == nil && !netaddr.Loopback(host) {
		return refused("Advertise", c.Advertise)
	}
	for _, a := range c.Cluster.Join {
		if host, _, err := net.SplitHostPort(a); err == nil && !netaddr.Loopback(host) {
			return refused("Cluster.Join", a)
		}
	}
	return nil
}
