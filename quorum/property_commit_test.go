package quorum_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// C1: replicas at one position hold the same bytes.
func TestC1_OnePositionOneState(t *testing.T) {
	t.Parallel()
	theWalks().check(t, "C1", "positions,commits")
	t.Run("a link cut in the last bucket", func(t *testing.T) {
		// c commits step 1 in quorum q. a and b never balloted: they say
		// refused, which cannot be, and stands for a member that lies. The
		// rule still holds: c's commit wins, and they heal.
		r := standing(t, rules(1), "a", "b", "c")
		refused := quorum.Fact{Kind: quorum.Refused, Step: 1, QuorumID: r.in["a"].QuorumID}
		r.commit("c")
		r.fall("a", refused)
		r.fall("b", refused)
		r.fall("c", quorum.Fact{})
		q := r.mustForm("a", "b", "c")
		for _, id := range []quorum.ReplicaID{"a", "b"} {
			as, err := quorum.Assign(q, id, 0)
			if err != nil {
				t.Fatal(err)
			}
			if !as.Heal || as.Sources[0].ReplicaID != "c" {
				t.Errorf("%s: heal %v from %v, want from c", id, as.Heal, as.Sources)
			}
		}
	})
	t.Run("equal steps of different quorums", func(t *testing.T) {
		r := newRig(t, rules(1))
		r.pos["a"] = quorum.Position{Cluster: "x", Step: 7, QuorumID: 5}
		r.pos["b"] = quorum.Position{Cluster: "x", Step: 7, QuorumID: 6}
		r.open("a")
		r.open("b")
		r.fall("a", quorum.Fact{})
		r.fall("b", quorum.Fact{})
		r.wait(20 * time.Second)
		q := r.mustForm("a", "b")
		if as, err := quorum.Assign(q, "a", 0); err != nil || !as.Heal {
			t.Errorf("a: heal %v, %v; want a heal", as.Heal, err)
		}
		if as, err := quorum.Assign(q, "b", 0); err != nil || as.Heal {
			t.Errorf("b: heal %v, %v; want none", as.Heal, err)
		}
	})
}

// C2: a replica commits only what all its ranks promised.
func TestC2_CommitNeedsEveryRank(t *testing.T) {
	t.Parallel()
	for ranks := 1; ranks <= 4; ranks++ {
		for c := range pow(4, ranks) {
			votes := make([]quorum.Vote, ranks)
			all := true
			for g := range votes {
				votes[g] = quorum.Vote(c / pow(4, g) % 4)
				all = all && votes[g] == quorum.VoteYes
			}
			got := realTally(rankVotes(votes)).Outcome
			if (got == quorum.TallyCommit) != all {
				t.Errorf("votes %v: %v", votes, got)
			}
			if no := slices.Contains(votes, quorum.VoteNo); no != (got == quorum.TallyAbort) {
				t.Errorf("votes %v: %v", votes, got)
			}
		}
	}
	for n := 1; n <= 3; n++ { // and no pattern of ballots makes members contradict each other
		if _, err := outcomes(realMechanics(), n, 2, 0); err != nil {
			t.Error(err)
		}
	}
}

func rankVotes(votes []quorum.Vote) []quorum.RankVote {
	out := make([]quorum.RankVote, len(votes))
	for g, v := range votes {
		out[g] = quorum.RankVote{GroupRank: g, QuorumID: 1, Round: 1, Step: 1, Vote: v}
	}
	return out
}

