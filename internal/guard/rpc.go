package guard

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"
)

// The gRPC metadata of a guarded call.
const (
	ProofMetadata  = "skerry-proof"  // what Token.Prove made
	BearerMetadata = "authorization" // "Bearer TOKEN", for tools that cannot make a proof

	// MemberMetadata has a proof of the last quorum's token, instead of the
	// operators': what a member may do to itself.
	MemberMetadata = "skerry-member"

	// OrderMetadata has what Token.Order made, beside the proof.
	OrderMetadata = "skerry-order"
)

// maxProofs bounds the proofs of one call that are looked at: of the operators' token
// and of a join token.
const maxProofs = 2

// Audience is what a proof is made for: a method, of the server at addr alone
// if addr is not empty.
func Audience(method, addr string) string {
	if addr == "" {
		return method
	}
	return method + "@" + addr
}

// DialOptions are those of a gRPC client of the server at addr, which must be a
// to: TLS if there is a CA, and a proof of the token with every call if there is a
// token; to a replica of a job, which may hold no more than a join token, a proof of
// that besides. An empty addr makes proofs that hold for any server. A nil guard
// guards nothing.
func (g *Guard) DialOptions(to Party, addr string) []grpc.DialOption {
	if g == nil {
		g = &Guard{}
	}
	transport := insecure.NewCredentials()
	if g.TLS != nil {
		transport = g.TLS.Credentials(to)
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(transport)}
	if g.Token.IsZero() {
		return options
	}
	return append(options,
		grpc.WithChainUnaryInterceptor(func(
			ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
		) error {
			return invoke(g.prove(ctx, to.Job, Audience(method, addr), req), method, req, reply, conn, opts...)
		}),
		grpc.WithChainStreamInterceptor(func(
			ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, stream grpc.Streamer, opts ...grpc.CallOption,
		) (grpc.ClientStream, error) {
			return stream(g.prove(ctx, to.Job, Audience(method, addr), nil), desc, conn, method, opts...)
		}))
}

// unvouched is the context key of Unvouched.
type unvouched struct{}

// Unvouched is the context of a call that is passed on for somebody who has not
// proved the token here: it goes out without a proof of ours.
func Unvouched(ctx context.Context) context.Context {
	return context.WithValue(ctx, unvouched{}, true)
}

// IsUnvouched says whether ctx comes of Unvouched.
func IsUnvouched(ctx context.Context) bool { return ctx.Value(unvouched{}) != nil }

// prove adds to a call what the token proves: first what the operators' does. job is
// that of the replica which is called, if it is one of a job.
func (g *Guard) prove(ctx context.Context, job, audience string, req any) context.Context {
	if IsUnvouched(ctx) {
		return ctx
	}
	if own := g.Token.Job(); own != "" {
		job = own
	}
	proofs := []string{g.Token.Prove(audience, Body(req))}
	if job != "" {
		proofs = append(proofs, g.Token.ProveJoin(job, audience, Body(req)))
	}
	for _, p := range proofs {
		if p != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, ProofMetadata, p)
		}
	}
	return ctx
}

// Ordered adds to a call of a replica the word of an operator: see Token.Order.
func (g *Guard) Ordered(ctx context.Context, audience string, req any) context.Context {
	if order := g.Token.Order(audience, Body(req)); order != "" {
		return metadata.AppendToOutgoingContext(ctx, OrderMetadata, order)
	}
	return ctx
}

// Body is the message as both sides of one version encode it; what a stream
// carries is not covered.
func Body(req any) []byte {
	m, ok := req.(proto.Message)
	if !ok {
		return nil
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil // it is not sent either
	}
	return b
}

// CheckToken checks the operators' token of a call that came in: a proof, or, on a
// connection that nobody else can read (TLS or loopback), the token itself; where
// there is no more than a join token, an order. req is nil for a stream. Without a
// token, or while one is adopted, it allows everything.
func (g *Guard) CheckToken(ctx context.Context, audience string, req any) error {
	return g.checked(ctx, g.checkToken(ctx, checks{
		proof: func(text string) error { return g.Token.Check(text, audience, Body(req)) },
		order: func(text string) error { return g.Token.checkOrder(text, audience, Body(req)) },
	}))
}

// CheckShown is what CheckToken finds by a call's headers alone, before its body is
// read: a bearer token is checked as a whole, and a proof must be there and of now.
func (g *Guard) CheckShown(ctx context.Context) error {
	return g.checkToken(ctx, checks{
		proof: func(text string) error {
			if JobOfProof(text) != "" {
				return g.Token.Check(text, "", nil) // it says what is wanted
			}
			return checkProofTime(text)
		},
		order: checkProofTime,
	})
}

// CheckJoin is CheckToken for a call for which a join token of job is enough; job
// empty: of any, and then JobOf says of which.
func (g *Guard) CheckJoin(ctx context.Context, job, audience string, req any) error {
	return g.checked(ctx, g.checkToken(ctx, checks{
		proof: func(text string) error { return g.Token.CheckJoin(text, job, audience, Body(req)) },
		any:   job != "",
	}))
}

// CheckJoinShown is to CheckJoin what CheckShown is to CheckToken.
func (g *Guard) CheckJoinShown(ctx context.Context) error {
	return g.checkToken(ctx, checks{proof: checkProofTime, any: true})
}

