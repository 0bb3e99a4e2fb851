package quorum

import (
	"fmt"
	"slices"
	"time"
)

// survey is what one look over all replicas of our own kind finds.
type survey struct {
	candidates  []*replica // joined, and can be in the next quorum; sorted
	live        int
	missing     []ReplicaID // live, have not joined
	liveMembers int
	serving     int         // members of the last quorum that live or drain
	notAsked    []ReplicaID // live members of the last quorum that have not joined
	sessions    []ReplicaID // open sessions that have not joined
	held        []ReplicaID
	memberJoins bool
	first       time.Time // since when the first candidate has waited
	shrinkOnly  bool
}

func (m *Machine) survey() survey {
	var v survey
	for _, r := range m.order {
		joined := r.candidate()
		if joined {
			v.candidates = append(v.candidates, r)
			v.shrinkOnly = v.shrinkOnly || r.join.Member.ShrinkOnly
			if v.first.IsZero() || r.join.at.Before(v.first) {
				v.first = r.join.at
			}
		}
		if r.member && !r.lost && !r.evicted && !r.stuck {
			v.serving++
			v.memberJoins = v.memberJoins || r.join != nil
		}
		if r.join != nil && r.join.held {
			v.held = append(v.held, r.id)
		}
		if r.live() {
			v.live++
			if !joined {
				v.missing = append(v.missing, r.id)
			}
			if r.member {
				v.liveMembers++
				if !joined {
					v.notAsked = append(v.notAsked, r.id)
				}
			}
		}
		if r.session && r.alive() && !joined {
			v.sessions = append(v.sessions, r.id)
		}
	}
	return v
}

// windowKind says what the window waits for.
type windowKind uint8

const (
	windowClosed windowKind = iota // the quorum stands, nobody in it wants another
	windowAsk                      // members asked: all live ones must, nothing ends
	windowFall                     // the quorum fell: all live replicas, or the join timeout
	windowFirst                    // no last quorum, or none of its members live
)

// window is the rule of PROTOCOL §4.4.
func (m *Machine) window(v survey) windowKind {
	switch {
	case m.last == nil || v.serving == 0:
		return windowFirst
	case m.fallen:
		return windowFall
	case v.memberJoins:
		return windowAsk
	}
	return windowClosed
}

// shut says whether the window has closed, and why not or why.
func (m *Machine) shut(now time.Time, kind windowKind, v survey) (Reason, bool) {
	switch kind {
	case windowAsk:
		return Reason{ReasonAll, "all live members asked"}, true
	case windowFirst:
		return m.shutFirst(now, v)
	}
	if len(v.missing) == 0 {
		return Reason{ReasonAll, fmt.Sprintf("%d joined", len(v.candidates))}, true
	}
	if left := m.fallenAt.Add(m.config.JoinTimeout); now.Before(left) {
		return m.waiting(v, v.missing), false
	}
	return Reason{ReasonTimeout, "without " + nameIDs(v.missing)}, true
}

// shutFirst lets replicas that start together end up together.
func (m *Machine) shutFirst(now time.Time, v survey) (Reason, bool) {
	if !now.Before(v.first.Add(m.config.JoinTimeout)) {
		if len(v.sessions) > 0 {
			return Reason{ReasonTimeout, "without " + nameIDs(v.sessions)}, true
		}
		return Reason{ReasonTimeout, ""}, true
	}
	if len(v.missing) > 0 || len(v.sessions) > 0 {
		return m.waiting(v, union(v.missing, v.sessions)), false
	}
	if now.Before(m.opened.Add(m.config.HeartbeatTimeout)) {
		return Reason{ReasonQuiet, "a session opened less than a heartbeat timeout ago"}, false
	}
	return Reason{ReasonAll, fmt.Sprintf("%d joined", len(v.candidates))}, true
}

func (m *Machine) waiting(v survey, missing []ReplicaID) Reason {
	if len(v.held) > 0 {
		return Reason{ReasonIncarnation, nameIDs(v.held) + " waits"}
	}
	return Reason{ReasonStragglers, "not joined yet: " + nameIDs(missing)}
}

func union(a, b []ReplicaID) []ReplicaID {
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}

// Wake is when the shell is to look again though no input came: the next moment
// at which Advance or Decide can find something new, or one before it. Zero:
// nothing to wait for.
// It lets time pass first, so it never names a time gone by.
func (m *Machine) Wake(now time.Time) time.Time {
	m.Advance(now)
	var wake time.Time
	soonest := func(t time.Time) {
		if t.After(now) && (wake.IsZero() || t.Before(wake)) {
			wake = t
		}
	}
	if len(m.order) > 0 {
		soonest(m.due)
	}
	if m.pending == 0 {
		return wake
	}
	if m.fallen {
		soonest(m.fallenAt.Add(m.config.JoinTimeout))
	}
	soonest(m.opened.Add(m.config.HeartbeatTimeout))
	for _, r := range m.order {
		if r.join != nil {
			soonest(r.join.at.Add(m.config.JoinTimeout))
		}
	}
	return wake
}
