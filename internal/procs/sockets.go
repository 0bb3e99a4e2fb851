package procs

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// The states of sockets, as the kernel numbers them.
const (
	established = 1
	listening   = 10
)

// socket is a line of /proc/net/tcp.
type socket struct {
	local, remote netip.AddrPort
	state         uint64
	inode         string
}

// readSockets reads the TCP sockets of this network namespace.
func readSockets() ([]socket, error) {
	var all []socket
	for _, path := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		f, err := os.Open(path)
		if os.IsNotExist(err) && path != "/proc/self/net/tcp" {
			continue // a host without IPv6
		}
		if err != nil {
			return nil, fmt.Errorf("read this host's sockets: %w", err)
		}
		some, err := parseSockets(f)
		_ = f.Close() // it was only read
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		all = append(all, some...)
	}
	return all, nil
}

// parseSockets reads the table of sockets behind its head.
func parseSockets(r io.Reader) ([]socket, error) {
	const local, remote, state, inode = 1, 2, 3, 9
	lines := bufio.NewScanner(r)
	lines.Scan()
	var all []socket
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) <= inode {
			return nil, fmt.Errorf("%q has %d fields, want more than %d", lines.Text(), len(f), inode)
		}
		s := socket{inode: f[inode]}
		var errs [3]error
		s.local, errs[0] = parseAddr(f[local])
		s.remote, errs[1] = parseAddr(f[remote])
		s.state, errs[2] = strconv.ParseUint(f[state], 16, 8)
		for _, err := range errs {
			if err != nil {
				return nil, fmt.Errorf("%q: %w", lines.Text(), err)
			}
		}
		all = append(all, s)
	}
	return all, lines.Err()
}

// parseAddr reads "0100007F:1F90": words of four bytes in the byte order of this host, which
// is little-endian wherever this module is built for.
func parseAddr(text string) (netip.AddrPort, error) {
	host, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(host)
	if err != nil {
		return netip.AddrPort{}, err
	}
	for word := range slices.Chunk(raw, 4) {
		slices.Reverse(word)
	}
	addr, ok := netip.AddrFromSlice(raw)
	n, err := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q is no address", text)
	}
	return netip.AddrPortFrom(addr.Unmap(), uint16(n)), nil
}
