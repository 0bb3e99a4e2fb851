package quorum_test

import (
	"testing"

	"github.com/skerry-ft/skerry/quorum"
)

// A ballot that does not stand in the way of a commit is a promise (PROTOCOL §2.4),
// also that of a member which healed beside the step, and whose own MinReplicas says
// that those who take part are too few. (Its ballot counted, a commits; b's ballots are
// missing, and it says that it refused, so the settlement discards what a has
// committed.)
func TestC5_WhoVetoesNothingHasPromised(t *testing.T) {
	t.Parallel()
	old := quorum.Position{Cluster: "x", Step: 3, QuorumID: 6}
	at := quorum.Position{Cluster: "x", Step: 4, QuorumID: 6}
	member := func(id quorum.ReplicaID, p quorum.Position) quorum.Member {
		return quorum.Member{ReplicaID: id, Address: "h", StoreAddress: "h:1", GroupWorldSize: 1, Position: p}
	}
	q := formedOf(7, member("a", at), member("b", old), member("c", at))
	ballotsOf := func(minReplicas int) (own quorum.Ballot, r quorum.Rank) {
		r = quorum.NewRank(quorum.RankConfig{GroupWorldSize: 1, MinReplicas: minReplicas})
		r.Start(old, 0)
		r.Need()
		if taken, err := r.Take("b", q, 0); err != nil || taken.Wrong || !r.Configured() || !r.Fulfil() {
			t.Fatalf("%+v, %v", taken, err)
		}
		r.Begin()
		r.Issue()
		r.Healed(at, 0, quorum.Digest{})
		r.HealedBeside()
		r.Close()
		own = r.Ballot(false)
		r.Seal(own)
		return own, r
	}
	for _, minReplicas := range []int{1, 4} { // three are there
		own, r := ballotsOf(minReplicas)
		other := quorum.Ballot{QuorumID: 7, Round: own.Round, Position: at, OK: true, Reduced: true}
		if v := quorum.JudgeBallots(0, []*quorum.Ballot{&other, &own, &other}); !v.Yes() {
			t.Fatalf("min %d: a judges %+v, want a yes", minReplicas, v)
		}
		vote, _ := r.Judged(quorum.JudgeBallots(1, []*quorum.Ballot{&other, &own, nil}), quorum.Digest{}, true)
		if out := r.Resolve(quorum.TallyResult{Outcome: quorum.TallyPrepared}, vote); !out.Awaits {
			t.Errorf("min %d: b does not wait for the settlement of a step that a may have committed", minReplicas)
		}
		r.Fall(7)
		r.Need()
		if f := r.Report(quorum.ReportOptions{}).Fact; f.Kind == quorum.Refused {
			t.Errorf("min %d: b says %v of it", minReplicas, f)
		}
	}
}
