package quorum

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// replica is what the leader knows of one incarnation. All of it is soft.
type replica struct {
	id       ReplicaID
	born     time.Time // when it was first heard of
	member   bool      // of the last quorum
	session  bool      // a stream is open
	broken   bool      // the stream broke, alone: one witness
	seen     time.Time
	joined   bool // has joined in this session
	draining bool
	evicted  bool
	replaced ReplicaID // the incarnation that took its place

	ran        int64 // the newest quorum that it said it was in
	position   Position
	beat       Beat
	progressAt time.Time // when Progress last changed
	stuck      bool

	suspect  bool
	since    time.Time   // of the suspicion
	accusers []ReplicaID // peers that accuse it in the last quorum, sorted
	probe    uint64      // sent after the suspicion
	watches  []watch     // peers whose progress may clear it
	extended time.Time   // the newest progress of a watched peer
	vouched  bool        // that progress cleared it: only the lighthouse cannot see it
	lost     bool        // known dead
	lostAt   time.Time   //
	lostWhy  string      //
	join     *waiting    // nil: has not joined
	number   uint64      // the highest join number seen
}

// answerRef names an answer.
type answerRef struct{ id, round int64 }

func (a answerRef) less(b answerRef) bool {
	return a.id < b.id || a.id == b.id && a.round < b.round
}

func (q *Quorum) ref() answerRef {
	if q == nil {
		return answerRef{}
	}
	return answerRef{q.ID, q.Round}
}

func (l *LastAnswer) ref() answerRef {
	if l == nil {
		return answerRef{}
	}
	return answerRef{l.QuorumID, l.Round}
}

// waiting is a join that waits for its answer.
type waiting struct {
	Join
	at    time.Time // since when it has waited in the present window
	until time.Time // until when an older incarnation may still speak; zero: there is none
	held  bool      // it does not count before then (our own clients)
}

// alive is PROTOCOL §1's live, but for being a member or having joined: known
// of, and not lost, draining, evicted, or stuck. Suspects are alive.
func (r *replica) alive() bool {
	return !r.lost && !r.draining && !r.evicted && !r.stuck
}

// live is PROTOCOL §1's word.
func (r *replica) live() bool {
	return r.alive() && (r.member || r.joined)
}

// present says that the replica can speak for itself: alive, or draining, and
// its join waits.
func (r *replica) present() bool {
	return r.join != nil && !r.lost && !r.evicted
}

// candidate says that the replica can be in the next quorum (Q4).
func (r *replica) candidate() bool {
	return r.join != nil && r.alive() && !r.join.held
}

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

// rivals are the other incarnations of the same name that are not lost. Ids of
// one name stand together in the sorted order.
func (m *Machine) rivals(id ReplicaID) []*replica {
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

// elders are the rivals that a newcomer would take the place of.
func (m *Machine) elders(r *replica) []*replica {
	return slices.DeleteFunc(m.rivals(r.id), func(o *replica) bool { return !o.older(r) })
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

// hold makes a newcomer wait until its elders have been silent for three beats.
// An elder whose stream broke has no more to say. torchft's clients are not
// held: until then the two are simply two replicas.
func (m *Machine) hold(now time.Time, r *replica) {
	if len(m.elders(r)) == 0 || !r.join.until.IsZero() {
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
	for _, elder := range m.elders(r) {
		if !elder.broken {
			return
		}
	}
	m.supersede(now, r)
}

// supersede puts a newcomer in the place of its elders, which were silent.
func (m *Machine) supersede(now time.Time, r *replica) {
	for _, elder := range m.elders(r) {
		if elder.draining && elder.session {
			r.join.until = now.Add(SupersedeAfter) // it serves on, and then leaves
			return
		}
	}
	r.join.until, r.join.held = time.Time{}, false
	for _, elder := range m.elders(r) {
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
	for _, newcomer := range m.rivals(r.id) {
		switch {
		case newcomer.join == nil || newcomer.join.until.IsZero() || !r.older(newcomer):
		case !newcomer.join.held:
			newcomer.join.until = time.Time{}
		case r.draining:
			newcomer.join.until = now.Add(SupersedeAfter)
		default:
			m.notify(Notice{
				Kind: NoticeRefused, To: []ReplicaID{newcomer.id}, Number: newcomer.join.Number,
				Reason: fmt.Sprintf("%v: %s is alive", ErrNameInUse, r.id),
			})
			m.event(EventWithdrawn, newcomer.id, "name in use by "+string(r.id))
			m.dropJoin(newcomer)
			newcomer.joined = false
		}
	}
}

// dropJoin takes a replica's join back.
func (m *Machine) dropJoin(r *replica) {
	if r.join != nil {
		r.join = nil
		m.pending--
	}
}

// insertID adds an id to a sorted list once.
func insertID(list []ReplicaID, id ReplicaID) []ReplicaID {
	at, found := slices.BinarySearch(list, id)
	if found {
		return list
	}
	return slices.Insert(list, at, id)
}

// others are the live members of the last quorum but id, sorted: who is told.
func (m *Machine) others(id ReplicaID) []ReplicaID {
	if m.last == nil {
		return nil
	}
	var out []ReplicaID
	for _, member := range m.last.Members {
		r := m.replicas[member.ReplicaID]
		if member.ReplicaID != id && r != nil && !r.lost && !r.evicted {
			out = append(out, member.ReplicaID)
		}
	}
	return out
}
