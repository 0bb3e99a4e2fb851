package quorum

import (
	"cmp"
	"fmt"
)

// MaxListed is the largest quorum whose members are told the whole list: all n lists are 10 MB at
// 256 members, and 165 MB at 1,000, which took a second of each change. In a larger one each is
// told its own part (View), and of the others their seats.
const MaxListed = 256

// Seat says where a member stood first, since when it has been a member without a
// break: in which quorum, at which replica rank. Two members never have the same
// (Q2). Process groups whose members are told views know each other by their seats:
// those of thousands are some runs of ranks, where their ids are 50 bytes each, to
// each; and a member that stays keeps its seat, so that links to it stay too.
//
//	quorum 7: a b      seats 7/0 7/1
//	quorum 8: a b c    seats 7/0 7/1 8/2
//	quorum 9: a c d    seats 7/0 8/2 9/2
type Seat struct {
	QuorumID int64
	Rank     int
}

// Name is what members call each other that know no ids.
func (s Seat) Name() ReplicaID {
	return ReplicaID(fmt.Sprintf("rank %d of quorum %d", s.Rank, s.QuorumID))
}

// seatNamed is the seat of that name.
func seatNamed(id ReplicaID) (s Seat, ok bool) {
	// The name must be the seat's own: what merely begins like one may be a replica's id.
	n, err := fmt.Sscanf(string(id), "rank %d of quorum %d", &s.Rank, &s.QuorumID)
	return s, err == nil && n == 2 && s.Rank >= 0 && s.Name() == id
}

// SeatRun is Count seats of one quorum, from rank First on.
type SeatRun struct {
	QuorumID     int64
	First, Count int
}

// SeatAt is the seat at a rank; none where there are no runs.
func SeatAt(runs []SeatRun, rank int) Seat {
	for _, r := range runs {
		if rank < r.Count {
			return Seat{r.QuorumID, r.First + rank}
		}
		rank -= r.Count
	}
	return Seat{}
}

func appendSeat(runs []SeatRun, s Seat) []SeatRun {
	if n := len(runs); n > 0 && runs[n-1].QuorumID == s.QuorumID && runs[n-1].First+runs[n-1].Count == s.Rank {
		runs[n-1].Count++
		return runs
	}
	return append(runs, SeatRun{s.QuorumID, s.Rank, 1})
}

// seatOf is the seat of q's member at a rank.
func (q *Quorum) seatOf(rank int) Seat {
	// It has been a member since an older quorum, and keeps that seat.
	if s := q.Members[rank].Seat; s != (Seat{}) {
		return s
	}
	return Seat{q.ID, rank}
}

// seat gives q's members their seats (§4.3). Only members of a large quorum are told them.
// One that comes back has the one that it had, which is nobody else's.
func (m *Machine) seat(q *Quorum) {
	// Members of a smaller one, and torchft's, are told the list, and call each other by their ids.
	if len(q.Members) <= MaxListed || m.client == KindTorchft {
		return
	}
	for rank := range q.Members {
		// Q2: no two members of a quorum have one rank, and its id is used once: no two seats are alike.
		q.Members[rank].Seat = cmp.Or(m.replicas[q.Members[rank].ReplicaID].seat, Seat{q.ID, rank})
	}
}

// setSeats notes where the members of the last quorum stand; of the ledger's they have yet to tell.
func (m *Machine) setSeats() {
	m.seats, m.unseated = nil, 0
	for _, member := range m.last.Members {
		r := m.replicas[member.ReplicaID]
		// There was no room for it (recordOf): it is as good as lost.
		if r == nil {
			continue
		}
		if member.Seat != (Seat{}) {
			r.seat = member.Seat
		}
		// Q2: until it has told, the answer cannot be told again as it was.
		if r.seat == (Seat{}) && len(m.last.Members) > MaxListed {
			m.unseated++
		}
	}
	for _, r := range m.order {
		if r.seat != (Seat{}) {
			if m.seats == nil {
				m.seats = make(map[Seat]ReplicaID)
			}
			m.seats[r.seat] = r.id
		}
	}
}

// tellsSeat takes a member's word on where it stands: the first one counts, and one seat is
// one replica's. (An accusation by a name that is two replicas' would put out the wrong one.)
func (m *Machine) tellsSeat(r *replica, s Seat) {
	if s == (Seat{}) || r.seat != (Seat{}) || m.seats[s] != "" {
		return
	}
	if m.seats == nil {
		m.seats = make(map[Seat]ReplicaID)
	}
	r.seat, m.seats[s] = s, r.id
	// When all are known the last answer can be told again (tellable).
	if r.member && m.unseated > 0 {
		m.unseated--
	}
}

// tellable says that the answer of the last quorum can be told again: all members are known, and
// their seats if they were told any (torchft's never are). Else one id would have two lists (Q2).
func (m *Machine) tellable() bool {
	return m.absent == 0 && (m.unseated == 0 || m.client == KindTorchft)
}

// resolveName is the replica that a member calls id: the one of that id, or at the seat
// of that name. One that is known by neither is returned as it is: what is said about
// it is refused, or dropped.
func (m *Machine) resolveName(id ReplicaID) ReplicaID {
	// A small quorum's members are called by their ids, and so is one whose id looks like a seat.
	if m.replicas[id] != nil {
		return id
	}
	s, ok := seatNamed(id)
	switch {
	// Of no replica that is known: the accusation is refused, or dropped, as one of a stranger.
	case !ok:
	case m.seats[s] != "":
		return m.seats[s]
	case m.last != nil && m.absent == 0 && s.QuorumID == m.last.ID && s.Rank < len(m.last.Members):
		// A member without an older seat stands at its rank in this quorum.
		return m.last.Members[s.Rank].ReplicaID
	}
	return id
}
