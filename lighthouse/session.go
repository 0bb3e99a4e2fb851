package lighthouse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse/cluster"
	"github.com/skerry-ft/skerry/lighthouse/internal/beatqueue"
	"github.com/skerry-ft/skerry/lighthouse/internal/serverbeat"
	"github.com/skerry-ft/skerry/quorum"
)

const (
	// sessionQueue is how many messages may wait for a session. One that does
	// not read them is cut: nobody waits for it.
	sessionQueue = 256

	// maxSessions bounds the open sessions of all jobs: each holds some
	// goroutines and a queue.
	maxSessions = 65_536

	// lastWordTimeout is how long a refusal may take to be sent before the
	// stream is cut all the same.
	lastWordTimeout = time.Second
)

var (
	errSlow     = errors.New("session cut: it does not read what it is sent")
	errReplaced = errors.New("session replaced by a newer one of the same replica")
	errNoHello  = errors.New("session cut: it did not say hello in time")
	errCrowded  = fmt.Errorf("%w: %d sessions are open", quorum.ErrFull, maxSessions)
	errLost     = errors.New("connection lost")
	errLeft     = errors.New("session ended by its replica")
)

// session is one replica's stream.
type session struct {
	id     quorum.ReplicaID
	out    chan func() *skerrypb.Down
	ctx    context.Context // the stream's; kept here because three goroutines share its end
	cancel context.CancelCauseFunc
	left   bool // said that it goes for good; owned by the receiving goroutine

	beat beatqueue.Place // of its newest, among those that wait for the job's next look

	// relayed says that another server passes the session on, and has not said
	// that the replica's own stream ended; owned by the receiving goroutine.
	relayed bool
}

// send queues a message. It never blocks.
func (s *session) send(down *skerrypb.Down) {
	s.queue(func() *skerrypb.Down { return down })
}

// queue is send for a message that is made when it is sent, by the session's own
// goroutine: make must not touch what others change.
func (s *session) queue(make func() *skerrypb.Down) {
	select {
	case s.out <- make:
	default:
		s.end(errSlow)
	}
}

// end cuts the stream; the first cause counts.
func (s *session) end(cause error) { s.cancel(cause) }

// lighthouseService is our own service.
type lighthouseService struct {
	skerrypb.UnimplementedLighthouseServer
	server *Server
}

// Session serves one replica's stream until either side ends it. One goroutine
// receives and one sends; this one waits for the end, because a stream can
// only be cut by returning.
func (l *lighthouseService) Session(stream upstream) error {
	srv := l.server
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	s := &session{
		out: make(chan func() *skerrypb.Down, sessionQueue), ctx: ctx, cancel: cancel,
		relayed: srv.byFellow(ctx, skerrypb.Lighthouse_Session_FullMethodName),
	}
	defer srv.sessions.Add(-1)
	if srv.sessions.Add(1) > maxSessions {
		return wire.StatusError(errCrowded)
	}
	if !s.relayed { // a server passes on those of many hosts
		place, err := srv.hosts.Enter(addrOf(ctx))
		if err != nil {
			return wire.StatusError(fmt.Errorf("%w: sessions: %w", quorum.ErrFull, err))
		}
		defer place.Leave()
	}
	first, hello, err := srv.firstWord(stream)
	switch {
	case errors.Is(err, quorum.ErrInvalid):
		return stream.Send(refusal(0, err))
	case err != nil:
		return wire.StatusError(err)
	}
	if err := srv.rightfulJob(ctx, hello.Job); err != nil {
		return guard.Denied(ctx, srv.sampled, skerrypb.Lighthouse_Session_FullMethodName, err)
	}
	lead := srv.leading()
	if lead == nil {
		if lead, err = srv.elsewhere(stream, first, hello); lead == nil {
			return err
		}
	}
	return s.serve(lead, stream, hello)
}

// serve is Session's part in a leadership.
func (s *session) serve(lead *leadership, stream upstream, hello wire.Hello) error {
	srv := lead.server
	defer context.AfterFunc(lead.ctx, func() { s.end(cluster.ErrNotLeader) })()
	sent := make(chan struct{})
	srv.streams.Go(func() { defer close(sent); s.deliver(stream) })
	srv.streams.Go(func() { s.receive(lead, stream, hello) })
	<-s.ctx.Done()
	err := context.Cause(s.ctx)
	switch {
	case errors.Is(err, errLeft), errors.Is(err, errFinished):
		// The last message, a refusal, is sent before the stream is cut, if its
		// replica reads at all.
		select {
		case <-sent:
		case <-time.After(lastWordTimeout):
		}
		return nil
	case errors.Is(err, errSlow), errors.Is(err, errReplaced):
		return status.Error(codes.Aborted, err.Error())
	}
	return wire.StatusError(err)
}

