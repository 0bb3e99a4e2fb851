// Package nettest is an in-memory network for tests. Connections, listeners and
// deadlines are those of TCP as Go code sees it, and wait only on channels, conditions and
// timers of package time: so a testing/synctest bubble may have one. Outside a bubble it
// works as well, in real time.
package nettest

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Network carries bytes between hosts. Its links are directed, and can be held: what is
// sent over a held link arrives when it is let go, as over a switch that reboots; datagrams
// are lost. Safe for concurrent use.
type Network struct {
	mu struct {
		sync.Mutex

		ports     int
		listeners map[string]*listener
		sockets   map[string]*socket
		links     map[[2]string]*link
		delay     func(from, to string) time.Duration // of a new link; nil: none
	}
}

// link is what is true of the way from one host to another.
type link struct {
	held  bool
	delay time.Duration
	moved *sync.Cond // held has changed
}

// New returns a network without hosts.
func New() *Network {
	n := &Network{}
	n.mu.listeners = make(map[string]*listener)
	n.mu.sockets = make(map[string]*socket)
	n.mu.links = make(map[[2]string]*link)
	return n
}

func (n *Network) linkLocked(from, to string) *link {
	key := [2]string{from, to}
	l := n.mu.links[key]
	if l == nil {
		l = &link{moved: sync.NewCond(&n.mu)}
		if n.mu.delay != nil {
			l.delay = n.mu.delay(from, to)
		}
		n.mu.links[key] = l
	}
	return l
}

// Delay says how long what is sent from one host to another is under way, on links that
// carry nothing yet. A new network's links have no delay.
func (n *Network) Delay(of func(from, to string) time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.delay = of
}

// Hold stops, or lets go, what goes from one host to another.
func (n *Network) Hold(from, to string, held bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.linkLocked(from, to)
	l.held = held
	l.moved.Broadcast()
}

// HoldBoth is Hold in both directions.
func (n *Network) HoldBoth(a, b string, held bool) {
	n.Hold(a, b, held)
	n.Hold(b, a, held)
}

// Whole says that no link is held.
func (n *Network) Whole() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.mu.links {
		if l.held {
			return false
		}
	}
	return true
}

// Host is one process's place in the network: a manager.Network and a lighthouse.Network.
// Safe for concurrent use.
type Host struct {
	Name string

	net *Network

	// Guarded by the network's lock.
	dead  bool
	owned []io.Closer
	conns map[*conn]bool
	cut   bool // the next bytes that arrive are lost
}

// Host returns a host of that name. Hosts of one name share their links.
func (n *Network) Host(name string) *Host {
	return &Host{Name: name, net: n, conns: make(map[*conn]bool)}
}

// Mute drops all that the host sends from now on, without a word to it: a process
// that dies says nothing of its own death, however long its parts take to end here.
func (h *Host) Mute() {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.dead = true
}

// Kill ends all that the host has, as the death of its process does: peers see a
// reset, nothing else is said, and nobody connects any more.
func (h *Host) Kill() {
	h.net.mu.Lock()
	h.dead = true
	owned := h.owned
	h.net.mu.Unlock()
	h.Reset()
	for _, c := range owned {
		_ = c.Close() // a listener: it has no error
	}
}

// Reset breaks all connections of the host, in and out.
func (h *Host) Reset() { h.ResetWith("") }

// ResetWith breaks those with one other host; "" means all.
func (h *Host) ResetWith(other string) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	for c := range h.conns {
		if other == "" || c.far.host.Name == other {
			c.breakLocked(syscall.ECONNRESET)
			c.far.breakLocked(syscall.ECONNRESET)
		}
	}
}

// CutAnswer loses the next bytes that the host would read, and breaks their connection.
func (h *Host) CutAnswer() {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.cut = true
}

// listener accepts connections at one address.
type listener struct {
	host  *Host
	addr  *net.TCPAddr
	queue chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// backlog is how many connections may wait to be accepted.
const backlog = 1024

// portLocked gives a port that is 0 the next one.
func (n *Network) portLocked(port *int) {
	if *port == 0 {
		n.mu.ports++
		*port = 10_000 + n.mu.ports
	}
}

// Listen takes a free port, whatever address says, unless it names one.
func (h *Host) Listen(address string) (net.Listener, error) {
	addr, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, err
	}
	n := h.net
	n.mu.Lock()
	defer n.mu.Unlock()
	n.portLocked(&addr.Port)
	if h.dead || n.mu.listeners[addr.String()] != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Addr: addr, Err: syscall.EADDRINUSE}
	}
	l := &listener{host: h, addr: addr, queue: make(chan net.Conn, backlog), done: make(chan struct{})}
	n.mu.listeners[addr.String()] = l
	h.owned = append(h.owned, l)
	return l, nil
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.done:
		return nil, net.ErrClosed
	default:
	}
	select {
	case c := <-l.queue:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		n := l.host.net
		n.mu.Lock()
		delete(n.mu.listeners, l.addr.String())
		n.mu.Unlock()
		close(l.done)
	})
	return nil
}

func (l *listener) Addr() net.Addr { return l.addr }

