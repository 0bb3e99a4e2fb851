package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/internal/proof"
)

const (
	// cancelGrace is how long a cancelled wait may take to be confirmed; then
	// the connection is given up.
	cancelGrace = 250 * time.Millisecond
	// takeGrace is how long an element that was asked for may take to arrive
	// after its call was cancelled; then it is lost. It matters with a server
	// that hangs, or a machine that does.
	takeGrace = 2 * time.Second
)

// cleanError is an error after which the connection is in good order.
type cleanError struct {
	err error
	// interrupted: the interrupt has happened and was undone. Else an
	// interrupt that is on its way spoils the connection all the same.
	interrupted bool
}

func (e *cleanError) Error() string { return e.err.Error() }
func (e *cleanError) Unwrap() error { return e.err }

// clientConn is one connection of a client, used by one call at a time; only
// interrupt and close may come from elsewhere.
type clientConn struct {
	raw net.Conn // which interrupt and close end
	nc  net.Conn // raw, or TLS over it
	d   decoder  // reads answers with the same bounds

	mu struct {
		sync.Mutex
		taking bool // an answer is under way that must not be lost
	}
}

// connect dials once, and greets the server as PyTorch's clients do.
func (c *Client) connect(ctx context.Context) (*clientConn, error) {
	nc, err := c.cfg.Dial(ctx, "tcp", c.addr)
	if err != nil {
		if at, ok := ctx.Deadline(); ok && !time.Now().Before(at) && errors.Is(err, os.ErrDeadlineExceeded) {
			<-ctx.Done() // at once: the dialer saw the deadline first, and its error says that the server is gone
			err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		return nil, err
	}
	conn := &clientConn{raw: nc, nc: nc}
	if err := c.adopt(conn); err != nil {
		conn.close()
		return nil, err
	}
	stop := context.AfterFunc(ctx, conn.interrupt)
	err = conn.greet(&c.cfg, c.addr)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		c.discard(conn)
		return nil, err
	}
	return conn, nil
}

// errGreeting: the server heard us and left. At the first connection it means
// that it does not want us; at a later one that it is going down.
var errGreeting = errors.New("the server closed the connection at the greeting")

// greet makes TLS, if that is to be spoken, sends the magic number, proves the
// token, and pings.
func (c *clientConn) greet(cfg *ClientConfig, addr string) error {
	timer := time.AfterFunc(pingTimeout, c.interrupt)
	defer timer.Stop()
	var err error
	if cfg.TLS != nil {
		err = c.secure(cfg.TLS, addr)
	}
	c.d = decoder{r: bufio.NewReader(c.nc)}
	if err == nil {
		err = c.introduce(cfg.Token)
	}
	if err != nil && c.nc != c.raw {
		err = c.refused(err)
	}
	switch {
	case errors.Is(err, ErrTLS):
		return err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errGreeting
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w: no answer to the greeting", errProtocol)
	}
	return err
}

// introduce is the greeting of PyTorch's clients, and our proof.
func (c *clientConn) introduce(token []byte) error {
	hello := appendUint32([]byte{byte(opValidate)}, validateMagic)
	if len(token) > 0 {
		if err := c.authenticate(hello, token); err != nil {
			return err
		}
		hello = nil
	}
	return c.fence(hello)
}

// authenticate proves the token to the server, and has it prove the same.
func (c *clientConn) authenticate(hello, token []byte) error {
	id, mine := idOf(token), newNonce()
	hello = append(append(append(hello, byte(opAuth)), mine[:]...), id[:]...)
	status, err := c.ask(hello)
	if err != nil {
		return err
	}
	switch status {
	case authOpen:
		return nil
	case authRefused:
		return fmt.Errorf("%w: the server does not know it", ErrUnauthorized)
	case authChallenge:
	case authTLS:
		return errTLSServer
	default:
		return fmt.Errorf("%w: authentication answered %d", errProtocol, status)
	}
	var theirs [nonceBytes]byte
	var said [proofBytes]byte
	if err := c.d.full(theirs[:], said[:]); err != nil {
		return err
	}
	if !proof.Holds(said[:], token, proofOfServer, mine[:], theirs[:]) {
		return fmt.Errorf("%w: the server does not hold it itself", ErrUnauthorized)
	}
	status, err = c.ask(proof.Of(token, proofOfClient, mine[:], theirs[:]))
	if err == nil && status != authAccepted {
		err = fmt.Errorf("%w: the server refused the proof", ErrUnauthorized)
	}
	return err
}

