package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/quorum"
)

// stream is an open session stream, seen from the client.
type stream = grpc.BidiStreamingClient[skerrypb.Up, skerrypb.Down]

// serve opens one stream and works it until it breaks or ctx ends; opened says
// whether the server welcomed us.
func (s *Session) serve(ctx context.Context, addr string, c dialled) (opened bool, err error) {
	if c.err != nil {
		return false, c.err
	}
	conn := c.conn
	defer conn.Close() //nolint:errcheck // nothing is lost with it
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// The timer ends an attempt that nobody answers; it is stopped by the welcome.
	_, patience := s.patience(addr)
	timer := time.AfterFunc(patience, func() {
		cancel(fmt.Errorf("no welcome within %v: %w", patience, context.DeadlineExceeded))
	})
	defer timer.Stop()
	st, welcome, err := s.hello(ctx, conn)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return false, err
	}
	if !timer.Stop() {
		return false, context.Cause(ctx)
	}
	s.opened(addr, welcome)
	s.cfg.Log.Info().Str(logkey.Addr, addr).Str(logkey.Cluster, welcome.Cluster).Msg("lighthouse session opened")
	s.cfg.Found(addr)
	var both sync.WaitGroup // they end when the stream does, which cancel makes sure of
	read := make(chan error, 1)
	both.Go(func() { read <- s.read(st) })
	both.Go(func() { s.watch(ctx, cancel) })
	err = s.write(ctx, st, read)
	cancel(err)
	both.Wait()
	if cause := context.Cause(ctx); errors.Is(cause, errHung) {
		err = cause
	}
	return true, err
}

