package quorum

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// This file is torchft's quorum_compute (its src/lighthouse.rs), for torchft's
// own clients (PROTOCOL §4.8, last paragraph), with what we mend: shrink-only never goes
// below MinReplicas nor to an empty quorum (Q3), no decision is repeated that answers no
// join, and a drained replica is left out.

// turnout is what the rules of torchft count. Healthy is its word for a replica whose heartbeat
// is younger than the timeout; of its clients that is all that is known, for they have no
// session, and no peer bears witness (judge).
type turnout struct {
	joined     []*replica  // healthy and joined: "healthy participants"
	total      int         // joined, healthy or not
	healthy    int         // heartbeat younger than the timeout, joined or not
	lastHere   bool        // the whole last quorum is among joined
	lastLive   int         // healthy members of the last quorum
	missing    []ReplicaID // healthy, and not joined
	first      time.Time   // since when the first of joined has waited
	shrinkOnly bool        // one of joined asks for it, a newcomer's word included as torchft has it
}

// turnout counts once, for all rules. A replica counts for the majority by its heartbeat alone,
// which is where torchft's rule differs from §1's live (transcript 20_torchft, rule 6).
func (m *Machine) turnout() turnout {
	var t turnout
	for _, r := range m.order {
		if r.join != nil {
			t.total++
		}
		// §5: torchft knows no drain: one that drains is as good as gone, and is answered by
		// build.
		if !r.alive() {
			continue
		}
		t.healthy++
		if r.member {
			t.lastLive++
		}
		if r.join == nil {
			t.missing = append(t.missing, r.id)
			continue
		}
		t.joined = append(t.joined, r)
		t.shrinkOnly = t.shrinkOnly || r.join.Member.ShrinkOnly
		if t.first.IsZero() || r.join.at.Before(t.first) {
			t.first = r.join.at
		}
	}
	t.lastHere = m.containsLast(t.joined)
	return t
}

// decideTorchft follows the order of torchft's quorum_compute.
//
//	none has joined                              not yet
//	fewer than MinReplicas, after shrink-only    not yet; torchft counts before it
//	the whole last quorum has joined             at once, with all others that have
//	half of the healthy have joined, or fewer    not yet
//	all healthy replicas have joined             at once
//	JoinTimeout since the first join             without the others
func (m *Machine) decideTorchft(now time.Time) Decision {
	t := m.turnout()
	candidates := t.joined
	// torchft filters after it has counted min_replicas, and may form a quorum of fewer, or
	// of none (§4.8: ours filters before).
	if t.shrinkOnly && m.last != nil {
		candidates = slices.DeleteFunc(slices.Clone(candidates), func(r *replica) bool { return !r.member })
	}
	refuse := func(code ReasonCode, format string, args ...any) Decision {
		d := notYet(code, format, args...)
		d.Reason.Text = strings.TrimPrefix(d.Reason.Text+" ", " ") + t.meta()
		return d
	}
	// Nothing is formed for those who merely heartbeat: none of them has a call that waits.
	if len(t.joined) == 0 {
		return refuse(ReasonNobody, "")
	}
	// Q3, on those that are left after the filter, and for the fast quorum too.
	if len(candidates) < m.config.MinReplicas {
		return refuse(ReasonTooFew, "%d of at least %d", len(candidates), m.config.MinReplicas)
	}
	// torchft's fast quorum: its members join every step, and would wait for each newcomer.
	if t.lastHere {
		return m.buildTorchft(Reason{ReasonFast, "the whole last quorum is here " + t.meta()}, candidates)
	}
	// Q5. With shrink-only the members of the last quorum are held against each
	// other too, for no other can be chosen.
	if 2*len(t.joined) <= t.healthy {
		return refuse(ReasonNoMajority, "%d joined of %d healthy, want more than half", len(t.joined), t.healthy)
	}
	if t.shrinkOnly && m.last != nil && 2*len(candidates) <= t.lastLive {
		return refuse(ReasonNoMajority, "%d joined of %d healthy members, want more than half",
			len(candidates), t.lastLive)
	}
	if len(t.missing) == 0 { // Q8
		return m.buildTorchft(Reason{ReasonAll, "all healthy replicas are here " + t.meta()}, candidates)
	}
	// A quorum without those that are missing would be followed by one with them as soon as they
	// come, and each is a rebuild of all groups.
	if now.Before(t.first.Add(m.config.JoinTimeout)) { // Q6, from the first join on, as torchft counts
		return refuse(ReasonStragglers, "not joined yet: %s", nameIDs(t.missing))
	}
	// Q6: it lives, and does not join: it waits for no quorum, and the others no longer for it.
	return m.buildTorchft(Reason{ReasonTimeout, "without " + nameIDs(t.missing) + " " + t.meta()}, candidates)
}

// meta is torchft's own summary, for those who are used to it.
func (t turnout) meta() string {
	return fmt.Sprintf("[%d/%d participants healthy][%d heartbeating][shrink_only=%t]",
		len(t.joined), t.total, t.healthy, t.shrinkOnly)
}

// buildTorchft is build for its clients, whose joins carry a step alone.
func (m *Machine) buildTorchft(why Reason, candidates []*replica) Decision {
	// Q10 is not kept for torchft's clients (§1), whose heartbeats tell no position: no holder has
	// a place before others.
	chosen := m.capped(candidates, func(*replica) bool { return false })
	// §1: its clients tell no facts, so nothing is settled.
	return m.build(windowClosed, why, chosen, settling{})
}