// C3: a tally's decision is one and is repeated, in whatever order votes come
// and however often.
func TestC3_ATallyDecidesOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 3))
		ranks := 1 + rng.IntN(4)
		votes := make([]quorum.Vote, ranks)
		for g := range votes {
			votes[g] = quorum.Vote(rng.IntN(4))
		}
		tally, base := quorum.NewTally(ranks), rankVotes(votes)
		var decided quorum.TallyResult
		for _, g := range append(rng.Perm(ranks), rng.Perm(ranks)...) {
			if err := tally.Vote(base[g]); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			got := tally.Result()
			if decided.Outcome != quorum.TallyPending && fmt.Sprint(got) != fmt.Sprint(decided) {
				t.Fatalf("seed %d: votes %v: decided %+v, then %+v", seed, votes, decided, got)
			}
			decided = got
		}
		if want := realTally(base); decided.Outcome != want.Outcome || decided.Stands != want.Stands {
			t.Fatalf("seed %d: votes %v: %+v, in order %+v", seed, votes, decided, want)
		}
		changed := base[0]
		changed.Vote = (changed.Vote + 1) % 4
		if err := tally.Vote(changed); err == nil {
			t.Fatalf("seed %d: a rank changed its vote", seed)
		}
		if got := tally.Result(); fmt.Sprint(got) != fmt.Sprint(decided) {
			t.Fatalf("seed %d: a refused vote changed the decision to %+v", seed, got)
		}
	}
}

// C4: the highest position falls only if every holder was lost, and that is
// reported.
func TestC4_TheHighestPositionFallsOnlyWithItsHolders(t *testing.T) {
	t.Parallel()
	theWalks().check(t, "C4 Q10", "walks")
	r := standing(t, rules(1), "a", "b", "c")
	r.commit("c")
	r.beat()
	r.m.Events()
	gaveUp := quorum.Fact{Kind: quorum.GaveUp, Step: 1, QuorumID: r.in["a"].QuorumID}
	r.fall("a", gaveUp)
	r.fall("b", gaveUp)
	r.die("c", "a")
	q := r.mustForm("a", "b")
	if q.Settlement.Outcome != quorum.Discard || maxPosition(q).Step != 0 {
		t.Errorf("settlement %+v at %v, want a discard at step 0", q.Settlement, maxPosition(q))
	}
	if !slices.ContainsFunc(r.m.Events(), func(e quorum.Event) bool { return e.Kind == quorum.EventPositionFell }) {
		t.Error("the highest position fell, and no event says so")
	}
	// c was not dead after all: what it holds is the highest again, and the
	// others heal from it (§4.5).
	r.open("c")
	r.fall("c", quorum.Fact{})
	r.ask("a")
	r.ask("b")
	q = r.mustForm("a", "b", "c")
	if as, err := quorum.Assign(q, "a", 0); err != nil || !as.Heal || as.Max.Step != 1 {
		t.Errorf("a: heal %v to %v, %v; want a heal to step 1", as.Heal, as.Max, err)
	}
}

// C5: a step that anyone committed is kept by everyone who was prepared for
// it.
func TestC5_CommittedStepsAreKept(t *testing.T) {
	t.Parallel()
	theWalks().check(t, "C5", "settled 1,settled 2")
	t.Run("no committer in sight", func(t *testing.T) {
		r := standing(t, rules(1), "a", "b", "c")
		r.fall("a", r.prepared("a"))
		r.fall("b", r.prepared("b"))
		r.die("c", "a") // c may have committed
		q := r.mustForm("a", "b")
		if q.Settlement.Outcome != quorum.Forward || maxPosition(q).Step != 1 || maxPosition(q).QuorumID == q.ID {
			t.Errorf("settlement %+v at %v, want forward, at the old id", q.Settlement, maxPosition(q))
		}
	})
	t.Run("one lost its digest", func(t *testing.T) {
		r := standing(t, rules(1), "a", "b", "c")
		r.die("a", "b") // a may have committed
		gaveUp := r.prepared("b")
		gaveUp.Kind, gaveUp.Digests = quorum.GaveUp, nil
		r.fall("b", gaveUp)
		r.fall("c", r.prepared("c"))
		q := r.mustForm("b", "c")
		if q.Settlement.Outcome != quorum.Forward || q.Members[0].Position.Step != 0 || q.Members[1].Position.Step != 1 {
			t.Errorf("settlement %+v, members %+v; want forward, c at step 1, b behind", q.Settlement, q.Members)
		}
	})
	t.Run("nobody took the answer", func(t *testing.T) { nobodyTookTheAnswer(t) })
	t.Run("the holder asked", func(t *testing.T) { theHolderAsked(t) })
}

