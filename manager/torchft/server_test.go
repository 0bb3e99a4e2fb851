package torchft_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
	"github.com/skerry-ft/skerry/manager/torchft"
)

// replica is a manager and a client for its ranks.
type replica struct {
	torchftpb.ManagerServiceClient

	server *torchft.Server
}

func start(t *testing.T, change func(*torchft.Config)) *replica {
	t.Helper()
	cfg := torchft.Config{StoreAddress: "store:1", BeatInterval: 20 * time.Millisecond}
	change(&cfg)
	server, err := torchft.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	conn, err := grpc.NewClient(strings.TrimPrefix(server.Address(), "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return &replica{torchftpb.NewManagerServiceClient(conn), server}
}

// replicas starts n replicas of size ranks each, at one lighthouse.
func replicas(t *testing.T, n, size int) []*replica {
	t.Helper()
	l := lighthousetest.Start(t, func(c *lighthouse.Config) { c.Rules.MinReplicas = n })
	var all []*replica
	for i := range n {
		all = append(all, start(t, func(c *torchft.Config) {
			c.ReplicaID, c.StoreAddress = fmt.Sprintf("r%d:u", i), fmt.Sprintf("store%d:1", i)
			c.Lighthouse, c.GroupWorldSize = []string{"http://" + l.Addr}, size
		}))
	}
	return all
}

func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// askAll lets every rank of every replica ask, each for its replica's step.
func askAll(t *testing.T, all []*replica, size int, change func(replica, rank int, m *torchftpb.ManagerQuorumRequest)) [][]*torchftpb.ManagerQuorumResponse {
	t.Helper()
	ctx := limited(t)
	out := make([][]*torchftpb.ManagerQuorumResponse, len(all))
	var calls sync.WaitGroup
	for i, r := range all {
		out[i] = make([]*torchftpb.ManagerQuorumResponse, size)
		for rank := range size {
			m := &torchftpb.ManagerQuorumRequest{GroupRank: int64(rank), CheckpointMetadata: fmt.Sprintf("m%d.%d", i, rank), ReconfigureHandle: fmt.Sprintf("h%d.%d", i, rank)}
			change(i, rank, m)
			calls.Go(func() {
				var err error
				if out[i][rank], err = r.Quorum(ctx, m); err != nil {
					t.Errorf("rank %d of replica %d: %v", rank, i, err)
				}
			})
		}
	}
	calls.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return out
}

// Two replicas of two ranks: plans rotate with the group rank, and the ranks of
// one number learn each other's handles.
func TestQuorumPlans(t *testing.T) {
	t.Parallel()
	all := replicas(t, 2, 2)
	for _, step := range []int64{0, 3} {
		out := askAll(t, all, 2, func(_, _ int, m *torchftpb.ManagerQuorumRequest) { m.Step, m.InitSync = step, true })
		for i := range all {
			for rank, p := range out[i] {
				if p.GetReplicaRank() != int64(i) || p.GetReplicaWorldSize() != 2 || p.GetMaxStep() != step || p.GetMaxWorldSize() != 2 ||
					p.GetMaxReplicaRank() != int64(i) || p.GetStoreAddress() != fmt.Sprintf("store%d:1", rank) ||
					!slices.Equal(p.GetReplicaIds(), []string{"r0:u", "r1:u"}) ||
					!slices.Equal(p.GetReconfigureHandles(), []string{fmt.Sprintf("h0.%d", rank), fmt.Sprintf("h1.%d", rank)}) {
					t.Errorf("step %d, rank %d of replica %d: %v", step, rank, i, p)
				}
				// At step 0 all take the state of the primary of their rank.
				if heals := step == 0 && i != rank; p.GetHeal() != heals || len(p.GetRecoverDstReplicaRanks()) > 0 != (step == 0 && i == rank) {
					t.Errorf("step %d, rank %d of replica %d: heals %v, serves %v", step, rank, i, p.GetHeal(), p.GetRecoverDstReplicaRanks())
				}
			}
		}
	}
}

// A replica whose ranks differ in their step heals, and nobody heals from it.
func TestRanksAtDifferentStepsHeal(t *testing.T) {
	t.Parallel()
	all := replicas(t, 2, 2)
	out := askAll(t, all, 2, func(i, rank int, m *torchftpb.ManagerQuorumRequest) {
		if m.Step = 7; i == 1 && rank == 0 {
			m.Step = 6
		}
	})
	for rank := range 2 {
		if p := out[1][rank]; !p.GetHeal() || p.GetRecoverSrcReplicaRank() != 0 || p.GetRecoverSrcManagerAddress() != all[0].server.Address() {
			t.Errorf("rank %d of the torn replica: %v", rank, p)
		}
		if p := out[0][rank]; p.GetHeal() || !slices.Equal(p.GetRecoverDstReplicaRanks(), []int64{1}) {
			t.Errorf("rank %d of the whole replica: %v", rank, p)
		}
	}
	got, err := all[0].CheckpointMetadata(limited(t), &torchftpb.CheckpointMetadataRequest{Rank: 1})
	if err != nil || got.GetCheckpointMetadata() != "m0.1" {
		t.Errorf("metadata: %v, %v", got, err)
	}
}

// voteAll lets the ranks of a replica vote at once.
func voteAll(ctx context.Context, r *replica, votes map[int64]bool, step int64) map[int64]string {
	var mu sync.Mutex
	out := make(map[int64]string)
	var calls sync.WaitGroup
	for rank, ok := range votes {
		calls.Go(func() {
			got, err := r.ShouldCommit(ctx, &torchftpb.ShouldCommitRequest{GroupRank: rank, Step: step, ShouldCommit: ok})
			mu.Lock()
			defer mu.Unlock()
			if out[rank] = fmt.Sprint(got.GetShouldCommit()); err != nil {
				out[rank] = status.Code(err).String()
			}
		})
	}
	calls.Wait()
	return out
}

// All ranks get one answer: the AND of their votes; and the same step can be
// voted on again after the next quorum.
func TestVotes(t *testing.T) {
	t.Parallel()
	all := replicas(t, 1, 2)
	at := func(step int64) func(int, int, *torchftpb.ManagerQuorumRequest) {
		return func(_, _ int, m *torchftpb.ManagerQuorumRequest) { m.Step = step }
	}
	for _, c := range []struct {
		votes map[int64]bool
		want  string
	}{
		{map[int64]bool{0: true, 1: true}, "true"},
		{map[int64]bool{0: true, 1: false}, "false"},
		{map[int64]bool{0: true, 1: true}, "true"},
	} {
		askAll(t, all, 2, at(5))
		got := voteAll(limited(t), all[0], c.votes, 5)
		if got[0] != c.want || got[1] != c.want {
			t.Errorf("votes %v: %v, want %s", c.votes, got, c.want)
		}
	}
}

// A rank that gives up takes its vote back: its sibling is told at once, and the
// next round counts anew.
func TestAbandonedVote(t *testing.T) {
	t.Parallel()
	all := replicas(t, 1, 2)
	at5 := func(_, _ int, m *torchftpb.ManagerQuorumRequest) { m.Step = 5 }
	askAll(t, all, 2, at5)
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if got := voteAll(short, all[0], map[int64]bool{0: true}, 5)[0]; got != codes.DeadlineExceeded.String() {
		t.Fatalf("a lone vote: %s, want a deadline", got)
	}
	// The server may hear of the client's deadline a moment later: the same vote
	// again ends when it has.
	if got := voteAll(limited(t), all[0], map[int64]bool{0: true}, 5)[0]; got != codes.DeadlineExceeded.String() {
		t.Fatalf("the abandoned vote again: %s", got)
	}
	late := voteAll(limited(t), all[0], map[int64]bool{1: true}, 5)[1]
	if late == "true" {
		t.Errorf("late vote: %s; nobody may commit what a sibling gave up", late)
	}
	askAll(t, all, 2, at5)
	if got := voteAll(limited(t), all[0], map[int64]bool{0: true, 1: true}, 5); got[0] != "true" || got[1] != "true" {
		t.Errorf("the next round: %v", got)
	}
}

// What a rank gets wrong is refused with the name of the value.
func TestRefusals(t *testing.T) {
	t.Parallel()
	all := replicas(t, 1, 1)
	ctx := limited(t)
	long := strings.Repeat("x", wire.MaxMetadataBytes+1)
	for _, m := range []*torchftpb.ManagerQuorumRequest{{GroupRank: -1}, {GroupRank: 1}, {Step: -1}, {CommitFailures: -1}, {CheckpointMetadata: long}} {
		if _, err := all[0].Quorum(ctx, m); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: %v", m, err)
		}
	}
	if _, err := all[0].CheckpointMetadata(ctx, &torchftpb.CheckpointMetadataRequest{}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("metadata before it was said: %v", err)
	}
	if _, err := all[0].Kill(ctx, &torchftpb.KillRequest{}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("kill without OnKill: %v", err)
	}
	if _, err := torchft.New(torchft.Config{Listen: "0.0.0.0:0"}); err == nil ||
		!strings.Contains(err.Error(), "ReplicaID") || !strings.Contains(err.Error(), "Lighthouse") || !strings.Contains(err.Error(), "Advertise") {
		t.Errorf("an empty config: %v", err)
	}
}

// An operator's kill reaches the one who can end the processes.
func TestKill(t *testing.T) {
	t.Parallel()
	killed := make(chan string, 1)
	r := start(t, func(c *torchft.Config) {
		c.ReplicaID, c.Lighthouse = "r:u", []string{"127.0.0.1:1"}
		c.OnKill = func(reason string) { killed <- reason }
	})
	if _, err := r.Kill(limited(t), &torchftpb.KillRequest{Msg: "why not"}); err != nil {
		t.Fatal(err)
	}
	if got := <-killed; got != "why not" {
		t.Errorf("reason %q", got)
	}
}

// With several lighthouse servers, one that is gone costs a retry, not the step.
func TestNextLighthouse(t *testing.T) {
	t.Parallel()
	l := lighthousetest.Start(t, nil)
	r := start(t, func(c *torchft.Config) {
		c.ReplicaID, c.Lighthouse = "r:u", []string{"127.0.0.1:1", l.Addr}
	})
	p, err := r.Quorum(limited(t), &torchftpb.ManagerQuorumRequest{Step: 1})
	if err != nil || p.GetReplicaWorldSize() != 1 {
		t.Errorf("got %v, %v", p, err)
	}
}
