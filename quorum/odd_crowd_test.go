package quorum_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// falls is the join of a member of q at position at whose quorum fell, and who
// refused the step under way.
func falls(id quorum.ReplicaID, number uint64, q *quorum.Quorum, at quorum.Position) quorum.Join {
	j := skerryJoin(id, number)
	j.Member.Position = at
	if at.Step > 0 {
		j.LastDigests = []quorum.Digest{{Valid: true, Sum: 1}}
	}
	j.Last = &quorum.LastAnswer{Cluster: "x", QuorumID: q.ID, Round: q.Round, Members: q.Members}
	j.Fact = quorum.Fact{Kind: quorum.Refused, Step: at.Step + 1, QuorumID: q.ID}
	return j
}

// formSoon forms what can be formed within limit, while those in up are heard; false
// if nothing can.
func (s *scene) formSoon(q *quorum.Quorum, limit time.Duration, up ...quorum.ReplicaID) bool {
	s.t.Helper()
	for end := s.now.Add(limit); s.now.Before(end); s.now = s.now.Add(100 * time.Millisecond) {
		for _, id := range up {
			if err := s.Beat(s.now, id, quorum.Beat{QuorumID: q.ID, Waits: true}); err != nil {
				s.t.Fatal(err)
			}
		}
		s.Advance(s.now)
		if d := s.Decide(s.now); d.Ready {
			*q = s.Form(s.now, d, quorum.Token{1}, 1)
			return true
		}
	}
	return false
}

