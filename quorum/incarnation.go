package quorum

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// incarnation splits "name:uuid" and reports whether the id has that form.
func incarnation(id ReplicaID) (name string, ok bool) {
	at := strings.LastIndexByte(string(id), ':')
	if at < 1 || !isUUID(string(id[at+1:])) {
		return "", false
	}
	return string(id[:at]), true
}

// isUUID reports the canonical form 8-4-4-4-12 of hexadecimal digits.
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
	at, _ := slices.BinarySearchFunc(m.order, ReplicaID(prefix), compareReplica)
	for _, r := range m.order[at:] {
		if !strings.HasPrefix(string(r.id), prefix) {
			break
		}
		if other, ok := incarnation(r.id); ok && other == name && r.id != id && !r.lost {
			out = append(out, r)
		}
	}
	return out
}

func compareReplica(r *replica, id ReplicaID) int { return cmp.Compare(r.id, id) }

// predecessors are the rivals that a newcomer would take the place of.
func (m *Machine) predecessors(r *replica) []*replica {
	return slices.DeleteFunc(m.otherIncarnations(r.id), func(o *replica) bool { return !o.older(r) })
}

// older orders two incarnations of one name: who was a member, or was heard of,
// first.
func (r *replica) older(o *replica) bool {
	switch {
	case r.member != o.member:
		return r.member
	case r.born.Before(o.born):
		return true
	}
	return !o.born.Before(r.born) && r.id < o.id
}

// holdNewcomer makes a newcomer wait until its elders have been silent for three beats.
// An elder whose stream broke has no more to say. torchft's clients are not
// held: until then the two are simply two replicas.
func (m *Machine) holdNewcomer(now time.Time, r *replica) {
	if len(m.predecessors(r)) == 0 || !r.join.until.IsZero() {
		return
	}
	r.join.until = now.Add(SupersedeAfter)
	r.join.held = m.client == KindSkerry
	m.release(now, r)
}

// release lets a held newcomer in at once when no elder can speak any more.
func (m *Machine) release(now time.Time, r *replica) {
	if r.join == nil || !r.join.held {
		return
	}
	for _, elder := range m.predecessors(r) {
		if !elder.broken {
			return
		}
	}
	m.supersede(now, r)
}

// supersede puts a newcomer in the place of its elders, which were silent.
func (m *Machine) supersede(now time.Time, r *replica) {
	for _, elder := range m.predecessors(r) {
		if elder.draining && elder.session {
			r.join.until = now.Add(SupersedeAfter) // it serves on, and then leaves
			return
		}
	}
	r.join.until, r.join.held = time.Time{}, false
	for _, elder := range m.predecessors(r) {
		m.event(EventSuperseded, elder.id, "by "+string(r.id))
		m.lose(now, elder, "superseded by "+string(r.id))
		if m.client == KindSkerry {
			elder.replaced = r.id
		}
	}
	m.arrived(now, r)
}

// refuseRivals: r speaks, so no newcomer of its name takes its place.
func (m *Machine) refuseRivals(now time.Time, r *replica) {
	if m.pending == 0 {
		return
	}
	for _, newcomer := range m.otherIncarnations(r.id) {
		switch {
		case newcomer.join == nil || newcomer.join.until.IsZero() || !r.older(newcomer):
		case !newcomer.join.held:
			newcomer.join.until = time.Time{}
		case r.draining:
			newcomer.join.until = now.Add(SupersedeAfter)
		default:
			m.notify(Notice{
				Kind: NoticeRefused, To: []ReplicaID{newcomer.id}, Number: newcomer.join.Number,
				Reason: fmt.Sprintf("%s is alive", r.id),
			})
			m.event(EventWithdrawn, newcomer.id, "name in use by "+string(r.id))
			m.dropJoin(newcomer)
			newcomer.joined = false
		}
	}
}
