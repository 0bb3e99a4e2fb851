package manager

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/quorum"
)

// cuts is a network whose connections can be cut at any moment.
type cuts struct {
	mu    sync.Mutex
	conns map[*cutConn]bool
	next  bool // the next bytes that arrive are lost with their connection
}

type cutConn struct {
	net.Conn

	cuts *cuts
}

func newCuts() *cuts { return &cuts{conns: make(map[*cutConn]bool)} }

// Listen implements Network.
func (c *cuts) Listen(address string) (net.Listener, error) { return net.Listen("tcp", address) }

// Dial implements Network.
func (c *cuts) Dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	own := &cutConn{Conn: conn, cuts: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns[own] = true
	return own, nil
}

// cut resets all connections.
func (c *cuts) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.conns {
		conn.reset()
		delete(c.conns, conn)
	}
}

// cutAnswer loses the next bytes that arrive, and resets their connection.
func (c *cuts) cutAnswer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next = true
}

func (c *cutConn) reset() {
	_ = c.Conn.(*net.TCPConn).SetLinger(0) // a reset where it can be had
	_ = c.Close()
}

// Read implements net.Conn.
func (c *cutConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.cuts.mu.Lock()
	defer c.cuts.mu.Unlock()
	if err == nil && c.cuts.next {
		c.cuts.next = false
		c.reset()
		return 0, errors.New("connection reset by the test")
	}
	return n, err
}

// twoRanks serves a replica of two ranks without a lighthouse, and links its
// rank 1 to it over a network that can be cut; after, if not nil, runs between a
// vote's decision and its answer.
func twoRanks(t *testing.T, after func()) (*server, *remote, *cuts) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	timeouts := deriveTimeouts(10*time.Second, 10*time.Second)
	s := newServer(serverConfig{replica: "a", size: 2, timeouts: timeouts})
	rpc := grpc.NewServer(grpc.UnaryInterceptor(func(
		ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler,
	) (any, error) {
		out, err := next(ctx, req)
		if info.FullMethod == skerrypb.Manager_Vote_FullMethodName && after != nil {
			after()
		}
		return out, err
	}))
	skerrypb.RegisterManagerServer(rpc, &rpcServer{server: s, stop: make(chan struct{})})
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = rpc.Serve(ln)
	}()
	network := newCuts()
	far, err := newRemote(nil, network, guard.Party{}, ln.Addr().String(), 1, timeouts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = far.close()
		rpc.Stop()
		<-served
	})
	return s, far, network
}

// A vote whose answer is lost with its connection is repeated: the other rank
// has committed by that very decision.
func TestVoteIsRepeatedAfterItsConnectionBroke(t *testing.T) {
	t.Parallel()
	var network *cuts
	var once sync.Once
	s, far, network := twoRanks(t, func() { once.Do(func() { network.cut() }) })
	ctx := limited(t)
	yes := func(rank int) quorum.RankVote {
		return quorum.RankVote{Attempt: 1, GroupRank: rank, QuorumID: 7, Round: 1, Step: 1, Vote: quorum.VoteYes}
	}
	var own quorum.TallyResult
	done := make(chan error, 1)
	go func() {
		var err error
		own, err = s.vote(ctx, yes(0))
		done <- err
	}()
	got, err := far.vote(ctx, yes(1))
	if err != nil || got.Outcome != quorum.TallyCommit {
		t.Errorf("rank 1: %+v, %v; want the commit that rank 0 has", got, err)
	}
	if err := <-done; err != nil || own.Outcome != quorum.TallyCommit {
		t.Errorf("rank 0: %+v, %v", own, err)
	}
	// The replica's end takes no decision back.
	s.fail(ErrClosed)
	if again, err := far.vote(ctx, yes(1)); err != nil || again.Outcome != quorum.TallyCommit {
		t.Errorf("repeated after the end: %+v, %v", again, err)
	}
}

// The connection breaks before the other rank has voted: the attempt stays open,
// and the repeated vote counts.
func TestVoteThatWaitsIsRepeatedAfterItsConnectionBroke(t *testing.T) {
	t.Parallel()
	s, far, network := twoRanks(t, nil)
	ctx := limited(t)
	yes := func(rank int) quorum.RankVote {
		return quorum.RankVote{Attempt: 1, GroupRank: rank, QuorumID: 7, Round: 1, Step: 1, Vote: quorum.VoteYes}
	}
	done := make(chan error, 1)
	go func() {
		got, err := far.vote(ctx, yes(1))
		if err == nil && got.Outcome != quorum.TallyCommit {
			err = fmt.Errorf("outcome %v, want a commit", got.Outcome)
		}
		done <- err
	}()
	eventually(t, "rank 1 has voted", func() bool { return waitsFor(s.votes, 0, 1) })
	network.cut()
	if got, err := s.vote(ctx, yes(0)); err != nil || got.Outcome != quorum.TallyCommit {
		t.Errorf("rank 0: %+v, %v; want a commit", got, err)
	}
	if err := <-done; err != nil {
		t.Errorf("rank 1: %v", err)
	}
}

// A report whose call broke is made again, and is gone from the server once the
// rank has given it up.
func TestReportIsRepeatedAfterItsConnectionBroke(t *testing.T) {
	t.Parallel()
	s, far, network := twoRanks(t, nil)
	ctx, cancel := context.WithCancel(limited(t))
	defer cancel()
	pending := func() *pendingReport {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.mu.pending[1]
	}
	type result struct {
		reply
		err error
	}
	done := make(chan result, 1)
	go func() {
		r := quorum.RankReport{Attempt: 1}
		r.GroupRank, r.Kind = 1, quorum.JoinFall
		got, err := far.report(ctx, r)
		done <- result{got, err}
	}()
	eventually(t, "the report is there", func() bool { return pending() != nil })
	first := pending()
	network.cut()
	eventually(t, "the report is there again", func() bool {
		p := pending()
		return p != nil && p != first
	})
	network.cut()
	cancel()
	if got := <-done; !errors.Is(got.err, context.Canceled) {
		t.Errorf("%+v, want the end of its ctx", got)
	}
	eventually(t, "no claim is left", func() bool { return pending() == nil })
}

// The link between the ranks of a replica breaks again and again: no step is
// committed by one of them alone.
func TestLinkBetweenRanksBreaks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	network := newCuts()
	a := w.replica("a", 2, nil)
	a.ranks[1].m.cfg.Network = network
	a.ranks[1].before = func(_ context.Context, step int64) error {
		if step%5 == 1 {
			network.cut()
		} else if step%5 > 2 {
			network.cutAnswer()
		}
		return nil
	}
	b := w.replica("b", 2, nil)
	a.start(40)
	b.start(40)
	for rank := range 2 {
		w.reaches(40, rankOf(rank, a, b)...)
		w.agree(rankOf(rank, a, b)...)
	}
	inStep(t, a, b)
}
