package store

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/skerry-ft/skerry/internal/burst"
	"github.com/skerry-ft/skerry/internal/netaddr"
)

// TLS is how the two ends of a connection between processes of a job know each
// other, and keep others from reading and changing what they say: to stores, and on
// the data plane. Either all processes of a job have one, or none has. Package
// store/certs makes it of files. Safe for concurrent use, and never changed.
type TLS struct {
	// Server is the side that listens. It asks for a certificate and ends the
	// handshake with a client that may not come in: nothing of ours looks at
	// certificates after it. Its GetConfigForClient takes renewed files.
	Server *tls.Config `json:"-"`
	// Client makes the side that dials, for one connection to host, which may have a
	// port. It checks the server likewise.
	Client func(host string) *tls.Config `json:"-"`
	// Files are where another process of this rank (a child of pg/baby) finds the
	// same. Zero: it cannot.
	Files TLSFiles
}

// TLSFiles names the files of a [TLS] and what peers must show. It holds no
// secret.
type TLSFiles struct {
	CA, Cert, Key string // PEM
	ServerName    string // that servers' certificates carry; empty: the host dialled
	Job           string // replicas that are bound to another one are refused; empty: none is
	AnyRole       bool   // certificates that name no role are good
	Anonymous     bool   // clients need no certificate
}

const (
	// tlsHandshake is the first byte of every TLS connection (RFC 8446 §5.1), and
	// of no greeting.
	tlsHandshake = 0x16
	// maxHandshakeBytes is what a client may send before it has shown a
	// certificate that is good here: some times a chain of usual size.
	maxHandshakeBytes = 16 << 10
	// answerTLS is what a server that speaks TLS says to a plain client, and then it
	// closes: as a status it is one that there is not, as the echo of a ping
	// another number.
	answerTLS uint32 = authTLS | 'T'<<8 | 'L'<<16 | 'S'<<24
	// howTLS ends the errors of two sides that do not agree.
	howTLS = "set SKERRY_TLS_CA, SKERRY_TLS_CERT and SKERRY_TLS_KEY on all (skerry store: --tls-ca, --tls-cert, --tls-key), " +
		"or switch encryption off on all (--tls-data=false, SKERRY_TLS_DATA=false)"
)

var (
	errPlainClient = fmt.Errorf("the client speaks no TLS, and this store nothing else: %s", howTLS)
	errTLSClient   = fmt.Errorf("the client speaks TLS, and this store does not: %s", howTLS)
	errTLSServer   = fmt.Errorf("%w: the server speaks nothing but TLS, and this client does not: %s", ErrTLS, howTLS)
)

// validate says what is missing of t, if anything is.
func (t *TLS) validate() error {
	if t != nil && (t.Server == nil || t.Client == nil) {
		return errors.New("TLS has no Server or no Client, want both; see package store/certs")
	}
	return nil
}

// AsksClients says whether a server of t ends the handshake with a client that shows no
// certificate; false without TLS.
func (t *TLS) AsksClients() bool {
	return t != nil && !t.Files.Anonymous && netaddr.AsksClients(t.Server)
}

// opening is a connection whose first byte was looked at, and of which no more than
// left bytes are read. The goroutine that reads it owns it.
type opening struct {
	net.Conn
	first []byte // to be given back
	left  int    // below 0: no limit any more
}

// Read implements net.Conn.
func (o *opening) Read(b []byte) (int, error) {
	if len(o.first) > 0 {
		n := copy(b, o.first)
		o.first = o.first[n:]
		return n, nil
	}
	if o.left == 0 {
		return 0, fmt.Errorf("%w: more than %d bytes before the TLS handshake was over", errProtocol, maxHandshakeBytes)
	}
	if o.left > 0 {
		b = b[:min(len(b), o.left)]
	}
	n, err := o.Conn.Read(b)
	if o.left > 0 {
		o.left -= n
	}
	return n, err
}

// secure makes the server's side of the handshake, of which first has come.
func (c *serverConn) secure(first byte) error {
	if first != tlsHandshake {
		return errors.Join(errPlainClient, c.send(appendUint32(nil, answerTLS)))
	}
	o := &opening{Conn: c.raw, first: []byte{first}, left: maxHandshakeBytes}
	nc := tls.Server(o, c.s.cfg.TLS.Server)
	if err := nc.Handshake(); err != nil { // within the deadline that is set
		return fmt.Errorf("TLS handshake: %w", burst.Short(err)) // a stranger wrote the certificate
	}
	o.left = -1
	c.nc = nc
	return nil
}

// secure makes the client's side. The deadline and interrupt end it.
func (c *clientConn) secure(t *TLS, addr string) error {
	nc := tls.Client(c.raw, t.Client(addr))
	if err := nc.Handshake(); err != nil {
		return c.explainTLS(burst.Short(err))
	}
	c.nc = nc
	return nil
}

// explainTLS says what an error means that comes before the greeting is over. One of
// the network stays one, for it may pass.
func (c *clientConn) explainTLS(err error) error {
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	op, ofNet := errors.AsType[*net.OpError](err)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, net.ErrClosed):
		return err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), plain:
		return fmt.Errorf("%w: the server closed the connection or answered something else, so it may speak no TLS, as this client does: %s (%w)",
			ErrTLS, howTLS, err)
	case ofNet && op.Op == "remote error": // an alert; not the network's, hence %v
		return fmt.Errorf("%w: the server refused this process's certificate, and its log says why: %v", ErrTLS, err)
	case ofNet:
		return fmt.Errorf("TLS handshake (with a server that may speak none): %w", err)
	}
	return fmt.Errorf("%w: %w", ErrTLS, err)
}

// refused is what err means on a TLS connection whose greeting failed. A server looks
// at the client's certificate when the client takes the handshake to be over, and
// closes: what was sent meanwhile may fail before its alert is read.
func (c *clientConn) refused(err error) error {
	op, ofNet := errors.AsType[*net.OpError](err)
	if ofNet && op.Op == "write" {
		if _, rerr := c.nc.Read(make([]byte, 1)); rerr != nil {
			err = rerr
		}
		op, ofNet = errors.AsType[*net.OpError](err)
	}
	if ofNet && op.Op == "remote error" {
		return c.explainTLS(err)
	}
	return err
}