// JobOf is the job that the proof of a call is bound to; empty: it is bound to none.
// It is true of a call that CheckJoin has let through.
func JobOf(ctx context.Context) string {
	if proofs := metadata.ValueFromIncomingContext(ctx, ProofMetadata); len(proofs) > 0 {
		return JobOfProof(proofs[0])
	}
	return ""
}

// checked notes who has proved the token.
func (g *Guard) checked(ctx context.Context, err error) error {
	if err == nil && !g.Token.IsZero() && !g.Adopt.Lenient() {
		SetKnown(ctx)
	}
	return err
}

// Recognize looks whether a call that anybody may make comes from somebody who
// holds the token, or a join token: more is taken from him. req is nil for a stream.
func (g *Guard) Recognize(ctx context.Context, audience string, req any) {
	proofs := metadata.ValueFromIncomingContext(ctx, ProofMetadata)
	if len(proofs) > 0 && !IsKnown(ctx) && g.Token.CheckJoin(proofs[0], "", audience, Body(req)) == nil {
		SetKnown(ctx)
	}
}

// Knows says whether a new connection's peer is known by its handshake. Where
// nothing is guarded everybody is.
func (g *Guard) Knows(state *tls.ConnectionState) bool {
	return Verified(state) || g.IsZero() || g.Adopt.Lenient()
}

// checks say what is enough for a call.
type checks struct {
	proof func(text string) error
	order func(text string) error // nil: no order is
	any   bool                    // any of the proofs is enough, not the first alone
}

func (g *Guard) checkToken(ctx context.Context, enough checks) error {
	if g.Token.IsZero() || g.Adopt.Lenient() {
		return nil
	}
	md, _ := metadata.FromIncomingContext(ctx)
	proofs, orders, bearers := md.Get(ProofMetadata), md.Get(OrderMetadata), md.Get(BearerMetadata)
	switch {
	case g.Token.Job() != "" && enough.order != nil && len(orders) > 0:
		return enough.order(orders[0])
	case g.Token.Job() != "" && enough.order != nil:
		return fmt.Errorf("%w: this needs an order signed with the operators' token", ErrDenied)
	case len(proofs) > 0:
		// What a call is bound to is said by its first proof: see JobOf.
		err := enough.proof(proofs[0])
		for _, text := range proofs[1:min(len(proofs), maxProofs)] {
			if err == nil || !enough.any {
				break
			}
			if enough.proof(text) == nil {
				err = nil
			}
		}
		return err
	case len(bearers) > 0 && private(ctx):
		return g.Token.CheckAuthorization(bearers[0])
	case len(bearers) > 0:
		return fmt.Errorf("%w: a bearer token came over a connection that others can read; it should be changed", ErrDenied)
	}
	return fmt.Errorf("%w: this needs the token", ErrDenied)
}

// private says that nobody but the two ends can read the connection.
func private(ctx context.Context) bool {
	p, ok := peer.FromContext(ctx)
	return ok && (stateOf(ctx) != nil || IsLoopback(p.Addr))
}

// RemoteOf is the caller's address, for the log.
func RemoteOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		return p.Addr.String()
	}
	return ""
}

// IsLoopback says whether the address is of this machine alone.
func IsLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// CheckPeer checks that the other end of a call showed a certificate, if there
// is a CA and clients need one.
func (g *Guard) CheckPeer(ctx context.Context) error {
	if !g.AsksClients() {
		return nil
	}
	_, err := PeerOf(stateOf(ctx))
	return err
}

// Credentials are those of a gRPC client of parties of that kind, with the files of
// each connection's moment.
func (i *Identity) Credentials(to Party) credentials.TransportCredentials {
	return clientCredentials{credentials.NewTLS(nil), i, to}
}

// IsMember says whether a call brings a proof for CheckMember.
func IsMember(ctx context.Context) bool {
	return len(metadata.ValueFromIncomingContext(ctx, MemberMetadata)) > 0
}

// CheckMember checks a proof of a quorum's token.
func CheckMember(ctx context.Context, quorum []byte, method string, req any) error {
	proofs := metadata.ValueFromIncomingContext(ctx, MemberMetadata)
	if len(proofs) == 0 {
		return fmt.Errorf("%w: want a proof of membership", ErrDenied)
	}
	return FixedToken(NewSecret(quorum)).Check(proofs[0], method, Body(req))
}

type clientCredentials struct {
	credentials.TransportCredentials // what all of TLS have in common

	identity *Identity
	to       Party
}

func (c clientCredentials) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	config := c.identity.Client(authority, c.to)
	// gRPC takes the authority for the server's name, whatever config says.
	secured, info, err := credentials.NewTLS(config).ClientHandshake(ctx, config.ServerName, conn)
	return secured, info, Explain(err, config.RootCAs)
}

func (c clientCredentials) Clone() credentials.TransportCredentials { return c }

// Secured is a connection whose TLS handshake is behind it.
type Secured interface {
	net.Conn
	// TLSState is nil on a connection without TLS.
	TLSState() *tls.ConnectionState
}

// Accepted are the credentials of a gRPC server whose listener has made the
// handshakes already: its connections are [Secured].
func Accepted() credentials.TransportCredentials { return accepted{insecure.NewCredentials()} }

type accepted struct {
	credentials.TransportCredentials
}

func (a accepted) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if s, ok := conn.(Secured); ok {
		if state := s.TLSState(); state != nil {
			return conn, credentials.TLSInfo{
				State:          *state,
				CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
			}, nil
		}
	}
	return a.TransportCredentials.ServerHandshake(conn)
}

func (a accepted) Clone() credentials.TransportCredentials { return a }
