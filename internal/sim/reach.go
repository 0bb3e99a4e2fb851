package sim

import (
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
func (m *member) openStore(group, tried int) {
	if m.group != group {
		return
	}
	primary := m.w.byID[m.plan.Primary]
	switch {
	case m.reaches(primary):
		m.greet(group, 0, m.peers)
	case tried == reachTries:
		m.outOfReach([]*member{primary})
	default:
		m.after(reachLimit/reachTries, func() { m.openStore(group, tried+1) })
	}
}

// greet says hello to those who are reached, and tries the others again. Of two
// members that with the smaller id dials, and finds that the other is out of reach.
func (m *member) greet(group, tried int, to []*member) {
	if m.group != group {
		return
	}
	var rest, out []*member
	id := m.in().ID
	for _, o := range to {
		switch {
		case m.reaches(o):
			m.w.send(m, o, func() { o.hello(m, id) })
		case m.id < o.id:
			rest, out = append(rest, o), append(out, o)
		default:
			rest = append(rest, o)
		}
	}
	switch {
	case len(rest) == 0:
	case tried < reachTries:
		m.after(reachLimit/reachTries, func() { m.greet(group, tried+1, rest) })
	case len(out) > 0:
		m.outOfReach(out)
	}
}

// outOfReach accuses those who cannot be reached, and tries them from now on beside
// all else.
func (m *member) outOfReach(peers []*member) {
	for _, o := range peers {
		m.accuse(quorum.Accusation{
			By: m.rid(), Against: o.rid(), QuorumID: m.in().ID, Evidence: "no answer", Unreachable: true,
		})
		m.probing = append(m.probing, o)
		m.after(probeEvery, func() { m.probe(o) })
	}
	m.breakGroup(peers[0].id + " is out of reach")
}

// probe tells the lighthouse whether a peer is reached, until it is in one group
// with this member.
func (m *member) probe(o *member) {
	at := -1
	for i, p := range m.probing {
		if p == o {
			at = i
		}
	}
	if at < 0 || !o.up {
		return
	}
	m.reportLink(o)
	m.after(probeEvery, func() { m.probe(o) })
}

func (m *member) reportLink(o *member) {
	if !m.connected() {
		return
	}
	r := m.x.r
	report := quorum.LinkReport{By: m.rid(), To: o.rid(), Holds: m.reaches(o), Evidence: "no answer"}
	m.x.receive(func(now time.Time) {
		r.book.link(now.Sub(epochStart), m.id, o.id, report.Holds)
		if !r.w.mutant.deaf {
			_ = r.m.Link(now, report)
		}
	})
}