// theHolderAsked: a commits and asks, for c waits to join; b is prepared for the
// same step, and lost for a while. The next quorum is formed by a's ask alone.
// When b comes back its step is not discarded (§4.6).
func theHolderAsked(t *testing.T) {
	r := standing(t, rules(1), "a", "b")
	r.commit("a", "b")
	r.beat()
	r.open("c")
	r.fall("c", quorum.Fact{})
	late := r.prepared("b")
	r.commit("a")
	r.ask("a")
	r.up["b"] = false
	r.m.Broken(r.now, "b", "reset", false)
	r.wait(20 * time.Second)
	r.mustForm("a", "c")
	r.open("b")
	r.fall("b", late)
	r.fall("a", quorum.Fact{})
	r.fall("c", quorum.Fact{})
	r.wait(20 * time.Second)
	q := r.mustForm("a", "b", "c")
	want := quorum.Position{Cluster: "x", Step: late.Step, QuorumID: late.QuorumID}
	if got := q.Members[1].Position; got != want {
		t.Errorf("b is at %v after settlement, want %v: a committed that step", got, want)
	}
}

// nobodyTookTheAnswer: all members ask, the next quorum is formed, every
// answer is lost, all withdraw and go on. A step of the old quorum is then cut
// short; it is settled like any other (§4.2).
func nobodyTookTheAnswer(t *testing.T) {
	r := standing(t, rules(1), "a", "b", "c")
	r.commit("a", "b", "c")
	r.beat()
	r.open("d")
	r.fall("d", quorum.Fact{})
	numbers := map[quorum.ReplicaID]uint64{}
	for _, id := range []quorum.ReplicaID{"a", "b", "c"} {
		r.ask(id)
		numbers[id] = r.num
	}
	d := r.m.Decide(r.now)
	if !d.Ready {
		t.Fatalf("not ready: %v", d.Reason)
	}
	r.m.Form(r.now, d, quorum.Token{1}, 1) // and nobody hears of it
	r.m.Notices()
	for id, n := range numbers {
		r.m.Withdraw(r.now, id, n)
	}
	for _, id := range []quorum.ReplicaID{"b", "c"} {
		r.fall(id, r.prepared(id))
	}
	r.up["a"] = false
	r.m.Broken(r.now, "a", "reset", false) // a may have committed
	r.wait(30 * time.Second)
	q := r.mustForm()
	want := quorum.Position{Cluster: "x", Step: 2, QuorumID: r.pos["b"].QuorumID}
	for _, m := range q.Members {
		if (m.ReplicaID == "b" || m.ReplicaID == "c") && m.Position != want {
			t.Errorf("%s is at %v after settlement, want %v", m.ReplicaID, m.Position, want)
		}
	}
}

// C6: a contested step is settled once, and later answers obey.
func TestC6_SettledOnce(t *testing.T) {
	t.Parallel()
	theWalks().check(t, "C6", "settled 1")
	r := standing(t, rules(1), "a", "b", "c")
	late := r.prepared("c")
	gaveUp := quorum.Fact{Kind: quorum.Refused, Step: 1, QuorumID: r.in["a"].QuorumID}
	r.fall("a", gaveUp)
	r.fall("b", gaveUp)
	r.die("c", "a")
	if q := r.mustForm("a", "b"); q.Settlement.Outcome != quorum.Discard {
		t.Fatalf("settlement %+v, want a discard", q.Settlement)
	}
	r.open("c") // with a claim to the step that was discarded
	r.fall("c", late)
	r.ask("a")
	r.ask("b")
	q := r.mustForm("a", "b", "c")
	for _, m := range q.Members {
		if m.Position.Step != 0 {
			t.Errorf("%s is at %v, though step 1 was discarded", m.ReplicaID, m.Position)
		}
	}
}

