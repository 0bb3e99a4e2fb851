package quorum_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// breaks has all of q's members that are up join again, after the accusations that
// say names, and forms what follows as soon as that can be. It returns for how long
// that took.
func (s *scene) breaks(q *quorum.Quorum, ids string, says ...quorum.Accusation) time.Duration {
	s.t.Helper()
	began := s.now
	for _, a := range says {
		a.QuorumID = q.ID
		if err := s.Accuse(s.now, a); err != nil {
			s.t.Fatal(err)
		}
	}
	for _, id := range ids {
		j := skerryJoin(quorum.ReplicaID(id), uint64(q.ID))
		j.Last = &quorum.LastAnswer{QuorumID: q.ID, Round: q.Round, Members: q.Members}
		j.Fact = quorum.Fact{Kind: quorum.Refused, Step: 1, QuorumID: q.ID}
		s.join(j)
	}
	for range 2000 {
		if d := s.Decide(s.now); d.Ready {
			*q = s.Form(s.now, d, quorum.Token{1}, 1)
			return s.now.Sub(began)
		}
		s.now = s.now.Add(10 * time.Millisecond)
		for _, id := range []quorum.ReplicaID{"a", "b", "c"} {
			if err := s.Beat(s.now, id, quorum.Beat{QuorumID: q.ID}); err != nil {
				s.t.Fatal(err)
			}
		}
		s.Advance(s.now)
	}
	s.t.Fatalf("no quorum after 20 s: %v", s.Decide(s.now).Reason)
	return 0
}

func differs(by, against quorum.ReplicaID) quorum.Accusation {
	return quorum.Accusation{By: by, Against: against, Kind: quorum.AccusedOdd, Evidence: "called something else"}
}

// L1: quorums that commit nothing follow each other ever more slowly; the first
// retry is free, and a commit ends the pause.
func TestL1_APauseBetweenQuorumsThatCommitNothing(t *testing.T) {
	t.Parallel()
	s, q := standingScene(t, "a", "b", "c")
	var took []time.Duration
	for range 4 {
		took = append(took, s.breaks(&q, "abc"))
	}
	want := []time.Duration{0, quorum.PauseFirst, 2 * quorum.PauseFirst, 4 * quorum.PauseFirst}
	for i, d := range took {
		if d < want[i] || d > want[i]+20*time.Millisecond {
			t.Errorf("quorum %d came after %v, want %v", i+2, d, want[i])
		}
	}
	for _, id := range []quorum.ReplicaID{"a", "b", "c"} { // a commit
		j := skerryJoin(id, uint64(q.ID))
		j.Member.Position = quorum.Position{Cluster: "x", Step: 1, QuorumID: q.ID}
		j.LastDigests = []quorum.Digest{{Valid: true, Sum: 1}}
		j.Last = &quorum.LastAnswer{QuorumID: q.ID, Round: q.Round, Members: q.Members}
		s.join(j)
	}
	if d := s.Decide(s.now); !d.Ready {
		t.Errorf("after a commit: %v, want a quorum at once", d.Reason)
	}
}

// L1: who calls other collectives than the others is refused at its second time,
// whoever says so first; it comes back by itself, and is refused for longer then.
func TestL1_TheOddOneIsRefused(t *testing.T) {
	t.Parallel()
	for odd, says := range map[quorum.ReplicaID][]quorum.Accusation{
		"a": {differs("a", "c"), differs("b", "a")}, // more differ from it than from any other
		"c": {differs("c", "a")},                    // nothing but the order of names is known
	} {
		s, q := standingScene(t, "a", "b", "c")
		s.breaks(&q, "abc", says...)
		if len(q.Members) != 3 {
			t.Fatalf("odd %s: %d members after its first time, want 3", odd, len(q.Members))
		}
		if took := s.breaks(&q, "abc", says...); took > 0 || len(q.Members) != 2 ||
			slices.Contains(idsOf(&q), odd) {
			t.Errorf("odd %s: %v after %v, want the other two at once", odd, idsOf(&q), took)
		}
		if r := stateOf(s, odd); r.State != quorum.StateRefused || r.Why == "" {
			t.Errorf("odd %s: %s (%s), want refused, and why", odd, r.State, r.Why)
		}
		s.pass(quorum.RefusedFirst+time.Second, "a", "b", "c")
		if r := stateOf(s, odd); r.State != quorum.StateJoined {
			t.Errorf("odd %s: %s after its time, want joined", odd, r.State)
		}
	}
}

