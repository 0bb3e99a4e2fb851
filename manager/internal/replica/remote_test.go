package replica

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/nettest"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/manager/internal/final"
	"github.com/skerry-ft/skerry/quorum"
)

// twoRanks serves a replica of two ranks without a lighthouse, and links its
// rank 1 to it over a network that can be cut; after, if not nil, runs between a
// vote's decision and its answer.
func twoRanks(t *testing.T, after func()) (*server, *Remote, *nettest.Host) {
	t.Helper()
	network := nettest.New()
	ln, err := network.Host("rank 0").Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	timeouts := Timeouts{Connect: 10 * time.Second, Call: 10 * time.Second / 6}
	s := newServer(serverConfig{replica: "a", size: 2})
	rpc := grpc.NewServer(grpc.UnaryInterceptor(func(
		ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler,
	) (any, error) {
		out, err := next(ctx, req)
		if info.FullMethod == skerrypb.Manager_Vote_FullMethodName && after != nil {
			after()
		}
		return out, err
	}))
	skerrypb.RegisterManagerServer(rpc, &rpcServer{server: s})
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = rpc.Serve(ln)
	}()
	host := network.Host("rank 1")
	far, err := NewRemote(nil, host, guard.Party{}, ln.Addr().String(), 1, timeouts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = far.Close()
		rpc.Stop()
		<-served
	})
	return s, far, host
}

// A vote whose answer is lost with its connection is repeated: the other rank
// has committed by that very decision.
func TestVoteIsRepeatedAfterItsConnectionBroke(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var host *nettest.Host
		var once sync.Once
		s, far, host := twoRanks(t, func() { once.Do(func() { host.Reset() }) })
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
		got, err := far.Vote(ctx, yes(1))
		if err != nil || got.Outcome != quorum.TallyCommit {
			t.Errorf("rank 1: %+v, %v; want the commit that rank 0 has", got, err)
		}
		if err := <-done; err != nil || own.Outcome != quorum.TallyCommit {
			t.Errorf("rank 0: %+v, %v", own, err)
		}
		// The replica's end takes no decision back.
		s.fail(final.ErrClosed)
		if again, err := far.Vote(ctx, yes(1)); err != nil || again.Outcome != quorum.TallyCommit {
			t.Errorf("repeated after the end: %+v, %v", again, err)
		}
	})
}

// The connection breaks before the other rank has voted: the attempt stays open,
// and the repeated vote counts.
func TestVoteThatWaitsIsRepeatedAfterItsConnectionBroke(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, far, host := twoRanks(t, nil)
		ctx := limited(t)
		yes := func(rank int) quorum.RankVote {
			return quorum.RankVote{Attempt: 1, GroupRank: rank, QuorumID: 7, Round: 1, Step: 1, Vote: quorum.VoteYes}
		}
		done := make(chan error, 1)
		go func() {
			got, err := far.Vote(ctx, yes(1))
			if err == nil && got.Outcome != quorum.TallyCommit {
				err = fmt.Errorf("outcome %v, want a commit", got.Outcome)
			}
			done <- err
		}()
		testkit.Eventually(t, "rank 1 has voted", func() bool { return waitsFor(s, 0, 1) })
		host.Reset()
		if got, err := s.vote(ctx, yes(0)); err != nil || got.Outcome != quorum.TallyCommit {
			t.Errorf("rank 0: %+v, %v; want a commit", got, err)
		}
		if err := <-done; err != nil {
			t.Errorf("rank 1: %v", err)
		}
	})
}

// A report whose call broke is made again, and is gone from the server once the
// rank has given it up.
func TestReportIsRepeatedAfterItsConnectionBroke(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, far, host := twoRanks(t, nil)
		ctx, cancel := context.WithCancel(limited(t))
		defer cancel()
		pending := func() *pendingReport {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.mu.pending[1]
		}
		type result struct {
			Reply
			err error
		}
		done := make(chan result, 1)
		go func() {
			r := quorum.RankReport{Attempt: 1}
			r.GroupRank, r.Kind = 1, quorum.JoinFall
			got, err := far.Report(ctx, r)
			done <- result{got, err}
		}()
		testkit.Eventually(t, "the report is there", func() bool { return pending() != nil })
		first := pending()
		host.Reset()
		testkit.Eventually(t, "the report is there again", func() bool {
			p := pending()
			return p != nil && p != first
		})
		host.Reset()
		cancel()
		if got := <-done; !errors.Is(got.err, context.Canceled) {
			t.Errorf("%+v, want the end of its ctx", got)
		}
		testkit.Eventually(t, "no claim is left", func() bool { return pending() == nil })
	})
}
