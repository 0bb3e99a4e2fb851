package checker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// bench is a checker with one book, in which three replicas run in quorum 1 and
// all have joined again.
type bench struct {
	c      *Checker
	b      *Book
	now    int64
	failed map[string]string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	h := &bench{failed: map[string]string{}}
	h.c = New(World{
		Clock: func() int64 { return h.now },
		Fail: func(rule, format string, args ...any) {
			if _, ok := h.failed[rule]; !ok {
				h.failed[rule] = fmt.Sprintf(format, args...)
			}
		},
		BeatEvery: beatEvery, ParityEvery: parityEvery,
	})
	cfg := quorum.DefaultConfig()
	cfg.MinReplicas = 2
	last := h.formed(1, "a", "b", "c")
	h.c.Written(0, quorum.Formed{Quorum: *last})
	h.b = h.c.NewBook(0, cfg, quorum.Ledger{Last: last})
	for _, m := range last.Members {
		h.b.Opened(0, string(m.ReplicaID), m.Position)
		h.b.Beat(0, string(m.ReplicaID), m.Position)
	}
	return h
}

// Times of the bench's world.
const (
	beatEvery   = 100 * time.Millisecond
	parityEvery = 4
)

func at(step, id int64) quorum.Position { return quorum.Position{Step: step, QuorumID: id} }

func (h *bench) formed(id int64, members ...string) *quorum.Quorum {
	q := &quorum.Quorum{ID: id, Round: 1}
	for _, m := range members {
		q.Members = append(q.Members, quorum.Member{ReplicaID: quorum.ReplicaID(m), Position: at(5, 1)})
	}
	return q
}

// joins makes replicas join with a fall from quorum 1.
func (h *bench) joins(ids ...string) {
	for _, id := range ids {
		h.b.Joined(0, &quorum.Join{
			Member: quorum.Member{ReplicaID: quorum.ReplicaID(id), Position: at(5, 1)},
			Kind:   quorum.JoinFall, Number: 1, Last: &quorum.LastAnswer{QuorumID: 1},
		})
	}
}

// partTwo has the link of a and b break in quorums 1 and 2, and both join.
func (h *bench) partTwo() {
	h.b.Accused(0, "a", "b", 1, false)
	h.joins("a", "b", "c")
	h.tell(h.formed(2, "a", "b", "c"), "a", "b", "c")
	h.b.Accused(0, "b", "a", 2, false)
	h.joins("a", "b")
	h.b.falls(0, true)
}

// tell releases a changed quorum.
func (h *bench) tell(q *quorum.Quorum, answers ...string) {
	h.tellAt(0, q, answers...)
}

func (h *bench) tellAt(now time.Duration, q *quorum.Quorum, answers ...string) {
	r := Release{Floor: Answer{1, 1}, Changed: true, Quorum: q}
	for _, id := range answers {
		r.Answers = append(r.Answers, quorum.Answered{ReplicaID: quorum.ReplicaID(id), Number: 1})
	}
	h.b.Decided(now, true, q)
	h.c.Released(h.b, now, r)
}

// plant is a violation, or with no rule none.
type plant struct {
	name, rule string
	plant      func(h *bench)
}

