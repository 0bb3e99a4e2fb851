package sim

import (
	"slices"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// Times of connections between members.
const (
	reachLimit = time.Second // without an answer a peer is out of reach
	reachTries = 4           // within it
	probeEvery = 500 * time.Millisecond
)

// reaches says that a connection can be made: it takes both directions.
func (m *member) reaches(o *member) bool {
	return m == o || m.w.now >= m.wire(o).cut && m.w.now >= o.wire(m).cut
}

// openStore comes before all else in a group: the store of its primary.
func (r *rank) openStore(group, tried int) {
	if r.group != group {
		return
	}
	primary := r.m.w.byID[r.plan.Primary]
	switch {
	case r.m.reaches(primary):
		r.greet(group, 0, r.peers)
	case tried == reachTries:
		r.outOfReach([]*rank{primary.ranks[r.g]})
	default:
		r.m.after(reachLimit/reachTries, func() { r.openStore(group, tried+1) })
	}
}

// greet says hello to those who are reached, and tries the others again. Of two
// members that with the smaller id dials, and finds that the other is out of reach.
func (r *rank) greet(group, tried int, to []*rank) {
	if r.group != group {
		return
	}
	var rest, out []*rank
	id := r.QuorumID()
	for _, o := range to {
		switch {
		case r.m.reaches(o.m):
			r.m.w.send(r.m, o.m, func() { o.hello(r, id) })
		case r.m.id < o.m.id:
			rest, out = append(rest, o), append(out, o)
		default:
			rest = append(rest, o)
		}
	}
	switch {
	case len(rest) == 0:
	case tried < reachTries:
		r.m.after(reachLimit/reachTries, func() { r.greet(group, tried+1, rest) })
	case len(out) > 0:
		r.outOfReach(out)
	}
}

// outOfReach accuses those who cannot be reached, and tries them from now on beside
// all else.
func (r *rank) outOfReach(peers []*rank) {
	m := r.m
	for _, o := range peers {
		r.accuse(quorum.Accusation{
			By: m.rid(), Against: o.m.rid(), QuorumID: r.QuorumID(), Evidence: "no answer", Unreachable: true,
		})
		if !slices.Contains(m.probing, o.m) {
			m.probing = append(m.probing, o.m)
			m.after(probeEvery, func() { m.probe(o.m) })
		}
	}
	r.broke(peers[0].name + " is out of reach")
}

// probe tells the lighthouse whether a peer is reached, until it is in one group
// with this member.
func (m *member) probe(o *member) {
	if !slices.Contains(m.probing, o) || !o.up {
		return
	}
	m.reportLink(o)
	m.after(probeEvery, func() { m.probe(o) })
}

func (m *member) reportLink(o *member) {
	report := quorum.LinkReport{By: m.rid(), To: o.rid(), Holds: m.reaches(o), Evidence: "no answer"}
	m.tell(func(r *leadership, now time.Time) {
		r.book.LinkReported(now.Sub(epochStart), m.id, o.id, report.Holds)
		if !r.w.mutant.deaf {
			_ = r.m.Link(now, report)
		}
	})
}