// accuseAll has each of by accuse each of against in quorum q.
func (s *scene) accuseAll(q *quorum.Quorum, kind quorum.AccusationKind, by, against []quorum.ReplicaID) {
	s.t.Helper()
	for _, b := range by {
		for _, a := range against {
			err := s.Accuse(s.now, quorum.Accusation{
				By: b, Against: a, QuorumID: q.ID, Kind: kind, Evidence: "called something else",
			})
			if err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// L1: a crowd of newcomers of another version does not stop the one that trains,
// though more differ from it than from any of them.
func TestL1_ACrowdOfOddNewcomersStopsNobody(t *testing.T) {
	t.Parallel()
	s, q := standingScene(t, "a")
	at := quorum.Position{Cluster: "x", Step: 100, QuorumID: q.ID}
	others := []quorum.ReplicaID{"b", "c", "d"}
	s.open(others...)
	for i, id := range others {
		s.join(skerryJoin(id, uint64(i+1)))
	}
	ask := falls("a", 9, &q, at)
	ask.Kind, ask.Fact = quorum.JoinAsk, quorum.Fact{}
	s.join(ask)
	s.pass(2*time.Second, "a", "b", "c", "d")
	q = s.form()
	for meetings := 0; ; meetings++ {
		in := idsOf(&q)
		odd := slices.DeleteFunc(slices.Clone(in), func(id quorum.ReplicaID) bool { return id == "a" })
		if len(odd) == 0 {
			return // it trains on
		}
		if meetings == 2 {
			t.Fatalf("members %v after two quorums that the newcomers broke, want a alone", in)
		}
		s.accuseAll(&q, quorum.AccusedOdd, []quorum.ReplicaID{"a"}, odd)
		s.accuseAll(&q, quorum.AccusedOdd, odd, []quorum.ReplicaID{"a"})
		for i, id := range in {
			where := quorum.Position{}
			if id == "a" {
				where = at
			}
			s.join(falls(id, uint64(20+10*meetings+i), &q, where))
		}
		if !s.formSoon(&q, time.Minute, "a", "b", "c", "d") {
			t.Fatalf("no quorum in a minute: %v", s.Decide(s.now).Reason)
		}
	}
}

// L1: in a job of three hundred, too, the odd one is refused at its second time:
// whatever all others say of it fits.
func TestL1_TheOddOneOfThreeHundred(t *testing.T) {
	t.Parallel()
	ids := make([]quorum.ReplicaID, 300)
	for i := range ids {
		ids[i] = quorum.ReplicaID(fmt.Sprintf("r%03d", i))
	}
	for _, odd := range []int{0, 150, 299} {
		s, q := standingScene(t, ids...)
		for range 2 {
			rest := slices.Delete(slices.Clone(ids), odd, odd+1)
			s.accuseAll(&q, quorum.AccusedOdd, rest, ids[odd:odd+1])
			for _, id := range ids {
				s.join(falls(id, uint64(q.ID), &q, quorum.Position{}))
			}
			if !s.formSoon(&q, time.Minute, ids...) {
				t.Fatalf("no quorum in a minute: %v", s.Decide(s.now).Reason)
			}
		}
		if len(q.Members) != 299 || slices.Contains(idsOf(&q), ids[odd]) {
			t.Errorf("%d members after two quorums that %s broke, want all but it", len(q.Members), ids[odd])
		}
	}
}

// L1: what is remembered of hundreds of names does not keep the next one from being
// refused.
func TestL1_WhatIsRememberedMakesRoom(t *testing.T) {
	t.Parallel()
	s, q := standingScene(t, "a", "b", "d")
	at := quorum.Position{}
	for i := range 300 {
		id := quorum.ReplicaID(fmt.Sprintf("x%03d", i))
		s.open(id)
		s.join(skerryJoin(id, 1))
		s.ask(uint64(10+4*i), &q, "a", "b", "d")
		q = s.form()
		s.accuseAll(&q, quorum.AccusedUnhealed, []quorum.ReplicaID{id}, []quorum.ReplicaID{id})
		s.Leave(s.now, id, "")
		for _, o := range []quorum.ReplicaID{"a", "b", "d"} {
			s.join(falls(o, uint64(11+4*i), &q, at))
		}
		if !s.formSoon(&q, time.Minute, "a", "b", "d") {
			t.Fatalf("no quorum in a minute: %v", s.Decide(s.now).Reason)
		}
	}
	for i := range 2 {
		s.accuseAll(&q, quorum.AccusedUnhealed, []quorum.ReplicaID{"d"}, []quorum.ReplicaID{"d"})
		for _, o := range []quorum.ReplicaID{"a", "b", "d"} {
			s.join(falls(o, uint64(5000+i), &q, at))
		}
		if !s.formSoon(&q, time.Minute, "a", "b", "d") {
			t.Fatalf("no quorum in a minute: %v", s.Decide(s.now).Reason)
		}
	}
	if r := stateOf(s, "d"); r.State != quorum.StateRefused {
		t.Errorf("d has not healed in two quorums and is %s, want refused", r.State)
	}
}

// L1: one that comes, does not heal and says goodbye, each time started anew, is
// known by its name.
func TestL1_WhoLeavesInOrderIsTheSameReplica(t *testing.T) {
	t.Parallel()
	s, q := standingScene(t, "a", "b")
	in, began := 0, s.now
	for i := range 30 {
		id := quorum.ReplicaID(fmt.Sprintf("c:00000000-0000-0000-0000-%012d", i))
		s.open(id)
		s.join(skerryJoin(id, 1))
		s.pass(200*time.Millisecond, "a", "b", id)
		if stateOf(s, id).State == quorum.StateJoined {
			in++
			s.ask(uint64(10+4*i), &q, "a", "b")
			q = s.form()
			s.accuseAll(&q, quorum.AccusedUnhealed, []quorum.ReplicaID{id}, []quorum.ReplicaID{id})
		}
		s.Leave(s.now, id, "")
		for _, o := range []quorum.ReplicaID{"a", "b"} {
			s.join(falls(o, uint64(11+4*i), &q, quorum.Position{}))
		}
		if !s.formSoon(&q, time.Minute, "a", "b") {
			t.Fatalf("no quorum in a minute: %v", s.Decide(s.now).Reason)
		}
	}
	if in > 10 { // twice for nothing, then after 2 s, 4 s, …
		t.Errorf("let in %d of 30 times in %v, each of which cost a step and two quorums", in, s.now.Sub(began))
	}
}

// One that leaves soon after it was let in, again and again, whatever it says, is on
// probation, unless it was told to.
func TestL1_GoodbyesAreFlaps(t *testing.T) {
	t.Parallel()
	for _, drains := range []bool{false, true} {
		c := quorum.DefaultConfig()
		c.ProbationAfter = 3
		s := newScene(t, c)
		s.open("a")
		s.join(skerryJoin("a", 1))
		s.pass(2*time.Second, "a")
		q := s.form()
		var last quorum.ReplicaID
		for i := range 4 {
			last = quorum.ReplicaID(fmt.Sprintf("c:00000000-0000-0000-0000-%012d", i))
			s.open(last)
			s.join(skerryJoin(last, 1))
			if i == 3 {
				break
			}
			s.ask(uint64(10+4*i), &q, "a")
			q = s.form()
			if drains {
				if err := s.Drain(s.now, last, "scaled down"); err != nil {
					t.Fatal(err)
				}
			}
			s.Leave(s.now, last, "")
			s.join(falls("a", uint64(11+4*i), &q, quorum.Position{}))
			if !s.formSoon(&q, time.Minute, "a") {
				t.Fatalf("no quorum in a minute: %v", s.Decide(s.now).Reason)
			}
		}
		want := quorum.StateProbation
		if drains {
			want = quorum.StateJoined
		}
		if r := stateOf(s, last); r.State != want {
			t.Errorf("told to drain %t: after three short memberships it is %s, want %s", drains, r.State, want)
		}
	}
}

// Two blunders with commits between them are not two quorums since the last commit.
func TestL1_ACommitForgives(t *testing.T) {
	t.Parallel()
	s, q := standingScene(t, "a", "b", "c")
	s.breaks(&q, "abc", differs("a", "c"))
	at := quorum.Position{Cluster: "x", Step: 100, QuorumID: q.ID}
	for _, id := range []quorum.ReplicaID{"a", "b", "c"} {
		if err := s.Beat(s.now, id, quorum.Beat{QuorumID: q.ID, Position: at}); err != nil {
			t.Fatal(err)
		}
	}
	s.accuseAll(&q, quorum.AccusedOdd, []quorum.ReplicaID{"b"}, []quorum.ReplicaID{"c"})
	for _, id := range []quorum.ReplicaID{"a", "b", "c"} {
		s.join(falls(id, 5000, &q, at))
	}
	if r := stateOf(s, "c"); r.State == quorum.StateRefused {
		t.Errorf("c is refused (%s) for its first odd quorum since 100 commits", r.Why)
	}
}

// L3: a newcomer that does not reach a member does not take its place, alone or with
// others of its kind.
func TestL3_NewcomersWithBadLinksPushNobodyOut(t *testing.T) {
	t.Parallel()
	for _, newcomers := range [][]quorum.ReplicaID{{"a"}, {"a", "aa", "ab"}} {
		s, q := standingScene(t, "b", "c", "d")
		for i, id := range newcomers {
			s.open(id)
			s.join(skerryJoin(id, uint64(i+1)))
			if err := s.Link(s.now, quorum.LinkReport{By: id, To: "d", Evidence: "no route"}); err != nil {
				t.Fatal(err)
			}
		}
		all := append(slices.Clone(newcomers), "b", "c", "d")
		s.pass(2*time.Second, all...)
		for _, id := range []quorum.ReplicaID{"b", "c", "d"} { // the quorum falls, say for an operation's deadline
			s.join(falls(id, 7, &q, quorum.Position{}))
		}
		if !s.formSoon(&q, time.Minute, all...) {
			t.Fatalf("no quorum in a minute: %v", s.Decide(s.now).Reason)
		}
		if ids := idsOf(&q); !slices.Equal(ids, []quorum.ReplicaID{"b", "c", "d"}) {
			t.Errorf("newcomers %v: members %v, want b, c and d, which reach each other", newcomers, ids)
		}
	}
}

// C2: one that has healed sees, as all others do, that two members have no step in
// common.
func TestC2_AHealedMemberSeesThatOthersAreApart(t *testing.T) {
	t.Parallel()
	d := quorum.Digest{Valid: true, Sum: 1}
	at := func(step int64, healed bool) *quorum.Ballot {
		return &quorum.Ballot{
			QuorumID: 4, Round: 1, Position: quorum.Position{Cluster: "x", Step: step, QuorumID: 3},
			OK: true, Reduced: true, Healed: healed, Digest: d,
		}
	}
	for own := range 3 {
		v := quorum.JudgeBallots(own, []*quorum.Ballot{at(5, false), at(6, false), at(6, true)})
		if v.Vote != quorum.VoteNo || !v.Broken {
			t.Errorf("rank %d votes %v (%s), broken %t, want a no that breaks the group", own, v.Vote, v.Reason, v.Broken)
		}
	}
}
