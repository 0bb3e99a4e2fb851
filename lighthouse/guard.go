package lighthouse

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse/internal/access"
)

// Guard says which certificate and which token a server has. With certificates
// it serves TLS alone, on the one port, and raft's port too; with a token,
// changing actions need it. See docs/SECURITY.md.
type Guard = guard.Options

// The limits of the port, if Config names no others.
const (
	// DefaultMaxConns is for 10,000 replicas with a connection each, their
	// reconnects, and everybody else. The process needs as many descriptors.
	DefaultMaxConns = 32_768

	// DefaultMaxConnsPerHost keeps one machine from taking them all.
	DefaultMaxConnsPerHost = 8_192

	// stallTimeout ends a connection that takes nothing of what it is sent.
	stallTimeout = 30 * time.Second
)

// allowed says whether a call may be made: by a certificate of the cluster's CA
// whose role is right for it, if there is a CA, and with the token, if there is one
// and the call is not one that reads. A call that is passed on to the leader goes
// with this server's own proof: it was checked here. Only a drain by a member is for
// the leader to check, in checkMember.
func (s *Server) allowed(ctx context.Context, method string, req any) (context.Context, error) {
	if access.Probes(method) {
		return ctx, nil
	}
	err := s.rightful(ctx, method, req)
	switch {
	case err != nil:
	case s.needsToken(method) && access.Joins(method):
		if err = s.guard.CheckJoin(ctx, "", method, req); err != nil {
			err = fmt.Errorf("%w; %s", err, joinHint)
		} else if access.JoinsTorchft(method) {
			err = namesJob(ctx, s.joinsOnly(ctx), "join token")
		} else if access.Launches(method) {
			err = s.joinsJob(ctx, access.JobOf(req))
		}
	case s.needsToken(method):
		err = s.guard.CheckToken(ctx, method, req)
	default:
		s.guard.Recognize(ctx, method, req)
	}
	if err != nil && s.mayAsMember(ctx, method, req) {
		return guard.Unvouched(ctx), nil
	}
	return ctx, guard.Denied(ctx, s.sampled, method, err)
}

// greet says of a call's headers whether allowed can let it through, before
// anything of its body is read. It does not block.
func (s *Server) greet(ctx context.Context, method string) error {
	if access.Probes(method) {
		return nil
	}
	err := s.rightful(ctx, method, nil)
	switch {
	case err != nil || !s.needsToken(method):
	case access.Joins(method):
		if err = s.guard.CheckJoinShown(ctx); err != nil {
			err = fmt.Errorf("%w; %s", err, joinHint)
		}
	default:
		err = s.guard.CheckShown(ctx)
	}
	if err == nil || s.mayAsMember(ctx, method, nil) {
		return nil
	}
	s.metrics.Denied(method)
	return guard.Denied(ctx, s.sampled, method, err)
}

// newIntake bounds what the port takes in.
func (s *Server) newIntake() *guard.Intake {
	return guard.NewIntake(guard.IntakeConfig{
		Allowed: s.greet, Known: s.guard.Knows, MaxBytes: wire.RequestBytes, Timeout: s.cfg.HelloTimeout,
		Cut: func(remote net.Addr, err error) {
			s.metrics.Cut()
			s.sampled.Warn().Err(err).Stringer(logkey.Peer, remote).Msg("connection cut")
		},
	})
}

// checkMember checks, at the leader, a call that allowed let through for it: a
// member of the last quorum may drain replicas of it.
func (s *Server) checkMember(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if guard.IsUnvouched(ctx) {
		drain, ok := req.(*skerrypb.DrainRequest)
		if !ok || !s.drainsItself(ctx, info.FullMethod, drain) {
			return nil, guard.Denied(ctx, s.sampled, info.FullMethod, fmt.Errorf("%w: this needs the token", guard.ErrDenied))
		}
	}
	return next(ctx, req)
}

// drainsItself says whether the caller proves the token of the job's last
// quorum: its members trust one another, and may ask to go.
func (s *Server) drainsItself(ctx context.Context, method string, req *skerrypb.DrainRequest) bool {
	j, err := s.existing(ctx, req.GetJob())
	if err != nil {
		return false
	}
	var token []byte
	err = j.do(ctx, func(time.Time) {
		if q := j.machine.Last(); q != nil {
			token = append(token, q.Token[:]...)
		}
	})
	return err == nil && token != nil && guard.CheckMember(ctx, token, method, req) == nil
}

// limitConns bounds what the clients of the port may take.
func (s *Server) limitConns(ln net.Listener) net.Listener {
	return guard.Limit(ln, guard.Limits{
		MaxConns: s.cfg.MaxConns, MaxPerHost: s.cfg.MaxConnsPerHost, WriteTimeout: stallTimeout,
		Refused: func(remote net.Addr, err error) {
			s.sampled.Debug().Err(err).Stringer(logkey.Peer, remote).Msg("connection refused")
		},
	})
}

// warnUnguarded says once, at the start, what strangers could do, and what to
// do about it.
func (s *Server) warnUnguarded() {
	if guard.IsLoopback(s.Addr()) {
		return
	}
	e := s.log.Warn().Stringer(logkey.Addr, s.Addr())
	switch {
	case s.guard.Adopt.Lenient():
		e.Msg("port unguarded while the guard is adopted: whoever reaches it may join, drain, evict and kill; " +
			"take the next step of --adopt, see docs/OPERATIONS.md")
	case s.guard.IsZero():
		e.Msg("port unguarded: whoever reaches it may join, drain, evict and kill; " +
			"set --token-file, and --tls-ca, --tls-cert, --tls-key, see docs/SECURITY.md")
	case !s.guard.Serves():
		e.Msg("port without TLS: who can read the network reads the quorums' tokens; " +
			"set --tls-ca, --tls-cert, --tls-key, see docs/SECURITY.md")
	case s.guard.Anonymous && s.guard.Token.IsZero():
		e.Msg("clients unguarded: TLS hides what they say, but whoever reaches the port may drain, evict and kill; " +
			"set --token-file, or leave --tls-anonymous out, see docs/SECURITY.md")
	}
	if s.cfg.Cluster.Several() && s.cfg.Cluster.GossipKeys == nil {
		s.log.Warn().Msg("gossip unguarded: whoever reaches its port can lie about which servers there are; " +
			"set --gossip-key-file, see docs/SECURITY.md")
	}
}

// secured makes the TLS handshake of a new connection, if there is TLS.
func (s *Server) secured(conn net.Conn) (guard.Secured, error) {
	secured, err := s.guard.Secure(context.Background(), conn, s.cfg.HelloTimeout)
	if err != nil {
		s.sampled.WithLevel(guard.RefusedLevel(err)).Err(err).Stringer(logkey.Peer, conn.RemoteAddr()).Msg("connection not secured")
	}
	return secured, err
}

// names are the hosts by which this lighthouse is called.
func (s *Server) names() []string {
	names := append([]string{"localhost"}, s.cfg.AllowHosts...)
	for _, addr := range append(s.cluster.Servers(), s.cfg.Listen, s.cfg.Advertise) {
		if host, _, err := net.SplitHostPort(addr); err == nil && host != "" {
			names = append(names, host)
		}
	}
	return names
}
