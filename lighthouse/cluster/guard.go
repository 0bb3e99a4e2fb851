package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/skerry-ft/skerry/internal/guard"
)

// lighthouse is the party at the other end of what servers dial.
func lighthouse() guard.Party { return guard.Party{Role: guard.Lighthouse} }

// raftPurpose is what servers prove the token for to each other.
const raftPurpose = "raft"

// guardRaft puts the guard around what servers say to each other: TLS if
// there are certificates, of servers on both sides, and then, if there is a token,
// a proof of it at the start of each of raft's connections.
func guardRaft(g *guard.Guard, c *Options, patience time.Duration) {
	if c.RaftListen == nil && (g.Serves() || !g.Token.IsZero()) {
		c.RaftListen = func(ln net.Listener) net.Listener {
			return guard.Greeted(ln, patience, func(conn net.Conn) (net.Conn, error) { return acceptRaft(g, conn) })
		}
	}
	if out := g.Speaks(); c.RaftDial == nil && (out.Serves() || !out.Token.IsZero()) {
		c.RaftDial = func(ctx context.Context, address string) (net.Conn, error) {
			return dialRaft(ctx, out, address, patience)
		}
	}
}

// acceptRaft is the server's side of a new connection. While the guard is adopted,
// what comes without TLS or without a proof is taken as it is.
func acceptRaft(g *guard.Guard, conn net.Conn) (net.Conn, error) {
	if g.Serves() {
		opening := guard.OpensTLS
		if g.Adopt.Lenient() {
			var err error
			if opening, conn, err = guard.Peek(conn); err != nil {
				return nil, err
			}
		}
		if opening == guard.OpensTLS {
			secured := tls.Server(conn, g.TLS.ServerFor("", guard.Lighthouse)) // servers always have a certificate
			if err := secured.Handshake(); err != nil {
				return nil, guard.Explain(err, g.TLS.CAs())
			}
			conn = secured
		}
	}
	if g.Token.IsZero() {
		return conn, nil
	}
	if g.Adopt.Lenient() {
		opening, begun, err := guard.Peek(conn)
		if err != nil || opening != guard.OpensDialogue {
			return begun, err
		}
		conn = begun
	}
	return conn, guard.Dialogue{Token: g.Token, Purpose: raftPurpose, Server: true}.Run(conn)
}

// dialRaft is the client's side: it dials, and shows what g has.
func dialRaft(ctx context.Context, g *guard.Guard, address string, patience time.Duration) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	at, ok := ctx.Deadline()
	if !ok {
		at = time.Now().Add(patience)
	}
	if err := conn.SetDeadline(at); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	secured := conn
	if g.Serves() {
		t := tls.Client(conn, g.TLS.Client(address, lighthouse()))
		if err := t.Handshake(); err != nil {
			return nil, errors.Join(fmt.Errorf("greet %s: %w", address, guard.Explain(err, g.TLS.CAs())), conn.Close())
		}
		secured = t
	}
	if !g.Token.IsZero() {
		if err := (guard.Dialogue{Token: g.Token, Purpose: raftPurpose}).Run(secured); err != nil {
			return nil, errors.Join(fmt.Errorf("greet %s: %w", address, err), conn.Close())
		}
	}
	return secured, conn.SetDeadline(time.Time{})
}
