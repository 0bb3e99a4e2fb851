// Package crowd is many replicas of one job that a benchmark of the lighthouse needs: each is a
// session that says all that a manager says to the lighthouse, and nothing else of it.
package crowd

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/quorum"
)

// sessionOpeners is how many sessions are opened at one time.
const sessionOpeners = 256

// joinLimit bounds one round of joins.
const joinLimit = 60 * time.Second

// Crowd is many replicas of one job, each with its session. They share connections.
type Crowd struct {
	conns    []*grpc.ClientConn
	sessions []*session
	interval atomic.Int64 // nanoseconds between two beats, as the server told last
	quiet    atomic.Int64 // nanoseconds: the heartbeat timeout, as told last
	beats    atomic.Int64 // sent
	stop     context.CancelFunc
	running  sync.WaitGroup
	number   uint64
}

// session is one replica's stream.
type session struct {
	id      quorum.ReplicaID
	stream  grpc.BidiStreamingClient[skerrypb.Up, skerrypb.Down]
	answers chan *skerrypb.Answer // capacity 1
	failed  chan error            // capacity 1
	sending sync.Mutex

	quorumID atomic.Int64       // of last, for beats
	last     *quorum.LastAnswer // this and size are of the goroutine that joins
	size     int
}

// Open opens n sessions over connections and waits for their welcomes. The replicas beat from then
// on. The connections stay the caller's, to be closed behind Close.
func Open(ctx context.Context, conns []*grpc.ClientConn, n int) (*Crowd, error) {
	c := &Crowd{conns: conns, sessions: make([]*session, n)}
	ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	var opening errgroup.Group
	opening.SetLimit(sessionOpeners)
	for i := range n {
		opening.Go(func() error {
			s, err := c.open(ctx, i)
			c.sessions[i] = s
			return err
		})
	}
	if err := opening.Wait(); err != nil {
		c.Close()
		return nil, err
	}
	for k := range conns {
		c.running.Go(func() { c.beat(ctx, k) })
	}
	return c, nil
}

func (c *Crowd) open(ctx context.Context, i int) (*session, error) {
	s := &session{
		id:      quorum.ReplicaID(fmt.Sprintf("replica%05d:00000000-0000-4000-8000-%012d", i, i)),
		answers: make(chan *skerrypb.Answer, 1), failed: make(chan error, 1),
	}
	var err error
	if s.stream, err = skerrypb.NewLighthouseClient(c.conns[i%len(c.conns)]).Session(ctx); err != nil {
		return nil, err
	}
	hello := wire.HelloToProto(wire.Hello{
		Job: "bench", Address: "http://127.0.0.1:29500", StoreAddress: "127.0.0.1:29501", GroupWorldSize: 1,
		Hello: quorum.Hello{ReplicaID: s.id, Client: quorum.KindSkerry},
	})
	if err := s.send(&skerrypb.Up{Message: &skerrypb.Up_Hello{Hello: hello}}); err != nil {
		return nil, err
	}
	down, err := s.stream.Recv()
	if err != nil {
		return nil, fmt.Errorf("open session %d: %w", i, err)
	}
	w := down.GetWelcome()
	if w == nil {
		return nil, fmt.Errorf("open session %d: got %v, want a welcome", i, down)
	}
	c.timing(w.GetBeatIntervalMs(), w.GetHeartbeatTimeoutMs())
	c.running.Go(func() { c.read(s) })
	return s, nil
}

func (c *Crowd) timing(beatMs, heartbeatMs uint32) {
	c.interval.Store(int64(time.Duration(beatMs) * time.Millisecond))
	c.quiet.Store(int64(time.Duration(heartbeatMs) * time.Millisecond))
}

func (s *session) send(up *skerrypb.Up) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	return s.stream.Send(up)
}

// read takes what the lighthouse says, until the stream ends.
func (c *Crowd) read(s *session) {
	for {
		down, err := s.stream.Recv()
		if err != nil {
			s.failed <- err
			return
		}
		switch x := down.GetMessage().(type) {
		case *skerrypb.Down_Answer:
			s.answers <- x.Answer
		case *skerrypb.Down_Timing:
			c.timing(x.Timing.GetBeatIntervalMs(), x.Timing.GetHeartbeatTimeoutMs())
		case *skerrypb.Down_Refused:
			s.failed <- fmt.Errorf("refused: %s", x.Refused.GetText())
			return
		}
	}
}

