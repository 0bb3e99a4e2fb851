package lighthousecmd

import (
	"github.com/spf13/pflag"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/cluster"
)

// clusterFlags are those of a server that is one of several.
type clusterFlags struct {
	timing        *cli.Choice
	gossipKeyFile string
}

func (c *clusterFlags) add(f *pflag.FlagSet, cfg *lighthouse.Config) {
	k := &cfg.Cluster
	f.IntVar(&k.Expect, "bootstrap-expect", 0, "found a cluster of 1, 3 or 5 servers once all of them are there")
	f.StringSliceVar(&k.Join, "join", nil, "RPC addresses of other servers, host:port,…; one that answers is enough")
	f.StringVar(&k.RaftAddress, "raft-address", "", "address for raft, host:port; empty: --bind with its port + 1")
	f.StringVar(&k.GossipAddress, "gossip-address", "", "address for gossip (TCP and UDP), host:port; empty: --bind with its port + 2")
	f.IntVar(&k.Voters, "voters", 0, "voters that the cluster shall have, 1, 3 or 5; 0: --bootstrap-expect, or what the others say")
	f.BoolVar(&k.NonVoter, "non-voter", false, "forward and never vote")
	f.DurationVar(&k.ReplaceAfter, "replace-after", cluster.DefaultReplaceAfter, "how long a voter must be gone before a spare takes its place")
	c.timing = cli.NewChoice("default", "fast", "slow")
	f.Var(c.timing, "raft-timing", "how quickly a leader is replaced, and how easily")
	f.DurationVar(&cfg.Raft.DiskTimeout, "disk-timeout", cluster.DefaultDiskTimeout, "how long a write to the disk may take before another server leads")
	f.StringVar((*string)(&cfg.Guard.Adopt), "adopt", "", "step of giving a running cluster TLS, a token or a gossip key: listen, then speak, then without; unguarded until then")
	f.StringVar(&c.gossipKeyFile, "gossip-key-file", "", "file with the keys of gossip: 16, 24 or 32 bytes in base64, one a line; the first is used, all are accepted; read again when it changes")
}

// apply moves what needs looking up into cfg.
func (c *clusterFlags) apply(f *pflag.FlagSet, cfg *lighthouse.Config) error {
	t := cluster.Timings()[c.timing.String()]
	if f.Changed("raft-timing") {
		cfg.Raft.Heartbeat, cfg.Raft.Election, cfg.Raft.Lease = t.Heartbeat, t.Election, t.Lease
	}
	if !f.Changed("replace-after") {
		cfg.Cluster.ReplaceAfter = 0
	}
	if !f.Changed("disk-timeout") {
		cfg.Raft.DiskTimeout = 0
	}
	if c.gossipKeyFile == "" {
		return nil
	}
	keys, err := guard.OpenKeys(c.gossipKeyFile)
	if err != nil {
		return cli.Usagef("--gossip-key-file = %q, want a file of keys: %w", c.gossipKeyFile, err)
	}
	cfg.Cluster.GossipKeys = keys.All
	return nil
}