// C7: nobody waits for a timeout where a message could tell. What the machine
// can tell changes only by an input, or at the time that Wake names.
func TestC7_NothingChangesBeforeWake(t *testing.T) {
	t.Parallel()
	slept, cp := 0, newCopier()
	for seed := range uint64(300) {
		d := newDuel(seeded{rand.New(rand.NewPCG(seed, 7))}, quorum.ClientKind(1+seed%2))
		for range 40 {
			if err := d.round(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			d.probes()
			if x := d.m.Decide(d.now); x.Ready {
				d.formed(x)
				continue
			}
			wake := d.m.Wake(d.now)
			if !wake.IsZero() && !wake.After(d.now) {
				t.Fatalf("seed %d: Wake names %v from now, a time gone by", seed, wake.Sub(d.now))
			}
			before := d.now.Add(time.Hour)
			if !wake.IsZero() {
				before = wake.Add(-time.Nanosecond)
			}
			if x := deepCopy(cp, d.m).Decide(before); x.Ready {
				t.Fatalf("seed %d: ready %v from now, before Wake (%v): %v\n%s", seed, before.Sub(d.now), wake.Sub(d.now), x.Reason, d.log)
			}
			slept++
		}
	}
	if slept == 0 {
		t.Error("no state waited: the test is empty")
	}
}

// C7, the other half: with all witnesses heard, the next quorum takes no time.
func TestC7_NoTimeoutBetweenACrashAndTheNextQuorum(t *testing.T) {
	t.Parallel()
	r := standing(t, rules(1), "a", "b", "c")
	r.die("c", "b")
	if n := r.m.Notices(); !slices.ContainsFunc(n, func(n quorum.Notice) bool {
		return n.Kind == quorum.NoticeLost && n.About == "c"
	}) {
		t.Errorf("notices %+v, want that c is lost", n)
	}
	r.fall("a", r.prepared("a"))
	if n := r.m.Notices(); !slices.ContainsFunc(n, func(n quorum.Notice) bool {
		return n.Kind == quorum.NoticeFallen && slices.Contains(n.To, "b")
	}) {
		t.Errorf("notices %+v, want that the quorum fell", n)
	}
	r.fall("b", r.prepared("b"))
	r.mustForm("a", "b")
}

// Decide reads only: asking changes nothing, and gives the same again.
func TestDecideIsARead(t *testing.T) {
	t.Parallel()
	hash := newHasher()
	for seed := range uint64(100) {
		d := newDuel(seeded{rand.New(rand.NewPCG(seed, 9))}, quorum.ClientKind(1+seed%2))
		for range 40 {
			if err := d.round(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			d.probes()
			d.m.Decide(d.now) // lets time pass, which may be news
			before := keyOf(hash, d.m, d.now)
			one, two := fmt.Sprint(d.m.Decide(d.now)), fmt.Sprint(d.m.Decide(d.now))
			if one != two {
				t.Fatalf("seed %d: %s\nthen %s", seed, one, two)
			}
			if keyOf(hash, d.m, d.now) != before {
				t.Fatalf("seed %d: Decide changed the machine", seed)
			}
			if x := d.m.Decide(d.now); x.Ready && d.c.next(2) == 0 {
				d.formed(x)
			}
		}
	}
}

// A member that withdraws its ask after its quorum fell is told so: it was not
// told while it waited (explorer, "withdrawn asks").
func TestC7_AWithdrawnAskLearnsOfTheFall(t *testing.T) {
	t.Parallel()
	r := standing(t, rules(1), "a", "b", "c")
	r.commit("a", "b", "c")
	r.beat()
	r.open("d")
	r.fall("d", quorum.Fact{})
	r.ask("a")
	asked := r.num
	r.fall("b", quorum.Fact{Kind: quorum.Refused, Step: 2, QuorumID: r.in["b"].QuorumID})
	r.m.Notices()
	r.m.Withdraw(r.now, "a", asked)
	if n := r.m.Notices(); !slices.ContainsFunc(n, func(n quorum.Notice) bool {
		return n.Kind == quorum.NoticeFallen && slices.Contains(n.To, "a")
	}) {
		t.Errorf("notices %+v, want that a hears of the fall", n)
	}
}
