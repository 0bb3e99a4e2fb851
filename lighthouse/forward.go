package lighthouse

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse/cluster"
	"github.com/skerry-ft/skerry/lighthouse/internal/access"
)

const (
	// hopKey marks, as gRPC metadata and as an HTTP header, what another server
	// has passed on: it is served or refused, and never passed on again.
	hopKey = access.HopKey

	// againAfter is the pause before a call that the leader could not take is
	// tried again, if the leader does not change before.
	againAfter = 25 * time.Millisecond
)

// holding bounds a call that waits for a leader by its caller's deadline, or by
// leaderWait if it has none: who can wait says so.
func holding(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, bounded := ctx.Deadline(); bounded {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, leaderWait, cluster.ErrNotLeader)
}

// hopped says whether another server passed the call on, by the caller's own word: who
// says so gives up that it is passed on again, and gains nothing. See byFellow.
func hopped(ctx context.Context) bool {
	return len(metadata.ValueFromIncomingContext(ctx, hopKey)) > 0
}

// forwardUnary serves a call here if this server leads, and has the leader serve
// it if another one does. Over a change of leader it begins anew: whatever a
// server is asked may be asked twice.
func (s *Server) forwardUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	w := wait{hopped: hopped(ctx), servers: access.IsCluster(info.FullMethod)}
	if !s.forwarded(info.FullMethod) {
		return handle(ctx, req)
	}
	if w.servers { // their callers can wait for long, and had better ask another server
		held, cancel := context.WithTimeoutCause(ctx, leaderWait, cluster.ErrNotLeader)
		defer cancel()
		resp, err := s.serveOrForward(held, w, req, info, handle)
		if status.Code(err) == codes.DeadlineExceeded && ctx.Err() == nil { // the leader has not taken it by then
			err = wire.StatusError(fmt.Errorf("%w: %w", cluster.ErrNotLeader, err))
		}
		return resp, err
	}
	resp, err := s.serveOrForward(ctx, w, req, info, handle)
	if access.IsTorchft(info.FullMethod) && !w.hopped {
		err = torchftTimeout(err)
	}
	return resp, err
}

func (s *Server) serveOrForward(ctx context.Context, w wait, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	for {
		held, cancel := holding(ctx)
		to, err := s.route(held, w)
		cancel()
		if err != nil {
			return nil, wire.StatusError(err)
		}
		var resp any
		if to.leader == "" {
			resp, err = handle(ctx, req)
			w.ended = to.leadership
		} else {
			resp, err = s.forward(ctx, to.leader, info.FullMethod, req)
		}
		if err == nil || w.hopped || ctx.Err() != nil || !errors.Is(wire.FromStatus(err), wire.ErrNoLeader) {
			return resp, err
		}
		if to.leadership == nil {
			s.pause(ctx)
		}
	}
}

// forwarded says whether a method is the leader's to serve: those of the services for
// members and operators, and about the servers, where there are several.
func (s *Server) forwarded(method string) bool {
	if access.IsCluster(method) {
		return method != skerrypb.Cluster_Introduce_FullMethodName && s.cfg.Cluster.Several()
	}
	return access.ServiceOf(method) == skerrypb.Lighthouse_ServiceDesc.ServiceName || access.IsTorchft(method)
}

// forward makes the call at the leader. An error that matches wire.ErrNoLeader
// says that the leader could not take it.
func (s *Server) forward(ctx context.Context, leader, method string, req any) (any, error) {
	// A message without fields keeps all that it is sent, and is sent on as it came.
	resp := new(emptypb.Empty)
	dial := s.link.To
	if access.IsCluster(method) {
		// The link is cut once another server leads, so the answer to a handover would be
		// lost, and the next leader asked for one, too.
		dial = func(addr string) (*grpc.ClientConn, error) {
			return cluster.Dial(s.cfg.Network, s.guard.Speaks(), addr)
		}
	}
	conn, err := dial(leader)
	if err != nil {
		return nil, wire.StatusError(fmt.Errorf("%w: dial the leader: %w", wire.ErrNoLeader, err))
	}
	if access.IsCluster(method) {
		defer func() { _ = conn.Close() }() // it has served
	}
	out := access.PassedOn(ctx)
	if access.Orders(method) && !guard.IsUnvouched(ctx) {
		out = access.AskerOf(ctx, s.guard, method, req).Tell(out, s.guard.Speaks(), method, req)
	}
	err = conn.Invoke(out, method, req, resp)
	if err == nil || ctx.Err() != nil {
		return resp, err
	}
	if cluster.ConnLost(err) {
		s.link.Broken(conn)
		err = wire.StatusError(fmt.Errorf("%w: the leader %s is lost: %w", wire.ErrNoLeader, leader, err))
	}
	return nil, err
}

// pause waits for another leader, or for a moment.
func (s *Server) pause(ctx context.Context) {
	select {
	case <-s.cluster.Changed():
	case <-time.After(againAfter):
	case <-ctx.Done():
	}
}

// follow cuts the link when the leader changes, so that calls that hang at an
// old one, which may be stopped, end at once. It ends with ctx.
func (s *Server) follow(ctx context.Context) {
	defer s.link.Close()
	for {
		changed := s.cluster.Changed()
		if addr, self, ok := s.cluster.Leader(); ok && self {
			s.link.Keep("")
		} else if ok {
			s.link.Keep(addr)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
