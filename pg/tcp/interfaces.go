package tcp

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/netif"
)

// listenAddresses is where to listen: at Options.Listen; on Options.Interfaces,
// the first one at Listen's port; or where listenAddress says. sources are the
// addresses of the interfaces.
func (b *Backend) listenAddresses(cfg *pg.Config, own string) (addresses []string, sources []net.IP, err error) {
	if len(b.opt.Interfaces) == 0 {
		address, err := b.listenAddress(cfg, own)
		return []string{address}, nil, err
	}
	if sources, err = netif.Addrs(b.opt.Interfaces); err != nil {
		return nil, nil, err
	}
	sources = sources[:min(len(sources), MaxStreams)]
	first := "0"
	if b.opt.Listen != "" {
		host, port := splitAddress(b.opt.Listen)
		first = cmp.Or(port, "0")
		i := slices.IndexFunc(sources, net.ParseIP(host).Equal)
		switch {
		case i >= 0: // the one that Listen names comes first
			sources[0], sources[i] = sources[i], sources[0]
		case host != "":
			return nil, nil, fmt.Errorf("tcp: Listen = %q, want an address of Interfaces %q: one of %v",
				b.opt.Listen, b.opt.Interfaces, sources)
		}
	}
	for i, ip := range sources {
		port := "0"
		if i == 0 {
			port = first
		}
		addresses = append(addresses, net.JoinHostPort(ip.String(), port))
	}
	return addresses, sources, nil
}

// listenAll listens at every address.
func listenAll(addresses []string) ([]net.Listener, error) {
	var all []net.Listener
	for _, a := range addresses {
		ln, err := net.Listen("tcp", a)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("listen: %w", err), closeAll(all))
		}
		all = append(all, ln)
	}
	return all, nil
}

func closeAll(listeners []net.Listener) error {
	var errs []error
	for _, ln := range listeners {
		errs = append(errs, ln.Close())
	}
	return errors.Join(errs...)
}

// advertised is the addresses that peers are told: those of the listeners, or
// Options.Advertise in their place, each with its listener's port if it names
// none.
func (b *Backend) advertised() ([]string, error) {
	b.mu.Lock()
	var bound []string
	for _, ln := range b.mu.listeners {
		bound = append(bound, ln.Addr().String())
	}
	b.mu.Unlock()
	if b.opt.Advertise == "" {
		return bound, nil
	}
	told := strings.Split(b.opt.Advertise, ",")
	if len(told) > len(bound) {
		return nil, fmt.Errorf("tcp: Advertise = %q, want at most %d, one for each of %v", b.opt.Advertise, len(bound), bound)
	}
	for i, a := range told {
		host, port := splitAddress(a)
		if port == "" {
			_, port = splitAddress(bound[i])
		}
		told[i] = net.JoinHostPort(host, port)
	}
	return told, nil
}

// parseAddresses cuts what a rank published: its addresses, a nonce, and where it
// runs.
func parseAddresses(published []byte) (addresses []string, place string) {
	list, rest, _ := strings.Cut(string(published), " ")
	_, place, _ = strings.Cut(rest, " ")
	addresses = strings.Split(list, ",")
	return addresses[:min(len(addresses), MaxStreams)], place
}
