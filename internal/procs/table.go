package procs

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Table is what /proc said at one moment.
type Table struct {
	sockets []socket
	own     []netip.Addr     // of this host
	fds     map[string][]end // who holds a socket, by inode
	held    map[int][]string // inodes, by process
}

// end is a socket in the hands of a process.
type end struct{ pid, fd int }

// Read reads the table. Processes of other users are left out, unless this one may look
// into them.
func Read() (*Table, error) {
	sockets, err := readSockets()
	if err != nil {
		return nil, err
	}
	t := &Table{sockets: sockets, fds: make(map[string][]end), held: make(map[int][]string)}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			t.own = append(t.own, p.Addr().Unmap())
		}
	}
	wanted := make(map[string]bool, len(sockets))
	for _, s := range sockets {
		wanted[s.inode] = true
	}
	pids, _ := All() // without it there are none
	for _, pid := range pids {
		t.readFDs(pid, wanted)
	}
	return t, nil
}

func (t *Table) readFDs(pid int, wanted map[string]bool) {
	dir := "/proc/" + strconv.Itoa(pid) + "/fd/"
	entries, _ := os.ReadDir(dir) // it may be another user's, or have ended
	for _, e := range entries {
		target, err := os.Readlink(dir + e.Name())
		inode, found := strings.CutPrefix(target, "socket:[")
		inode = strings.TrimSuffix(inode, "]")
		if err != nil || !found || !wanted[inode] {
			continue
		}
		if fd, err := strconv.Atoi(e.Name()); err == nil {
			t.fds[inode] = append(t.fds[inode], end{pid, fd})
			t.held[pid] = append(t.held[pid], inode)
		}
	}
}

// Local tells whether an address is this host's.
func (t *Table) Local(addr netip.Addr) bool {
	return addr.IsLoopback() || addr.IsUnspecified() || slices.Contains(t.own, addr.Unmap())
}

// Listener is the process that listens at an address of this host, or 0. A listener that
// was inherited by children is its eldest holder's.
func (t *Table) Listener(at netip.AddrPort) int {
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	if !t.Local(at.Addr()) {
		return 0
	}
	for _, s := range t.sockets {
		if s.state != listening || s.local != at && (!s.local.Addr().IsUnspecified() || s.local.Port() != at.Port()) {
			continue
		}
		if pid := t.eldest(s.inode); pid != 0 {
			return pid
		}
	}
	return 0
}

// eldest is the holder of a socket whose parent is none.
func (t *Table) eldest(inode string) int {
	holders := make(map[int]bool)
	for _, e := range t.fds[inode] {
		holders[e.pid] = true
	}
	for _, e := range t.fds[inode] {
		if !holders[parent(e.pid)] {
			return e.pid
		}
	}
	return 0
}

// ConnectedTo tells whether a process holds a connection to one of some addresses. A server on
// this host may be reached by any of this host's addresses.
func (t *Table) ConnectedTo(pid int, addrs []netip.AddrPort) bool {
	return slices.ContainsFunc(t.sockets, func(s socket) bool {
		if s.state != established || !slices.Contains(t.held[pid], s.inode) {
			return false
		}
		return slices.ContainsFunc(addrs, func(a netip.AddrPort) bool {
			return s.remote == a || s.remote.Port() == a.Port() && t.Local(a.Addr()) && t.Local(s.remote.Addr())
		})
	})
}

// Conn is a connection in the hands of a process.
type Conn struct {
	fd    int
	inode string
}

// Between are a's connections between two processes, except those to a port of except.
func (t *Table) Between(a, b int, except []uint16) (all []Conn) {
	for _, s := range t.sockets {
		if s.state != established || slices.Contains(except, s.local.Port()) || slices.Contains(except, s.remote.Port()) {
			continue
		}
		i := slices.IndexFunc(t.fds[s.inode], func(e end) bool { return e.pid == a })
		if i >= 0 && t.hasEnd(b, s.remote, s.local) {
			all = append(all, Conn{t.fds[s.inode][i].fd, s.inode})
		}
	}
	return all
}

// hasEnd tells whether a process holds the socket with these ends.
func (t *Table) hasEnd(pid int, local, remote netip.AddrPort) bool {
	return slices.ContainsFunc(t.sockets, func(s socket) bool {
		return s.local == local && s.remote == remote && slices.Contains(t.held[pid], s.inode)
	})
}
