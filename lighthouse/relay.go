package lighthouse

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse/cluster"
)

// electionsWaited is how many elections' time a replica that has just lost the
// leader is held while this server still takes that one for the leader.
const electionsWaited = 2

// upstream is a session's stream, seen from the server.
type upstream = grpc.BidiStreamingServer[skerrypb.Up, skerrypb.Down]

// elsewhere deals with a session while this server does not lead. It sends the
// replica to the leader, or passes its session on if the replica cannot reach
// that one. It returns a leadership if this server came to lead meanwhile; else the
// session is over.
func (s *Server) elsewhere(stream upstream, first *skerrypb.Up, hello wire.Hello) (*leadership, error) {
	ctx := stream.Context()
	if hopped(ctx) {
		held, cancel := context.WithTimeoutCause(ctx, leaderWait, cluster.ErrNotLeader)
		defer cancel()
		to, err := s.route(held, wait{hopped: true})
		return to.leadership, wire.StatusError(err)
	}
	to, err := s.leaderFor(ctx, hello)
	switch {
	case err != nil:
		return nil, wire.StatusError(err)
	case to.leadership != nil:
		return to.leadership, nil
	case hello.Relay && hello.Avoid == to.leader:
		return nil, s.relay(stream, first, to.leader)
	}
	return nil, stream.Send(&skerrypb.Down{Message: &skerrypb.Down_Redirect{
		Redirect: wire.RedirectToProto(wire.Redirect{Leader: to.leader, Servers: s.cluster.Servers()})}})
}

// firstWord reads the hello, within the hello timeout.
func (s *Server) firstWord(stream upstream) (*skerrypb.Up, wire.Hello, error) {
	type word struct {
		up  *skerrypb.Up
		err error
	}
	came := make(chan word, 1)
	s.streams.Go(func() { // ends with the stream, at the latest
		up, err := stream.Recv()
		came <- word{up, err}
	})
	select {
	case w := <-came:
		if w.err != nil {
			return nil, wire.Hello{}, w.err
		}
		s.metrics.Received(w.up)
		hello, err := helloOf(w.up)
		return w.up, hello, err
	case <-time.After(s.cfg.HelloTimeout):
		return nil, wire.Hello{}, status.Error(codes.Aborted, errNoHello.Error())
	case <-stream.Context().Done():
		return nil, wire.Hello{}, context.Cause(stream.Context())
	}
}

// leaderFor waits for a leader. One that the replica has just lost counts only
// if no other comes in time: it may be the replica's own link that broke.
func (s *Server) leaderFor(ctx context.Context, hello wire.Hello) (route, error) {
	if hello.Avoid != "" && !hello.Relay {
		election := s.cfg.Raft.Heartbeat + s.cfg.Raft.Election
		held, cancel := context.WithTimeout(ctx, min(electionsWaited*election, leaderWait))
		to, err := s.route(held, wait{avoid: hello.Avoid, now: true})
		cancel()
		if err == nil {
			return to, nil
		}
	}
	held, cancel := context.WithTimeoutCause(ctx, leaderWait, cluster.ErrNotLeader)
	defer cancel()
	return s.route(held, wait{now: true})
}

// relay passes a session on to the leader, both ways, until either stream ends.
// The end of the replica's stream is told to the leader in a word: a relay that
// dies says none, and is no witness against the replicas whose streams it held.
func (s *Server) relay(stream upstream, first *skerrypb.Up, leader string) error {
	conn, err := s.link.To(leader)
	if err != nil {
		return wire.StatusError(fmt.Errorf("%w: %w", cluster.ErrNotLeader, err))
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(passedOn(stream.Context())))
	defer cancel()
	up, err := skerrypb.NewLighthouseClient(conn).Session(ctx)
	if err == nil {
		err = up.Send(first)
	}
	if err != nil {
		return wire.StatusError(fmt.Errorf("%w: pass a session on to %s: %w", cluster.ErrNotLeader, leader, err))
	}
	s.log.Debug().Str("leader", leader).Msg("session passed on")
	s.streams.Go(func() { relayUp(stream, up, cancel) })
	for {
		down, err := up.Recv()
		if err != nil {
			if cluster.ConnLost(err) {
				err = wire.StatusError(fmt.Errorf("%w: the leader %s is lost: %w", cluster.ErrNotLeader, leader, err))
			}
			return err
		}
		if err := stream.Send(down); err != nil {
			// relayUp finds the stream's end too, and says so.
			<-ctx.Done()
			return err
		}
	}
}

// relayUp passes on what the replica says, and that its stream has ended.
func relayUp(stream upstream, up grpc.BidiStreamingClient[skerrypb.Up, skerrypb.Down], cancel context.CancelFunc) {
	for {
		message, err := stream.Recv()
		if err == nil {
			err = up.Send(message)
		}
		if err == nil {
			continue
		}
		end := &skerrypb.RelayEnd{Why: wire.Text(err.Error())}
		_ = up.Send(&skerrypb.Up{Message: &skerrypb.Up_RelayEnd{RelayEnd: end}}) // a broken one needs no word
		_ = up.CloseSend()
		select {
		case <-up.Context().Done(): // the leader has ended it
		case <-time.After(lastWordTimeout):
		}
		cancel()
		return
	}
}

// relayEnd is the cause of a session's end that a relay told; false: the message
// is none of its.
func (s *session) relayEnd(up *skerrypb.Up) (error, bool) {
	end := up.GetRelayEnd()
	if end == nil || !s.relayed {
		return nil, false
	}
	s.relayed = false // the replica's own stream has ended: that is a witness
	return errors.New("relayed session: " + wire.Text(end.GetWhy())), true
}
