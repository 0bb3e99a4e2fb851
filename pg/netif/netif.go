// Package netif finds the addresses of this host at which other ranks reach it, by the
// names of its network interfaces, as GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME give them.
package netif

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/skerry-ft/skerry/internal/netaddr"
)

// The variables that FromEnv reads, the first that is set.
const (
	Env     = "SKERRY_SOCKET_IFNAME"
	EnvGloo = "GLOO_SOCKET_IFNAME"
	EnvNCCL = "NCCL_SOCKET_IFNAME"
)

// FromEnv reads which network interfaces to use: "eth0,eth1".
func FromEnv() []string {
	for _, name := range []string{Env, EnvGloo, EnvNCCL} {
		if s := os.Getenv(name); s != "" {
			return Parse(s)
		}
	}
	return nil
}

// Parse cuts a list of interfaces at its commas. A mark before the
// list holds for all of it, as NCCL has it: "^docker,lo", "=eth0,eth1".
func Parse(s string) []string {
	mark := ""
	if strings.HasPrefix(s, "^") || strings.HasPrefix(s, "=") {
		mark, s = s[:1], s[1:]
	}
	var names []string
	for name := range strings.SplitSeq(s, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, mark+name)
		}
	}
	return names
}

// Addrs are the addresses of the network interfaces of this host that
// names choose, in the order of names, one for each: the first IPv4 one, else
// the first IPv6 one that reaches beyond its link. A name is a prefix ("eth"),
// "=eth0" is exactly that one, and "^docker" excludes what it is a prefix of;
// with exclusions alone all others are chosen but loopback. A name that matches
// nothing that is up and has an address is an error that lists what there is.
func Addrs(names []string) ([]net.IP, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	var known []string
	for _, i := range all {
		known = append(known, i.Name)
	}
	var ips []net.IP
	var chosen []net.Interface
	for _, i := range chooseInterfaces(all, names) {
		if ip := addressOf(i); ip != nil {
			ips, chosen = append(ips, ip), append(chosen, i)
		}
	}
	if len(ips) == 0 {
		return nil, fmt.Errorf("pg: no network interface with an address is %s; there are %s",
			strings.Join(names, ", "), strings.Join(known, ", "))
	}
	for _, n := range names {
		if !strings.HasPrefix(n, "^") && !slices.ContainsFunc(chosen, func(i net.Interface) bool { return matches(n, i) }) {
			return nil, fmt.Errorf("pg: no network interface with an address is %s, of %s; there are %s",
				n, strings.Join(names, ", "), strings.Join(known, ", "))
		}
	}
	return ips, nil
}

// matches tells whether name, a prefix or "=" and all of it, chooses i.
func matches(name string, i net.Interface) bool {
	if exact, ok := strings.CutPrefix(name, "="); ok {
		return i.Name == exact
	}
	return strings.HasPrefix(i.Name, name)
}

func chooseInterfaces(all []net.Interface, names []string) []net.Interface {
	usable := slices.DeleteFunc(slices.Clone(all), func(i net.Interface) bool {
		excluded := slices.ContainsFunc(names, func(n string) bool {
			return strings.HasPrefix(n, "^") && strings.HasPrefix(i.Name, n[1:])
		})
		return excluded || i.Flags&net.FlagUp == 0
	})
	wanted := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return strings.HasPrefix(n, "^") })
	if len(wanted) == 0 {
		return slices.DeleteFunc(usable, func(i net.Interface) bool { return i.Flags&net.FlagLoopback != 0 })
	}
	var chosen []net.Interface
	for _, n := range wanted {
		for _, i := range usable {
			twice := slices.ContainsFunc(chosen, func(c net.Interface) bool { return c.Index == i.Index })
			if matches(n, i) && !twice {
				chosen = append(chosen, i)
			}
		}
	}
	return chosen
}

// addressOf is an address of i that peers can reach, or nil.
func addressOf(i net.Interface) net.IP {
	addrs, err := i.Addrs()
	if err != nil {
		return nil // it went away
	}
	var v6 net.IP
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		switch {
		case !ok || n.IP.IsLinkLocalUnicast():
		case n.IP.To4() != nil:
			return n.IP
		case v6 == nil:
			v6 = n.IP
		}
	}
	return v6
}

// HostAddress is the address of this host that its own name stands for, if that
// is one of its interfaces', else loopback: where a data plane listens that
// nothing else tells where to.
func HostAddress(ctx context.Context) string {
	name, err := os.Hostname()
	if err == nil {
		ips, _ := netaddr.Lookup(ctx, name) // a name that is not known has none
		for _, ip := range ips {
			if !ip.IsLinkLocalUnicast() && netaddr.Own(ip) {
				return ip.String()
			}
		}
	}
	return "127.0.0.1"
}