// plantsOfQuorums violate the first of the rules.
func plantsOfQuorums() []plant {
	return []plant{
		{"nothing wrong", "", func(h *bench) {
			h.joins("a", "b", "c")
			h.tell(h.formed(2, "a", "b", "c"), "a", "b", "c")
			h.b.TurnEnded(0, "")
		}},
		{"an id falls", "Q1", func(h *bench) { h.c.Written(1, quorum.Formed{Quorum: *h.formed(1, "a", "b", "c")}) }},
		{"an old answer is told again", "Q1", func(h *bench) {
			h.c.Released(h.b, 0, Release{Floor: Answer{3, 1}, Quorum: h.formed(1, "a", "b", "c")})
		}},
		{"a replica takes an older id", "Q1", func(h *bench) {
			h.c.TookAnswer("a", "a", h.formed(3, "a", "b"))
			h.c.TookAnswer("a", "a", h.formed(2, "a", "c"))
		}},
		{"one id, two lists", "Q2", func(h *bench) { h.c.TookAnswer("a", "a", h.formed(1, "a", "b")) }},
		{"two servers differ", "Q2", func(h *bench) { h.c.Written(0, quorum.Formed{Quorum: *h.formed(1, "a", "b")}) }},
		{"fewer than min", "Q3", func(h *bench) { h.joins("a"); h.tell(h.formed(2, "a"), "a") }},
		{"a member has not joined", "Q4", func(h *bench) { h.joins("a", "b"); h.tell(h.formed(2, "a", "b", "c"), "a", "b") }},
		{"somebody new, and nobody was to be let in", "Q6", func(h *bench) {
			h.b.Opened(0, "d", quorum.Position{})
			h.joins("a", "b", "d")
			h.b.all["d"].at, h.b.all["a"].shrink = Position{}, true
			h.tell(h.formed(2, "a", "b", "d"), "a", "b", "d")
		}},
		{"a minority", "Q5", func(h *bench) {
			for _, id := range []string{"d", "e"} {
				h.b.Opened(0, id, quorum.Position{})
			}
			h.joins("a", "b", "d", "e")
			h.tell(h.formed(2, "a", "b"), "a", "b")
		}},
		{"who is known dead", "Q7", func(h *bench) {
			h.joins("a", "b", "c")
			h.b.Broken(0, "c", false)
			h.b.Accused(1, "a", "c", 1, false)
			h.b.Happened(1, quorum.Event{Kind: quorum.EventLost, ReplicaID: "c"})
			h.b.all["c"].waits = true
			h.tell(h.formed(2, "a", "b", "c"), "a", "b", "c")
		}},
		{"who has long been silent", "Q7", func(h *bench) {
			h.joins("a", "b", "c")
			h.b.Beat(4*time.Second, "a", at(5, 1))
			h.b.Beat(4*time.Second, "b", at(5, 1))
			h.tellAt(4*time.Second, h.formed(2, "a", "b", "c"))
		}},
		{"the window stays open", "Q8", func(h *bench) { h.joins("a", "b", "c"); h.b.TurnEnded(time.Millisecond, "") }},
	}
}

// plantsOfLinks violate Q9, or seem to.
func plantsOfLinks() []plant {
	return []plant{
		{"a broken link again", "Q9", func(h *bench) {
			h.b.Accused(0, "a", "b", 1, false)
			h.joins("a", "b", "c")
			h.tell(h.formed(2, "a", "b", "c"), "a", "b", "c")
			h.b.Accused(0, "b", "a", 2, false)
			h.joins("a", "b", "c")
			h.tell(h.formed(3, "a", "b", "c"), "a", "b", "c")
		}},
		{"a broken link again, and enough without it", "Q9", func(h *bench) {
			h.partTwo()
			for _, id := range []string{"c", "d", "e"} {
				h.b.Opened(0, id, at(5, 1))
			}
			h.joins("c", "d", "e")
			h.tellAt(time.Minute/2, h.formed(3, "a", "b", "c", "d", "e"), "a")
		}},
		{"a link that could not be made, again", "Q9", func(h *bench) {
			h.b.Accused(0, "a", "b", 1, true)
			h.joins("a", "b", "c")
			h.tell(h.formed(2, "a", "b", "c"), "a", "b", "c")
		}},
		{"one that one of two ends still cannot make", "Q9", func(h *bench) {
			h.b.Accused(0, "a", "b", 1, true)
			h.b.Accused(0, "b", "a", 1, true)
			h.b.LinkReported(0, "a", "b", true)
			h.joins("a", "b", "c")
			h.tell(h.formed(2, "a", "b", "c"), "a", "b", "c")
		}},
		{"one that is said to hold", "", func(h *bench) {
			h.b.Accused(0, "a", "b", 1, true)
			h.b.LinkReported(0, "a", "b", true)
			h.joins("a", "b", "c")
			h.tell(h.formed(2, "a", "b", "c"), "a", "b", "c")
		}},
		{"one that was said not to, before its end was lost", "", func(h *bench) {
			h.b.Accused(0, "a", "b", 1, true)
			h.b.Left(0, "b")
			h.joins("a", "c")
			h.tell(h.formed(2, "a", "c"), "a", "c")
			h.b.Happened(0, quorum.Event{Kind: quorum.EventReturned, ReplicaID: "b"})
			h.b.Opened(0, "b", at(5, 1))
			h.b.LinkReported(0, "b", "a", false)
			h.b.LinkReported(0, "b", "a", true)
			h.joins("a", "b", "c")
			h.tell(h.formed(3, "a", "b", "c"), "a", "b", "c")
		}},
		{"a broken link again, too soon", "Q9", func(h *bench) {
			h.partTwo()
			h.tellAt(h.b.config.JoinTimeout-beatEvery-1, h.formed(3, "a", "b"), "a", "b")
		}},
		{"a broken link again, for there are too few", "", func(h *bench) {
			h.partTwo()
			h.b.Left(0, "c")
			for _, id := range []string{"a", "b"} {
				h.b.Beat(h.b.config.JoinTimeout, id, at(5, 1))
			}
			h.tellAt(h.b.config.JoinTimeout, h.formed(3, "a", "b"), "a", "b")
		}},
	}
}

