package quorum

import (
	"fmt"
	"slices"
	"time"
)

// judge weighs the witnesses against one replica (§6, Q7). Two kinds are enough at once:
// each alone has a cause that is no death (a switch before the lighthouse; a link between
// two members), both together hardly have.
//
//	the lighthouse's sight        a peer
//	hears it                      –          live
//	stream broken, beats missed   –          suspect: a beat clears missed beats, a new stream
//	                                         a broken one; its peers' progress prolongs the grace
//	hears it                      accuses    suspect: an answer to the probe clears it, or
//	                                         its peers' progress
//	stream broken, beats missed   accuses    lost, at once
//	suspect, and not cleared                 lost after Grace, or HeartbeatTimeout of silence
func (m *Machine) judge(now time.Time, r *replica) {
	// It is judged again when it is heard (alive); until then nothing can become worse.
	if r.lost {
		return
	}
	// §4.1: its predecessors had their time to speak.
	if r.join != nil && !r.join.until.IsZero() && !now.Before(r.join.until) {
		m.supersede(now, r)
	}
	silence := now.Sub(r.seen)
	if !m.witnessed(r) { // torchft's clients have no stream and no probe: silence alone counts
		if silence >= m.config.HeartbeatTimeout {
			m.lose(now, r, Cause{Kind: CauseSilent, Evidence: fmt.Sprintf("silent for %v", silence)})
		}
		return
	}
	// §6: beats travel on the stream. That it broke and that they are missed is one witness,
	// the lighthouse's own sight; peers are the other.
	missed := silence >= m.config.SuspectAfter
	sight := r.broken || missed
	switch {
	case sight && len(r.accusers) > 0:
		m.lose(now, r, m.lossOf(r, missed, "")) // two independent witnesses
		return
	case !now.Before(m.lostBy(r)) && !m.doubted(r):
		// Nothing has spoken for it. While most are silent together it is the lighthouse's
		// sight that is in doubt, and that alone makes none lost.
		m.lose(now, r, m.lossOf(r, missed, ", grace is over"))
		return
	case (sight || len(r.accusers) > 0) && !r.suspect:
		// One witness: it stays live, and is asked, as are peers of its (§6).
		r.suspect, r.since = true, now
		m.suspects = insertReplica(m.suspects, r)
		m.event(EventSuspect, r.id, m.evidence(r, missed))
		if r.member {
			m.sign(now)
		}
		m.sendProbe(r)
	}
	m.judgeProgress(now, r)
}

// witnessed says that the rules of our own kind hold for a replica: before the
// first join, those that opened a session.
func (m *Machine) witnessed(r *replica) bool {
	return m.client == KindSkerry || m.client == KindUnset && r.session
}

// lostBy is when a replica is lost if nothing speaks for it any more: HeartbeatTimeout
// after it was heard, or Grace after it became suspect, whichever is first; but where its
// peers step with it, Grace after their newest ballot with it, however long that goes on.
// (A member that only the lighthouse cannot see is not dead.) With the default times:
//
//	it falls silent      suspect after 500 ms, lost after 1 s; where a peer accuses it,
//	                     after 500 ms
//	its stream breaks    suspect at once, lost 1 s after its last beat; where a peer accuses
//	                     it, at once
//	a peer accuses it    suspect at once, lost after 1 s without an answer to the probe
func (m *Machine) lostBy(r *replica) time.Time {
	at := r.seen.Add(m.config.HeartbeatTimeout)
	if r.suspect {
		at = earlier(at, r.since.Add(m.config.Grace))
	}
	if r.suspect && !r.extended.IsZero() {
		at = r.extended.Add(m.config.Grace)
	}
	return at
}

func (m *Machine) evidence(r *replica, missed bool) string {
	var s string
	switch {
	case r.broken:
		s = "stream broke"
	case missed:
		s = "beats missed"
	}
	if len(r.accusers) > 0 {
		if s != "" {
			s += ", "
		}
		s += "accused by " + nameIDs(r.accusers)
	}
	if s == "" {
		s = "silent"
	}
	return s
}

// lossOf is the cause of a loss, as evidence tells it: where peers accuse it, that is by its links.
func (m *Machine) lossOf(r *replica, missed bool, how string) Cause {
	c := Cause{Kind: CauseSilent, Witnesses: slices.Clone(r.accusers), Evidence: m.evidence(r, missed) + how}
	switch {
	case len(r.accusers) > 0:
		c.Kind = CauseLink
	case r.broken:
		c.Kind = CauseStream
	}
	return c
}

// deadline is when judge or forgettable may next find something new.
func (m *Machine) deadline(r *replica) time.Time {
	if r.lost {
		return r.lostAt.Add(ForgetAfter)
	}
	at := r.seen.Add(m.config.HeartbeatTimeout)
	if m.witnessed(r) {
		at = m.lostBy(r)
		if !r.suspect {
			at = earlier(at, r.seen.Add(m.config.SuspectAfter))
		}
		// L3: it beats, and may do nothing else.
		if m.mayBeStuck(r) && !r.stuck {
			at = earlier(at, m.stuckAt(r))
		}
	}
	if r.join != nil && !r.join.until.IsZero() {
		at = earlier(at, r.join.until)
	}
	// L1: its hold-off ends, and it is a reason to ask from then on (joiner).
	if f := m.flapOf(r.id); r.join != nil && f != nil && f.until.After(m.now) {
		at = earlier(at, f.until)
	}
	return at
}

// forgettable: one that is silent on a stream which is open is not gone, it may have
// been stopped. (Were it forgotten, it would have no session when it goes on: its
// beats would be refused, and it could never be told of a quorum.)
func (m *Machine) forgettable(now time.Time, r *replica) bool {
	return r.lost && !r.member && !r.session && now.Sub(r.lostAt) >= ForgetAfter
}

// lose makes a replica known dead (Q7). All other members are told at once, and the
// quorum falls if it was one of them.
func (m *Machine) lose(now time.Time, r *replica, why Cause) {
	m.unsuspect(r)
	if !r.session && m.client == KindSkerry {
		m.dropJoin(r) // it joins again when it comes back; over an open stream it need not
		r.joined = false
	}
	why.Replica = r.id
	r.lost, r.lostAt, r.gone = true, now, why
	m.eventOf(EventLost, r.id, why)
	// L1: was it let in only a moment ago, once more?
	m.flapped(now, r)
	// Of an eviction evict has told. torchft's members learn it as they join.
	if r.member && !r.evicted && m.client != KindTorchft {
		m.memberLost(now, r, why)
	}
	// §4.1, C7: who waits for this name's place need not wait for a time any more.
	for _, newcomer := range m.otherIncarnations(r.id) {
		m.releaseFrom(now, newcomer)
	}
}

// memberLost tells the other members that one of them is gone, and ends the
// quorum (§3): for this quorum that is for good, though it may come back as a joiner. They
// break its group and join at once: a link to a host that lost its power would keep them in
// an op until a deadline (C7).
func (m *Machine) memberLost(now time.Time, r *replica, why Cause) {
	if !m.lostEnough() {
		m.notify(Notice{
			Kind: NoticeLost, To: m.others(r.id), QuorumID: m.lastID(), About: r.id, Reason: why.text(), Cause: why.Kind,
		})
	}
	m.fall(now, why)
}