// errFinished ends a session that was refused: what is queued goes out first.
var errFinished = errors.New("session refused")

// deliver sends what is queued, until the session ends.
func (s *session) deliver(stream upstream) {
	var beats serverbeat.Beats
	for {
		var down *skerrypb.Down
		select {
		case make := <-s.out:
			down = make()
			beats.Sent(down)
		case <-beats.Due:
			down = beats.Next()
		case <-s.ctx.Done():
			if errors.Is(context.Cause(s.ctx), errFinished) {
				for len(s.out) > 0 && stream.Send((<-s.out)()) == nil {
				}
			}
			return
		}
		if stream.Send(down) != nil {
			s.end(errors.New("stream broke"))
			return
		}
	}
}

// receive opens the session with its hello and feeds the rules until the
// stream ends.
func (s *session) receive(l *leadership, stream upstream, hello wire.Hello) {
	j, err := l.job(s.ctx, hello.Job, quorum.KindSkerry)
	if err == nil {
		err = s.open(j, hello)
	}
	if err != nil {
		s.refuse(0, err)
		return
	}
	for err == nil {
		var up *skerrypb.Up
		if up, err = stream.Recv(); err != nil {
			break
		}
		l.server.metrics.Received(up)
		if end, ok := s.relayEnd(up); ok {
			err = end
		} else {
			err = s.take(j, up)
		}
	}
	if errors.Is(err, io.EOF) {
		err = errLeft
	}
	if cause := context.Cause(s.ctx); cause != nil {
		err = cause
	}
	if errors.Is(err, context.Canceled) {
		err = errLost // gRPC's word for a stream whose connection is gone
	}
	s.end(err)
	s.close(j, err)
}

// helloOf reads the first message of a session.
func helloOf(up *skerrypb.Up) (wire.Hello, error) {
	first, ok := up.GetMessage().(*skerrypb.Up_Hello)
	if !ok {
		return wire.Hello{}, fmt.Errorf("%w: first message of a session is a %T, want a hello", quorum.ErrInvalid, up.GetMessage())
	}
	return wire.HelloFromProto(first.Hello)
}

// refuse tells the replica why it may not have a session, and ends it.
func (s *session) refuse(number uint64, err error) {
	if errors.Is(err, cluster.ErrNotLeader) {
		s.end(err)
		return
	}
	s.send(refusal(number, err))
	s.end(errFinished)
}

// refusal tells why a session, or the join of that number, is refused.
func refusal(number uint64, err error) *skerrypb.Down {
	return &skerrypb.Down{Message: &skerrypb.Down_Refused{Refused: wire.RefusalOf(number, err)}}
}

// open gives the hello to the rules; a stream of the same replica that is
// still there is cut.
func (s *session) open(j *job, hello wire.Hello) error {
	s.id = hello.ReplicaID
	var refused error
	s.own(hello.Accusations)
	err := j.do(s.ctx, func(now time.Time) {
		if refused = j.machine.Open(now, hello.Hello); refused != nil {
			return
		}
		if old := j.sessions[s.id]; old != nil {
			old.end(errReplaced)
		}
		j.steps.Opened(hello.TotalSteps, len(j.sessions) == 0)
		j.sessions[s.id] = s
		s.send(&skerrypb.Down{Message: &skerrypb.Down_Welcome{Welcome: wire.WelcomeToProto(j.welcome(now, hello.Hello))}})
		j.log.Debug().Str(logkey.ReplicaID, string(s.id)).Msg("session opened")
	})
	return errors.Join(err, refused)
}

// own makes the session's replica the witness of what it says: nobody accuses in
// another's name.
func (s *session) own(accusations []quorum.Accusation) {
	for i := range accusations {
		accusations[i].By = s.id
	}
}

