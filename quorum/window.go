package quorum

import (
	"fmt"
	"time"
)

// survey is what one look over all replicas of our own kind finds. It is taken
// after every join, so it counts, and gathers no lists.
type survey struct {
	joined      int  // candidates
	live        int  // what a majority is held against (Q5)
	liveMembers int  // of these, members of the last quorum
	serving     int  // members of the last quorum that live, drain or are stuck
	memberJoins bool // one of these has joined
	shrinkOnly  bool
	missing     roll      // live, have not joined, or cannot be told of a quorum; not who is refused
	notAsked    roll      // of these, the members of the last quorum
	absent      roll      // live or in an open session, have not joined
	untold      roll      // of the missing, those that have joined: their streams are down
	held        roll      // joined, and wait for an older incarnation to fall silent
	first       time.Time // since when the first candidate has waited
}

// roll counts replicas, and names the first few for people.
type roll struct {
	n     int
	named [maxNamed]ReplicaID
}

func (l *roll) add(id ReplicaID) {
	// A survey is taken after every join: of thousands that are missing it keeps eight names.
	if l.n < maxNamed {
		l.named[l.n] = id
	}
	l.n++
}

// String is "a b c and 4 more".
func (l *roll) String() string {
	s := nameIDs(l.named[:min(l.n, maxNamed)])
	if rest := l.n - maxNamed; rest > 0 {
		s += fmt.Sprintf(" and %d more", rest)
	}
	return s
}

func (m *Machine) survey() *survey {
	v := &survey{}
	for _, r := range m.order {
		joined := r.candidate()
		if joined {
			v.joined++
			// §4.8, step 2: a newcomer that asks for it would keep itself out, for as long
			// as it waits: for ever.
			v.shrinkOnly = v.shrinkOnly || r.member && r.join.Member.ShrinkOnly
			if v.first.IsZero() || r.join.at.Before(v.first) {
				v.first = r.join.at
			}
		}
		// One that drains or is stuck still serves: it may have committed, and a window that
		// takes it for gone would open as at a start, for whichever newcomer is first.
		if r.member && !r.lost && !r.evicted {
			v.serving++
			v.memberJoins = v.memberJoins || r.join != nil
		}
		if r.join != nil && r.join.held {
			v.held.add(r.id)
		}
		// Q5: suspects count, and those that have not joined: of those alone that came any number
		// would be a majority.
		live := r.live()
		if live {
			v.live++
		}
		if live && r.member {
			v.liveMembers++
		}
		// It is here, and can be told: no window waits for it.
		if joined && r.session {
			continue
		}
		if joined {
			// §4.4: it would be in a quorum of which it cannot be told, and all others would
			// wait for it there, a dead one for a configuration that cannot end. Soon it is
			// back, or lost.
			v.untold.add(r.id)
		}
		// §4.4: one that is refused and has not joined would not be let in. (Five members waited
		// for one whose heal had failed again, which came back to be told that it is refused.)
		if live && (joined || !m.refused(m.now, r)) {
			v.missing.add(r.id)
		}
		// §3.2: a member that has not asked, refused or not, trains on in the group that the
		// others would leave by an answer.
		if live && r.member {
			v.notAsked.add(r.id)
		}
		// §4.4: before a first quorum an open session is all that says of a process that it
		// means to join.
		if live || r.session && r.alive() {
			v.absent.add(r.id)
		}
	}
	return v
}

// candidates lists the n replicas that can be in the next quorum, sorted.
func (m *Machine) candidates(n int) []*replica {
	out := make([]*replica, 0, n)
	for _, r := range m.order {
		if r.candidate() {
			out = append(out, r)
		}
	}
	return out
}

// windowKind says what the window waits for (§4.4).
//
//	         opens when                      closes when
//	first    there is no last quorum, or     all open sessions have joined, and none was opened
//	         no member of it is left         for a while; or at the join timeout
//	fall     a member fell, or was lost      all live replicas have joined; or at the join timeout
//	ask      a member asked, and none fell   all live members have asked, and not before
//	closed   only joiners wait, or none      never: they raise "change wanted", and members ask
type windowKind uint8

const (
	windowClosed windowKind = iota // the quorum stands, nobody in it wants another
	windowAsk                      // members asked: all live ones must, nothing ends
	windowFall                     // the quorum fell: all live replicas, or the join timeout
	windowFirst                    // no last quorum, or none of its members live
)

// window is the rule of PROTOCOL §4.4: what opens the window, the gravest first.
func (m *Machine) window(v *survey) windowKind {
	switch {
	case m.last == nil || v.serving == 0:
		// §4.4: with all members gone none can ask, or fall, any more: joiners would wait for
		// ever.
		return windowFirst // no member is left to wait for
	case m.fallen:
		return windowFall // a member's fall join, or its loss; what it asks for comes second
	case v.memberJoins:
		return windowAsk // §3.2: a member's join that ended nothing can only ask
	}
	// Joiners alone open nothing, however many: they only raise "change wanted".
	return windowClosed
}

