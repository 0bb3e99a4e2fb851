package quorum_test

import (
	"slices"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

func rules(minReplicas int) quorum.Config {
	c := quorum.DefaultConfig()
	c.MinReplicas, c.StuckAfter = minReplicas, 0
	return c
}

// Q1: ids only rise, above every id seen in the ledger, in joins and in
// positions.
func TestQ1_IDsOnlyRise(t *testing.T) {
	t.Parallel()
	theWalks().check(t, "Q1 D13", "walks")
	t.Run("above the ids that a joiner states", func(t *testing.T) {
		r := newRig(t, rules(1))
		r.pos["a"] = quorum.Position{Cluster: "x", Step: 4, QuorumID: 5000}
		r.open("a")
		r.in["b"] = &quorum.LastAnswer{QuorumID: 7000, Round: 1, Members: []quorum.Member{{ReplicaID: "b"}}}
		r.open("b")
		r.fall("a", quorum.Fact{})
		r.fall("b", quorum.Fact{})
		r.wait(20 * time.Second)
		if q := r.mustForm(); q.ID <= 7000 {
			t.Errorf("id %d, want above 7000", q.ID)
		}
	})
	t.Run("above the ledger's", func(t *testing.T) {
		r := standing(t, rules(1), "a", "b")
		id := r.m.Last().ID
		r.m = quorum.New(r.now, rules(1), r.m.Ledger())
		r.open("a")
		r.open("b")
		r.fall("a", quorum.Fact{})
		r.fall("b", quorum.Fact{})
		if q := r.mustForm("a", "b"); q.ID <= id {
			t.Errorf("id %d, want above %d", q.ID, id)
		}
	})
}

// Q2: one id, one member list.
func TestQ2_OneIDOneMemberList(t *testing.T) {
	t.Parallel()
	theWalks().check(t, "Q2", "walks")
	r := standing(t, rules(1), "a", "b")
	l := r.m.Ledger()
	f := quorum.Formed{FollowsID: l.Last.ID, FollowsRound: l.Last.Round, Term: l.Term, Quorum: *l.Last}
	f.Quorum.Round++
	f.Quorum.Members = f.Quorum.Members[:1]
	if err := l.ApplyFormed(f); err == nil {
		t.Error("the ledger takes another member list under the same id")
	}
}

// Q3: never fewer than min_replicas, never empty; shrink-only, where torchft
// breaks it, included.
func TestQ3_NeverBelowMinReplicas(t *testing.T) {
	t.Parallel()
	theWalks().check(t, "Q3", "walks")
	t.Run("shrink-only without overlap", func(t *testing.T) {
		r := standing(t, rules(2), "a", "b")
		r.die("b", "a")
		r.open("c")
		r.fall("c", quorum.Fact{})
		j := r.makeJoin("a", quorum.JoinFall, quorum.Fact{})
		j.Member.ShrinkOnly = true
		if err := r.m.Join(r.now, j); err != nil {
			t.Fatal(err)
		}
		r.wait(r.m.Config().JoinTimeout / 2)
		r.refuses(quorum.ReasonTooFew)
		r.wait(r.m.Config().JoinTimeout)
		r.mustForm("a", "c") // b, for which it would wait, is dead
	})
	t.Run("a newcomer's shrink-only", func(t *testing.T) {
		r := standing(t, rules(1), "a", "b")
		r.open("c")
		j := r.makeJoin("c", quorum.JoinFall, quorum.Fact{})
		j.Member.ShrinkOnly = true
		if err := r.m.Join(r.now, j); err != nil {
			t.Fatal(err)
		}
		r.ask("a")
		r.ask("b")
		r.mustForm("a", "b", "c") // else it would keep itself out for ever
	})
	t.Run("torchft's shrink-only", func(t *testing.T) {
		torchftShrink(t)
	})
}

// torchftShrink: min 2, last {a,b}, joined {a,c} with shrink-only; torchft
// forms {a}. Then nobody of the last quorum is left; torchft forms {}.
func torchftShrink(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	c := rules(2)
	c.HeartbeatTimeout = 5 * time.Second
	m := quorum.New(now, c, quorum.NewLedger("x", "default", 0))
	join := func(id quorum.ReplicaID, shrink bool, n uint64) {
		j := quorum.Join{Client: quorum.KindTorchft, Kind: quorum.JoinStep, Number: n}
		j.Member = quorum.Member{ReplicaID: id, GroupWorldSize: 1, ShrinkOnly: shrink}
		if err := m.Join(now, j); err != nil {
			t.Fatal(err)
		}
	}
	join("a", false, 1)
	join("b", false, 1)
	d := m.Decide(now)
	if !d.Ready {
		t.Fatalf("no first quorum: %v", d.Reason)
	}
	m.Form(now, d, quorum.Token{}, 1)
	join("a", true, 2)
	join("c", false, 1)
	for range 30 {
		now = now.Add(time.Second)
		for _, id := range []quorum.ReplicaID{"a", "c"} {
			if err := m.Heartbeat(now, id); err != nil {
				t.Fatal(err)
			}
		}
		if d := m.Decide(now); d.Ready {
			t.Fatalf("formed %v, below min_replicas", idsOf(&d.Quorum))
		}
	}
}

// Q4: every member was live and had joined.
func TestQ4_MembersWereLiveAndHadJoined(t *testing.T) {
	t.Parallel()
	theWalks().check(t, "Q4", "walks")
	t.Run("a withdrawn join counts for nothing", func(t *testing.T) {
		r := standing(t, rules(1), "a", "b", "c")
		r.fall("a", quorum.Fact{})
		r.fall("b", quorum.Fact{})
		r.fall("c", quorum.Fact{})
		r.m.Withdraw(r.now, "c", r.num)
		r.wait(30 * time.Second)
		r.mustForm("a", "b")
	})
}

// Q5: unless it contains the whole last quorum, a new membership holds more
// than half of the live replicas.
func TestQ5_MajorityOfTheLive(t *testing.T) {
	t.Parallel()
	theWalks().check(t, "Q5", "shrunk")
	t.Run("half is not enough", func(t *testing.T) {
		r := standing(t, rules(1), "a", "b", "c", "d")
		r.fall("a", quorum.Fact{})
		r.fall("b", quorum.Fact{})
		r.wait(time.Minute)
		r.refuses(quorum.ReasonNoMajority)
	})
	t.Run("joiners do not open the window", func(t *testing.T) {
		r := standing(t, rules(1), "a", "b")
		for _, id := range []quorum.ReplicaID{"c", "d", "e"} {
			r.open(id)
			r.fall(id, quorum.Fact{})
		}
		r.wait(time.Minute)
		r.refuses(quorum.ReasonStands)
	})
}

// Q6: once faults stop, a quorum forms within join timeout + heartbeat timeout
// + stuck deadline.
func TestQ6_AQuorumFormsOnceFaultsStop(t *testing.T) {
	t.Parallel()
	theWalks().check(t, "Q6 fair", "walks")
	t.Run("an answer taken too late", func(t *testing.T) {
		// b pauses while the answer is on its way, and is lost. When it goes on
		// it takes the answer to a quorum that fell, and must hear so; nobody
		// else tells it, for a may be gone (simulation, seed 101).
		r := newRig(t, rules(1))
		r.open("a")
		r.open("b")
		r.fall("a", quorum.Fact{})
		r.fall("b", quorum.Fact{})
		r.wait(20 * time.Second)
		q := r.mustForm("a", "b")
		r.in["b"] = nil // not yet
		r.up["b"] = false
		r.wait(3 * time.Second)
		r.m.Notices()
		r.up["b"] = true
		r.beat() // what was under way before it takes the answer
		n := r.m.Notices()
		r.in["b"] = lastAnswer(q)
		r.beat()
		if n = append(n, r.m.Notices()...); !slices.ContainsFunc(n, func(n quorum.Notice) bool {
			return n.Kind == quorum.NoticeFallen && slices.Contains(n.To, "b")
		}) {
			t.Errorf("notices %+v, want that b hears of the fall", n)
		}
	})
	t.Run("an answer taken when the next quorum stands", func(t *testing.T) {
		// As above, and b is formed without a before a takes its answer
		// (simulation, seed 2814).
		r := newRig(t, rules(1))
		r.open("a")
		r.fall("a", quorum.Fact{})
		r.wait(20 * time.Second)
		q := r.mustForm("a")
		r.in["a"], r.up["a"] = nil, false
		r.wait(3 * time.Second)
		r.open("b")
		r.fall("b", quorum.Fact{})
		r.wait(20 * time.Second)
		r.mustForm("b")
		r.up["a"] = true
		r.beat() // what was under way before it takes the answer
		r.in["a"] = lastAnswer(q)
		r.m.Notices()
		r.beat()
		if n := r.m.Notices(); !slices.ContainsFunc(n, func(n quorum.Notice) bool {
			return n.Kind == quorum.NoticeFallen && slices.Contains(n.To, "a")
		}) {
			t.Errorf("notices %+v, want that a hears that its quorum is over", n)
		}
	})
	t.Run("half of the members hang", func(t *testing.T) {
		c := rules(1)
		c.StuckAfter = 20 * time.Second
		r := standing(t, c, "a", "b", "c", "d")
		begun := r.now
		r.fall("a", quorum.Fact{})
		r.fall("b", quorum.Fact{})
		r.wait(time.Minute)
		r.mustForm("a", "b")
		if took, limit := r.now.Sub(begun), c.JoinTimeout+c.HeartbeatTimeout+c.StuckAfter; took > limit {
			t.Errorf("took %v, want at most %v", took, limit)
		}
	})
}

// Q7: a dead replica is out at the first decision after it is known dead; with
// two witnesses that is at once.
func TestQ7_TheDeadAreOutAtOnce(t *testing.T) {
	t.Parallel()
	theWalks().check(t, "Q7", "walks")
	r := standing(t, rules(1), "a", "b", "c")
	r.fall("c", quorum.Fact{})
	r.die("c", "a")
	r.fall("a", quorum.Fact{})
	r.fall("b", quorum.Fact{})
	r.mustForm("a", "b")
}

// Q8: when all live replicas have joined, the window closes at once.
func TestQ8_TheWindowClosesWhenAllHaveJoined(t *testing.T) {
	t.Parallel()
	for _, kind := range []quorum.JoinKind{quorum.JoinFall, quorum.JoinAsk} {
		r := standing(t, rules(1), "a", "b", "c")
		r.open("d")
		r.fall("d", quorum.Fact{})
		r.join("a", kind, quorum.Fact{})
		r.join("b", kind, quorum.Fact{})
		if d := r.m.Decide(r.now); d.Ready {
			t.Fatalf("kind %d: ready before c has joined", kind)
		}
		r.join("c", kind, quorum.Fact{})
		r.mustForm("a", "b", "c", "d")
	}
}

// Q9: two live members whose link stays broken are not in one quorum again;
// the larger connected set stays.
func TestQ9_BrokenLinksArePartedByTheLargerSet(t *testing.T) {
	t.Parallel()
	r := standing(t, rules(1), "a", "b", "c", "d")
	var last []quorum.ReplicaID
	for range 6 { // a's link to b breaks in every quorum that has both
		q := r.m.Last()
		last = idsOf(q)
		if !slices.Contains(last, "a") || !slices.Contains(last, "b") {
			break
		}
		for _, p := range [][2]quorum.ReplicaID{{"a", "b"}, {"b", "a"}} {
			a := quorum.Accusation{By: p[0], Against: p[1], QuorumID: q.ID, Evidence: "reset"}
			if err := r.m.Accuse(r.now, a); err != nil {
				t.Fatal(err)
			}
		}
		r.probes()
		for _, id := range last {
			r.fall(id, quorum.Fact{Kind: quorum.Refused, Step: r.pos[id].Step + 1, QuorumID: q.ID})
		}
		r.wait(time.Minute)
		r.mustForm()
	}
	if slices.Contains(last, "a") && slices.Contains(last, "b") {
		t.Errorf("a and b are still in one quorum: %v", last)
	}
	if len(last) != 3 || !slices.Contains(last, "c") || !slices.Contains(last, "d") {
		t.Errorf("quorum of %v, want three with c and d", last)
	}
}

// Q10: no decision lacks a live holder of the highest position.
func TestQ10_NoDecisionWithoutAHolder(t *testing.T) {
	t.Parallel()
	theWalks().check(t, "Q10 C4", "walks")
	r := standing(t, rules(1), "a", "b", "c")
	r.commit("a", "b", "c")
	r.beat()
	r.commit("c")
	r.beat()
	for _, id := range []quorum.ReplicaID{"a", "b"} {
		r.fall(id, quorum.Fact{Kind: quorum.GaveUp, Step: 2, QuorumID: r.in[id].QuorumID})
	}
	r.wait(time.Minute)
	if d := r.m.Decide(r.now); d.Ready {
		t.Fatalf("formed %v without c, which holds step 2 (%v)", idsOf(&d.Quorum), d.Reason)
	}
	r.fall("c", quorum.Fact{})
	if q := r.mustForm("a", "b", "c"); maxPosition(q).Step != 2 {
		t.Errorf("the quorum is at %v, want step 2", maxPosition(q))
	}
}
