package manager

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/netaddr"
	"github.com/skerry-ft/skerry/internal/nettest"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/manager/internal/replica"
	"github.com/skerry-ft/skerry/quorum"
)

// managerClient calls a trainer's manager server, as peers and operators do.
func managerClient(t *testing.T, tr *trainer) skerrypb.ManagerClient {
	t.Helper()
	conn, err := replica.Dial(nil, tr.host, guard.Party{}, tr.m.replica.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() }) //nolint:errcheck // nothing is lost with it
	return skerrypb.NewManagerClient(conn)
}

// What peers send is bounded, whoever they are.
func TestManagerServerRefusesNonsense(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.trainer("a").start(1 << 40)
		w.reaches(3, a)
		c, ctx := managerClient(t, a), limited(t)
		calls := map[string]func() error{
			"vote of rank 7": func() error {
				_, err := c.Vote(ctx, &skerrypb.VoteRequest{GroupRank: 7})
				return err
			},
			"vote out of range": func() error {
				_, err := c.Vote(ctx, &skerrypb.VoteRequest{Vote: 99, Step: -3})
				return err
			},
			"report of rank 7": func() error {
				_, err := c.Quorum(ctx, &skerrypb.RankQuorumRequest{GroupRank: 7})
				return err
			},
			"report with long metadata": func() error {
				_, err := c.Quorum(ctx, &skerrypb.RankQuorumRequest{CheckpointMetadata: strings.Repeat("x", wire.MaxMetadataBytes+1)})
				return err
			},
			"metadata of rank 7": func() error {
				_, err := c.CheckpointMetadata(ctx, &skerrypb.CheckpointMetadataRequest{GroupRank: 7})
				return err
			},
		}
		for name, call := range calls {
			if err := call(); status.Code(err) != codes.InvalidArgument {
				t.Errorf("%s: %v, want invalid argument", name, err)
			}
		}
		if out, err := c.CheckpointMetadata(ctx, &skerrypb.CheckpointMetadataRequest{}); err != nil ||
			out.GetMetadata() != a.m.transport.Metadata() {
			t.Errorf("metadata %q, %v; want %q", out.GetMetadata(), err, a.m.transport.Metadata())
		}
		if _, err := c.Kill(ctx, &skerrypb.KillRequest{Message: "test"}); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("kill without OnKill: %v, want failed precondition", err)
		}
		w.reaches(a.m.Step()+3, a)
	})
}

func TestKill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		killed := make(chan string, 1)
		w.tune = func(c *Config) { c.OnKill = func(reason string) { killed <- reason } }
		a := w.trainer("a").start(1)
		if _, err := managerClient(t, a).Kill(limited(t), &skerrypb.KillRequest{Message: "enough"}); err != nil {
			t.Fatal(err)
		}
		if got := <-killed; got != "enough" {
			t.Errorf("killed because of %q", got)
		}
	})
}

// A lighthouse that goes silent right after it wanted a change costs one
// heartbeat timeout, once; the quorum stands.
func TestLighthouseFallsSilentAfterItWantedAChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.trainer("a").start(1<<40), w.trainer("b").start(1<<40)
		w.reaches(5, a, b)
		id := a.m.QuorumID()
		silent := func(held bool) { // it takes in nothing, and its connections stay
			w.wire.HoldBoth(a.host.Name, w.lh.host.Name, held)
			w.wire.HoldBoth(b.host.Name, w.lh.host.Name, held)
		}
		silent(true)
		a.m.noticed(replica.Notice{Notice: quorum.Notice{Kind: quorum.NoticeWanted, QuorumID: id, Reason: "test"}})
		eventually(t, "both asked in vain", func() bool {
			return a.m.Stats().Unanswered == 1 && b.m.Stats().Unanswered == 1
		})
		at := a.m.Step()
		until := time.Now().Add(2 * testRules().HeartbeatTimeout)
		for time.Now().Before(until) || a.m.Step() < at+100 {
			w.reaches(a.m.Step()+20, a, b)
		}
		silent(false)
		w.agree(a, b)
		if a.m.QuorumID() != id || a.m.Stats().Discards != 0 || a.m.Stats().Unanswered != 1 {
			t.Errorf("%d steps after it, quorum %d then %d, %+v; want it to be asked once and training to go on",
				a.m.Step()-at, id, a.m.QuorumID(), a.m.Stats())
		}
	})
}

// One rank's Drain drains the replica.
func TestDrainOfTwoRanks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.replica("a", 2, nil).start(1<<40), w.replica("b", 2, nil).start(1<<40)
		for rank := range 2 {
			w.reaches(5, rankOf(rank, a, b)...)
		}
		b.ranks[0].m.Drain()
		for _, tr := range b.ranks {
			tr.ended(ErrDrained)
		}
		for rank := range 2 {
			w.reaches(a.ranks[rank].m.Step()+5, a.ranks[rank])
			w.agree(rankOf(rank, a, b)...)
		}
		if d := a.ranks[0].m.Stats().Discards; d != 0 {
			t.Errorf("%d discarded steps", d)
		}
	})
}

// A ctx that ends gives the trainer its goroutine back, wherever it waits, and
// what it had promised counts as given up.
func TestContextEndsEveryWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.trainer("a").start(1<<40), w.trainer("b")
		stuck := make(chan struct{})
		b.before = func(ctx context.Context, step int64) error {
			if step == 3 {
				close(stuck)
				<-ctx.Done() // a waits for b's part
				return ctx.Err()
			}
			return nil
		}
		b.start(1 << 40)
		select {
		case <-stuck:
		case <-time.After(patience):
			t.Fatal("step 3 is not reached")
		}
		a.cancel()
		select {
		case <-a.done:
		case <-time.After(patience):
			t.Fatal("a does not end")
		}
		if a.err == nil {
			t.Error("a ended without an error")
		}
	})
}

// dialAs dials the manager at an address with proofs that are made for another.
func dialAs(g *guard.Guard, host *nettest.Host, audience, addr string) (*grpc.ClientConn, error) {
	options := slices.Concat(wire.DialOptions(), g.DialOptions(guard.Party{Role: guard.Replica}, netaddr.HostPort(audience)),
		[]grpc.DialOption{grpc.WithContextDialer(host.Dial)})
	return grpc.NewClient("passthrough:///"+netaddr.HostPort(addr), options...)
}
