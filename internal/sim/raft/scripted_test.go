package raft

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// hop is how long a message of a script takes.
const hop = time.Millisecond

// among delivers what the given servers send each other, and loses the rest.
func among(servers ...int) func(from, to int) time.Duration {
	return func(from, to int) time.Duration {
		if slices.Contains(servers, from) && slices.Contains(servers, to) {
			return hop
		}
		return -1
	}
}

// elect has a server win the next term with the votes of the given ones, and loses what
// it sends from then on.
func (w *world) elect(h *host, voters ...int) {
	w.t.Helper()
	w.link = among(append(voters, h.index)...)
	h.campaign()
	w.run(hop)
	votes := w.link
	w.link = func(from, to int) time.Duration {
		if from == h.index {
			return -1
		}
		return votes(from, to)
	}
	w.run(hop)
	if !h.Leads() {
		w.t.Fatalf("server %d does not lead in term %d", h.index, h.Term())
	}
}

// TestCheckCountsLaterAnswersOnly: the answer to a heartbeat that was sent before a check of
// leadership says nothing for it. Here that answer is late, and another server led before the
// check began.
func TestCheckCountsLaterAnswersOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 3)
	old, voter, next := w.hosts[0], w.hosts[1], w.hosts[2]
	w.link = among(0, 1, 2)
	old.campaign()
	w.run(10 * hop)
	checked := errors.New("under way")
	old.Verify(func(err error) { checked = err })
	if w.run(2 * hop); checked != nil {
		t.Fatalf("a check at the only leader ended with %v after two hops", checked)
	}
	w.link = func(from, to int) time.Duration {
		switch {
		case from == next.index && to == old.index || from == old.index && to == next.index:
			return -1
		case to == old.index:
			return 30 * hop
		}
		return hop
	}
	old.replicate()
	before := old.Round()
	w.run(hop)
	next.campaign()
	w.run(10 * hop)
	if !next.leading || !old.leading {
		t.Fatalf("the old leader leads: %t, the next: %t; want both", old.leading, next.leading)
	}
	checked = errors.New("under way")
	old.Verify(func(err error) { checked = err })
	w.run(25 * hop)
	if !old.Leads() || old.acked[voter.index] != before {
		t.Fatalf("leads %t, and server 1 has answered round %d; want an answer to %d alone", old.Leads(), old.acked[voter.index], before)
	}
	if checked == nil {
		t.Error("a check ended well by the answer to an earlier heartbeat, after another server led in a later term")
	}
	if w.run(lease + 2*interval); !errors.Is(checked, ErrNotLeader) {
		t.Errorf("the check ended with %v, want %v", checked, ErrNotLeader)
	}
}

// TestEarlierTermsAreNotCounted is figure 8 of the paper on Raft: an entry of an earlier
// term that a majority holds may yet be replaced, so that only one of the leader's own term
// is committed by counting.
func TestEarlierTermsAreNotCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 5)
	first, last := w.hosts[0], w.hosts[4]
	w.link = among(0, 1, 2, 3, 4)
	first.campaign()
	w.run(100 * hop) // term 1, whose barrier all have

	w.link = among(0, 1)
	first.Append(10, nil)
	w.run(2 * hop)
	first.kill()

	w.elect(last, 2, 3) // term 2
	last.Append(20, nil)
	last.kill()

	first.restart()
	w.link = among()
	first.campaign()                // term 2 has a leader
	w.elect(first, 1, 2, 3)         // term 3; its barrier is lost
	for _, i := range []int{1, 2} { // as a leader sends that cuts its log into parts; this one adds its barrier to all
		w.hosts[i].take(first.Server, first.Term(), first.Round(), first.log[:2:2], 1, 1)
	}
	w.run(hop)
	if first.match[1] != 2 || first.match[2] != 2 {
		t.Fatalf("the first two entries are known to be at servers %v, want 0, 1 and 2", first.match)
	}
	if _, committed := first.Log(); committed != 1 {
		t.Errorf("%d entries are committed, want the 1 that was in term 1", committed)
	}
	first.kill()

	last.restart()
	w.link = among()
	last.campaign()     // term 3 has a leader
	w.elect(last, 2, 3) // term 4
	w.link = nil
	first.restart()
	w.run(10 * time.Second)
	for _, h := range w.hosts {
		if !slices.Contains(h.applied, 20) || slices.Contains(h.applied, 10) {
			t.Errorf("server %d has applied %v, want 20 and not 10", h.index, h.applied)
		}
	}
}
