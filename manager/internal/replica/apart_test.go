package replica

import (
	"testing"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/quorum"
)

// Rank 1 hung while rank 0 tried again and again. Whatever it is told says in which
// attempt the others are: the reply to a report of a past one, and each answer. (It began the next one by its
// own count, voted on attempts that were past for ever, and each step of the job ended by
// a settlement.)
func TestAnswerTellsTheSiblingsAttempt(t *testing.T) {
	t.Parallel()
	s, far, _ := twoRanks(t, nil)
	ctx, near := limited(t), direct{s}
	for attempt := range uint64(4) {
		v := voteOf(0, attempt+1, quorum.VoteNo)
		v.Last = true
		if _, err := near.Vote(ctx, v); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := far.Vote(ctx, voteOf(1, 1, quorum.VoteNo)); err != nil {
		t.Fatal(err)
	}
	report := func(l Link, rank int, attempt uint64) <-chan Reply {
		out := make(chan Reply, 1)
		go func() {
			r := quorum.RankReport{Attempt: attempt}
			r.GroupRank, r.Kind = rank, quorum.JoinFall
			got, err := l.Report(ctx, r)
			if err != nil {
				t.Error(err)
			}
			out <- got
		}()
		return out
	}
	if got := <-report(far, 1, 1); got.Quorum != nil || !got.VoteFirst || got.Attempt != 5 {
		t.Errorf("a report of an attempt that is past: %+v, want that rank 1 begins attempt 5", got)
	}
	zero, one := report(near, 0, 4), report(far, 1, 5)
	var all []*pendingReport
	testkit.Eventually(t, "both report", func() bool { all = complete(s); return all != nil })
	s.deliver(all, &quorum.Quorum{Cluster: "x", ID: 9, Round: 1}, nil)
	for rank, got := range []Reply{<-zero, <-one} {
		if got.Quorum == nil || got.Attempt != 5 {
			t.Errorf("group rank %d was told of attempt %d (%+v), want 5 with the answer", rank, got.Attempt, got)
		}
	}
}

// Rank 0 reports for the settlement of attempt 1, in which it is prepared. Rank 1 gave up,
// and has ended attempt 2 alone. The replica joins with both reports. (Rank 0 was told to
// vote first, which it does after its settlement: it waited for that until its deadline,
// and the others went on without the replica.)
func TestWhoAwaitsItsSettlementIsNotToldToVoteFirst(t *testing.T) {
	t.Parallel()
	s := newServer(serverConfig{replica: "a", size: 2})
	ctx, near := limited(t), direct{s}
	votes := make(chan error, 2)
	for rank := range 2 {
		go func() {
			_, err := near.Vote(ctx, voteOf(rank, 1, quorum.VotePrepared))
			votes <- err
		}()
	}
	for range 2 {
		if err := <-votes; err != nil {
			t.Fatal(err)
		}
	}
	answers := make([]chan Reply, 2)
	report := func(rank int, attempt uint64, k quorum.FactKind) {
		answers[rank] = make(chan Reply, 1)
		r := quorum.RankReport{GroupRank: rank, Kind: quorum.JoinFall, Attempt: attempt, Fact: quorum.Fact{Kind: k, Step: 3, QuorumID: 5}}
		go func() {
			got, err := near.Report(ctx, r)
			if err != nil {
				t.Error(err)
			}
			answers[rank] <- got
		}()
		testkit.Eventually(t, "it reports", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.mu.pending[rank] != nil
		})
	}
	report(0, 1, quorum.Prepared)
	v := voteOf(1, 2, quorum.VoteNo)
	v.Broken, v.Last = true, true
	if _, err := near.Vote(ctx, v); err != nil {
		t.Fatal(err)
	}
	report(1, 3, quorum.GaveUp)
	all := complete(s)
	if all == nil {
		t.Fatalf("no join: rank 0 was told %+v, and waits for its settlement", <-answers[0])
	}
	s.deliver(all, &quorum.Quorum{Cluster: "x", ID: 6, Round: 1}, nil)
	for rank, got := range []Reply{<-answers[0], <-answers[1]} {
		if got.Quorum == nil || got.VoteFirst || got.Attempt != 3 {
			t.Errorf("group rank %d was told %+v, want quorum 6, and that attempt 3 is the next", rank, got)
		}
	}
}

// Rank 1's report was made in attempt 1, and outlived it: it is in attempt 2 by now. Rank
// 0 reports that operations of attempt 2 are lost. Both hold it void, rank 1 also where
// the word goes from process to process. (Rank 1 was told of attempt 1 alone. It gave its
// ballot in attempt 2, and rank 0 in attempt 3, which the others took for one.)
func TestAReportThatOutlivesItsAttemptLearnsOfTheVoidOne(t *testing.T) {
	t.Parallel()
	s, far, _ := twoRanks(t, nil)
	ctx, near := limited(t), direct{s}
	one := quorum.NewRank(quorum.RankConfig{GroupRank: 1, GroupWorldSize: 2, MinReplicas: 1})
	one.Need()
	if _, err := one.Take("a", pairOf(5), 0); err != nil || !one.Configured() || !one.Fulfil() {
		t.Fatalf("not in quorum 5: %v", err)
	}
	one.Begin() // attempt 1
	one.Issue()
	one.Fall(5)
	one.Cut()
	one.Need()
	rep := one.Report(quorum.ReportOptions{}) // in attempt 1
	vote, none := one.WithoutBallot()
	if !none || vote.Attempt != 1 {
		t.Fatalf("votes %+v, %t; want one on attempt 1 without a ballot", vote, none)
	}
	votes := make(chan error, 2)
	for rank, l := range []Link{near, far} {
		v := vote
		v.GroupRank = rank
		go func() {
			_, err := l.Vote(ctx, v)
			votes <- err
		}()
	}
	for range 2 {
		if err := <-votes; err != nil {
			t.Fatal(err)
		}
	}
	one.Leave()
	one.Begin() // attempt 2; its report waits on
	answer := make(chan Reply, 1)
	go func() {
		got, err := far.Report(ctx, rep)
		if err != nil {
			t.Error(err)
		}
		answer <- got
	}()
	go func() {
		_, _ = near.Report(ctx, quorum.RankReport{Kind: quorum.JoinFall, HaveQuorumID: 5, HaveRound: 1, Attempt: 2, Void: true})
	}()
	var all []*pendingReport
	testkit.Eventually(t, "both report", func() bool { all = complete(s); return all != nil })
	s.deliver(all, pairOf(6), nil)
	got := <-answer
	if got.Quorum == nil || got.VoidAttempt != 2 || got.Attempt != 2 {
		t.Fatalf("rank 1 was told %+v, want quorum 6, that attempt 2 is void, and that the siblings are in it", got)
	}
	one.CatchUp(got.Attempt)
	taken, err := one.Take("a", got.Quorum, got.VoidAttempt)
	if err != nil || !one.Trying(2) || !taken.Void || !one.Void() {
		t.Errorf("rank 1 took %+v (%v), and gives its ballot in attempt 2, which is void at rank 0", taken, err)
	}
}

// pairOf is a quorum of two replicas of two ranks.
func pairOf(id int64) *quorum.Quorum {
	m := []quorum.Member{{ReplicaID: "a", GroupWorldSize: 2, StoreAddress: "h:1"}, {ReplicaID: "b", GroupWorldSize: 2, StoreAddress: "h:2"}}
	return &quorum.Quorum{Cluster: "x", ID: id, Round: 1, Members: m, Participants: []quorum.ReplicaID{"a", "b"}}
}
