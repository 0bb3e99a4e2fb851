package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/lighthouse/internal/network"
)

// lighthouse is the party at the other end of what servers dial.
func lighthouse() guard.Party { return guard.Party{Role: guard.Lighthouse} }

// raftPurpose is what servers prove the token for to each other.
const raftPurpose = "raft"

// acceptRaft is the server's side of a new connection: TLS if there are certificates, of
// servers on both sides, and then, if there is a token, a proof of it. While the guard is
// adopted, what comes without TLS or without a proof is taken as it is. The caller sets
// deadlines.
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

// dialRaft is the client's side: it dials, and shows what g has. ctx has a deadline.
func dialRaft(ctx context.Context, n network.Network, g *guard.Guard, address string) (net.Conn, error) {
	conn, err := n.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	at, _ := ctx.Deadline()
	_ = conn.SetDeadline(at) // a closed connection shows below
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
