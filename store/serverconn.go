package store

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/internal/perhost"
	"github.com/skerry-ft/skerry/internal/proof"
)

// serverConn is one client of a server. serve owns it, but for what mu guards.
type serverConn struct {
	s   *Server
	raw net.Conn // which end closes: it does not wait for a client that does not read
	nc  net.Conn // raw, or TLS over it; set before the greeting
	d   decoder  // of commands; before the greeting is over there is none

	place    perhost.Place // among all connections
	newcomer perhost.Place // among those whose greeting is not over
	host     netip.Addr

	scope string // what its keys must begin with

	wg sync.WaitGroup // the goroutine of a wait

	mu struct {
		sync.Mutex
		out    *bufio.Writer // nil before the greeting is over
		wait   *waiter       // under way, or nil
		woken  *waiter       // the last one answered, until the next command
		id     tokenID       // the token it came in with; zero: none
		closed bool
	}
}

func newServerConn(s *Server, nc net.Conn) *serverConn {
	return &serverConn{s: s, raw: nc, nc: nc, host: perhost.HostOf(nc.RemoteAddr())}
}

// greeted makes the buffers of a client that may give commands.
func (c *serverConn) greeted() error {
	c.d = decoder{r: bufio.NewReader(c.nc), purse: c.s.purse, host: c.host}
	c.mu.Lock()
	c.mu.out = bufio.NewWriter(c.nc)
	c.mu.Unlock()
	c.newcomer.Leave()
	return c.nc.SetDeadline(time.Time{})
}

// end closes the connection; serve then returns.
func (c *serverConn) end() {
	c.mu.Lock()
	c.mu.closed = true
	c.mu.Unlock()
	c.raw.Close() //nolint:errcheck // nobody could do anything about it
}

func (c *serverConn) heldBy(id tokenID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.id == id
}

// log tells how a connection ended; leaving is no event.
func (c *serverConn) log(err error) {
	c.mu.Lock()
	ours := c.mu.closed
	c.mu.Unlock()
	if ours || err == nil || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, errForgotten) {
		c.s.cfg.Log.Debug().Err(err).Str("peer", c.raw.RemoteAddr().String()).Msg("store client left")
		return
	}
	c.s.sampled.Warn().Err(err).Str("peer", c.raw.RemoteAddr().String()).Msg("store client dropped")
}

// serve answers commands in their order until the client leaves, breaks the
// protocol, or the server ends.
func (c *serverConn) serve() error {
	err := c.handshake()
	if err != nil {
		c.finish()
	}
	for err == nil {
		var cmd command
		if cmd, err = c.d.command(); err == nil {
			err = c.execute(cmd)
		}
		c.d.done()
	}
	c.raw.Close() //nolint:errcheck // the reason to close is err
	c.cancelWait()
	c.wg.Wait()
	c.passOn("")
	return err
}

// finish says that nothing more comes. Without it, closing a connection of which
// something is unread would look like a break to the client, which tries again then.
func (c *serverConn) finish() {
	if half, ok := c.raw.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // gone already
	}
}

// handshake makes TLS, if the server speaks it, takes the magic number, and on a
// guarded server the proof. It reads nothing else, a few bytes at a time: what a
// client may say before is less than a hundred bytes, whatever it sends, or
// maxHandshakeBytes until it has shown its certificate. PyTorch 1.13 begins with another command, and is
// refused here.
func (c *serverConn) handshake() error {
	if err := c.nc.SetDeadline(time.Now().Add(handshakeTimeout + c.s.cfg.AuthWait)); err != nil {
		return err
	}
	var hello [1 + 4]byte
	if _, err := io.ReadFull(c.nc, hello[:1]); err != nil {
		return err
	}
	if c.s.cfg.TLS != nil {
		if err := c.secure(hello[0]); err != nil {
			return err
		}
		if _, err := io.ReadFull(c.nc, hello[:1]); err != nil {
			return err
		}
	} else if hello[0] == tlsHandshake {
		return errTLSClient
	}
	if op := opcode(hello[0]); op != opValidate {
		return fmt.Errorf("%w: first command is %d, want %d (PyTorch 1.13 is too old)", errProtocol, op, opValidate)
	}
	if _, err := io.ReadFull(c.nc, hello[1:]); err != nil {
		return err
	}
	if magic := binary.LittleEndian.Uint32(hello[1:]); magic != validateMagic {
		return fmt.Errorf("%w: magic number %#x, want %#x", errProtocol, magic, validateMagic)
	}
	if c.s.cfg.Guarded {
		if err := c.prove(); err != nil {
			return err
		}
	}
	return c.greeted()
}

// prove takes the command with which a client proves its token, and no other.
func (c *serverConn) prove() error {
	var op [1]byte
	if _, err := io.ReadFull(c.nc, op[:]); err != nil {
		return err
	}
	if opcode(op[0]) != opAuth {
		return fmt.Errorf("%w: command %d before authentication", errProtocol, op[0])
	}
	var req authRequest
	if _, err := io.ReadFull(c.nc, req.nonce[:]); err != nil {
		return err
	}
	if _, err := io.ReadFull(c.nc, req.id[:]); err != nil {
		return err
	}
	return c.authenticate(req)
}

