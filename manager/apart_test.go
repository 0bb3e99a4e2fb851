package manager

import (
	"testing"

	"github.com/skerry-ft/skerry/quorum"
)

// Rank 1 hung while rank 0 tried again and again. It votes on the attempt in which it
// hung before it reports, so it is told nothing before the answer: that says in which
// attempt the others are. (It began the next one by its own count, voted on attempts
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
	zero, one := report(near, 0, 4), report(far, 1, 1)
	var all []*pendingReport
	eventually(t, "both report", func() bool { all, _ = s.complete(); return all != nil })
	s.deliver(all, &quorum.Quorum{Cluster: "x", ID: 9, Round: 1}, nil)
	for rank, got := range []reply{<-zero, <-one} {
		if got.Quorum == nil || got.Attempt != 5 {
			t.Errorf("group rank %d was told of attempt %d (%+v), want 5 with the answer", rank, got.Attempt, got)
		}
	}
}
