package guard

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Limits bound what the peers of one listener may take.
type Limits struct {
	// MaxConns bounds the connections at a time; one more is closed at once.
	// Keep it below the process's limit of open files, or others go without.
	MaxConns int

	// MaxPerHost bounds those of one remote address, so that no one machine
	// takes all of MaxConns. Loopback is exempt: who is on this machine can do
	// worse. Too low shuts out replicas that share an address (NAT).
	MaxPerHost int

	// WriteTimeout ends a connection that takes nothing of a write for so long.
	// Too low cuts slow networks; 0: never.
	WriteTimeout time.Duration

	// Refused is told of every connection over a limit, if not nil. It is called
	// by Accept, and must not block.
	Refused func(remote net.Addr, err error)
}

// ErrTooMany is why a connection over a limit is closed.
var ErrTooMany = errors.New("too many connections")

// Limit bounds ln. Closing a connection gives its place back.
func Limit(ln net.Listener, limits Limits) net.Listener {
	l := &limited{Listener: ln, limits: limits}
	l.mu.perHost = make(map[netip.Addr]int)
	return l
}

// limited is a listener with limits. Safe for concurrent use.
type limited struct {
	net.Listener
	limits Limits

	mu struct {
		sync.Mutex

		open    int
		perHost map[netip.Addr]int // hosts that have one at least
	}
}

// Accept returns the next connection within the limits.
func (l *limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		host := hostOf(conn.RemoteAddr())
		if err := l.enter(host); err != nil {
			_ = conn.Close() // it has said nothing yet
			if l.limits.Refused != nil {
				l.limits.Refused(conn.RemoteAddr(), err)
			}
			continue
		}
		return &limitedConn{Conn: conn, l: l, host: host}, nil
	}
}

// hostOf is the address that a connection counts for; IPv6 hosts own a /64.
func hostOf(addr net.Addr) netip.Addr {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	if ip.Is6() && !ip.IsLoopback() {
		if p, err := ip.Prefix(64); err == nil {
			ip = p.Addr()
		}
	}
	return ip
}

func (l *limited) enter(host netip.Addr) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.limits.MaxConns > 0 && l.mu.open >= l.limits.MaxConns {
		return fmt.Errorf("%w: %d, want at most %d", ErrTooMany, l.mu.open+1, l.limits.MaxConns)
	}
	counts := host.IsValid() && !host.IsLoopback()
	if most := l.limits.MaxPerHost; counts && most > 0 && l.mu.perHost[host] >= most {
		return fmt.Errorf("%w: %d of %v, want at most %d", ErrTooMany, most+1, host, most)
	}
	l.mu.open++
	l.mu.perHost[host]++
	return nil
}

func (l *limited) leave(host netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.open--
	if l.mu.perHost[host]--; l.mu.perHost[host] == 0 {
		delete(l.mu.perHost, host)
	}
}

// limitedConn gives its place back when it is closed.
type limitedConn struct {
	net.Conn
	l    *limited
	host netip.Addr
	once sync.Once

	mu struct {
		sync.Mutex

		deadline time.Time // of writes, as the user of the connection set it
	}
}

// Close closes the connection and frees its place.
func (c *limitedConn) Close() error {
	c.once.Do(func() { c.l.leave(c.host) })
	return c.Conn.Close()
}

// Write ends with an error if the peer takes nothing for WriteTimeout, or at
// the deadline that was set.
func (c *limitedConn) Write(p []byte) (int, error) {
	patience := c.l.limits.WriteTimeout
	if patience <= 0 {
		return c.Conn.Write(p)
	}
	const step = 64 << 10 // a write of more has the time for each part
	n := 0
	for {
		part := p[n:min(n+step, len(p))]
		if err := c.wind(patience); err != nil {
			return n, err
		}
		k, err := c.Conn.Write(part)
		n += k
		if err != nil || n == len(p) {
			return n, err
		}
	}
}

// wind sets the deadline of the next write.
func (c *limitedConn) wind(patience time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := time.Now().Add(patience)
	if d := c.mu.deadline; !d.IsZero() && d.Before(at) {
		at = d
	}
	return c.Conn.SetWriteDeadline(at)
}

// SetDeadline sets both deadlines.
func (c *limitedConn) SetDeadline(t time.Time) error {
	if err := c.Conn.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetWriteDeadline is kept beside WriteTimeout; whichever comes first counts.
func (c *limitedConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.deadline = t
	return c.Conn.SetWriteDeadline(t)
}
