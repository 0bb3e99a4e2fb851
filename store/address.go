package store

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Address is where a store is: a server, and the prefix of our keys in it.
type Address struct {
	Host   string // name, IPv4 or IPv6 without brackets
	Port   int    // 1 to 65535
	Prefix string // without slashes at its ends; empty for none
}

// ParseAddress reads "host:port", "host:port/prefix" and "[v6]:port/prefix".
// The prefix may have several parts; slashes at its ends do not count.
func ParseAddress(s string) (Address, error) {
	bad := func(why string) (Address, error) {
		return Address{}, fmt.Errorf("store address %q: %s, want host:port or host:port/prefix", s, why)
	}
	if strings.Contains(s, "://") {
		return bad("has a scheme")
	}
	hostPort, prefix, _ := strings.Cut(s, "/")
	if strings.Count(hostPort, ":") > 1 && !strings.HasPrefix(hostPort, "[") {
		return bad("an IPv6 host needs brackets")
	}
	host, port, err := net.SplitHostPort(hostPort)
	switch {
	case err != nil && !strings.Contains(hostPort, ":"):
		return bad("has no port")
	case err != nil:
		return bad("is malformed")
	case host == "":
		return bad("has no host")
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return bad(fmt.Sprintf("port %q is not a number from 1 to 65535", port))
	}
	return Address{Host: host, Port: int(n), Prefix: strings.Trim(prefix, "/")}, nil
}

// HostPort is the address to dial, with brackets where IPv6 needs them.
func (a Address) HostPort() string {
	return net.JoinHostPort(a.Host, strconv.Itoa(a.Port))
}

// String is what ParseAddress reads.
func (a Address) String() string {
	if a.Prefix == "" {
		return a.HostPort()
	}
	return a.HostPort() + "/" + a.Prefix
}
