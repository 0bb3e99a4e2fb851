package quorum

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// This file keeps PROTOCOL §4.1 on incarnations: a replica that is started again takes its
// own place, without waiting until the life before it is known to be dead.
//
//	the older one's stream broke, or it    the newcomer takes its place, and the older is lost:
//	said nothing for three beats           its quorum falls (Q7)
//	it speaks                              the newcomer is refused (ErrNameInUse)
//	it drains                              the newcomer waits until it has gone
//	torchft's                              two replicas, until the older falls silent

// incarnation splits "name:uuid" and reports whether the id has that form. An id without a uuid
// is a name of its own: "host:1" and "host:2" are two replicas (transcript 03_restart).
func incarnation(id ReplicaID) (name string, ok bool) {
	at := strings.LastIndexByte(string(id), ':')
	// At the last colon: the name may have others, "host:29500:uuid".
	if at < 1 || !isUUID(string(id[at+1:])) {
		return "", false
	}
	return string(id[:at]), true
}

// isUUID reports the canonical form 8-4-4-4-12 of hexadecimal digits. What is looser would take
// "trainer:a1" and "trainer:b2" for two lives of one replica, and one would put out the other.
func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return false
			}
		case '0' <= c && c <= '9', 'a' <= c && c <= 'f', 'A' <= c && c <= 'F':
		default:
			return false
		}
	}
	return true
}

// otherIncarnations are the other incarnations of the same name that are not lost. Ids of
// one name stand together in the sorted order.
func (m *Machine) otherIncarnations(id ReplicaID) []*replica {
	name, ok := incarnation(id)
	if !ok {
		return nil
	}
	var out []*replica
	prefix := name + ":"
	// Not over all replicas: each sign of life comes here while a join waits (refuseNewcomers).
	at, _ := slices.BinarySearchFunc(m.order, ReplicaID(prefix), compareReplica)
	for _, r := range m.order[at:] {
		if !strings.HasPrefix(string(r.id), prefix) {
			break
		}
		// "a:b:uuid" begins with "a:" too, and is of the name "a:b".
		if other, ok := incarnation(r.id); ok && other == name && r.id != id && !r.lost {
			out = append(out, r)
		}
	}
	return out
}

func compareReplica(r *replica, id ReplicaID) int { return cmp.Compare(r.id, id) }

// predecessors are the older incarnations, those whose place a newcomer would take.
func (m *Machine) predecessors(r *replica) []*replica {
	return slices.DeleteFunc(m.otherIncarnations(r.id), func(o *replica) bool { return !o.older(r) })
}

// older orders two incarnations of one name: the member, else the one that was heard of
// first. (Their uuids say nothing of their order; a new leader knows the member alone.)
//
//	a:uuid1 is a member, a:uuid2 joins             a:uuid2 is the newcomer
//	a new leader hears a:uuid2, then a:uuid1       likewise, for a:uuid1 is in the ledger's quorum
//	neither is a member                            the one that was heard of later is
func (r *replica) older(o *replica) bool {
	switch {
	// The member is the one that others train with, whichever was heard of first: a new leader
	// knows it from the ledger, and may hear of the newcomer before it.
	case r.member != o.member:
		return r.member
	case r.born.Before(o.born):
		return true
	}
	// Heard of in one moment: any order will do, if both sides of the comparison agree on it.
	return !o.born.Before(r.born) && r.id < o.id
}

// supersedeAfter is for how long a predecessor may be silent. It must be heard by then if
// it lives: at 800 ms between two beats each replica that trains is silent for 300 ms now
// and then, and one started twice by mistake would put it out.
func (m *Machine) supersedeAfter() time.Duration { return max(SupersedeAfter, beatsMissed*m.beat) }

// holdNewcomer makes a newcomer wait until its predecessors have been silent for three
// beats. A predecessor whose stream broke has no more to say, so a replica that is started
// again after a crash takes its own place at once. torchft's clients are not held: until
// then the two are simply two replicas.
func (m *Machine) holdNewcomer(now time.Time, r *replica) {
	// A join that is repeated goes on waiting; it does not begin anew.
	if len(m.predecessors(r)) == 0 || !r.join.until.IsZero() {
		return
	}
	r.join.until = now.Add(m.supersedeAfter())
	r.join.held = m.client == KindSkerry
	m.release(now, r)
}

// release lets a held newcomer in at once when no predecessor can speak any more (C7).
func (m *Machine) release(now time.Time, r *replica) {
	if r.join == nil || !r.join.held {
		return
	}
	for _, before := range m.predecessors(r) {
		// One whose stream was lost with its server may speak still: that was no witness (Broken).
		if !before.broken {
			return
		}
	}
	m.supersede(now, r)
}

// supersede puts a newcomer in the place of its predecessors, which were silent. They are
// lost by that, so the quorum falls if one was a member (Q7): the process that would have
// to time out first is known to be gone.
func (m *Machine) supersede(now time.Time, r *replica) {
	for _, before := range m.predecessors(r) {
		if before.draining && before.session {
			r.join.until = now.Add(m.supersedeAfter()) // it serves on, and then leaves
			return
		}
	}
	// All predecessors have had their time: the join counts, whatever becomes of them.
	r.join.until, r.join.held = time.Time{}, false
	for _, before := range m.predecessors(r) {
		m.event(EventSuperseded, before.id, "by "+string(r.id))
		m.lose(now, before, Cause{Kind: CauseSuperseded, Evidence: "superseded by " + string(r.id)})
		if m.client == KindSkerry {
			// It may only have been stopped. From now on its beats and joins are refused
			// (ErrNameInUse; transcript 03_restart).
			before.replaced = r.id
		}
	}
	m.arrived(now, r)
}

// refuseNewcomers: r speaks, so no newcomer of its name takes its place. (Else a replica
// that is started twice by mistake would put out the one that trains.)
func (m *Machine) refuseNewcomers(now time.Time, r *replica) {
	// No join waits: the usual case, with each beat.
	if m.pending == 0 {
		return
	}
	for _, newcomer := range m.otherIncarnations(r.id) {
		switch {
		case newcomer.join == nil || newcomer.join.until.IsZero() || !r.older(newcomer):
		// Their clients are not held, so there is nothing to refuse: until is over with a word
		// of the older one.
		case !newcomer.join.held: // torchft's: they are two replicas
			newcomer.join.until = time.Time{}
		case r.draining: // it leaves soon: the newcomer waits for that
			newcomer.join.until = now.Add(m.supersedeAfter())
		// Its name is in use: the process was started by mistake, and is told so, and ends
		// (ErrNameInUse).
		default:
			m.notify(Notice{
				Kind: NoticeRefused, To: []ReplicaID{newcomer.id}, Number: newcomer.join.Number,
				Reason: fmt.Sprintf("%s is alive", r.id),
			})
			m.event(EventWithdrawn, newcomer.id, "name in use by "+string(r.id))
			// Dropped, not kept for later: a name that came free by the other's end would let in a
			// process that has been told to end.
			m.dropJoin(newcomer)
			newcomer.joined = false
		}
	}
}
