package bench

import (
	"context"
	"errors"
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

// crowd is many replicas of one job, each with its session: all that a manager
// says to the lighthouse, and nothing else of it. They share connections.
type crowd struct {
	conns    []*grpc.ClientConn
	sessions []*benchSession
	interval atomic.Int64 // nanoseconds between two beats, as the server told last
	quiet    atomic.Int64 // nanoseconds: the heartbeat timeout, as told last
	beats    atomic.Int64 // sent
	stop     context.CancelFunc
	running  sync.WaitGroup
	number   uint64
}

// benchSession is one replica's stream.
type benchSession struct {
	id      quorum.ReplicaID
	stream  grpc.BidiStreamingClient[skerrypb.Up, skerrypb.Down]
	answers chan *skerrypb.Answer // capacity 1
	failed  chan error            // capacity 1
	sending sync.Mutex

	quorumID atomic.Int64       // of last, for beats
	last     *quorum.LastAnswer // this and size are of the goroutine that joins
	size     int
}

// openCrowd opens n sessions over so many connections and waits for their
// welcomes. The replicas beat from then on.
func openCrowd(ctx context.Context, addr string, n, conns int) (*crowd, error) {
	all, err := dial(addr, conns)
	if err != nil {
		return nil, err
	}
	c := &crowd{conns: all, sessions: make([]*benchSession, n)}
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
		return nil, errors.Join(err, c.Close())
	}
	for k := range conns {
		c.running.Go(func() { c.beat(ctx, k) })
	}
	return c, nil
}

func (c *crowd) open(ctx context.Context, i int) (*benchSession, error) {
	s := &benchSession{
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

func (c *crowd) timing(beatMs, heartbeatMs uint32) {
	c.interval.Store(int64(time.Duration(beatMs) * time.Millisecond))
	c.quiet.Store(int64(time.Duration(heartbeatMs) * time.Millisecond))
}

func (s *benchSession) send(up *skerrypb.Up) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	return s.stream.Send(up)
}

// read takes what the lighthouse says, until the stream ends.
func (c *crowd) read(s *benchSession) {
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
func (c *crowd) beat(ctx context.Context, k int) {
	var mine []*benchSession
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

// joinAll lets everybody join at once and returns how long it took until the last
// had its answer, and the size of the quorum.
func (c *crowd) joinAll(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	c.number++
	began := time.Now()
	var all errgroup.Group
	for k := range c.conns {
		all.Go(func() error {
			for i := k; i < len(c.sessions); i += len(c.conns) {
				if err := c.sessions[i].join(c.number); err != nil {
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

func (s *benchSession) join(number uint64) error {
	j := quorum.Join{
		Kind: quorum.JoinFall, Number: number, Last: s.last,
		Member: quorum.Member{ReplicaID: s.id, Address: "http://127.0.0.1:29500", StoreAddress: "127.0.0.1:29501", GroupWorldSize: 1},
	}
	if s.last != nil {
		j.Fact = quorum.Fact{Kind: quorum.Refused, Step: 1, QuorumID: s.last.QuorumID}
	}
	return s.send(&skerrypb.Up{Message: &skerrypb.Up_Join{Join: wire.JoinToProto(j)}})
}

// take waits for the answer to a join.
func (s *benchSession) take(ctx context.Context, number uint64) error {
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

// Close ends the sessions.
func (c *crowd) Close() error {
	c.stop()
	err := closeConns(c.conns)
	c.running.Wait()
	return err
}
