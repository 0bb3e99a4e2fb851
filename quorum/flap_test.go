package quorum_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

func stateOf(s *scene, id quorum.ReplicaID) quorum.ReplicaStatus {
	for _, r := range s.Status(s.now).Replicas {
		if r.ReplicaID == id {
			return r
		}
	}
	return quorum.ReplicaStatus{}
}

// ask makes the named ask for the next quorum, as members do after a commit.
func (s *scene) ask(number uint64, last *quorum.Quorum, ids ...quorum.ReplicaID) {
	s.t.Helper()
	for _, id := range ids {
		j := skerryJoin(id, number)
		j.Kind = quorum.JoinAsk
		j.Last = &quorum.LastAnswer{Cluster: last.Cluster, QuorumID: last.ID, Round: last.Round, Members: last.Members}
		s.join(j)
	}
}

// A replica that is lost soon after each time it was let in waits longer each
// time, while the others' quorum stands, under whatever incarnation it comes; it
// is let in at once when there is no quorum to disturb. One that leaves by itself
// each time, as a program does that ends with an error, costs them as much.
func TestProbation(t *testing.T) {
	t.Parallel()
	t.Run("crashes", func(t *testing.T) {
		probation(t, func(s *scene, id quorum.ReplicaID) {
			s.Broken(s.now, id, "crashed", false)
			s.pass(2*time.Second, "a", "b")
		})
	})
	t.Run("leaves", func(t *testing.T) {
		probation(t, func(s *scene, id quorum.ReplicaID) { s.Leave(s.now, id, "its program failed") })
	})
}

func probation(t *testing.T, end func(*scene, quorum.ReplicaID)) {
	t.Helper()
	c := quorum.DefaultConfig()
	c.ProbationAfter = 2
	s := newScene(t, c)
	s.open("a", "b")
	s.join(skerryJoin("a", 1))
	s.join(skerryJoin("b", 1))
	s.pass(2*time.Second, "a", "b")
	q := s.form()
	number := uint64(1)
	ids := []quorum.ReplicaID{
		"c:00000000-0000-0000-0000-000000000001", "c:00000000-0000-0000-0000-000000000002",
		"c:00000000-0000-0000-0000-000000000003", "c:00000000-0000-0000-0000-000000000004",
	}
	wait := []time.Duration{0, 0, 2 * time.Second, 4 * time.Second}
	for i, id := range ids {
		s.open(id)
		s.join(skerryJoin(id, 1))
		st := stateOf(s, id)
		if held := st.State == quorum.StateProbation; held != (wait[i] > 0) {
			t.Fatalf("incarnation %d is %s (%s), want it held: %v", i, st.State, st.Why, wait[i] > 0)
		}
		if wait[i] > 0 {
			if !strings.Contains(st.Why, "lost "+string(rune('0'+i))+" times in a row") {
				t.Errorf("incarnation %d waits because: %s", i, st.Why)
			}
			number++
			s.ask(number, &q, "a", "b")
			if again := s.form(); again.ID != q.ID {
				t.Fatalf("quorum %d let in %s, which is on probation", again.ID, id)
			}
			s.pass(wait[i], "a", "b", id)
		}
		number++
		s.ask(number, &q, "a", "b")
		if q = s.form(); len(q.Members) != 3 {
			t.Fatalf("incarnation %d: quorum %d has %d members, want it let in", i, q.ID, len(q.Members))
		}
		end(s, id)
		for _, other := range []quorum.ReplicaID{"a", "b"} {
			j := skerryJoin(other, number+1)
			j.Last = &quorum.LastAnswer{Cluster: q.Cluster, QuorumID: q.ID, Round: q.Round, Members: q.Members}
			s.join(j)
		}
		number++
		q = s.form()
	}
	last := quorum.ReplicaID("c:00000000-0000-0000-0000-000000000005")
	s.open(last)
	s.join(skerryJoin(last, 1))
	s.Broken(s.now, "b", "crashed", false)
	s.pass(2*time.Second, "a", last)
	j := skerryJoin("a", number+1)
	j.Last = &quorum.LastAnswer{Cluster: q.Cluster, QuorumID: q.ID, Round: q.Round, Members: q.Members}
	s.join(j)
	if q = s.form(); !slices.ContainsFunc(q.Members, func(m quorum.Member) bool { return m.ReplicaID == last }) {
		t.Errorf("quorum %d is without %s, though none stood", q.ID, last)
	}
}