// interrupt makes what is under way fail now. An element that was asked for
// has a moment to arrive, for it has left the queue.
func (c *clientConn) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := time.Unix(1, 0)
	if c.mu.taking {
		at = time.Now().Add(takeGrace)
	}
	c.raw.SetDeadline(at) //nolint:errcheck // closed is as good
}

// setTaking is said before an element is asked for: an interrupt before it
// keeps the question from going out, one after it leaves time for the answer.
func (c *clientConn) setTaking(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.taking = on
}

func (c *clientConn) close() {
	c.raw.Close() //nolint:errcheck // nobody could do anything about it
}

func (c *clientConn) send(b []byte) error {
	_, err := c.nc.Write(b)
	return err
}

// ask sends b and reads an answer of one byte.
func (c *clientConn) ask(b []byte) (uint8, error) {
	if err := c.send(b); err != nil {
		return 0, err
	}
	return c.d.uint8()
}

func (c *clientConn) askInt64(b []byte) (int64, error) {
	if err := c.send(b); err != nil {
		return 0, err
	}
	return c.d.int64()
}

func (c *clientConn) askBytes(b []byte) ([]byte, error) {
	if err := c.send(b); err != nil {
		return nil, err
	}
	c.d.spent = 0
	return c.d.bytes()
}

// fence sends b and a ping, and waits for its echo: then the commands before
// it have been carried out, though they have no answer of their own.
func (c *clientConn) fence(b []byte) error {
	nonce := rand.Uint32()
	if err := c.send(appendUint32(append(b, byte(opPing)), nonce)); err != nil {
		return err
	}
	echo, err := c.d.uint32()
	if err == nil && echo == answerTLS && echo != nonce {
		return errTLSServer
	}
	if err == nil && echo != nonce {
		err = fmt.Errorf("%w: ping %#x answered %#x", errProtocol, nonce, echo)
	}
	return err
}

// wait blocks until all keys are there. When ctx ends it cancels the wait at
// the server, and the connection stays good.
func (c *clientConn) wait(ctx context.Context, keys []string) error {
	// Only a request that went out whole can be cancelled.
	if err := c.send(appendKeys([]byte{byte(opWait)}, keys)); err != nil {
		return err
	}
	status, err := c.d.uint8()
	switch {
	case err == nil && status == answerStop:
		return nil
	case err == nil:
		return fmt.Errorf("%w: wait answered %d", errProtocol, status)
	case ctx.Err() == nil || !errors.Is(err, os.ErrDeadlineExceeded):
		return err
	}
	cause := context.Cause(ctx)
	if err := c.cancelWait(); err != nil {
		return errors.Join(cause, err)
	}
	return &cleanError{err: cause, interrupted: true}
}

// cancelWait ends the wait at the server. Its answer may be on the way already
// and then comes first.
func (c *clientConn) cancelWait() error {
	if err := c.nc.SetDeadline(time.Now().Add(cancelGrace)); err != nil {
		return err
	}
	status, err := c.ask([]byte{byte(opCancelWait)})
	if err == nil && status == answerStop {
		status, err = c.d.uint8()
	}
	if err == nil && status != answerCanceled {
		err = fmt.Errorf("%w: cancelled wait answered %d", errProtocol, status)
	}
	if err != nil {
		return err
	}
	return c.nc.SetDeadline(time.Time{})
}
