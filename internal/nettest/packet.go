package nettest

import (
	"bytes"
	"net"
	"sync"
	"syscall"
	"time"
)

// socket takes datagrams at one address. What is sent over a held link, to an address without a
// socket, or to a socket whose queue is full, is lost.
type socket struct {
	host  *Host
	addr  *net.UDPAddr
	queue chan datagram
	done  chan struct{}
	once  sync.Once
}

type datagram struct {
	text []byte
	from net.Addr
}

// ListenPacket is Listen for datagrams, at ports of their own.
func (h *Host) ListenPacket(address string) (net.PacketConn, error) {
	addr, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return nil, err
	}
	n := h.net
	n.mu.Lock()
	defer n.mu.Unlock()
	n.portLocked(&addr.Port)
	if h.dead || n.mu.sockets[addr.String()] != nil {
		return nil, &net.OpError{Op: "listen", Net: "udp", Addr: addr, Err: syscall.EADDRINUSE}
	}
	s := &socket{host: h, addr: addr, queue: make(chan datagram, backlog), done: make(chan struct{})}
	n.mu.sockets[addr.String()] = s
	h.owned = append(h.owned, s)
	return s, nil
}

func (s *socket) ReadFrom(p []byte) (int, net.Addr, error) {
	select {
	case <-s.done:
		return 0, nil, net.ErrClosed
	default:
	}
	select {
	case d := <-s.queue:
		return copy(p, d.text), d.from, nil
	case <-s.done:
		return 0, nil, net.ErrClosed
	}
}

func (s *socket) WriteTo(p []byte, to net.Addr) (int, error) {
	select {
	case <-s.done:
		return 0, net.ErrClosed
	default:
	}
	n := s.host.net
	n.mu.Lock()
	defer n.mu.Unlock()
	far := n.mu.sockets[to.String()]
	if far == nil || s.host.dead {
		return len(p), nil
	}
	way := n.linkLocked(s.host.Name, far.host.Name)
	if way.held {
		return len(p), nil
	}
	d := datagram{bytes.Clone(p), s.addr}
	if way.delay > 0 {
		time.AfterFunc(way.delay, func() { far.take(d) })
	} else {
		far.take(d)
	}
	return len(p), nil
}

func (s *socket) take(d datagram) {
	select {
	case s.queue <- d:
	default:
	}
}

func (s *socket) Close() error {
	s.once.Do(func() {
		n := s.host.net
		n.mu.Lock()
		delete(n.mu.sockets, s.addr.String())
		n.mu.Unlock()
		close(s.done)
	})
	return nil
}

func (s *socket) LocalAddr() net.Addr { return s.addr }

// SetDeadline does nothing: gossip sets none.
func (s *socket) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing.
func (s *socket) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing: a write never waits.
func (s *socket) SetWriteDeadline(time.Time) error { return nil }
