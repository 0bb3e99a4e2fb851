package manager

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/netaddr"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/quorum"
)

// Guard says which certificate and which token a Manager has; its zero value
// guards nothing but what every quorum's own token does: store, data plane and
// heals. See docs/SECURITY.md.
type Guard = guard.Options

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

// scheme is what this manager's address begins with.
func (m *Manager) scheme() string {
	if m.guard.Serves() {
		return schemeTLS
	}
	return schemePlain
}

// dialPeer returns a connection to another manager, of to's job, at "host:port"; it is made by
// the first call. A new one each time, so that no backoff of an old one delays
// it. Proofs hold for that address alone: who receives one cannot use it
// elsewhere.
func dialPeer(g *guard.Guard, n Network, to guard.Party, addr string, more ...grpc.DialOption) (*grpc.ClientConn, error) {
	addr = netaddr.HostPort(addr)
	options := slices.Concat(wire.DialOptions(), g.DialOptions(to, addr), dialsBy(n), more)
	return grpc.NewClient("passthrough:///"+addr, options...)
}

// dialServer returns a connection to a lighthouse server, which may answer to
// several addresses.
func dialServer(g *guard.Guard, n Network, addr string) (*grpc.ClientConn, error) {
	options := append(append(wire.DialOptions(), g.DialOptions(guard.Party{Role: guard.Lighthouse}, "")...), dialsBy(n)...)
	return grpc.NewClient("passthrough:///"+netaddr.HostPort(addr), options...)
}

// sibling is what this manager dials to reach one of its job.
func (m *Manager) sibling() guard.Party { return guard.Party{Role: guard.Replica, Job: m.cfg.Job} }

// limitConns bounds what the clients of a listener may take.
func (m *Manager) limitConns(ln net.Listener) net.Listener {
	return guard.Limit(ln, guard.Limits{
		MaxConns: maxConns, MaxPerHost: maxConnsPerHost, WriteTimeout: writeTimeout,
		Refused: func(remote net.Addr, err error) {
			m.sampled.Debug().Err(err).Stringer(logkey.Peer, remote).Msg("connection refused")
		},
	})
}

