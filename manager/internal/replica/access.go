package replica

import (
	"context"
	"net"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/netaddr"
	"github.com/skerry-ft/skerry/internal/split"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
)

// Limits of the manager server: a replica's ranks, peers that heal, and a
// lighthouse have a few connections each.
const (
	maxConns        = 4_096
	maxConnsPerHost = 1_024
	maxStreams      = 1_024 // calls at a time on one connection
	writeTimeout    = 30 * time.Second
	greetTimeout    = 10 * time.Second // TLS handshake and HTTP/2 preface

	// mostAuthWait bounds how long the store holds a client whose token it does
	// not know yet; the client itself waits for 30 s.
	mostAuthWait = 10 * time.Second
)

// schemes are those that an address may have.
const (
	schemePlain = "http://"
	schemeTLS   = "https://"
)

// scheme is what the address of a manager server begins with.
func scheme(g *guard.Guard) string {
	if g.Serves() {
		return schemeTLS
	}
	return schemePlain
}

// serve makes the RPC server and what answers scrapes on the same port, and bounds what
// their clients may take.
func (r *Replica) serve() {
	r.warnUnguarded(r.listener.Addr())
	r.listener = r.limitConns(r.listener)
	r.port = split.New(split.Config{Listener: r.listener, Timeout: greetTimeout, Secure: r.secured, Log: r.cfg.Log})
	r.web = r.newWeb()
	intake := r.newIntake()
	r.rpc = grpc.NewServer(r.serverOptions(intake)...)
	skerrypb.RegisterManagerServer(intake.Registrar(r.rpc), &rpcServer{server: r.server, kill: r.cfg.OnKill})
}

// limitConns bounds what the clients of a listener may take.
func (r *Replica) limitConns(ln net.Listener) net.Listener {
	return guard.Limit(ln, guard.Limits{
		MaxConns: maxConns, MaxPerHost: maxConnsPerHost, WriteTimeout: writeTimeout,
		Refused: func(remote net.Addr, err error) {
			r.cfg.Sampled.Debug().Err(err).Stringer(logkey.Peer, remote).Msg("connection refused")
		},
	})
}

// serverOptions are those of the manager server.
func (r *Replica) serverOptions(intake *guard.Intake) []grpc.ServerOption {
	options := append(wire.ServerOptions(),
		grpc.WaitForHandlers(true),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(greetTimeout))
	return slices.Concat(options, guard.Checked(r.allowed), intake.ServerOptions(guard.Accepted()))
}

// secured makes the TLS handshake of a new connection, if there is TLS.
func (r *Replica) secured(conn net.Conn) (guard.Secured, error) {
	secured, err := r.cfg.Guard.SecureKnown(context.Background(), conn, greetTimeout)
	if err != nil {
		r.cfg.Sampled.WithLevel(guard.RefusedLevel(err)).Err(err).Stringer(logkey.Peer, conn.RemoteAddr()).Msg("connection not secured")
	}
	return secured, err
}

// newIntake bounds what the manager server takes in.
func (r *Replica) newIntake() *guard.Intake {
	return guard.NewIntake(guard.IntakeConfig{
		Allowed: r.greet, Known: r.cfg.Guard.Knows, MaxBytes: wire.RequestBytes, Timeout: greetTimeout,
		Cut: func(remote net.Addr, err error) {
			r.cfg.Sampled.Warn().Err(err).Stringer(logkey.Peer, remote).Msg("connection cut")
		},
	})
}

// greet says of a call's headers whether allowed can let it through, before
// anything of its body is read. It does not block.
func (r *Replica) greet(ctx context.Context, method string) error {
	err := r.rightful(ctx, method)
	switch {
	case err != nil || !r.needsToken(method):
	case method == methodKill:
		err = r.cfg.Guard.CheckShown(ctx)
	default:
		err = r.cfg.Guard.CheckJoinShown(ctx)
	}
	return guard.Denied(ctx, r.cfg.Sampled, method, err)
}

// rightful checks that the caller's certificate is of a role that may make the call.
func (r *Replica) rightful(ctx context.Context, method string) error {
	roles := []guard.Role{guard.Replica}
	if method == methodKill {
		roles = []guard.Role{guard.Lighthouse, guard.Operator}
	}
	return r.cfg.Guard.CheckRole(ctx, r.cfg.Job, roles...)
}

// needsToken says whether a call needs the token, if there is one.
func (r *Replica) needsToken(method string) bool {
	return !r.cfg.Guard.AsksClients() || method == methodKill
}

// methodKill ends this process.
const methodKill = "/skerry.v1.Manager/Kill"

// allowed says whether a call may be made. With mutual TLS, a replica of this job
// may do all but kill, which is a lighthouse's or an operator's, with the operators'
// token too, if there is one; without, the token is all there is, and every call needs
// it: a kill the operators', the others a join token of this job at least.
func (r *Replica) allowed(ctx context.Context, method string, req any) (context.Context, error) {
	err := r.rightful(ctx, method)
	audience := guard.Audience(method, netaddr.HostPort(r.address))
	switch {
	case err != nil || !r.needsToken(method):
	case method == methodKill:
		err = r.cfg.Guard.CheckToken(ctx, audience, req)
	default:
		err = r.cfg.Guard.CheckJoin(ctx, r.cfg.Job, audience, req)
	}
	return ctx, guard.Denied(ctx, r.cfg.Sampled, method, err)
}

// warnUnguarded says once, at the start, what strangers could do, and what to
// do about it.
func (r *Replica) warnUnguarded(addr net.Addr) {
	if r.cfg.Guard.TakesAnyRole() {
		r.cfg.Log.Warn().Msg("certificates without a role are taken for any: another replica's key passes for a lighthouse's; " +
			"sign them anew with lighthouse ca --role, and leave SKERRY_TLS_ANY_ROLE out, see docs/SECURITY.md")
	}
	if !r.cfg.Guard.Token.IsZero() && r.cfg.Guard.Token.Job() == "" {
		r.cfg.Log.Info().Str(logkey.Job, r.cfg.Job).Msg("the token here is the operators': whoever breaks into this process may drain, evict and kill with it; " +
			"skerry token --job makes one that lets replicas join and does nothing else, see docs/SECURITY.md")
	}
	if guard.IsLoopback(addr) || !r.cfg.Guard.IsZero() {
		return
	}
	r.cfg.Log.Warn().Stringer(logkey.Addr, addr).
		Msg("manager unguarded: whoever reaches its port can vote for this replica or kill it; " +
			"set Config.Guard (SKERRY_TOKEN_FILE, SKERRY_TLS_CA…), see docs/SECURITY.md")
}
