package many

import (
	"slices"
	"time"

	"github.com/skerry-ft/skerry/internal/sim/checker"
	"github.com/skerry-ft/skerry/quorum"
)

// group is the process group of a quorum.
type group struct {
	w       *world
	id      int64
	members []*replica // by replica rank; nil: it was killed before
	ids     []quorum.ReplicaID
	names   []string // the same, for the checkers
	seats   []quorum.ReplicaID
	kept    map[*replica]bool // those that were in the group before, and have edges with each other
	listed  bool              // members know each other by ids, not by seats: edges do not outlive the change
	met     int               // members whose edges are there
	ready   int               // members that can step
	broke   bool
	change  *change
}

// formed begins the group of a quorum that was written.
func (w *world) formed(q *quorum.Quorum) {
	old := w.group
	g := &group{w: w, id: q.ID, listed: len(q.Members) <= quorum.MaxListed, kept: map[*replica]bool{}}
	if old != nil && old.id == q.ID {
		g.kept = old.kept // another round: the group stays
	}
	for _, m := range q.Members {
		r := w.byID[m.ReplicaID]
		g.members, g.ids, g.names = append(g.members, r), append(g.ids, m.ReplicaID), append(g.names, string(m.ReplicaID))
		if r != nil && old != nil && r.group == old && old.listed == g.listed {
			g.kept[r] = true
		}
	}
	w.group = g
	for k := range w.exchanges {
		if k.id < q.ID {
			delete(w.exchanges, k)
		}
	}
	w.res.formed(w.now, g)
}

// configure makes the group of a quorum that the replica has taken up: edges are kept, or made anew.
func (r *replica) configure() {
	w, g := r.w, r.w.group
	if g.id != r.rank.QuorumID() {
		r.fall(r.rank.QuorumID()) // a later one was formed: its peers are there
		return
	}
	r.group, r.whole, r.ops = g, false, 0
	n, kept := len(g.members), 0
	if g.kept[r] {
		kept = len(g.kept) - 1
	}
	fresh := n - 1 - kept
	work := w.c.each(kept, w.c.Kept/2) + w.c.each(fresh, w.c.New/2)
	// The member with the smaller id looks up the other one's address: half of what is new.
	gets := (fresh + 1) / 2
	w.store = max(w.store, w.now+int64(w.c.Latency)) + int64(w.c.each(1, w.c.Meet)+w.c.each(gets, w.c.Get))
	g.change.kept += kept
	g.change.made += fresh
	g.change.gets += gets
	w.at(max(w.now+int64(work), w.store+int64(w.c.Latency)), func() {
		if r.alive && r.group == g && r.rank.Standing() {
			g.meets()
		}
	})
}

// meets notes that all of a member's edges are there; the last one's hello makes the group.
func (g *group) meets() {
	w := g.w
	if g.met++; g.met < len(g.members) {
		return
	}
	for _, r := range g.members {
		w.after(w.delay(), func() {
			if r != nil && r.alive && r.group == g && r.rank.In(g.id) && r.rank.Standing() {
				r.whole = true
				r.rank.Configured()
				r.heal()
			}
		})
	}
}

// fulfilled notes that a member can step.
func (g *group) fulfilled() {
	if g.ready++; g.ready == len(g.members) {
		g.w.res.ready(g.w.now, g)
	}
}

// aborted tells all members that a member's group broke. Each tells each other, and the first one's word
// is what most hear.
func (g *group) aborted(by *replica) {
	w, n := g.w, len(g.members)
	g.change.aborts += n - 1
	if g.broke {
		return
	}
	g.broke = true
	for _, r := range g.members {
		if r == nil || r == by {
			continue
		}
		w.after(w.between(w.c.Latency, w.c.Latency+w.c.each(n-1, w.c.Abort)), func() {
			if r.alive && r.group == g && r.rank.In(g.id) && r.rank.Standing() {
				r.broke()
			}
		})
	}
}

// exchangeKey names one operation of a group.
type exchangeKey struct{ id, round, op int64 }

// exchange is an operation in which all members take part.
type exchange struct {
	w       *world
	key     exchangeKey
	in      []*replica       // that have called it
	ballots []*quorum.Ballot // by replica rank, of an exchange of ballots
}

// name is the attempt at a step, as the checkers call it.
func (x *exchange) name(step int64) checker.StepName {
	return checker.StepName{QuorumID: x.key.id, Round: x.key.round, Try: x.key.op, Step: step}
}

// issue begins this replica's next operation.
func (r *replica) issue() *exchange {
	q := r.rank.Quorum()
	r.ops++
	k := exchangeKey{q.ID, q.Round, r.ops}
	x := r.w.exchanges[k]
	if x == nil {
		x = &exchange{w: r.w, key: k, ballots: make([]*quorum.Ballot, r.rank.Assignment().ReplicaWorldSize)}
		r.w.exchanges[k] = x
	}
	r.x = x
	return x
}

// came notes that a member takes part; true: all do.
func (x *exchange) came(r *replica) bool {
	x.in = append(x.in, r)
	return len(x.in) == len(x.ballots)
}

// finish has all members go on that are still in it, after a time, which differs by a little.
func (x *exchange) finish(after, spread time.Duration, in phase, do func(*replica)) {
	w := x.w
	delete(w.exchanges, x.key)
	for _, r := range slices.Clone(x.in) {
		w.after(after+w.between(0, spread), func() {
			if r.alive && r.x == x && r.phase == in {
				do(r)
			}
		})
	}
}
