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
	case opening != OpensTLS && g.Adopt.Lenient():
		return handshaken{Conn: begun}, conn.SetDeadline(time.Time{})
	case opening != OpensTLS:
		_, _ = conn.Write([]byte(plainAnswer)) // it is told if it listens
		return nil, ErrPlain
	}
	secured := tls.Server(begun, g.TLS.ServerOptional())
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, Explain(err, g.TLS.CAs())
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	state := secured.ConnectionState()
	return handshaken{secured, &state}, nil
}

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
