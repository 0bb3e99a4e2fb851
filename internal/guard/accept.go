package guard

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"
)

// tlsHandshake is the first byte of every TLS connection (RFC 8446 §5.1).
const tlsHandshake = 0x16

// ErrPlain is returned by Secure for a connection that does not speak TLS.
var ErrPlain = errors.New("the client does not speak TLS, and this port speaks nothing else")

// Secure makes the server's side of the TLS handshake on conn, within timeout;
// without certificates it returns conn as it is. Clients may come without a
// certificate: look at TLSState, call by call. On an error, a *ValidityError for a
// certificate that does not hold now, the caller closes conn. A client that speaks plain HTTP/1 gets an answer that says so.
func (g *Guard) Secure(ctx context.Context, conn net.Conn, timeout time.Duration) (Secured, error) {
	return g.secure(ctx, conn, timeout, g.TLS.ServerOptional, g.Adopt.Lenient())
}

// SecureKnown is Secure for a server that takes no client without a certificate, if
// certificates are asked for (see Server), and none without TLS.
func (g *Guard) SecureKnown(ctx context.Context, conn net.Conn, timeout time.Duration) (Secured, error) {
	return g.secure(ctx, conn, timeout, g.Server, false)
}

func (g *Guard) secure(
	ctx context.Context, conn net.Conn, timeout time.Duration, config func() *tls.Config, plain bool,
) (Secured, error) {
	if !g.Serves() {
		return handshaken{Conn: conn}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	opening, begun, err := Peek(conn)
	switch {
	case err != nil:
		return nil, err
	case opening != OpensTLS && plain:
		return handshaken{Conn: begun}, conn.SetDeadline(time.Time{})
	case opening != OpensTLS:
		_, _ = conn.Write([]byte(plainAnswer)) // it is told if it listens
		// A close with bytes unread is a reset, which may take the answer back.
		_ = conn.SetReadDeadline(time.Now().Add(plainLinger))
		_, _ = conn.Read(make([]byte, 4<<10))
		return nil, ErrPlain
	}
	secured := tls.Server(begun, config())
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, Explain(err, g.TLS.CAs())
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	state := secured.ConnectionState()
	return handshaken{secured, &state}, nil
}

// plainLinger is for the rest of a plain request, which is there already or soon.
const plainLinger = 100 * time.Millisecond

const plainAnswer = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n" +
	"this port speaks TLS: use https://\n"

// peeked gives back the byte that was looked at. Only the TLS connection above
// reads it, one read at a time.
type peeked struct {
	net.Conn
	first [1]byte
	given bool
}

// Read returns the first byte, then the connection's.
func (p *peeked) Read(b []byte) (int, error) {
	if !p.given && len(b) > 0 {
		p.given = true
		return copy(b, p.first[:]), nil
	}
	return p.Conn.Read(b)
}

type handshaken struct {
	net.Conn
	state *tls.ConnectionState // nil: without TLS
}

// TLSState is what the handshake found out.
func (c handshaken) TLSState() *tls.ConnectionState { return c.state }