// welcome is what a new session is told.
func (j *job) welcome(now time.Time, h quorum.Hello) wire.Welcome {
	srv := j.leadership.server
	return wire.Welcome{
		Cluster: j.leadership.ledger.Cluster(), Servers: srv.cluster.Servers(), Timing: j.timing(),
		Sources: j.machine.Sources(now, h.ReplicaID, h.Position),
	}
}

// take gives one message to the rules. An error ends the session: the message
// was malformed, or the leadership has ended.
func (s *session) take(j *job, up *skerrypb.Up) error {
	if x, ok := up.GetMessage().(*skerrypb.Up_Beat); ok {
		beat, err := wire.BeatFromProto(x.Beat)
		if err != nil {
			s.refuse(0, err)
			return err
		}
		j.beats.Add(s, &s.beat, beat)
		return nil
	}
	input, err := j.input(s, up)
	if err != nil {
		s.refuse(0, err)
		return err
	}
	ctx := s.ctx
	if s.left {
		// The replica closes its stream behind its goodbye: the goodbye counts
		// though the stream has ended. close says nothing of a replica that left,
		// so a goodbye that was dropped here would leave it live until its silence
		// is noticed.
		ctx = context.WithoutCancel(ctx) // ends with the job
	}
	return j.do(ctx, func(now time.Time) {
		// What a stream said before it was replaced, or its job began anew, is not
		// the word of the stream that followed it.
		if j.sessions[s.id] == s {
			input(now)
		}
	})
}

// input decodes one message into what the job's goroutine does with it. What
// an input method refuses of news about others is dropped: it is about an
// older quorum, or about somebody unknown.
func (j *job) input(s *session, up *skerrypb.Up) (func(now time.Time), error) {
	switch x := up.GetMessage().(type) {
	case *skerrypb.Up_Join:
		join, err := wire.JoinFromProto(x.Join)
		if err == nil && join.Member.ReplicaID != s.id {
			err = fmt.Errorf("%w: join of replica %q in the session of %q", quorum.ErrInvalid, join.Member.ReplicaID, s.id)
		}
		return func(now time.Time) { j.join(now, s, join) }, err
	case *skerrypb.Up_Withdraw:
		return func(now time.Time) { j.machine.Withdraw(now, s.id, x.Withdraw.GetNumber()) }, nil
	case *skerrypb.Up_Accuse:
		accusation, err := wire.AccusationFromProto(x.Accuse)
		accusation.By = s.id
		return func(now time.Time) { _ = j.machine.Accuse(now, accusation) }, err
	case *skerrypb.Up_Link:
		report, err := wire.LinkReportFromProto(s.id, x.Link)
		return func(now time.Time) { _ = j.machine.Link(now, report) }, err
	case *skerrypb.Up_ProbeReply:
		return func(now time.Time) { j.machine.Reply(now, s.id, x.ProbeReply.GetNumber()) }, nil
	case *skerrypb.Up_Leaving:
		s.left = true
		why := wire.Text(x.Leaving.GetWhy())
		return func(now time.Time) { j.machine.Leave(now, s.id, why) }, nil
	}
	return nil, fmt.Errorf("%w: message of kind %T in an open session", quorum.ErrInvalid, up.GetMessage())
}

// join gives a join to the rules and tells the replica if it is refused.
func (j *job) join(now time.Time, s *session, join quorum.Join) {
	s.own(join.Accusations)
	err := j.machine.Join(now, join)
	j.leadership.server.metrics.Joined(join.Kind, err)
	if err == nil {
		j.joinedAs(now, quorum.KindSkerry)
	} else {
		s.send(refusal(join.Number, err))
	}
}

// close tells the rules that the stream is gone, unless a newer one has taken
// its place, or its replica had left, or this server stops: a
// stopping lighthouse is no evidence against its replicas.
func (s *session) close(j *job, cause error) {
	ctx := context.WithoutCancel(s.ctx) // ends with the job
	_ = j.do(ctx, func(now time.Time) { // without a job there is nobody to tell
		if j.sessions[s.id] != s {
			return
		}
		delete(j.sessions, s.id)
		if !s.left && !errors.Is(cause, cluster.ErrNotLeader) {
			j.machine.Broken(now, s.id, wire.Text(fmt.Sprintf("session: %v", cause)), s.relayed)
		}
		j.log.Debug().Str(logkey.ReplicaID, string(s.id)).AnErr("cause", cause).Msg("session closed")
	})
}
