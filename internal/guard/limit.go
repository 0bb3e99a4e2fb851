package guard

import (
	"crypto/tls"
	"net"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/internal/perhost"
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

	// MaxNewcomers and MaxNewcomersPerHost bound, likewise, the connections on which
	// nothing is proved yet; 0: no bound of their own. The user of such a listener
	// says by [Proved] when that ends.
	MaxNewcomers, MaxNewcomersPerHost int

	// Refused is told of every connection over a limit, if not nil. It is called
	// by Accept, and must not block.
	Refused func(remote net.Addr, err error)
}

// ErrTooMany is why a connection over a limit is closed.
var ErrTooMany = perhost.ErrTooMany

// scarcePlaces is how many newcomers one host may have while there are many.
const scarcePlaces = 8

// Limit bounds ln. Closing a connection gives its place back.
func Limit(ln net.Listener, limits Limits) net.Listener {
	return &limited{
		Listener: ln, limits: limits,
		all: perhost.New(perhost.Limits{Max: int64(limits.MaxConns), PerHost: int64(limits.MaxPerHost)}),
		newcomers: perhost.New(perhost.Limits{
			Max: int64(limits.MaxNewcomers), PerHost: int64(limits.MaxNewcomersPerHost), Scarce: scarcePlaces,
		}),
	}
}

// limited is a listener with limits. Safe for concurrent use.
type limited struct {
	net.Listener
	limits         Limits
	all, newcomers *perhost.Counter
}

// Accept returns the next connection within the limits.
func (l *limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &limitedConn{Conn: conn, l: l}
		if err := c.enter(); err != nil {
			_ = conn.Close() // it has said nothing yet
			if l.limits.Refused != nil {
				l.limits.Refused(conn.RemoteAddr(), err)
			}
			continue
		}
		return c, nil
	}
}

// Proved notes that the peer at the other end of conn, which a listener of Limit
// has accepted, under TLS or not, is no newcomer any more. Of any other
// connection it notes nothing.
func Proved(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	if c, ok := conn.(*limitedConn); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.mu.newcomer.Leave()
	}
}

// limitedConn gives its place back when it is closed.
type limitedConn struct {
	net.Conn
	l *limited

	mu struct {
		sync.Mutex

		place, newcomer perhost.Place
		deadline        time.Time // of writes, as the user of the connection set it
	}
}

// enter takes the places of a new connection.
func (c *limitedConn) enter() (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.place, err = c.l.all.Enter(c.RemoteAddr()); err != nil {
		return err
	}
	if c.mu.newcomer, err = c.l.newcomers.Enter(c.RemoteAddr()); err != nil {
		c.mu.place.Leave()
	}
	return err
}

// NetConn is the connection as the system has it.
func (c *limitedConn) NetConn() net.Conn { return c.Conn }

// Close closes the connection and frees its place.
func (c *limitedConn) Close() error {
	c.mu.Lock()
	c.mu.place.Leave()
	c.mu.newcomer.Leave()
	c.mu.Unlock()
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
