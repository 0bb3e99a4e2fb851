package cluster

import (
	"fmt"
	"net"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/lighthouse/internal/network"
)

// Config is what Open needs. All but Options, Raft and DataDir is the server's.
type Config struct {
	Options

	// Raft says how this server takes part in raft.
	Raft RaftOptions

	// DataDir is the folder for the raft log, snapshots and ids. Empty keeps the
	// ledger in memory.
	DataDir string

	// Addr is where the server answers RPC, and Listen the same as an operator
	// named it. Advertise is the address by which others find it; empty is Addr's,
	// if that names a host.
	Addr              net.Addr
	Listen, Advertise string

	// Network makes this server's listeners and connections.
	Network network.Network

	// HelloTimeout bounds a handshake with another server.
	HelloTimeout time.Duration

	// Guard has the certificate and the token for what servers say to each other.
	Guard *guard.Guard

	// Version is what other servers and operators are told of this program.
	Version string

	// Log receives what happens, Sampled the lines that strangers cause.
	Log, Sampled zerolog.Logger
}

// ownAddress is the address that clients are told, "" if none can be told: "all
// interfaces" is no address.
func (c *Config) ownAddress() string {
	if c.Advertise != "" {
		return c.Advertise
	}
	addr, ok := c.Addr.(*net.TCPAddr)
	if !ok || addr.IP.IsUnspecified() {
		return ""
	}
	return addr.String()
}

// advertisedHost is the host by which other servers reach this one: that of
// Advertise, or of Addr, or else the one of our own from which the first
// server of Join is reached.
func (c *Config) advertisedHost() (string, error) {
	if own := c.ownAddress(); own != "" {
		host, _, err := net.SplitHostPort(own)
		return host, err
	}
	for _, a := range c.Join {
		conn, err := net.Dial("udp", a) // sends nothing: it asks the routing table
		if err != nil {
			continue
		}
		host, _, err := net.SplitHostPort(conn.LocalAddr().String())
		_ = conn.Close() // nothing was sent
		if ip := net.ParseIP(host); err == nil && ip != nil && !ip.IsLoopback() {
			return host, nil
		}
	}
	return "", fmt.Errorf("Advertise = %q, want host:port that other servers can dial: Listen = %s names no host",
		c.Advertise, c.Listen)
}

func portOf(addr net.Addr) string {
	_, port, _ := net.SplitHostPort(addr.String()) // a listener's address has one
	return port
}
