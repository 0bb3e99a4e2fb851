package quorum_test

import (
	"fmt"
	"slices"

	"github.com/skerry-ft/skerry/quorum"
)

// The checkers look at a world from outside: they know what the replicas
// really hold, and what the lighthouse was told, and never ask the code under
// test whether it is right.

// lighthouse does what the lighthouse's shell does after every input: it
// carries notices, and forms what is ready.
func (x *explorer) lighthouse(w *world) error {
	w.LH.Advance(w.Now)
	for range 8 { // one decision may make the next one ready; more would be a loop
		x.notices(w)
		d := w.LH.Decide(w.Now)
		if !d.Ready {
			if again, err := x.overrides(w, d); err != nil || !again {
				return err
			}
			continue
		}
		if w.Left.Quorums == 0 && d.Changed {
			return nil // the world ends here
		}
		if err := x.form(w, d); err != nil {
			return err
		}
	}
	return fmt.Errorf("C7: the lighthouse forms one quorum after another, with no news")
}

// notices carries what the machine wants pushed to whoever has a session.
// Probes are answered at once by all who are up.
func (x *explorer) notices(w *world) {
	for again := true; again; {
		again = false
		for _, n := range w.LH.Notices() {
			for _, id := range n.To {
				r := w.rep(id)
				if r == nil || !r.Up || !r.Conn {
					continue
				}
				if n.Kind == quorum.NoticeProbe {
					w.LH.Reply(w.Now, id, n.Number)
					again = true
					continue
				}
				r.Inbox = append(r.Inbox, message{Notice: &n})
			}
		}
	}
	w.onEvents(w.LH.Events())
}

// form makes a decision so, checks it, and answers.
func (x *explorer) form(w *world, d quorum.Decision) error {
	last := w.LH.Last()
	if last != nil {
		last = deepCopy(x.cp, last)
	}
	q := w.LH.Form(w.Now, d, quorum.Token{1}, 1)
	w.Formed++
	if d.Changed {
		w.Left.Quorums--
	}
	told := deepCopy(x.cp, &q)
	x.mangle.answer(w, last, told)
	if err := x.checkFormed(w, last, told, d); err != nil {
		return fmt.Errorf("quorum %d.%d %v formed (%v): %w", told.ID, told.Round, idsOf(told), d.Reason, err)
	}
	for _, a := range d.Answers {
		delete(w.LHJoins, a.ReplicaID)
		if r := w.rep(a.ReplicaID); r != nil && r.Up && r.Conn {
			r.Inbox = append(r.Inbox, message{Answer: told, Number: a.Number})
		}
	}
	return nil
}

func idsOf(q *quorum.Quorum) []quorum.ReplicaID {
	out := make([]quorum.ReplicaID, len(q.Members))
	for i, m := range q.Members {
		out[i] = m.ReplicaID
	}
	return out
}

// checkFormed checks Q1 to Q5, Q7, Q10 and C6 on a quorum that was formed.
func (x *explorer) checkFormed(w *world, last, q *quorum.Quorum, d quorum.Decision) error {
	ids := idsOf(q)
	if len(ids) == 0 || len(ids) < w.Cfg.MinReplicas {
		return fmt.Errorf("Q3: %d members, min %d", len(ids), w.Cfg.MinReplicas)
	}
	if old, ok := w.IDs[q.ID]; ok && !slices.Equal(old, ids) {
		return fmt.Errorf("Q2: id %d had members %v", q.ID, old)
	}
	if err := checkOrder(w, q, d.Changed); err != nil {
		return err
	}
	w.IDs[q.ID], w.HighID, w.HighRound = ids, q.ID, q.Round
	settled := append(d.Command(0, quorum.Token{}, 1).Settled, q.Settlement)
	for _, s := range settled {
		if err := x.checkSettled(w, s); err != nil {
			return err
		}
	}
	if !d.Changed {
		return nil
	}
	if err := checkMembers(w, ids); err != nil {
		return err
	}
	if err := x.checkMajority(w, last, ids); err != nil {
		return err
	}
	return x.checkHolder(w, last, q)
}

