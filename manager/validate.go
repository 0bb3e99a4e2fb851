package manager

import (
	"cmp"
	"net"

	"github.com/skerry-ft/skerry/internal/netaddr"
	"github.com/skerry-ft/skerry/internal/problems"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/manager/internal/session"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/store"
)

// uuidSuffixBytes is what New appends to a name: ":" and a UUID.
const uuidSuffixBytes = 37

// withDefaults replaces zero values by the defaults that the fields name.
func (c Config) withDefaults() Config {
	c.Job = cmp.Or(c.Job, DefaultJob)
	c.GroupWorldSize = cmp.Or(c.GroupWorldSize, 1)
	c.Listen = cmp.Or(c.Listen, DefaultListen)
	c.Advertise = netaddr.Bare(c.Advertise)
	c.MinReplicas = cmp.Or(c.MinReplicas, 1)
	c.ParityEvery = cmp.Or(c.ParityEvery, quorum.DefaultParityEvery)
	c.StepTimeout = cmp.Or(c.StepTimeout, DefaultStepTimeout)
	c.HealTimeout = cmp.Or(c.HealTimeout, max(DefaultHealTimeout, c.StepTimeout))
	return c
}

// Validate returns all problems, joined, each as "Field = value, want bound".
// Zero values stand for their defaults.
func (c Config) Validate() error {
	c = c.withDefaults()
	var l problems.List
	problems.Within(&l, "OnDiffering", c.OnDiffering, HealDiffering, StopAll)
	l.Want(quorum.ValidParityEvery(c.ParityEvery), "ParityEvery", c.ParityEvery,
		"a power of two, 0 for %d, or -1 for never", quorum.DefaultParityEvery)
	problems.Within(&l, "GroupWorldSize", c.GroupWorldSize, 1, wire.MaxGroupWorldSize)
	l.Want(c.GroupRank >= 0 && c.GroupRank < max(c.GroupWorldSize, 1), "GroupRank", c.GroupRank,
		"0 to GroupWorldSize - 1 = %d", c.GroupWorldSize-1)
	if c.GroupWorldSize > 1 {
		_, err := store.ParseAddress(c.GroupStore)
		l.Want(err == nil, "GroupStore", c.GroupStore, "the address of the replica group's store, since GroupWorldSize = %d: %w",
			c.GroupWorldSize, err)
	}
	_, err := wire.CheckJob(c.Job)
	l.Add(err)
	l.Want(c.Guard.TLSCA == "" || c.Guard.TLSCert != "", "Guard.TLSCert", "",
		"this replica's certificate, since TLSCA = %q: replicas serve each other", c.Guard.TLSCA)
	l.About("Config.Guard", c.Guard.Validate())
	if c.GroupRank == 0 {
		c.validateHub(&l)
	}
	c.validateRules(&l)
	return l.Err()
}

// validateHub checks what only group rank 0 uses.
func (c Config) validateHub(l *problems.List) {
	if most := wire.MaxReplicaIDBytes - uuidSuffixBytes; c.ReplicaID == "" || len(c.ReplicaID) > most {
		l.Want(c.ReplicaID != "", "ReplicaID", "", "this replica group's name (REPLICA_GROUP_ID)")
		l.Short("ReplicaID", len(c.ReplicaID), most)
	} else {
		_, err := wire.CheckReplicaID(c.ReplicaID)
		l.About("ReplicaID", err)
	}
	servers := session.Addresses(c.Lighthouse) // [""] and [","] name none
	l.Want(len(servers) > 0, "Lighthouse", c.Lighthouse, "the address of at least one lighthouse server, host:port (SKERRY_LIGHTHOUSE)")
	for _, addr := range servers {
		host, port, err := net.SplitHostPort(netaddr.HostPort(addr))
		l.Want(err == nil && host != "" && port != "", "Lighthouse", addr, "host:port")
	}
	netaddr.CheckAdvertised(l, c.Listen, c.Advertise)
	l.Want(c.Advertise == "" || netaddr.IsHost(c.Advertise), "Advertise", c.Advertise, "a host without port or scheme")
}

// validateRules checks the rules of a step.
func (c Config) validateRules(l *problems.List) {
	problems.Within(l, "MinReplicas", c.MinReplicas, 1, wire.MaxMembers)
	problems.Within(l, "FixedWorldSize", c.FixedWorldSize, 0, wire.MaxMembers)
	l.Want(c.FixedWorldSize <= 0 || c.MinReplicas <= c.FixedWorldSize, "MinReplicas", c.MinReplicas,
		"at most FixedWorldSize = %d: no step could ever be committed", c.FixedWorldSize)
	l.Want(c.TotalSteps >= 0 && c.TotalSteps <= wire.MaxNumber, "TotalSteps", c.TotalSteps,
		"0 (not known) to %d", int64(wire.MaxNumber))
	l.Want(c.MaxRetries >= 0, "MaxRetries", c.MaxRetries, "0 (no limit) or more")
	problems.Within(l, "StepTimeout", c.StepTimeout, minDerived, wire.MaxTimeout)
	problems.Within(l, "HealTimeout", c.HealTimeout, minDerived, wire.MaxTimeout)
	l.Want(c.HealTimeout >= c.StepTimeout, "HealTimeout", c.HealTimeout,
		"StepTimeout = %v or more: a heal is beside a step, and must not end before it", c.StepTimeout)
	l.Add(c.Start.validate())
	l.Want(c.HealBackend == nil || c.Transport == nil && c.Network == nil, "HealBackend", "set",
		"nil with a Transport or a Network: its groups meet over TCP")
	l.Want(c.Backend != nil, "Backend", c.Backend, "a process group, for example pg/tcp's")
}
