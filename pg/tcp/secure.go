package tcp

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/internal/burst"
	"github.com/skerry-ft/skerry/internal/perhost"
	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
	"github.com/skerry-ft/skerry/store"
)

// clearTimeout is how long a peer that was refused may take to read why, and
// clearBytes how much of what it had said before is thrown away meanwhile, wasteBytes
// at a time.
const (
	clearTimeout = leaveTimeout
	clearBytes   = handshakeBytes
	wasteBytes   = 512
)

// A handshake that a peer began holds some 45 KiB until it ends. maxHandshakes bounds
// them all, maxHandshakesPerHost those of one host: as many as it dials edges at a
// time, with all their sockets. Others wait.
const (
	maxHandshakes        = 512
	maxHandshakesPerHost = maxDials * DefaultStreams
	handshakePause       = 5 * time.Millisecond
	maxHandshakePause    = 160 * time.Millisecond
)

// sealedAs tells whether all sockets of l are as a group with t wants them.
func (l *link) sealedAs(t *store.TLS) bool {
	return !slices.ContainsFunc(l.socks, func(k *sock) bool { return (k.conn.sealed.Load() != nil) != (t != nil) })
}

// sealDialed makes k, which we dialled at address, a TLS connection, if t is not nil.
// It ends with k's deadline.
func (k *sock) sealDialed(t *store.TLS, address string) error {
	if t == nil {
		return nil
	}
	var err error
	k.binding, err = k.conn.seal(nil, func(c net.Conn) *tls.Conn { return tls.Client(c, t.Client(address)) })
	if err != nil {
		return fmt.Errorf("TLS: %w", explained(burst.Short(err)))
	}
	k.conn.sealed.Load().widen(receiveBytes)
	return nil
}

// explained adds to what a peer's alert says, which is nearly nothing, where to look.
func explained(err error) error {
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "remote error" {
		return fmt.Errorf("%w: the peer does not take this rank's certificate; why, its log says", err)
	}
	return err
}

// sealAccepted makes k, which a peer opened, a TLS connection, if this rank has
// certificates, and tells a peer that has none. It ends with k's deadline.
func (k *sock) sealAccepted() (err error) {
	b := k.l.b
	b.mu.Lock()
	t := b.mu.tls // of the group that was configured last; nil: bytes are in the clear
	b.mu.Unlock()
	if t == nil {
		return nil
	}
	// Nothing of TLS is made before the peer has begun, and there is room.
	if err := k.fillOnce(tlsHeadBytes); err != nil {
		return err
	}
	place, err := k.enterHandshake()
	if err != nil {
		return err
	}
	defer place.Leave()
	in := &k.in
	k.binding, err = k.conn.seal(in.buf[in.r:in.w], func(c net.Conn) *tls.Conn { return tls.Server(c, t.Server) })
	if err != nil {
		return fmt.Errorf("TLS: %w", burst.Short(err)) // a stranger wrote the certificate
	}
	in.r, in.w = 0, 0
	return nil
}

// enterHandshake waits for a place among those that are in a handshake, as long as k
// has for its preamble: whoever is silent in one holds up those of its own host first.
func (k *sock) enterHandshake() (perhost.Place, error) {
	b := k.l.b
	over := time.After(b.opt.DialTimeout)
	pauses := backoff.Backoff{First: handshakePause, Most: maxHandshakePause}
	for {
		place, err := b.handshakes.Enter(k.conn.tcp.RemoteAddr())
		if err == nil {
			return place, nil
		}
		select {
		case <-time.After(pauses.Next()):
		case <-over:
			return place, os.ErrDeadlineExceeded
		case <-k.dead:
			return place, net.ErrClosed
		case <-b.closing:
			return place, net.ErrClosed
		}
	}
}

// strange is called when the peer that opened k could not show that it is one, for
// the reason err. What it costs is bounded: the time that k has, and a line of the log
// now and then.
func (k *sock) strange(err error) {
	b := k.l.b
	silent := errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || interrupted(err)
	if silent {
		return // a port scan, or a peer that has changed its mind
	}
	b.stats.refused.Add(1)
	from := k.conn.tcp.RemoteAddr()
	b.strangers.Warn().Err(err).Stringer("peer_addr", from).Msg("connection to the data plane refused")
	b.mu.Lock()
	if g := b.mu.group; g != nil && g.phase == groupConfiguring {
		g.refusal = fmt.Errorf("connection from %v refused: %w", from, err)
	}
	b.mu.Unlock()
	if errors.Is(err, errPlain) {
		_, _ = k.conn.tcp.Write(frame.Refusal()) // best effort
	}
	k.clear()
}

// clear reads what the peer has said already: closed over it, the socket would take
// back with a reset what we have answered.
func (k *sock) clear() {
	c := k.conn.tcp
	if c.CloseWrite() != nil || c.SetReadDeadline(time.Now().Add(clearTimeout)) != nil {
		return
	}
	// Through a buffer of our own: Discard would hold 8 KiB for each peer meanwhile.
	waste := struct{ io.Writer }{io.Discard}
	_, _ = io.CopyBuffer(waste, io.LimitReader(c, clearBytes), make([]byte, wasteBytes)) // it ends with the peer, or the time
}
