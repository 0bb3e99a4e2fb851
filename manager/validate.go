package manager

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/skerry-ft/skerry/internal/netaddr"
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
	c.MinReplicas = cmp.Or(c.MinReplicas, 1)
	c.ParityEvery = cmp.Or(c.ParityEvery, quorum.DefaultParityEvery)
	c.StepTimeout = cmp.Or(c.StepTimeout, DefaultStepTimeout)
	c.HealTimeout = cmp.Or(c.HealTimeout, DefaultHealTimeout)
	return c
}

// Validate returns all problems, joined, each as "Field = value, want bound".
// Zero values stand for their defaults.
func (c Config) Validate() error {
	c = c.withDefaults()
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if !quorum.ValidParityEvery(c.ParityEvery) {
		bad("ParityEvery = %d, want a power of two, 0 for %d, or -1 for never", c.ParityEvery, quorum.DefaultParityEvery)
	}
	if c.GroupWorldSize < 1 || c.GroupWorldSize > wire.MaxGroupWorldSize {
		bad("GroupWorldSize = %d, want 1 to %d", c.GroupWorldSize, wire.MaxGroupWorldSize)
	}
	if c.GroupRank < 0 || c.GroupRank >= max(c.GroupWorldSize, 1) {
		bad("GroupRank = %d, want 0 to GroupWorldSize - 1 = %d", c.GroupRank, c.GroupWorldSize-1)
	}
	if c.GroupWorldSize > 1 {
		if _, err := store.ParseAddress(c.GroupStore); err != nil {
			bad("GroupStore = %q, want the address of the replica group's store, since GroupWorldSize = %d: %w",
				c.GroupStore, c.GroupWorldSize, err)
		}
	}
	if _, err := wire.CheckJob(c.Job); err != nil {
		problems = append(problems, err)
	}
	if c.Guard.TLSCA != "" && c.Guard.TLSCert == "" {
		bad("Guard.TLSCert is empty, want this replica's certificate, since TLSCA = %q: replicas serve each other", c.Guard.TLSCA)
	}
	if err := c.Guard.Validate(); err != nil {
		problems = append(problems, fmt.Errorf("Config.Guard: %w", err))
	}
	if c.GroupRank == 0 {
		problems = append(problems, c.validateHub()...)
	}
	problems = append(problems, c.validateRules()...)
	return errors.Join(problems...)
}

// validateHub checks what only group rank 0 uses.
func (c Config) validateHub() []error {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	switch {
	case c.ReplicaID == "":
		bad("ReplicaID is empty, want this replica group's name")
	case len(c.ReplicaID) > wire.MaxReplicaIDBytes-uuidSuffixBytes:
		bad("ReplicaID has %d bytes, want at most %d", len(c.ReplicaID), wire.MaxReplicaIDBytes-uuidSuffixBytes)
	default:
		if _, err := wire.CheckReplicaID(c.ReplicaID); err != nil {
			bad("ReplicaID: %w", err)
		}
	}
	if len(c.Lighthouse) == 0 {
		bad("Lighthouse is empty, want the address of at least one lighthouse server, host:port")
	}
	for _, addr := range session.Addresses(c.Lighthouse) {
		if host, port, err := net.SplitHostPort(netaddr.HostPort(addr)); err != nil || host == "" || port == "" {
			bad("Lighthouse = %q, want host:port", addr)
		}
	}
	host, _, err := net.SplitHostPort(c.Listen)
	switch ip := net.ParseIP(host); {
	case err != nil:
		bad("Listen = %q, want host:port", c.Listen)
	case c.Advertise == "" && (host == "" || ip != nil && ip.IsUnspecified()):
		bad("Advertise is empty, want the host that peers dial, since Listen = %q is every interface", c.Listen)
	}
	if strings.Contains(c.Advertise, "/") {
		bad("Advertise = %q, want a host without port or scheme", c.Advertise)
	}
	return problems
}

// validateRules checks the rules of a step.
func (c Config) validateRules() []error {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if c.MinReplicas < 1 || c.MinReplicas > wire.MaxMembers {
		bad("MinReplicas = %d, want 1 to %d", c.MinReplicas, wire.MaxMembers)
	}
	if c.FixedWorldSize < 0 || c.FixedWorldSize > wire.MaxMembers {
		bad("FixedWorldSize = %d, want 0 to %d", c.FixedWorldSize, wire.MaxMembers)
	}
	if c.FixedWorldSize > 0 && c.MinReplicas > c.FixedWorldSize {
		bad("MinReplicas = %d, want at most FixedWorldSize = %d: no step could ever be committed",
			c.MinReplicas, c.FixedWorldSize)
	}
	if c.MaxRetries < 0 {
		bad("MaxRetries = %d, want 0 (no limit) or more", c.MaxRetries)
	}
	if c.StepTimeout < minDerived || c.StepTimeout > wire.MaxTimeout {
		bad("StepTimeout = %v, want %v to %v", c.StepTimeout, minDerived, wire.MaxTimeout)
	}
	if c.HealTimeout < minDerived || c.HealTimeout > wire.MaxTimeout {
		bad("HealTimeout = %v, want %v to %v", c.HealTimeout, minDerived, wire.MaxTimeout)
	}
	problems = append(problems, c.Start.validate()...)
	if c.Backend == nil {
		bad("Backend is nil, want a process group, for example pg/tcp's")
	}
	return problems
}