// authenticate lets the client in if both sides hold the token.
func (c *serverConn) authenticate(req authRequest) error {
	g, ok := c.s.grants.await(req.id, c.s.cfg.AuthWait, c.s.stop)
	if !ok {
		why := fmt.Errorf("%w: unknown token", errProtocol)
		if c.s.grants.forgot(req.id) {
			why = errForgotten
		}
		return errors.Join(why, c.send([]byte{authRefused}))
	}
	nonce := newNonce()
	challenge := append([]byte{authChallenge}, nonce[:]...)
	if err := c.send(append(challenge, proof.Of(g.token, proofOfServer, req.nonce[:], nonce[:])...)); err != nil {
		return err
	}
	var said [proofBytes]byte
	if _, err := io.ReadFull(c.nc, said[:]); err != nil {
		return err
	}
	if !proof.Holds(said[:], g.token, proofOfClient, req.nonce[:], nonce[:]) {
		return errors.Join(fmt.Errorf("%w: wrong proof", errProtocol), c.send([]byte{authRefused}))
	}
	c.mu.Lock()
	c.mu.id = req.id
	c.mu.Unlock()
	c.scope = g.scope
	// Forget may have come between: it looks at held connections only.
	if _, still, _ := c.s.grants.find(req.id); !still {
		return errors.Join(errForgotten, c.send([]byte{authRefused}))
	}
	return c.send([]byte{authAccepted})
}

// send writes one answer. A client that does not read ends its connection.
func (c *serverConn) send(b []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sendLocked(b)
}

func (c *serverConn) sendLocked(parts ...[]byte) error {
	if err := c.nc.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	if c.mu.out == nil { // parts are few and short: of the greeting
		_, err := c.nc.Write(bytes.Join(parts, nil))
		return err
	}
	for _, b := range parts {
		if _, err := c.mu.out.Write(b); err != nil {
			return err
		}
	}
	return c.mu.out.Flush()
}

// sendValues writes values one after the other, without a copy of them all.
func (c *serverConn) sendValues(values ...[]byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, value := range values {
		if err := c.nc.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return err
		}
		if _, err := c.mu.out.Write(appendUint64(nil, uint64(len(value)))); err != nil {
			return err
		}
		if _, err := c.mu.out.Write(value); err != nil {
			return err
		}
	}
	return c.mu.out.Flush()
}

func (c *serverConn) sendInt64(n int64, err error) error {
	if err != nil {
		return err
	}
	return c.send(appendUint64(nil, uint64(n)))
}

// allowed checks that the client may touch the keys.
func (c *serverConn) allowed(keys []string) error {
	for _, key := range keys {
		if !strings.HasPrefix(key, c.scope) {
			if c.s.grants.wasAllowed(key) {
				return fmt.Errorf("%w: key %q", errForgotten, short(key))
			}
			return fmt.Errorf("%w: key %q is outside %q", errProtocol, short(key), c.scope)
		}
	}
	return nil
}

// execute carries out one command and answers it. An error ends the
// connection: it is the only way the protocol has to say no.
func (c *serverConn) execute(cmd command) error {
	if err := c.allowed(cmd.keys); err != nil {
		return err
	}
	if cmd.op == opPop {
		c.passOn(cmd.keys[0])
	} else {
		c.passOn("")
	}
	switch cmd.op {
	case opWait:
		return c.wait(cmd.keys)
	case opCancelWait:
		return c.answerCancel()
	case opAuth:
		return c.answerAuth()
	case opPing:
		return c.send(appendUint32(nil, cmd.nonce))
	case opValidate:
		return fmt.Errorf("%w: command %d twice", errProtocol, cmd.op)
	case opCheck:
		return c.check(cmd.keys)
	case opMultiGet:
		values, _, err := c.s.t.multiGet(cmd.keys)
		if err != nil {
			return err
		}
		return c.sendValues(values...)
	case opMultiSet:
		return c.s.t.multiSet(cmd.keys, cmd.values)
	case opNumKeys:
		return c.sendInt64(c.s.t.numKeys(c.scope))
	}
	return c.executeOn(cmd.keys[0], cmd)
}

// executeOn carries out a command that names one key.
func (c *serverConn) executeOn(key string, cmd command) error {
	t := c.s.t
	switch cmd.op {
	case opGet:
		value, _ := t.get(key)
		return c.sendValues(value)
	case opSet, opAppend, opPush:
		return t.write(cmd.op, key, cmd.values[0])
	case opCompareSet:
		now, err := t.compareSet(key, cmd.values[0], cmd.values[1])
		if err != nil {
			return err
		}
		return c.sendValues(now)
	case opPop:
		return c.pop(key)
	case opAdd:
		return c.sendInt64(t.add(key, cmd.delta))
	case opLen:
		return c.sendInt64(t.length(key))
	case opDeletePrefix:
		return c.sendInt64(t.removePrefix(key))
	}
	gone, err := t.remove(key)
	n := int64(0)
	if gone {
		n = 1
	}
	return c.sendInt64(n, err)
}

func (c *serverConn) check(keys []string) error {
	ok, err := c.s.t.check(keys)
	switch {
	case err != nil:
		return err
	case ok:
		return c.send([]byte{answerReady})
	}
	return c.send([]byte{answerNotReady})
}

func (c *serverConn) pop(key string) error {
	value, before, err := c.s.t.pop(key)
	if err != nil {
		return err
	}
	b := appendUint64(nil, uint64(before))
	if before > 0 {
		b = appendUint64(b, uint64(len(value)))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sendLocked(b, value)
}

// answerAuth: this server asks nobody, or has asked already.
func (c *serverConn) answerAuth() error {
	if c.s.cfg.Guarded {
		return fmt.Errorf("%w: authentication twice", errProtocol)
	}
	return c.send([]byte{authOpen})
}