// plantsOfCommits violate the others.
func plantsOfCommits() []plant {
	step := StepName{1, 1, 6, 0}
	return []plant{
		{"without the holder", "Q10", func(h *bench) {
			h.joins("a", "b")
			h.b.Beat(0, "c", at(6, 1))
			h.tell(h.formed(2, "a", "b"), "a", "b")
		}},
		{"a flipped bit lives on", "C1", func(h *bench) {
			h.c.BitFlipped(1, 3)
			h.c.ComparedStates("a", StepName{1, 1, 3 + parityEvery, 0}, []int{0, 1, 0})
		}},
		{"one of the majority is named", "C1", func(h *bench) { h.c.NamedDiffering("a", StepName{}, []int{0, 1, 0}, []int{0, 1}) }},
		{"who differs is not named", "C1", func(h *bench) { h.c.NamedDiffering("a", StepName{}, []int{0, 1, 2, 0, 0}, []int{1}) }},
		{"two bytes at one position of a line", "C1", func(h *bench) {
			h.c.world.Line = func(string, int) int { return 1 }
			h.c.Reached("a", 0, at(6, 1), 1)
			h.c.Reached("b", 0, at(6, 1), 2)
		}},
		{"two bytes at one position", "C1", func(h *bench) { h.c.Reached("a", 0, at(6, 1), 1); h.c.Reached("b", 0, at(6, 1), 2) }},
		{"a rank did not promise", "C2", func(h *bench) {
			h.c.Promised("a", step, 0)
			h.c.Committed("a", 0, step, 2, []string{"a"}, 1)
		}},
		{"a tally changes its mind", "C3", func(h *bench) { h.c.Tallied("a", 1, "prepared"); h.c.Tallied("a", 1, "commit") }},
		{"the highest position falls unsaid", "C4", func(h *bench) {
			h.b.Beat(0, "c", at(6, 1))
			h.b.Left(0, "c")
			h.joins("a", "b")
			h.tell(h.formed(2, "a", "b"), "a", "b")
			h.b.TurnEnded(0, "")
		}},
		{"data are shared out otherwise", "shares", func(h *bench) {
			h.c.SharedOut("a", &quorum.Shares{Rank: 0, Count: 3}, quorum.Shares{Rank: 0, Count: 2}, step)
		}},
		{"an innocent one is called odd", "odd", func(h *bench) { h.c.CalledOdd("a", "b", step) }},
		{"a vote is waited for that nobody owes", "C7", func(h *bench) { h.now = patience; h.c.WaitedForVote("a", 1, 2, patience/4) }},
		{"settled twice", "C6", func(h *bench) {
			h.c.settle(Settled{Position{6, 1}, true, "x"})
			h.c.settle(Settled{Position{6, 1}, false, ""})
		}},
		{"a committed step is discarded", "C6", func(h *bench) {
			h.joins("a", "b", "c")
			f := h.formed(2, "a", "b", "c")
			f.Settlement = quorum.Settlement{Outcome: quorum.Discard, Step: 5, QuorumID: 1}
			h.tell(f, "a", "b", "c")
		}},
		{"a deadline where the leader knew", "C7", func(h *bench) {
			h.joins("a")
			h.now = 3 * patience
			h.c.MissedDeadline(h.b, "b", 1, 0, "step")
		}},
		{"lost without a witness", "witness", func(h *bench) {
			h.b.Happened(1, quorum.Event{Kind: quorum.EventLost, ReplicaID: "a"})
		}},
	}
}