// Dial connects; over a held link it waits.
func (h *Host) Dial(ctx context.Context, address string) (net.Conn, error) {
	n := h.net
	n.mu.Lock()
	defer n.mu.Unlock()
	stop := context.AfterFunc(ctx, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, l := range n.mu.links {
			l.moved.Broadcast()
		}
	})
	defer stop()
	for {
		l := n.mu.listeners[address]
		if l == nil || h.dead {
			return nil, refused(address)
		}
		out, back := n.linkLocked(h.Name, l.host.Name), n.linkLocked(l.host.Name, h.Name)
		switch {
		case ctx.Err() != nil:
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: context.Cause(ctx)}
		case out.held:
			out.moved.Wait()
		case back.held:
			back.moved.Wait()
		default:
			return h.connectLocked(l, out, back)
		}
	}
}

func refused(address string) error {
	addr, _ := net.ResolveTCPAddr("tcp", address) // an address of ours
	return &net.OpError{Op: "dial", Net: "tcp", Addr: addr, Err: syscall.ECONNREFUSED}
}

func (h *Host) connectLocked(l *listener, out, back *link) (net.Conn, error) {
	n := h.net
	from := &net.TCPAddr{IP: l.addr.IP}
	n.portLocked(&from.Port)
	near := newConn(h, back, from, l.addr)
	far := newConn(l.host, out, l.addr, from)
	near.far, far.far = far, near
	select {
	case l.queue <- far:
	default:
		return nil, refused(l.addr.String())
	}
	h.conns[near], l.host.conns[far] = true, true
	return near, nil
}

// conn is one end of a connection. All its fields are guarded by the network's
// lock.
type conn struct {
	host          *Host
	far           *conn
	in            *link // what it reads has come over it
	local, remote net.Addr

	readable *sync.Cond
	buf      []byte
	ready    int   // bytes of buf that have arrived
	end      error // after buf: io.EOF or a reset; nil: open
	broken   error // at once
	closed   bool
	expired  bool
	timer    *time.Timer
}

func newConn(h *Host, in *link, local, remote net.Addr) *conn {
	return &conn{host: h, in: in, local: local, remote: remote, readable: in.moved}
}

func (c *conn) Read(p []byte) (int, error) {
	c.host.net.mu.Lock()
	defer c.host.net.mu.Unlock()
	for {
		switch {
		case c.closed:
			return 0, net.ErrClosed
		case c.expired:
			return 0, os.ErrDeadlineExceeded
		case c.broken != nil && !c.in.held:
			return 0, &net.OpError{Op: "read", Net: "tcp", Err: c.broken}
		case c.ready > 0 && !c.in.held && c.host.cut:
			c.host.cut = false
			c.breakLocked(syscall.ECONNRESET)
			c.far.breakLocked(syscall.ECONNRESET)
		case c.ready > 0 && !c.in.held:
			k := copy(p, c.buf[:c.ready])
			c.buf, c.ready = c.buf[k:], c.ready-k
			return k, nil
		case c.end != nil && len(c.buf) == 0 && !c.in.held:
			return 0, c.end
		default:
			c.readable.Wait()
		}
	}
}

func (c *conn) Write(p []byte) (int, error) {
	n := c.host.net
	n.mu.Lock()
	defer n.mu.Unlock()
	far := c.far
	switch {
	case c.closed:
		return 0, net.ErrClosed
	case c.host.dead:
		return len(p), nil
	case c.broken != nil || far.closed && !far.in.held:
		return 0, &net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE}
	}
	far.buf = append(far.buf, p...)
	c.arriveLocked(func() {
		far.ready = min(far.ready+len(p), len(far.buf))
	})
	return len(p), nil
}

// arriveLocked does to the far end what has been sent, once it has arrived.
func (c *conn) arriveLocked(do func()) {
	far := c.far
	if delay := far.in.delay; delay > 0 {
		time.AfterFunc(delay, func() {
			c.host.net.mu.Lock()
			defer c.host.net.mu.Unlock()
			do()
			far.readable.Broadcast()
		})
		return
	}
	do()
	far.readable.Broadcast()
}

func (c *conn) breakLocked(err error) {
	if c.broken == nil {
		c.broken = err
		c.readable.Broadcast()
	}
}

func (c *conn) Close() error {
	c.host.net.mu.Lock()
	defer c.host.net.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	delete(c.host.conns, c)
	if c.timer != nil {
		c.timer.Stop()
	}
	c.readable.Broadcast()
	c.arriveLocked(func() { c.far.end = io.EOF })
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetWriteDeadline does nothing: a write never waits.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

func (c *conn) SetReadDeadline(t time.Time) error {
	n := c.host.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	c.expired = !t.IsZero() && !t.After(time.Now())
	if !t.IsZero() && !c.expired {
		var timer *time.Timer
		timer = time.AfterFunc(time.Until(t), func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			if c.timer == timer {
				c.expired = true
				c.readable.Broadcast()
			}
		})
		c.timer = timer
	}
	if c.expired {
		c.readable.Broadcast()
	}
	return nil
}