// beat beats for the sessions of one connection, spread over the interval.
func (c *Crowd) beat(ctx context.Context, k int) {
	var mine []*session
	for i := k; i < len(c.sessions); i += len(c.conns) {
		mine = append(mine, c.sessions[i])
	}
	last, owed, sent := time.Now(), 0.0, 0
	for {
		interval := time.Duration(c.interval.Load())
		if backoff.Sleep(ctx, max(5*time.Millisecond, interval/time.Duration(len(mine)))) != nil {
			return
		}
		// As many as are due by now, in a run: a timer for each would cost more.
		now := time.Now()
		owed += now.Sub(last).Seconds() / interval.Seconds() * float64(len(mine))
		last = now
		for ; owed >= 1; owed-- {
			s := mine[sent%len(mine)]
			up := &skerrypb.Up{Message: &skerrypb.Up_Beat{Beat: wire.BeatToProto(quorum.Beat{
				Phase: quorum.PhaseTraining, Progress: uint64(sent), QuorumID: s.quorumID.Load()})}}
			if s.send(up) != nil {
				return // read says why
			}
			c.beats.Add(1)
			sent++
		}
	}
}

// JoinAll lets all replicas join at once and returns how long it took until the last
// had its answer, and the size of the quorum.
func (c *Crowd) JoinAll(ctx context.Context) (time.Duration, error) {
	return c.all(ctx, quorum.JoinFall)
}

// AskAll is JoinAll for a quorum that stands, and nothing has changed: it stands on.
func (c *Crowd) AskAll(ctx context.Context) (time.Duration, error) {
	return c.all(ctx, quorum.JoinAsk)
}

func (c *Crowd) all(ctx context.Context, kind quorum.JoinKind) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, joinLimit)
	defer cancel()
	c.number++
	began := time.Now()
	var all errgroup.Group
	for k := range c.conns {
		all.Go(func() error {
			for i := k; i < len(c.sessions); i += len(c.conns) {
				if err := c.sessions[i].join(c.number, kind); err != nil {
					return err
				}
			}
			for i := k; i < len(c.sessions); i += len(c.conns) {
				if err := c.sessions[i].take(ctx, c.number); err != nil {
					return fmt.Errorf("session %d: %w", i, err)
				}
			}
			return nil
		})
	}
	err := all.Wait()
	took := time.Since(began)
	for i, s := range c.sessions {
		if err == nil && (s.size != len(c.sessions) || s.last.QuorumID != c.sessions[0].last.QuorumID) {
			err = fmt.Errorf("session %d is in quorum %d of %d members, session 0 in %d; want %d members",
				i, s.last.QuorumID, s.size, c.sessions[0].last.QuorumID, len(c.sessions))
		}
	}
	return took, err
}

func (s *session) join(number uint64, kind quorum.JoinKind) error {
	j := quorum.Join{
		Kind: kind, Number: number, Last: s.last,
		Member: quorum.Member{ReplicaID: s.id, Address: "http://127.0.0.1:29500", StoreAddress: "127.0.0.1:29501", GroupWorldSize: 1},
	}
	if s.last != nil && kind == quorum.JoinFall {
		j.Fact = quorum.Fact{Kind: quorum.Refused, Step: 1, QuorumID: s.last.QuorumID}
	}
	return s.send(&skerrypb.Up{Message: &skerrypb.Up_Join{Join: wire.JoinToProto(j)}})
}

// take waits for the answer to a join.
func (s *session) take(ctx context.Context, number uint64) error {
	select {
	case a := <-s.answers:
		q, err := wire.AnswerFromProto(a)
		if err != nil {
			return err
		}
		if a.GetNumber() != number {
			return fmt.Errorf("answer to join %d, want %d", a.GetNumber(), number)
		}
		if v := q.View; v != nil && (v.Self.ReplicaID != s.id || v.Ranks[0].StoreAddress == "") {
			return fmt.Errorf("the part of %s, rank %d, want that of %s", v.Self.ReplicaID, v.Rank, s.id)
		}
		s.size, s.last = q.Size(), quorum.NewLastAnswer(&q)
		s.quorumID.Store(s.last.QuorumID)
		return nil
	case err := <-s.failed:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Quiet is the heartbeat timeout, as the lighthouse told it last.
func (c *Crowd) Quiet() time.Duration { return time.Duration(c.quiet.Load()) }

// Beats is how many beats have been sent.
func (c *Crowd) Beats() int64 { return c.beats.Load() }

// Failed is why a session has ended, or nil.
func (c *Crowd) Failed() error {
	for _, s := range c.sessions {
		select {
		case err := <-s.failed:
			return err
		default:
		}
	}
	return nil
}

// Close ends the sessions, and waits until they have.
func (c *Crowd) Close() {
	c.stop()
	c.running.Wait()
}