// serverOptions are those of the manager server at address.
func (m *Manager) serverOptions(address string, intake *guard.Intake) []grpc.ServerOption {
	check := func(ctx context.Context, method string, req any) error {
		return m.allowed(ctx, address, method, req)
	}
	options := append(wire.ServerOptions(),
		grpc.WaitForHandlers(true),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(greetTimeout),
		grpc.ChainUnaryInterceptor(func(
			ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler,
		) (any, error) {
			if err := check(ctx, info.FullMethod, req); err != nil {
				return nil, err
			}
			return next(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(
			srv any, st grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler,
		) error {
			if err := check(st.Context(), info.FullMethod, nil); err != nil {
				return err
			}
			return next(srv, st)
		}))
	secured := m.guard.ServerCredentials(func(remote net.Addr, err error) {
		m.sampled.WithLevel(guard.RefusedLevel(err)).Err(err).Stringer(logkey.Peer, remote).Msg("connection not secured")
	})
	return append(options, intake.ServerOptions(secured)...)
}

// newIntake bounds what the manager server takes in.
func (m *Manager) newIntake() *guard.Intake {
	return guard.NewIntake(guard.IntakeConfig{
		Allowed: m.greet, Known: m.guard.Knows, MaxBytes: wire.RequestBytes, Timeout: greetTimeout,
		Cut: func(remote net.Addr, err error) {
			m.sampled.Warn().Err(err).Stringer(logkey.Peer, remote).Msg("connection cut")
		},
	})
}

// greet says of a call's headers whether allowed can let it through, before
// anything of its body is read. It does not block.
func (m *Manager) greet(ctx context.Context, method string) error {
	err := m.rightful(ctx, method)
	switch {
	case err != nil || !m.needsToken(method):
	case method == methodKill:
		err = m.guard.CheckShown(ctx)
	default:
		err = m.guard.CheckJoinShown(ctx)
	}
	return m.denied(ctx, method, err)
}

// rightful checks that the caller's certificate is of a role that may make the call.
func (m *Manager) rightful(ctx context.Context, method string) error {
	roles := []guard.Role{guard.Replica}
	if method == methodKill {
		roles = []guard.Role{guard.Lighthouse, guard.Operator}
	}
	return m.guard.CheckRole(ctx, m.cfg.Job, roles...)
}

// needsToken says whether a call needs the token, if there is one.
func (m *Manager) needsToken(method string) bool {
	return !m.guard.AsksClients() || method == methodKill
}

// methodKill ends this process.
const methodKill = "/skerry.v1.Manager/Kill"

// allowed says whether a call may be made. With mutual TLS, a replica of this job
// may do all but kill, which is a lighthouse's or an operator's, with the operators'
// token too, if there is one; without, the token is all there is, and every call needs
// it: a kill the operators', the others a join token of this job at least.
func (m *Manager) allowed(ctx context.Context, address, method string, req any) error {
	err := m.rightful(ctx, method)
	audience := guard.Audience(method, netaddr.HostPort(address))
	switch {
	case err != nil || !m.needsToken(method):
	case method == methodKill:
		err = m.guard.CheckToken(ctx, audience, req)
	default:
		err = m.guard.CheckJoin(ctx, m.cfg.Job, audience, req)
	}
	return m.denied(ctx, method, err)
}

// denied logs why a call is denied, and makes the answer; nil for nil.
func (m *Manager) denied(ctx context.Context, method string, err error) error {
	if err == nil {
		return nil
	}
	m.sampled.Warn().Err(err).Str("method", guard.Shown(method)).Str(logkey.Peer, guard.RemoteOf(ctx)).Msg("call denied")
	return status.Error(codes.Unauthenticated, err.Error())
}

// warnUnguarded says once, at the start, what strangers could do, and what to
// do about it.
func (m *Manager) warnUnguarded(addr net.Addr) {
	if m.guard.TakesAnyRole() {
		m.log.Warn().Msg("certificates without a role are taken for any: another replica's key passes for a lighthouse's; " +
			"sign them anew with lighthouse ca --role, and leave SKERRY_TLS_ANY_ROLE out, see docs/SECURITY.md")
	}
	if !m.guard.Token.IsZero() && m.guard.Token.Job() == "" {
		m.log.Info().Str(logkey.Job, m.cfg.Job).Msg("the token here is the operators': whoever breaks into this process may drain, evict and kill with it; " +
			"skerry token --job makes one that lets replicas join and does nothing else, see docs/SECURITY.md")
	}
	if guard.IsLoopback(addr) || !m.guard.IsZero() {
		return
	}
	m.log.Warn().Stringer(logkey.Addr, addr).
		Msg("manager unguarded: whoever reaches its port can vote for this replica or kill it; " +
			"set Config.Guard (SKERRY_TOKEN_FILE, SKERRY_TLS_CA…), see docs/SECURITY.md")
}

// joinTokenOf refuses a join token of another job than the one that is joined.
func joinTokenOf(job string) func(of string) error {
	return func(of string) error {
		if of == "" || of == job {
			return nil
		}
		return fmt.Errorf("Job = %q (SKERRY_JOB), and the join token is of job %q: want the token that skerry token --job %s prints, or that job",
			job, of, job)
	}
}

// admit lets the members of q use the store, under q's prefix.
func (h *hub) admit(q *quorum.Quorum) error {
	if err := h.store.Allow(quorumPrefix(q), q.Token[:]); err != nil {
		return fmt.Errorf("let the members of quorum %d into the store: %w", q.ID, err)
	}
	return nil
}

// quorumPrefix is the part of the store that a quorum uses.
func quorumPrefix(q *quorum.Quorum) string {
	return fmt.Sprintf("skerry/%s/%s/%d", q.Cluster, q.Job, q.ID)
}

// memberProof adds to a call the proof that this replica is a member of the
// last quorum: so it may drain itself without the operators' token.
func (m *Manager) memberProof(ctx context.Context, method string, req any) context.Context {
	m.mu.Lock()
	q := m.mu.rank.Quorum()
	m.mu.Unlock()
	if q == nil {
		return ctx
	}
	proof := guard.FixedToken(guard.NewSecret(q.Token[:])).Prove(method, guard.Body(req))
	return metadata.AppendToOutgoingContext(ctx, guard.MemberMetadata, proof)
}

// healTLS is the TLS of the heal transport, or nil.
func (m *Manager) healTLS() *checkpoint.TLS {
	if !m.guard.Serves() {
		return nil
	}
	return &checkpoint.TLS{
		Server: m.guard.ServerFor(m.cfg.Job, guard.Replica),
		Client: func(host string) *tls.Config { return m.guard.TLS.Client(host, m.sibling()) },
	}
}
