package quorum

import "strings"

// CauseKind says what became of a replica, or what ended a quorum, in one word: logs, pages and
// metrics use its name, and make what people read of the rest of the [Cause].
type CauseKind uint8

// The kinds. Of a replica's loss (§6) the last witness does not count but all: one whose
// stream broke and whom peers accuse is out by its link. Ledgers and notices have the numbers: new
// kinds come last.
const (
	CauseUnknown    CauseKind = iota
	CauseStream               // its stream to the lighthouse broke
	CauseSilent               // its beats were missed
	CauseLink                 // peers' links to it broke, alone or beside the two above
	CauseAccused              // a peer's link to it broke, and it is not known dead
	CauseLeft                 // its own word
	CauseDrained              // an operator asked it to go, or its own process was told to
	CauseEvicted              // an operator put it out, or EvictStuck did
	CauseStuck                // it did not move, and others waited for it (L3)
	CauseAway                 // it does not join until its trainer moves
	CauseSuperseded           // another incarnation took its place (§4.1)
	CauseRefused              // it breaks quorums though it lives (§6a)
	CauseApart                // it and another member do not reach each other (Q9)
	CauseFailed               // its own step failed, or its join gives no witness against another
	CauseAbsent               // it did not join in time
)

// String is the name, as pages, metrics and JSON have it.
func (k CauseKind) String() string {
	return nameOf("cause", uint8(k), "unknown", "stream", "silent", "link", "accused", "left", "drained", "evicted", "stuck", "away",
		"superseded", "refused", "apart", "failed", "absent")
}

// Cause says why a replica went, or why a quorum ended. It names the culprit: not the replica
// that told of it first.
type Cause struct {
	Kind      CauseKind
	Replica   ReplicaID   `json:",omitempty"` // whom it is about; empty: no single one
	Witnesses []ReplicaID `json:",omitempty"` // peers that bear witness, sorted
	Evidence  string      `json:",omitempty"` // what was seen, for people
	Reason    string      `json:",omitempty"` // why, in the words of who wanted it
}

// String is what people read: the replica, and what was seen of it.
func (c Cause) String() string {
	return strings.TrimPrefix(string(c.Replica)+" "+c.text(), " ")
}

// text is the Cause without the replica's name.
func (c Cause) text() string {
	switch c.Kind {
	case CauseStream, CauseSilent, CauseLink, CauseSuperseded:
		return "was lost: " + c.Evidence
	case CauseEvicted:
		return strings.TrimSuffix("was evicted: "+c.Reason, ": ")
	case CauseStuck:
		if c.Replica != "" {
			return "is stuck: " + c.Evidence
		}
	}
	return c.Evidence
}

// Orderly says that the replica went, or goes, by a word and not by a failure.
func (k CauseKind) Orderly() bool {
	return k == CauseLeft || k == CauseDrained || k == CauseEvicted
}

// causeOf says why a member of the quorum before is not in the one that follows. It is asked
// as that is formed.
func (m *Machine) causeOf(r *replica) Cause {
	switch {
	case r.evicted || r.lost:
		return r.gone
	case r.draining:
		return Cause{Kind: CauseDrained, Replica: r.id, Reason: r.drainWhy}
	case r.stuck:
		return Cause{Kind: CauseStuck, Replica: r.id, Evidence: r.stuckWhy}
	case r.away:
		return Cause{Kind: CauseAway, Replica: r.id, Evidence: awayWhy(m.now.Sub(r.progressAt))}
	case m.refused(m.now, r):
		return Cause{Kind: CauseRefused, Replica: r.id, Evidence: m.refusalOf(r.id).why}
	case m.cutOff(m.now, r) != nil:
		return Cause{Kind: CauseApart, Replica: r.id, Evidence: m.cutOff(m.now, r).text()}
	}
	return Cause{Kind: CauseAbsent, Replica: r.id, Evidence: "did not join in time"}
}

// fallCause is why a member that joined by a fall did so: its link to another one broke, if it
// says so, or its own step failed. (That it was the first to join says nothing against it.)
func (m *Machine) fallCause(r *replica) Cause {
	if c, said := m.linkCause(r.id); said {
		return c
	}
	why := "its quorum fell"
	if r.join != nil && r.join.Fall.Why != "" {
		why = r.join.Fall.Why
	}
	return Cause{Kind: CauseFailed, Replica: r.id, Evidence: "joined: " + why}
}

// linkCause is the newest word of a member (of any, if by is empty) that its link to another broke.
func (m *Machine) linkCause(by ReplicaID) (c Cause, said bool) {
	for i := len(m.accused) - 1; i >= 0; i-- {
		if a := m.accused[i]; a.Kind == AccusedLink && (by == "" || a.By == by) {
			return Cause{Kind: CauseAccused, Replica: a.Against, Witnesses: []ReplicaID{a.By}, Evidence: "is accused by " + string(a.By) + ": " + a.Evidence}, true
		}
	}
	return Cause{}, false
}
