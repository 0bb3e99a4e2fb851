package replica

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/quorum"
)

func voteOf(rank int, attempt uint64, v quorum.Vote) quorum.RankVote {
	return quorum.RankVote{Attempt: attempt, GroupRank: rank, QuorumID: 5, Round: 1, Step: 3, Vote: v}
}

// All ranks wait for all, and get one decision, which is kept.
func TestBarrierDecidesOnce(t *testing.T) {
	t.Parallel()
	b := newServer(serverConfig{size: 2})
	ctx := limited(t)
	type outcome struct {
		result quorum.TallyResult
		err    error
	}
	first := make(chan outcome, 1)
	go func() {
		r, err := b.vote(ctx, voteOf(0, 1, quorum.VoteYes))
		first <- outcome{r, err}
	}()
	testkit.Eventually(t, "rank 0 has voted", func() bool { return waitsFor(b, 1, 1) })
	r, err := b.vote(ctx, voteOf(1, 1, quorum.VoteYes))
	if err != nil || r.Outcome != quorum.TallyCommit {
		t.Errorf("rank 1: %+v, %v; want commit", r, err)
	}
	if o := <-first; o.err != nil || o.result.Outcome != quorum.TallyCommit {
		t.Errorf("rank 0: %+v; want commit", o)
	}
	if r, err := b.vote(ctx, voteOf(1, 1, quorum.VoteNo)); err != nil || r.Outcome != quorum.TallyCommit {
		t.Errorf("again: %+v, %v; want the decision that was made", r, err)
	}
	last := voteOf(1, 7, quorum.VoteYes)
	last.Last = true
	if r, err := b.vote(ctx, last); err != nil || r.Outcome != quorum.TallyPrepared {
		t.Errorf("attempt 7 of rank 1 alone: %+v, %v; want prepared", r, err)
	}
	if r, err := b.vote(ctx, voteOf(0, 3, quorum.VoteYes)); err != nil || r.Outcome != quorum.TallyPrepared {
		t.Errorf("attempt 3 after 7: %+v, %v; want prepared", r, err)
	}
}

// waitsFor says whether others wait for a rank's vote on an attempt.
func waitsFor(s *server, rank int, attempt uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, awaits := s.mu.polls.Awaits(quorum.RankReport{GroupRank: rank, Attempt: attempt})
	return awaits
}

// A rank that gives up ends the attempt for all: as prepared if nobody refused.
func TestBarrierWithoutOneRank(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		vote quorum.Vote
		want quorum.TallyOutcome
	}{{quorum.VoteYes, quorum.TallyPrepared}, {quorum.VoteNo, quorum.TallyAbort}} {
		b := newServer(serverConfig{size: 2})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		v := voteOf(0, 1, c.vote)
		if _, err := b.vote(ctx, v); !errors.Is(err, context.Canceled) || !waitsFor(b, 1, 1) {
			t.Errorf("a call that broke: %v, want that the attempt is open", err)
		}
		v.Last = true
		r, err := b.vote(ctx, v)
		if err != nil || r.Outcome != c.want || r.Stands {
			t.Errorf("vote %d alone: %+v, %v; want outcome %d, fallen", c.vote, r, err, c.want)
		}
		late, err := b.vote(limited(t), voteOf(1, 1, quorum.VoteYes))
		if err != nil || late.Outcome != c.want {
			t.Errorf("late vote: %+v, %v; want outcome %d", late, err, c.want)
		}
	}
}

// Ranks that voted about different quorums have no step in common, and who promised one
// learns from the settlement what became of it; a void attempt lets the quorum stand.
func TestBarrierOfUnequalVotes(t *testing.T) {
	t.Parallel()
	both := func(a, b quorum.RankVote) quorum.TallyResult {
		t.Helper()
		bar := newServer(serverConfig{size: 2})
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = bar.vote(limited(t), a)
		}()
		r, err := bar.vote(limited(t), b)
		<-done
		if err != nil {
			t.Error(err)
		}
		return r
	}
	other := voteOf(1, 1, quorum.VoteYes)
	other.QuorumID = 6
	if r := both(voteOf(0, 1, quorum.VoteYes), other); r.Outcome != quorum.TallyPrepared || r.Stands {
		t.Errorf("two quorums: %+v, want prepared, fallen", r)
	}
	void := voteOf(1, 1, quorum.VoteNo)
	void.Void = true
	if r := both(voteOf(0, 1, quorum.VoteNo), void); r.Outcome != quorum.TallyAbort || !r.Stands {
		t.Errorf("void: %+v, want abort, standing", r)
	}
}

func factOf(kind quorum.FactKind, digest uint32) quorum.RankReport {
	r := quorum.RankReport{Attempt: 1}
	r.Position = quorum.Position{Cluster: "test", Step: 2, QuorumID: 4}
	r.Fact = quorum.Fact{Kind: kind, Step: 3, QuorumID: 4}
	if kind == quorum.Prepared {
		r.Fact.Digests = []quorum.Digest{{Valid: true, Sum: digest}}
	}
	return r
}

// C2: a replica promised only what all its ranks did.
func TestMergedFacts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b, want quorum.FactKind
	}{
		{quorum.Prepared, quorum.Prepared, quorum.Prepared},
		{quorum.Prepared, quorum.Refused, quorum.Refused},
		{quorum.GaveUp, quorum.Prepared, quorum.GaveUp},
		{quorum.GaveUp, quorum.Refused, quorum.Refused},
		{quorum.NoFact, quorum.NoFact, quorum.NoFact},
	} {
		s := newServer(serverConfig{replica: "a:1", size: 2})
		one, two := factOf(c.a, 1), factOf(c.b, 2)
		one.InitSync, two.InitSync, one.Sync = true, true, true
		one.CommitFailures, two.CommitFailures = 3, 1
		two.Kind = quorum.JoinFall
		one.Kind = quorum.JoinAsk
		j, err := s.merge([]*pendingReport{{report: one}, {report: two}})
		if err != nil || j.Fact.Kind != c.want || j.Kind != quorum.JoinFall || j.Member.CommitFailures != 3 ||
			!j.Member.InitSync || j.Member.Sync {
			t.Errorf("%v and %v: %+v, %v; want %v", c.a, c.b, j, err, c.want)
		}
		if c.want == quorum.Prepared {
			want := []quorum.Digest{{Valid: true, Sum: 1}, {Valid: true, Sum: 2}}
			if diff := cmp.Diff(want, j.Fact.Digests); diff != "" {
				t.Errorf("digests (-want +got):\n%s", diff)
			}
		} else if j.Fact.Digests != nil {
			t.Errorf("%v and %v: digests %v, want none", c.a, c.b, j.Fact.Digests)
		}
	}
}

// A replica whose ranks differ in position heals, and is never a donor.
func TestMergedPositions(t *testing.T) {
	t.Parallel()
	s := newServer(serverConfig{replica: "a:1", size: 2})
	one, two := factOf(quorum.Refused, 0), factOf(quorum.Refused, 0)
	two.Position.Step++
	j, err := s.merge([]*pendingReport{{report: one}, {report: two}})
	if err != nil || j.Member.Position != (quorum.Position{}) || j.Fact.Kind != quorum.Refused {
		t.Errorf("%+v, %v; want no position", j.Member, err)
	}
	two.FixedWorldSize = 3
	if _, err := s.merge([]*pendingReport{{report: one}, {report: two}}); err == nil ||
		!strings.Contains(err.Error(), "FixedWorldSize") {
		t.Errorf("%v, want the settings that differ", err)
	}
}
