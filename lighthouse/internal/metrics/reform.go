package metrics

import (
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// reform measures for how long one job is without the quorum that it had: from the
// first sign of trouble, a suspicion or the fall, to the next quorum. A job that ends and
// begins anew has no member in common with what it was, and is not measured.
type reform struct {
	since time.Time // the first sign; zero: none
	fell  bool
	last  map[quorum.ReplicaID]bool // members of the last quorum
}

// hear takes in an event of that time.
func (r *reform) hear(kind quorum.EventKind, at time.Time) {
	switch kind {
	case quorum.EventSuspect, quorum.EventLost:
		r.sign(at)
	case quorum.EventFell:
		r.sign(at)
		r.fell = true
	case quorum.EventCleared, quorum.EventReturned:
		if !r.fell {
			r.since = time.Time{}
		}
	}
}

func (r *reform) sign(at time.Time) {
	if r.since.IsZero() {
		r.since = at
	}
}

// form takes in the next quorum. reformed says that it is one that had been broken,
// and took that long.
func (r *reform) form(q quorum.Quorum, at time.Time) (took time.Duration, reformed bool) {
	for _, m := range q.Members {
		reformed = reformed || r.last[m.ReplicaID]
	}
	reformed = reformed && r.fell
	took = at.Sub(r.since)
	r.begin(q)
	return took, reformed
}

// begin makes q the last quorum.
func (r *reform) begin(q quorum.Quorum) {
	*r = reform{last: make(map[quorum.ReplicaID]bool, len(q.Members))}
	for _, m := range q.Members {
		r.last[m.ReplicaID] = true
	}
}
