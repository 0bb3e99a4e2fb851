package manager

import (
	"testing"

	"github.com/skerry-ft/skerry/quorum"
)

// Rank 1 hung while rank 0 tried again and again. Whatever it is told says in which
// attempt the others are: the reply to a report of a past one, and each answer. (It began the next one by its own count, voted on attempts
// that were past for ever, and each step of the job ended by a settlement.)
func TestAnswerTellsTheSiblingsAttempt(t *testing.T) {
	t.Parallel()
	s, far, _ := twoRanks(t, nil)
	ctx, near := limited(t), direct{s}
	for attempt := range uint64(4) {
		v := voteOf(0, attempt+1, quorum.VoteNo)
		v.Last = true
		if _, err := near.vote(ctx, v); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := far.vote(ctx, voteOf(1, 1, quorum.VoteNo)); err != nil {
		t.Fatal(err)
	}
	report := func(l link, rank int, attempt uint64) <-chan reply {
		out := make(chan reply, 1)
		go func() {
			r := quorum.RankReport{Attempt: attempt}
			r.GroupRank, r.Kind = rank, quorum.JoinFall
			got, err := l.report(ctx, r)
			if err != nil {
				t.Error(err)
			}
			out <- got
		}()
		return out
	}
	if got := <-report(far, 1, 1); got.Quorum != nil || !got.Void || got.Attempt != 5 {
		t.Errorf("a report of an attempt that is past: %+v, want that rank 1 begins attempt 5", got)
	}
	zero, one := report(near, 0, 4), report(far, 1, 5)
	var all []*pendingReport
	eventually(t, "both report", func() bool { all, _ = s.complete(); return all != nil })
	s.deliver(all, &quorum.Quorum{Cluster: "x", ID: 9, Round: 1}, nil)
	for rank, got := range []reply{<-zero, <-one} {
		if got.Quorum == nil || got.Attempt != 5 {
			t.Errorf("group rank %d was told of attempt %d (%+v), want 5 with the answer", rank, got.Attempt, got)
		}
	}
}
