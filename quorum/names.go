package quorum

import (
	"cmp"
	"fmt"
)

// String is "step@quorum", with the cluster in front if there is one: "x/4@6" is step 4,
// committed by quorum 6 of cluster x, and "0@0" the start. One step of two quorums is two
// positions (§1), so a page that showed steps alone would show two states as one.
func (p Position) String() string {
	s := fmt.Sprintf("%d@%d", p.Step, p.QuorumID)
	if p.Cluster != "" {
		s = p.Cluster + "/" + s
	}
	return s
}

// String names the kind.
func (k ClientKind) String() string {
	return nameOf("client kind", uint8(k), "unset", "skerry", "torchft")
}

// String names the kind as PROTOCOL.md does.
func (k FactKind) String() string {
	return nameOf("fact", uint8(k), "none", "committed", "prepared", "gave-up", "refused")
}

// String names the kind as PROTOCOL.md does.
func (k JoinKind) String() string { return nameOf("join kind", uint8(k), "step", "fall", "ask") }

// String names the phase.
func (p Phase) String() string {
	return nameOf("phase", uint8(p), "idle", "joining", "configuring", "healing", "training", "balloting",
		"settling", "draining")
}

// String names the outcome.
func (o Outcome) String() string { return nameOf("outcome", uint8(o), "nothing", "forward", "discard") }

// String names the vote.
func (v Vote) String() string { return nameOf("vote", uint8(v), "no", "prepared", "yes", "behind") }

// String names the outcome.
func (o TallyOutcome) String() string {
	return nameOf("tally", uint8(o), "pending", "commit", "abort", "prepared", "behind")
}

// String names the kind.
func (k NoticeKind) String() string {
	return nameOf("notice", uint8(k), "fallen", "lost", "wanted", "probe", "drain", "evict", "refused", "sibling", "stay")
}

// nameOf is the i-th of names, which stand in the order of their constants. A value without a
// name, say one of a newer version, is shown by its number: what is told must not panic.
func nameOf(what string, i uint8, names ...string) string {
	if int(i) < len(names) {
		return names[i]
	}
	return fmt.Sprintf("%s %d", what, i)
}

// String is "step s of quorum q forward", or "nothing".
func (s Settlement) String() string {
	if s.Outcome == NothingToSettle {
		return s.Outcome.String()
	}
	return fmt.Sprintf("step %d of quorum %d %s", s.Step, s.QuorumID, s.Outcome)
}

// String is "kind step@quorum".
func (f Fact) String() string {
	if f.Kind == NoFact {
		return f.Kind.String()
	}
	return fmt.Sprintf("%s %d@%d", f.Kind, f.Step, f.QuorumID)
}

// String shows the notice on one line, for logs and transcripts. What its Kind does not use is
// left out.
func (n Notice) String() string {
	s := fmt.Sprintf("%s to %s", n.Kind, nameIDs(n.To))
	if n.QuorumID != 0 {
		s += fmt.Sprintf(" quorum %d", n.QuorumID)
	}
	if n.About != "" {
		s += " about " + string(n.About)
	}
	if n.Kind == NoticeFallen {
		s += " " + n.Fact.String()
	}
	if n.Number != 0 {
		s += fmt.Sprintf(" number %d", n.Number)
	}
	if n.Reason != "" {
		s += ": " + n.Reason
	}
	return s
}

// nameIDs lists ids for people, and counts those beyond maxNamed: of ten thousand at 50 bytes
// each one reason would be half a megabyte, in the log, the history and every page.
func nameIDs[T cmp.Ordered](ids []T) string {
	shown := ids[:min(len(ids), maxNamed)]
	s := ""
	for i, id := range shown {
		if i > 0 {
			s += " "
		}
		s += fmt.Sprint(id)
	}
	if rest := len(ids) - len(shown); rest > 0 {
		s += fmt.Sprintf(" and %d more", rest)
	}
	return s
}