// L1: who is odd is judged of all that is said of a quorum, whoever says it first. An
// odd newcomer names an innocent one, of whose name a refusal is remembered, and only
// then the others name the odd one: the innocent one stays. (It was refused as well,
// each time for as long as the odd one: they came back together, and it never trained.)
func TestL1_TheInnocentIsNotRefusedWithTheOddOne(t *testing.T) {
	t.Parallel()
	const old, again = quorum.ReplicaID("c:00000000-0000-4000-8000-000000000001"), quorum.ReplicaID("c:00000000-0000-4000-8000-000000000002")
	s, q := standingScene(t, "b")
	at := quorum.Position{Cluster: "x", Step: 100, QuorumID: q.ID}
	meet := func(in ...quorum.ReplicaID) { // b lets them in
		t.Helper()
		s.open(in...)
		for _, id := range in {
			s.join(skerryJoin(id, uint64(q.ID)))
		}
		ask := falls("b", uint64(q.ID), &q, at)
		ask.Kind, ask.Fact = quorum.JoinAsk, quorum.Fact{}
		s.join(ask)
		s.pass(time.Second, append(in, "b")...)
		q = s.form()
	}
	breaks := func(says ...quorum.Accusation) {
		t.Helper()
		in := idsOf(&q)
		for _, a := range says {
			a.QuorumID = q.ID
			if err := s.Accuse(s.now, a); err != nil {
				t.Fatal(err)
			}
		}
		for _, id := range in {
			p := at
			if id != "b" {
				p = quorum.Position{}
			}
			s.join(falls(id, uint64(q.ID), &q, p))
		}
		if !s.formSoon(&q, 20*time.Second, in...) {
			t.Fatalf("no quorum follows: %v", s.Decide(s.now).Reason)
		}
	}
	meet(old)
	breaks(differs("b", old))
	breaks(differs("b", old))
	if ids := idsOf(&q); len(ids) != 1 {
		t.Fatalf("members %v, want b alone", ids)
	}
	s.pass(quorum.RefusedFirst+5*time.Second, "b") // c is started anew, and is well
	meet("a", again)
	s.Events()
	breaks(differs("a", again), differs("b", "a"), differs(again, "a"))
	if ids := idsOf(&q); !slices.Contains(ids, again) {
		t.Errorf("members %v, want c among them: only a is odd", ids)
	}
	var told []string
	for _, e := range s.Events() {
		if e.Kind == quorum.EventRefused || e.Kind == quorum.EventCleared {
			told = append(told, fmt.Sprintf("%v %s", e.Kind, e.ReplicaID[:1]))
		}
	}
	if want := []string{"refused c", "suspicion cleared c"}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
}

