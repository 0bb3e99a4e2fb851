package quorum

import (
	"fmt"
	"time"
)

// This file keeps the part of PROTOCOL §6 in which the lighthouse doubts its own
// sight. Replicas die one by one, or their peers tell. If most sessions fall
// silent together, and no peer accuses, then what lies between the lighthouse and
// the replicas is broken (a switch that starts again, a proxy, a cut cable), and
// the replicas train on. Taken for dead, they would lose a step and their groups,
// in every job at once, when the bytes flow again; and a joiner on the
// lighthouse's side would form a quorum of its own. Nor is a quorum formed while
// it doubts: those who joined before cannot be told, and some may be dead.

const (
	// blindMost bounds how long the lighthouse doubts itself while it hears nobody
	// at all: a job that died as a whole is in nobody's way.
	blindMost = 10 * time.Minute
	// blindPart is the same, in heartbeat timeouts, while it hears some: these
	// may be waiting for the dead.
	blindPart = 5
)

// silence is what the lighthouse does not hear.
type silence struct {
	known    int       // replicas that count: not lost
	silent   int       // of these, silent or with a broken stream
	together int       // of these, fallen silent within SuspectAfter of each other, and not accused
	heard    time.Time // when the last of these was heard
}

// unheard says that the lighthouse's own sight speaks against a replica that is
// not lost.
func (m *Machine) unheard(now time.Time, r *replica) bool {
	return !r.lost && m.witnessed(r) && (r.broken || now.Sub(r.seen) >= m.config.SuspectAfter)
}

func (m *Machine) silence(now time.Time) silence {
	var s silence
	for _, r := range m.order {
		// The dead are known: they do not make most of the others silent.
		if !r.lost && m.witnessed(r) {
			s.known++
		}
		if m.unheard(now, r) {
			s.silent++
			// An accused one may be dead: when it was heard says nothing of the way to the others.
			if len(r.accusers) == 0 {
				s.heard = later(s.heard, r.seen)
			}
		}
	}
	for _, r := range m.order {
		// A cut ends all in one moment: one that fell silent long before the newest of them has a
		// reason of its own.
		if m.unheard(now, r) && len(r.accusers) == 0 && s.heard.Sub(r.seen) <= m.config.SuspectAfter {
			s.together++
		}
	}
	return s
}

// until is when the lighthouse trusts its sight again though most are silent;
// zero: it does now. Of four replicas (transcript 45_blind has three):
//
//	one falls silent, or two       no doubt: not more than half
//	three together, one is heard   doubt for five heartbeat timeouts: the one may wait for the dead
//	four together                  doubt for ten minutes, or until one is heard
//	three, one after the other     no doubt: each has a reason of its own
//	three, and a peer accuses one  the others are no longer more than half: no doubt
func (s silence) until(c Config) time.Time {
	switch {
	case s.together < 2 || 2*s.together <= s.known:
		return time.Time{} // few enough that they may be dead
	// None is heard: a lighthouse that is cut off forms nothing, and holds no job up.
	case s.silent == s.known:
		return s.heard.Add(blindMost)
	}
	// Some are heard, and may wait for the dead: it cannot doubt for long.
	return s.heard.Add(blindPart * c.HeartbeatTimeout)
}

// judgeSight finds, before the replicas are judged, whether the lighthouse doubts its own
// sight.
func (m *Machine) judgeSight(now time.Time) {
	if !m.blind && m.hearsAlmostAll(now) {
		return // the usual case, at no cost
	}
	s := m.silence(now)
	blind := now.Before(s.until(m.config))
	if blind != m.blind {
		text := "no longer"
		if blind {
			text = fmt.Sprintf("%d of %d replicas fell silent together, and no peer accuses them", s.together, s.known)
		}
		m.event(EventDoubted, "", text)
	}
	m.blind = blind
}

// hearsAlmostAll says that no two replicas are silent.
func (m *Machine) hearsAlmostAll(now time.Time) bool {
	n := 0
	for _, r := range m.order {
		if m.unheard(now, r) {
			n++
		}
	}
	return n < 2
}

// unseen lists the live replicas that the lighthouse does not hear, if it doubts its
// sight for that. No quorum is formed without or with them: they cannot be told of
// one in which they are, and who is in it waits for them; those who are left out
// may have their joins on the way.
func (m *Machine) unseen(now time.Time) roll {
	var out roll
	// Asked anew, not by blind: Decide may come between two looks.
	if m.hearsAlmostAll(now) || !now.Before(m.silence(now).until(m.config)) {
		return out
	}
	for _, r := range m.order {
		// §6: one that a peer accuses is judged as always, and lost at once.
		if r.live() && m.unheard(now, r) && len(r.accusers) == 0 {
			out.add(r.id)
		}
	}
	return out
}

// doubted says that the lighthouse's sight alone does not make a replica lost now.
func (m *Machine) doubted(r *replica) bool { return m.blind && len(r.accusers) == 0 }

// rejudgeSight finds when the lighthouse will trust its sight again. Those whom it
// doubted are judged at once if it does now.
func (m *Machine) rejudgeSight() {
	if !m.blind {
		return
	}
	until := m.silence(m.now).until(m.config)
	if m.now.Before(until) {
		m.soon(until)
	} else {
		m.due = m.now
	}
}

// beforeHearing is told that r, nil if it is new, is about to be heard. If the lighthouse
// has reason to doubt its sight, and r is one of those who were silent, or none
// else was heard, the way is open again: what was not heard meanwhile is held
// against no replica, and an open window waits that much longer. (The first message after
// a cut would find the others silent for as long as it lasted: all would be lost at once.)
func (m *Machine) beforeHearing(now time.Time, r *replica) {
	known := r != nil && !r.lost
	if known && !m.unheard(now, r) || !m.blind && len(m.suspects) < 2 {
		return // the usual case, at no cost
	}
	s := m.silence(now)
	// Or a newcomer is heard, or one that was lost, while others are heard all the time: that the
	// way to those is open was known.
	if !now.Before(s.until(m.config)) || !known && s.silent < s.known {
		return
	}
	if m.blind {
		m.event(EventDoubted, "", "no longer, for they are heard again")
	}
	m.blind = false
	m.Doubt(now, now.Sub(s.heard))
}