// reach makes the connection. A server that is there answers this whatever it has
// to do; what it makes of a hello may take it longer. Where the connection
// cannot be made, the call that follows says why.
func reach(ctx context.Context, conn *grpc.ClientConn, patience time.Duration) error {
	late, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn.Connect()
	for state := conn.GetState(); state != connectivity.Ready && state != connectivity.TransientFailure; state = conn.GetState() {
		if conn.WaitForStateChange(late, state) {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("no connection within %v: %w", patience, context.DeadlineExceeded)
	}
	return nil
}

// patience is how long a server may take to be reached, and then to welcome us.
func (s *Session) patience(addr string) (connect, welcome time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.servers.patience(addr, s.cfg.DialTimeout)
}

// hello says hello and waits for the welcome.
func (s *Session) hello(ctx context.Context, conn *grpc.ClientConn) (stream, wire.Welcome, error) {
	st, err := skerrypb.NewLighthouseClient(conn).Session(ctx)
	if err != nil {
		return nil, wire.Welcome{}, wire.FromStatus(err)
	}
	hello := s.cfg.Hello
	hello.Position = s.cfg.Beat().Position
	s.mu.Lock()
	hello.Last, hello.Accusations = s.mu.last, slices.Clone(s.mu.accusations)
	hello.Avoid, hello.Relay = s.mu.servers.avoid, s.mu.servers.relay
	s.mu.Unlock()
	up := &skerrypb.Up{Message: &skerrypb.Up_Hello{Hello: wire.HelloToProto(hello)}}
	if err := st.Send(up); err != nil {
		// A send fails with EOF only; Recv has the reason.
		_, err = st.Recv()
		return nil, wire.Welcome{}, wire.FromStatus(err)
	}
	down, err := st.Recv()
	if err != nil {
		return nil, wire.Welcome{}, wire.FromStatus(err)
	}
	switch m := down.GetMessage().(type) {
	case *skerrypb.Down_Welcome:
		welcome, err := wire.WelcomeFromProto(m.Welcome)
		return st, welcome, err
	case *skerrypb.Down_Refused:
		return nil, wire.Welcome{}, wire.RefusalError(m.Refused)
	case *skerrypb.Down_Redirect:
		to, err := wire.RedirectFromProto(m.Redirect)
		if err == nil {
			err = &redirectError{to}
		}
		return nil, wire.Welcome{}, err
	}
	return nil, wire.Welcome{}, fmt.Errorf("a %T came before the welcome", down.GetMessage())
}

// opened takes over what the welcome says, and queues what the server must be
// told again.
func (s *Session) opened(addr string, w wire.Welcome) {
	beat := wire.BeatToProto(s.cfg.Beat()) // how far we are, before anything else
	s.noteReceived()
	s.mu.Lock()
	first, before := !s.mu.everOpened, s.mu.sources
	if s.mu.sources = w.Sources; first {
		close(s.welcomed)
	}
	s.mu.connected, s.mu.everOpened, s.mu.since = true, true, time.Now()
	s.mu.cluster, s.mu.timing = w.Cluster, w.Timing
	s.mu.generation++
	s.mu.servers.opened(addr)
	s.mu.servers.learn(w.Servers)
	s.mu.outbox = nil
	s.sendLocked(&skerrypb.Up{Message: &skerrypb.Up_Beat{Beat: beat}})
	for _, r := range s.mu.links {
		s.sendLocked(linkMessage(r)) // before the join that they are about
	}
	switch {
	case s.mu.pending != nil:
		s.sendLocked(s.joinMessageLocked())
	case s.mu.withdrawn != 0 && s.mu.withdrawn == s.mu.number:
		s.sendLocked(withdrawMessage(s.mu.withdrawn))
	}
	s.mu.Unlock()
	if !first && elsewhere(before, w.Sources) {
		s.cfg.Notice(quorum.Notice{Kind: quorum.NoticeFallen, Reason: "other members are named to copy from"})
	}
}

// elsewhere says that a newcomer is told of other members to copy from than before, or of
// none. It joins instead, and heals from members: the lighthouse calls whom the newest answer sent
// to members that are none any more, and would not call one that copies from those of an
// older answer. (It copied from them until HealTimeout.)
func elsewhere(before, now quorum.Sources) bool {
	if len(before.Peers) == 0 {
		return false // it copies nothing
	}
	named := make(map[quorum.ReplicaID]bool)
	for _, p := range before.Peers {
		named[p.ReplicaID] = true
	}
	return len(now.Peers) != len(before.Peers) ||
		slices.ContainsFunc(now.Peers, func(p quorum.Peer) bool { return !named[p.ReplicaID] })
}

// write sends beats and whatever is queued until the reader ends, whose error read then
// has, or ctx does.
func (s *Session) write(ctx context.Context, st stream, read <-chan error) error {
	interval := s.Timing().BeatInterval
	beats := time.NewTicker(interval)
	defer beats.Stop()
	for {
		if !s.flush(st) {
			return <-read // a stream that takes nothing has ended; the reader has the reason
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-read:
			return err
		case <-s.wake:
		case <-beats.C:
			s.queueBeat()
			if d := s.Timing().BeatInterval; d != interval {
				interval = d
				beats.Reset(d)
			}
		}
	}
}

// queueBeat puts a beat into the outbox.
func (s *Session) queueBeat() {
	beat := wire.BeatToProto(s.cfg.Beat())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sendLocked(&skerrypb.Up{Message: &skerrypb.Up_Beat{Beat: beat}})
}

// flush sends what is queued, and says whether the stream took it.
func (s *Session) flush(st stream) bool {
	s.mu.Lock()
	queue := s.mu.outbox
	s.mu.outbox = nil
	s.mu.Unlock()
	for _, up := range queue {
		if st.Send(up) != nil {
			return false
		}
	}
	s.mu.Lock()
	said := s.mu.leaving != nil && len(s.mu.outbox) == 0
	s.mu.Unlock()
	if said {
		// The lighthouse ends the stream once it has heard all of it. A call that
		// fails here has ended already.
		_ = st.CloseSend()
	}
	return true
}

// worded is an error whose text is what its sender wrote, without what gRPC puts before it.
type worded struct {
	error

	text string
}

func (w worded) Error() string { return w.text }
func (w worded) Unwrap() error { return w.error }

// inWords is err as people are told it.
func inWords(err error) error {
	if s, ok := status.FromError(err); ok && s.Message() != "" {
		return worded{err, s.Message()}
	}
	return err
}

// read takes in what the lighthouse says until the stream ends.
func (s *Session) read(st stream) error {
	for {
		down, err := st.Recv()
		if err != nil {
			return inWords(wire.FromStatus(err))
		}
		s.noteReceived()
		if err := s.receive(down); err != nil {
			return err
		}
	}
}

// receive takes in one message; an error ends the stream.
func (s *Session) receive(down *skerrypb.Down) error {
	switch m := down.GetMessage().(type) {
	case *skerrypb.Down_Answer:
		q, err := wire.AnswerFromProto(m.Answer)
		if err != nil {
			return fmt.Errorf("read an answer: %w", err)
		}
		s.answered(m.Answer.GetNumber(), q)
	case *skerrypb.Down_Refused:
		return s.refused(m.Refused.GetNumber(), wire.RefusalError(m.Refused))
	case *skerrypb.Down_Timing:
		timing, err := wire.TimingFromProto(m.Timing)
		if err != nil {
			return fmt.Errorf("read a timing: %w", err)
		}
		s.mu.Lock()
		s.mu.timing = timing
		s.mu.Unlock()
	default:
		n, ok, err := wire.NoticeFromProto(down)
		if err != nil {
			return fmt.Errorf("read a notice: %w", err)
		}
		if ok {
			s.noticed(n)
		}
	}
	return nil
}

// noticed answers a probe at once and passes everything else on.
func (s *Session) noticed(n quorum.Notice) {
	if n.Kind != quorum.NoticeProbe {
		s.cfg.Notice(n)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sendLocked(&skerrypb.Up{Message: &skerrypb.Up_ProbeReply{ProbeReply: &skerrypb.ProbeReply{Number: n.Number}}})
}

// answered delivers an answer to the join of that number. Any other answer,
// that of a withdrawn join above all, is refused: what it settled for us, we
// had taken back.
func (s *Session) answered(number uint64, q quorum.Quorum) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.mu.pending
	if p == nil || p.join.Number != number {
		s.cfg.Log.Debug().Int64(logkey.QuorumID, q.ID).Int64(logkey.Round, q.Round).Msg("answer refused")
		return
	}
	s.mu.pending = nil
	s.mu.accusations = nil
	s.mu.last = quorum.NewLastAnswer(&q)
	p.result <- joinResult{quorum: q}
}

// refused delivers a refusal; one of number 0 is of the session itself.
func (s *Session) refused(number uint64, err *wire.RefusedError) error {
	if number == 0 {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.mu.pending
	if p == nil || p.join.Number != number {
		return nil
	}
	s.mu.pending = nil
	result := joinResult{err: err}
	if err.Final {
		result.err = refusedError(err)
	}
	p.result <- result
	return nil
}