// plantsOfPromises are of C5: what became of a step that a replica had promised.
func plantsOfPromises() []plant {
	step := StepName{1, 1, 6, 0}
	return []plant{
		{"a prepared replica discards what is committed", "C5", func(h *bench) {
			h.c.Promised("a", step, 0)
			h.c.Committed("a", 0, step, 1, []string{"a"}, 9)
			h.c.HoldsPromise("b", 0, step, true)
			h.c.Discarded("b", 0, 1, step, 9)
		}},
		{"what a prepared replica discarded is committed", "C5", func(h *bench) {
			h.c.HoldsPromise("b", 0, step, true)
			h.c.Discarded("b", 0, 1, step, 9)
			h.c.Promised("a", step, 0)
			h.c.Committed("a", 0, step, 1, []string{"a"}, 9)
		}},
		{"one that was prepared discards by itself, and another one never promised", "C5", func(h *bench) {
			h.c.lists[step.QuorumID] = []string{"a", "b", "c"}
			h.c.Promised("a", step, 0)
			h.c.HoldsPromise("b", 0, step, true)
			h.c.Discarded("b", 0, 1, step, 9)
			h.c.Committed("a", 0, step, 1, []string{"a"}, 9)
		}},
		{"one that heard a refusal discards, and another one rolls forward", "", func(h *bench) {
			h.c.Promised("a", step, 0)
			h.c.HoldsPromise("b", 0, step, true)
			h.c.HeardRefusal("b", step)
			h.c.Discarded("b", 0, 1, step, 9)
			h.c.Committed("a", 0, step, 1, []string{"a"}, 9)
		}},
		{"the same, the other way round", "", func(h *bench) {
			h.c.Promised("a", step, 0)
			h.c.HoldsPromise("b", 0, step, true)
			h.c.Committed("a", 0, step, 1, []string{"a"}, 9)
			h.c.HeardRefusal("b", step)
			h.c.Discarded("b", 0, 1, step, 9)
		}},
	}
}

// TestCheckersReportPlantedViolations plants violations of each invariant, and
// wants it named.
func TestCheckersReportPlantedViolations(t *testing.T) {
	t.Parallel()
	for _, p := range slices.Concat(plantsOfQuorums(), plantsOfLinks(), plantsOfCommits(), plantsOfPromises()) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			h := newBench(t)
			p.plant(h)
			if p.rule == "" {
				if len(h.failed) > 0 {
					t.Errorf("reported %v, want nothing", h.failed)
				}
				return
			}
			if _, ok := h.failed[p.rule]; !ok {
				t.Errorf("reported %v, want %s", h.failed, p.rule)
			}
		})
	}
}

func TestLargest(t *testing.T) {
	t.Parallel()
	all := []int{1, 2, 3, 4, 5, 6, 8}
	fits := func(n int) bool { return n != 8 }
	apart := func(a, b int) bool { return a%b != 0 && b%a != 0 }
	if n := Largest(all, fits, apart); n != 3 { // 4, 5 and 6
		t.Errorf("largest set of numbers of which none divides another: %d, want 3", n)
	}
	if n := Largest(all, func(int) bool { return false }, apart); n != 0 {
		t.Errorf("largest set of none: %d", n)
	}
}