// L1: one that has trained alone, and calls other collectives than the others, is the odd
// one for b, which brings what is newest. That it differs from c as well, which has nothing
// to show yet, does not make c odd. (Both were refused, and came back together.)
func TestL1_WhoDiffersFromTheOddOneAloneIsNotRefused(t *testing.T) {
	t.Parallel()
	s, q := standingScene(t, "a")
	alone := quorum.Position{Cluster: "x", Step: 3, QuorumID: q.ID}
	if err := s.Beat(s.now, "a", quorum.Beat{QuorumID: q.ID, Position: alone}); err != nil {
		t.Fatal(err)
	}
	at := map[quorum.ReplicaID]quorum.Position{"a": alone, "b": {Cluster: "x", Step: 100, QuorumID: q.ID}}
	s.open("b", "c")
	joins := func(kind quorum.JoinKind) {
		for _, id := range []quorum.ReplicaID{"a", "b", "c"} {
			j := falls(id, uint64(q.ID), &q, at[id])
			if kind == quorum.JoinAsk && id == "a" {
				j.Kind, j.Fact = kind, quorum.Fact{}
			}
			s.join(j)
		}
	}
	joins(quorum.JoinAsk)
	s.pass(time.Second, "a", "b", "c")
	q = s.form()
	for range 2 {
		if ids := idsOf(&q); len(ids) != 3 {
			t.Fatalf("members %v, want all three", ids)
		}
		for _, a := range []quorum.Accusation{differs("b", "a"), differs("c", "a")} {
			a.QuorumID = q.ID
			if err := s.Accuse(s.now, a); err != nil {
				t.Fatal(err)
			}
		}
		joins(quorum.JoinFall)
		if !s.formSoon(&q, 20*time.Second, "a", "b", "c") {
			t.Fatalf("no quorum follows: %v", s.Decide(s.now).Reason)
		}
	}
	if ids := idsOf(&q); !slices.Equal(ids, []quorum.ReplicaID{"b", "c"}) {
		t.Errorf("members %v, want b and c: only a is odd", ids)
	}
}

// Of two the newcomer is refused: the one that was there trains on.
func TestL1_OfTwoTheNewcomerIsRefused(t *testing.T) {
	t.Parallel()
	s, q := standingScene(t, "b")
	s.open("a")
	s.join(skerryJoin("a", 1))
	s.pass(2*time.Second, "a", "b")
	s.breaks(&q, "b")
	for range 2 {
		s.breaks2(&q, differs("b", "a"), differs("a", "b"))
	}
	if ids := idsOf(&q); !slices.Equal(ids, []quorum.ReplicaID{"b"}) {
		t.Errorf("members %v, want b alone, which was there first", ids)
	}
}

// breaks2 is breaks for a and b.
func (s *scene) breaks2(q *quorum.Quorum, says ...quorum.Accusation) {
	s.t.Helper()
	s.open("c") // breaks beats for three
	s.breaks(q, "ab", says...)
}

// A replica whose heal fails in two quorums is refused for a while.
func TestL1_WhoDoesNotHealIsRefused(t *testing.T) {
	t.Parallel()
	s, q := standingScene(t, "a", "b", "c")
	fails := quorum.Accusation{By: "c", Against: "c", Kind: quorum.AccusedUnhealed, Evidence: "no space left"}
	s.breaks(&q, "abc", fails)
	s.breaks(&q, "abc", fails)
	if ids := idsOf(&q); slices.Contains(ids, "c") {
		t.Errorf("members %v, want none that does not heal", ids)
	}
	if r := stateOf(s, "c"); r.State != quorum.StateRefused {
		t.Errorf("c is %s, want refused", r.State)
	}
}

// L1: nobody waits for a replica that is refused and has not joined, where the others
// know what became of their step; and its word is waited for where nobody else knows.
func TestL1_NobodyWaitsForTheRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fact quorum.FactKind
		want []string
	}{
		{quorum.Refused, []string{"a", "b"}},
		{quorum.GaveUp, nil},
	} {
		s, q := standingScene(t, "a", "b", "c")
		unhealed := quorum.Accusation{By: "c", Against: "c", Kind: quorum.AccusedUnhealed, Evidence: "its heal failed"}
		s.breaks(&q, "abc", unhealed) // once is no refusal
		unhealed.QuorumID = q.ID
		if err := s.Accuse(s.now, unhealed); err != nil {
			t.Fatal(err)
		}
		for _, id := range []quorum.ReplicaID{"a", "b"} {
			j := skerryJoin(id, uint64(q.ID)+1)
			j.Last = &quorum.LastAnswer{QuorumID: q.ID, Round: q.Round, Members: q.Members}
			j.Fact = quorum.Fact{Kind: c.fact, Step: 1, QuorumID: q.ID}
			s.join(j)
		}
		d := s.Decide(s.now)
		var got []string
		for _, m := range d.Quorum.Members {
			got = append(got, string(m.ReplicaID))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: the next quorum is of %v, want %v: %v", c.fact, got, c.want, d.Reason)
		}
	}
}
