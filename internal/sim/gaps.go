package sim

import (
	"time"

	"github.com/skerry-ft/skerry/internal/sim/checker"
	"github.com/skerry-ft/skerry/quorum"
)

// This file checks L1 in the worlds of causes: those who behave, and reach each
// other, go on. It looks at what is true of processes and links, not at what the
// leader believes.

// Limits of the gaps between commits of whoever commits, while enough replicas
// behave and reach each other: after something has happened, and when nothing has
// for a while.
const (
	gapAfterChange = 5 * time.Second
	gapAtRest      = 500 * time.Millisecond
	linksAtRest    = 20 * time.Second // after a link was cut or mended
	causeAtRest    = 2 * time.Minute  // after the cause struck: its third minute
)

// gaps watches the commits of all.
type gaps struct {
	last    int64 // commit
	rest    int64 // from when gapAtRest holds
	longest [2]int64
}

// linkChanged notes that a link is cut, or mended.
func (w *world) linkChanged() { w.gaps.rest = max(w.gaps.rest, w.now+int64(linksAtRest)) }

// tried notes that a quorum has both ends of a link that is cut: a retry, which costs
// what a new cut does. How rarely that may be is Q9's, see checker.Book.
func (w *world) tried(q *quorum.Quorum) {
	for i, a := range q.Members {
		for _, b := range q.Members[:i] {
			if !w.byID[a.ReplicaID].reaches(w.byID[b.ReplicaID]) {
				w.linkChanged()
				return
			}
		}
	}
}

// committed notes a commit of anybody.
func (w *world) committed() {
	w.judgeGap()
	w.gaps.last = w.now
}

// judgeGap checks L1.
func (w *world) judgeGap() {
	if w.o.Cause == "" || w.gaps.last == 0 || w.calm {
		return
	}
	gap, limit, kind := w.now-w.gaps.last, gapAfterChange, 0
	if w.gaps.last > w.gaps.rest {
		limit, kind = gapAtRest+w.o.Slack, 1
	}
	w.gaps.longest[kind] = max(w.gaps.longest[kind], gap)
	if gap <= int64(limit) {
		return
	}
	if n := w.largest(); n >= w.o.Min {
		w.fail("L1", "no commit for %v, limit %v, at rest since %v; %d replicas behave and reach each other, min %d\n%s",
			time.Duration(gap), limit, time.Duration(w.now-w.gaps.rest), n, w.o.Min, w.picture())
	}
}

// watchGaps looks also while nobody commits.
func (w *world) watchGaps() {
	w.judgeGap()
	w.after(gapAtRest, w.watchGaps)
}

// largest is the size of the largest set of replicas that behave and reach each
// other.
func (w *world) largest() int {
	return checker.Largest(w.members, func(m *member) bool { return m.up && !m.ailment.any() }, (*member).reaches)
}