// windowEnds says whether the window has closed, and why not or why (Q6, Q8).
func (m *Machine) windowEnds(now time.Time, kind windowKind, v *survey) (Reason, bool) {
	switch kind {
	case windowAsk:
		return Reason{ReasonAll, "all live members asked"}, true // decideSkerry has looked
	// No list says who is to come: sessions are waited for, and quiet.
	case windowFirst:
		return m.firstWindowEnds(now, v)
	}
	// Q8: a timeout that is waited for though all are here would be added to each recovery.
	if v.missing.n == 0 {
		return Reason{ReasonAll, fmt.Sprintf("%d joined", v.joined)}, true
	}
	// Q6: the time counts from the fall, not from the newest join: else stragglers that
	// come one by one would keep the others waiting for ever.
	if now.Before(m.fallenAt.Add(m.config.JoinTimeout)) {
		return waitingFor(v, &v.missing), false
	}
	// They are left out, and may join the next one; those that know of the step that was cut short
	// are waited for by the settlement all the same (§4.6).
	return Reason{ReasonTimeout, "without " + v.missing.String()}, true
}

// firstWindowEnds lets replicas that start together end up together (§4.4). Nothing says
// how many there will be, so it waits until all open sessions have joined and no new
// one has come for a while: closed at min_replicas, it would make a first quorum of the
// fastest, and the next change at once. With min_replicas 2 (transcript 01_first_quorum):
//
//	a, b and c open, a joins      too few
//	b joins                       waits for c, whose session is open
//	c joins after 300 ms          waits for quiet: a second since the last session opened
//	nothing else opens            {a, b, c}
//	c does not join at all        {a, b}, a join timeout after a joined
func (m *Machine) firstWindowEnds(now time.Time, v *survey) (Reason, bool) {
	if !now.Before(v.first.Add(m.config.JoinTimeout)) {
		// Q6: a process that opens a session and never joins does not hold up the start.
		if v.absent.n > 0 {
			return Reason{ReasonTimeout, "without " + v.absent.String()}, true
		}
		return Reason{ReasonTimeout, ""}, true
	}
	if v.absent.n > 0 {
		return waitingFor(v, &v.absent), false
	}
	// Processes that are started together open their sessions one after the other: behind one
	// that has just come there may be more.
	if now.Before(m.opened.Add(m.config.HeartbeatTimeout)) {
		return Reason{ReasonQuiet, "a session opened less than a heartbeat timeout ago"}, false
	}
	return Reason{ReasonAll, fmt.Sprintf("%d joined", v.joined)}, true
}

// waitingFor names what an open window waits for, what ends first before the rest: a held name
// within SupersedeAfter, a stream that is down within Grace, a straggler with the join timeout.
func waitingFor(v *survey, missing *roll) Reason {
	if v.held.n > 0 {
		return Reason{ReasonIncarnation, v.held.String() + " waits"}
	}
	if missing.n == v.untold.n {
		return Reason{ReasonStragglers, "joined, and cannot be told: " + v.untold.String()}
	}
	return Reason{ReasonStragglers, "not joined yet: " + missing.String()}
}

// Wake is when the shell is to look again though no input came: the next moment
// at which Advance or Decide can find something new, or one before it (C7: with a
// later one a decision that is ready would wait for the next message). Zero: nothing
// to wait for. It lets time pass first, so it never names a time gone by.
func (m *Machine) Wake(now time.Time) time.Time {
	m.Advance(now)
	var wake time.Time
	soonest := func(t time.Time) {
		if t.After(now) && (wake.IsZero() || t.Before(wake)) {
			wake = t
		}
	}
	// Silence, grace, a retry, and whatever else time alone brings about: see Advance.
	// due is a minute away at most, also where no replica is left to look at.
	if len(m.order) > 0 {
		soonest(m.due)
	}
	if m.pending == 0 {
		return wake // without a join no window closes, whatever the time
	}
	// Q6: the window closes without those who do not come. §6a: the pause is over.
	if m.fallen {
		soonest(m.fallenAt.Add(m.config.JoinTimeout))
		soonest(m.pausedUntil())
	}
	// §6a: the job's budget has room for another quorum.
	soonest(m.budget.at)
	// §4.4: the quiet before a first quorum, which each new session begins anew.
	soonest(m.opened.Add(m.config.HeartbeatTimeout))
	// §4.4: the time of a first window counts from the first of the joins that wait.
	for _, r := range m.order {
		if r.join != nil {
			soonest(r.join.at.Add(m.config.JoinTimeout))
		}
	}
	return wake
}