// A long membership is forgiven, and so is any loss where probation is off.
func TestProbationForgives(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after int
		stays time.Duration
	}{"long membership": {1, quorum.ShortMembership}, "off": {0, time.Second}} {
		cfg := quorum.DefaultConfig()
		cfg.ProbationAfter = c.after
		s := newScene(t, cfg)
		s.open("a", "b")
		s.join(skerryJoin("a", 1))
		s.join(skerryJoin("b", 1))
		s.pass(2*time.Second, "a", "b")
		q := s.form()
		s.pass(c.stays, "a", "b")
		s.Broken(s.now, "b", "crashed", false)
		s.pass(2*time.Second, "a")
		j := skerryJoin("a", 2)
		j.Last = &quorum.LastAnswer{Cluster: q.Cluster, QuorumID: q.ID, Round: q.Round, Members: q.Members}
		s.join(j)
		s.form()
		s.open("b")
		s.join(skerryJoin("b", 2))
		if st := stateOf(s, "b"); st.State != quorum.StateJoined {
			t.Errorf("%s: b is %s (%s), want joined", name, st.State, st.Why)
		}
	}
}

// What is stuck is measured by the job's own steps where they are long.
func TestStuckByPace(t *testing.T) {
	t.Parallel()
	c := quorum.DefaultConfig()
	c.StuckAfter = 5 * time.Second
	s := newScene(t, c)
	s.open("a", "b")
	s.join(skerryJoin("a", 1))
	s.join(skerryJoin("b", 1))
	s.pass(2*time.Second, "a", "b")
	q := s.form()
	var waiter quorum.ReplicaID
	beat := func(step int64, progress uint64, ids ...quorum.ReplicaID) {
		for _, id := range ids {
			b := quorum.Beat{Position: quorum.Position{Cluster: "x", Step: step, QuorumID: q.ID}, QuorumID: q.ID,
				Phase: quorum.PhaseTraining, Progress: progress, Waits: id == waiter}
			if err := s.Beat(s.now, id, b); err != nil {
				t.Fatal(err)
			}
		}
	}
	train := func(d time.Duration, step int64) {
		for end := s.now.Add(d); s.now.Before(end); {
			s.now = s.now.Add(100 * time.Millisecond)
			beat(step, uint64(step), "a", "b")
		}
	}
	for step := range int64(8) {
		train(2*time.Second, step)
	}
	st := s.Status(s.now)
	if st.StepTime != 2*time.Second || st.StuckAfter != 20*time.Second {
		t.Fatalf("a step takes %v, stuck after %v; want 2s and 20s", st.StepTime, st.StuckAfter)
	}
	waiter = "a"
	train(18*time.Second, 7)
	if got := stateOf(s, "b"); got.State == quorum.StateStuck {
		t.Errorf("b is stuck after 20 s less the step that it last made")
	}
	train(4*time.Second, 7)
	if got := stateOf(s, "b"); got.State != quorum.StateStuck {
		t.Errorf("b is %s after 22 s without progress, want stuck", got.State)
	}
}

// A member that drains, and joins while the quorum without it is being written,
// is told that it is out; nobody waits for a timeout (C7).
func TestDrainingMemberThatJoinsLateIsAnswered(t *testing.T) {
	t.Parallel()
	s, q := standingScene(t, "a", "b", "c")
	if err := s.Drain(s.now, "c", "test"); err != nil {
		t.Fatal(err)
	}
	s.ask(7, &q, "a", "b")
	d := s.Decide(s.now)
	if !d.Ready {
		t.Fatalf("no decision: %v", d.Reason)
	}
	s.ask(7, &q, "c") // raft writes
	next := s.Form(s.now, d, quorum.Token{1}, 1)
	again := s.Decide(s.now)
	if !again.Ready || again.Changed || len(again.Answers) != 1 || again.Answers[0].ReplicaID != "c" || again.Quorum.ID != next.ID {
		t.Fatalf("decision after it: %+v, want c told of quorum %d", again, next.ID)
	}
	s.Form(s.now, again, quorum.Token{}, 0)
	if d := s.Decide(s.now); d.Ready {
		t.Errorf("c is told once more: %v", d.Reason)
	}
}