// checkOrder checks Q1, and that rounds order the answers of one id.
func checkOrder(w *world, q *quorum.Quorum, changed bool) error {
	switch {
	case q.ID < w.HighID, q.ID == w.HighID && q.Round < w.HighRound:
		return fmt.Errorf("Q1: after %d.%d", w.HighID, w.HighRound)
	case changed && q.ID == w.HighID && q.Round == w.HighRound:
		return fmt.Errorf("Q1: a changed answer has the number of the one before")
	case !changed && (q.ID != w.HighID || q.Round != w.HighRound):
		return fmt.Errorf("Q1: an unchanged answer has another number than %d.%d", w.HighID, w.HighRound)
	}
	return nil
}

// checkSettled checks C6: each contested step has one outcome for ever.
func (x *explorer) checkSettled(w *world, s quorum.Settlement) error {
	if s.Outcome == quorum.NothingToSettle {
		return nil
	}
	at := stepOf{s.Step, s.QuorumID}
	x.counts[fmt.Sprintf("settled %d", s.Outcome)]++
	if old, ok := w.Settled[at]; ok {
		x.counts["settled again"]++
		if old.Outcome != s.Outcome || !slices.Equal(old.Digests, s.Digests) {
			return fmt.Errorf("C6: step %v settled as %+v, was %+v", at, s, old)
		}
		return nil
	}
	w.Settled[at] = s
	if s.Outcome == quorum.Discard {
		w.Excused[at] = !w.anyPresentKnows(at)
	}
	return nil
}

// anyPresentKnows says that some join at the lighthouse committed, prepared or
// refused step at.
func (w *world) anyPresentKnows(at stepOf) bool {
	for _, j := range w.LHJoins {
		p, f := j.Member.Position, j.Fact
		if p.Step == at.Step && p.QuorumID == at.QuorumID {
			return true
		}
		about := f.Step == at.Step && f.QuorumID == at.QuorumID
		if about && (f.Kind == quorum.Prepared || f.Kind == quorum.Refused) {
			return true
		}
	}
	return false
}

// checkMembers checks Q4 and Q7: every member had joined, and none is known
// dead.
func checkMembers(w *world, ids []quorum.ReplicaID) error {
	for _, id := range ids {
		if _, ok := w.LHJoins[id]; !ok {
			return fmt.Errorf("Q4: %s has not joined", id)
		}
		if w.Lost[id] {
			return fmt.Errorf("Q7: %s is known dead", id)
		}
	}
	return nil
}

// checkMajority checks Q5.
func (x *explorer) checkMajority(w *world, last *quorum.Quorum, ids []quorum.ReplicaID) error {
	live := map[quorum.ReplicaID]bool{}
	for id := range w.Since {
		live[id] = !w.Lost[id]
	}
	whole := last != nil
	if last != nil {
		for _, id := range idsOf(last) {
			live[id] = !w.Lost[id]
			whole = whole && slices.Contains(ids, id)
		}
		if slices.Equal(idsOf(last), ids) {
			return nil // no new membership
		}
	}
	n := 0
	for _, l := range live {
		if l {
			n++
		}
	}
	if !whole {
		x.counts["shrunk"]++
	}
	if !whole && 2*len(ids) <= n {
		return fmt.Errorf("Q5: %d members of %d live", len(ids), n)
	}
	return nil
}

// checkHolder checks Q10 and C4: no live replica is at a position above the new
// quorum's, whether it has told so or not.
func (x *explorer) checkHolder(w *world, last, q *quorum.Quorum) error {
	top := maxPosition(q)
	for i := range w.Reps {
		r := &w.Reps[i]
		live := !w.Lost[r.ID] && (w.Since[r.ID] || last != nil && isMember(last, r.ID))
		if r.Up && live && r.Pos().Compare(top) > 0 && !x.mangle.same(r.Pos(), top) {
			return fmt.Errorf("Q10: %s is alive at %v, and the quorum is at %v", r.ID, r.Pos(), top)
		}
	}
	return nil
}

// onEvents keeps whom the machine has called lost, and not yet seen again.
func (w *world) onEvents(events []quorum.Event) {
	for _, e := range events {
		switch e.Kind {
		case quorum.EventLost:
			w.Lost[e.ReplicaID] = true
			if r := w.rep(e.ReplicaID); r == nil || !r.Conn {
				delete(w.Since, e.ReplicaID) // its session is over, and its join with it
				delete(w.LHJoins, e.ReplicaID)
			}
		case quorum.EventOpened, quorum.EventReturned:
			delete(w.Lost, e.ReplicaID)
		}
	}
}
