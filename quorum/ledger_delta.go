package quorum

import (
	"fmt"
	"slices"
)

// This file makes the entry of a change as long as the change (PROTOCOL §4.9). A quorum of 1,000
// whole members is 400 KB of JSON, and a lighthouse keeps hundreds of entries: a
// job in which somebody comes or goes each minute filled gigabytes of logs and
// memory with lists that were all but equal.

// Delta says a quorum's lists by what differs from those of the quorum that it
// follows: the base. It is applied to that one alone, see Formed.on. Of a base {a, b, c, d}
// that b left, and to which e came, which heals, it says
//
//	Size 4, Gone {1, 1}, Members {e}, States {9@3}, Participants {0, 3}
//
// which is: without rank 1 of the base, with e, all others at step 9 of quorum 3, and ranks
// 0 to 2 of the new list take part.
type Delta struct {
	// BaseSum is of the base's members, see sumMembers. An entry that was made upon
	// another list than the ledger has is refused, and its leader begins anew from
	// the ledger: members of two lists mixed would be a quorum that nobody formed.
	BaseSum uint64
	// Size is the number of members that come out. It says nothing that the rest does not: an
	// entry that lost a part of itself makes another number, and is refused.
	Size int
	// Gone are the ranks in the base of those who left, or stand in Members.
	Gone []RankRange `json:",omitempty"`
	// Members came, or changed in more than their states: sorted.
	Members []Member `json:",omitempty"`
	// States are those of the base's members that stay. The first is that of all
	// whom no other names.
	States []RanksState `json:",omitempty"`
	// Participants are their replica ranks in the new quorum, not in the base: ranks shift by
	// those who left and came.
	Participants []RankRange `json:",omitempty"`
}

// MemberState is what changes in a member from quorum to quorum: all have committed
// steps, and have healed. What a replica is started with (addresses, sizes, data) stays, and so
// does its id; where that changes the member is said anew.
type MemberState struct {
	Position       Position
	Torn           bool  `json:",omitempty"`
	Differs        bool  `json:",omitempty"`
	ShrinkOnly     bool  `json:",omitempty"`
	InitSync       bool  `json:",omitempty"`
	Sync           bool  `json:",omitempty"`
	CommitFailures int64 `json:",omitempty"`
}

// RanksState is the state of some members of the base.
type RanksState struct {
	MemberState

	Ranks []RankRange `json:",omitempty"` // in the base
}

// stateOf and in are one list of fields, read and written: one that only one of them had would be
// lost on the way through the log. TestDeltaSaysEveryField changes each.
func stateOf(m *Member) MemberState {
	return MemberState{m.Position, m.Torn, m.Differs, m.ShrinkOnly, m.InitSync, m.Sync, m.CommitFailures}
}

// in is m in state s.
func (m Member) in(s MemberState) Member {
	m.Position, m.Torn, m.Differs, m.ShrinkOnly, m.InitSync, m.Sync = s.Position, s.Torn, s.Differs, s.ShrinkOnly, s.InitSync, s.Sync
	m.CommitFailures = s.CommitFailures
	return m
}

// at is m at a seat, of which the ledger knows nothing.
func (m Member) at(s Seat) Member {
	m.Seat = s
	return m
}

// Against is f with a delta in place of its lists, for a ledger that holds base. It
// is f itself where f does not follow base, or none of base's members stays. It only saves
// bytes: a ledger that reads the delta holds what the whole lists say (TestDeltaSaysTheSame).
func (f Formed) Against(base *Quorum) Formed {
	q := &f.Quorum
	// Upon any other base the entry would be refused (on), and the leader begin anew for nothing.
	if base == nil || !f.follows(base) {
		return f
	}
	d := &Delta{BaseSum: sumMembers(base.Members), Size: len(q.Members)}
	at := make(map[MemberState]int) // in States
	next := q.Members
	for rank := range base.Members {
		old := &base.Members[rank]
		// Both lists are sorted: what stands before this member of the base is new.
		for len(next) > 0 && next[0].ReplicaID < old.ReplicaID {
			d.Members, next = append(d.Members, next[0]), next[1:]
		}
		// The new list is at a later id: this one has left.
		if len(next) == 0 || next[0].ReplicaID != old.ReplicaID {
			d.Gone = appendRank(d.Gone, rank)
			continue
		}
		// All who stay have moved on alike, in step and quorum: one state for all of them is
		// what makes the entry short.
		if s := stateOf(&next[0]); next[0] == old.in(s).at(next[0].Seat) {
			k, known := at[s]
			if !known {
				k = len(d.States)
				at[s], d.States = k, append(d.States, RanksState{MemberState: s})
			}
			d.States[k].Ranks = appendRank(d.States[k].Ranks, rank)
		} else { // its address changed, say: it is as one that left and came
			d.Gone, d.Members = appendRank(d.Gone, rank), append(d.Members, next[0])
		}
		next = next[1:]
	}
	d.Members = append(d.Members, next...)
	for _, rank := range q.ParticipantRanks() {
		d.Participants = appendRank(d.Participants, rank)
	}
	// No member stays; or a participant is not among the members, which no machine makes and
	// a delta could not say.
	if len(d.States) == 0 || countRanks(d.Participants) != len(q.Participants) {
		return f
	}
	// The first state is that of all whom no other names, so the most frequent one costs no ranks.
	most := 0
	for k := range d.States {
		if countRanks(d.States[k].Ranks) > countRanks(d.States[most].Ranks) {
			most = k
		}
	}
	d.States[0], d.States[most] = d.States[most], d.States[0]
	d.States[0].Ranks = nil
	// f is a copy, the caller's command has its lists still: Form applies the whole one.
	f.Delta, q.Members, q.Participants = d, nil, nil
	return f
}

// countRanks is how many ranks the ranges hold.
func countRanks(rs []RankRange) int {
	n := 0
	for _, r := range rs {
		n += r.Count
	}
	return n
}

// on is f with the lists that its delta says, for a ledger whose last quorum is
// base. Errors: ErrFenced if the base is another; ErrInvalid for a delta that no
// leader makes. Its cost is bounded by the base and the entry's own length.
func (f Formed) on(base *Quorum) (Formed, error) {
	d := f.Delta
	switch {
	// It has whole lists: a first quorum, or of a leader whose cluster has a server that reads no
	// deltas.
	case d == nil:
		return f, nil
	// Which of the two is meant none can tell, and two servers must not choose differently.
	case len(f.Quorum.Members) > 0 || len(f.Quorum.Participants) > 0:
		return f, invalidf("quorum %d has both lists and a delta", f.Quorum.ID)
	// Of whom it says that they stay none can know here.
	case base == nil:
		return f, fmt.Errorf("%w: a delta follows no quorum", ErrFenced)
	}
	// Q2: ApplyFormed has compared id and round; this tells two lists under one pair apart.
	if got := sumMembers(base.Members); got != d.BaseSum {
		return f, fmt.Errorf("%w: the delta is upon members of sum %x, the ledger's quorum %d round %d has %x",
			ErrFenced, d.BaseSum, base.ID, base.Round, got)
	}
	members, err := d.members(base.Members)
	if err != nil {
		return f, err
	}
	// §2.2: ranks below Size, so each names a member that came out: members has as many.
	if err := eachRank("participants", d.Participants, d.Size, func(rank int) {
		f.Quorum.Participants = append(f.Quorum.Participants, members[rank].ReplicaID)
	}); err != nil {
		return f, err
	}
	f.Quorum.Members, f.Delta = members, nil
	return f, nil
}

// members are the members that d makes of the base's.
func (d *Delta) members(base []Member) ([]Member, error) {
	// Before anything is made: of a Size that is made up, a list of that capacity.
	if limit := min(len(base)+len(d.Members), MaxMembers); d.Size < 1 || d.Size > limit {
		return nil, invalidf("delta makes %d members, want 1 to %d", d.Size, limit)
	}
	states, err := d.states(len(base))
	if err != nil {
		return nil, err
	}
	members := make([]Member, 0, d.Size)
	next := d.Members
	for rank := range base {
		// Both lists are sorted: those who came stand before the next of the base.
		for len(next) > 0 && next[0].ReplicaID <= base[rank].ReplicaID {
			members, next = append(members, next[0]), next[1:]
		}
		// One that stays, and stands in Members as well, comes twice, and is refused below.
		if k := states[rank]; k >= 0 {
			members = append(members, base[rank].in(d.States[k].MemberState))
		}
	}
	// All that are above the last of the base.
	members = append(members, next...)
	if len(members) != d.Size {
		return nil, invalidf("delta makes %d members, says %d", len(members), d.Size)
	}
	// Members come from the entry, and may stand in any order, or twice. Ranks are indexes, and
	// members are found by bisection.
	for i := range members[1:] {
		if members[i].ReplicaID >= members[i+1].ReplicaID {
			return nil, invalidf("delta: %q does not come after %q", members[i+1].ReplicaID, members[i].ReplicaID)
		}
	}
	return members, nil
}

// states is, by rank in the base, the index in States; -1: gone.
func (d *Delta) states(base int) ([]int, error) {
	of := make([]int, base)
	if err := eachRank("gone", d.Gone, base, func(rank int) { of[rank] = -1 }); err != nil {
		return nil, err
	}
	// 0 is the first state, and of a rank that none names: so each rank of the base has exactly
	// one word, gone, a state that names it, or the first one.
	for i := range d.States {
		s := &d.States[i]
		if i == 0 {
			// It is that of all whom no other state names.
			if len(s.Ranks) > 0 {
				return nil, invalidf("delta: the first state names ranks")
			}
			continue
		}
		twice := false
		if err := eachRank("state", s.Ranks, base, func(rank int) {
			// Of two words on one member the one that is read last would count.
			twice = twice || of[rank] != 0
			of[rank] = i
		}); err != nil {
			return nil, err
		}
		if twice {
			return nil, invalidf("delta: a rank stands in two places")
		}
	}
	if len(d.States) == 0 && slices.Contains(of, 0) {
		return nil, invalidf("delta: members stay, and have no state")
	}
	return of, nil
}

// eachRank calls f with each rank of ranges that rise and lie within n.
func eachRank(what string, rs []RankRange, n int, f func(rank int)) error {
	next := 0
	for _, r := range rs {
		// Not First+Count > n: the sum of two large numbers is a negative one.
		if r.First < next || r.Count < 1 || r.First >= n || r.Count > n-r.First {
			return invalidf("delta: %s has ranks %d and the %d after it, want rising ones below %d", what, r.First, r.Count-1, n)
		}
		for i := range r.Count {
			f(r.First + i)
		}
		next = r.First + r.Count
	}
	return nil
}

// sumMembers sums up a list, FNV-1a: it tells one list of the same ledger from
// another, and withstands no forger, who could write whole lists as well.
func sumMembers(members []Member) uint64 {
	// Each text comes behind its length, so that "ab", "c" and "a", "bc" differ. The seat is left
	// out: the leader's list has it, and the ledger's has none.
	const prime = 1099511628211
	h := uint64(14695981039346656037)
	number := func(n uint64) {
		for range 8 {
			h = (h ^ n&0xff) * prime
			n >>= 8
		}
	}
	text := func(s string) {
		number(uint64(len(s)))
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * prime
		}
	}
	flag := func(b bool) {
		if b {
			h ^= 1
		}
		h *= prime
	}
	for i := range members {
		m := &members[i]
		text(string(m.ReplicaID))
		text(m.Address)
		text(m.StoreAddress)
		text(m.Data)
		text(m.Position.Cluster)
		number(uint64(m.Position.Step))
		number(uint64(m.Position.QuorumID))
		number(uint64(m.GroupWorldSize))
		number(uint64(m.FixedWorldSize))
		number(uint64(m.CommitFailures))
		flag(m.Torn)
		flag(m.Differs)
		flag(m.ShrinkOnly)
		flag(m.InitSync)
		flag(m.Sync)
	}
	return h
}

// Accusations in an entry: for people, who need not read a thousand of one death. What follows
// from them has been decided by then, at the leader alone.
const (
	maxAccusers  = 4 // of one replica
	maxEntryAccs = MaxHistory
)

// fewOf leaves of accusations those that an entry holds.
func fewOf(as []Accusation) []Accusation {
	var few []Accusation
	n := make(map[ReplicaID]int)
	for _, a := range as {
		if n[a.Against]++; n[a.Against] <= maxAccusers && len(few) < maxEntryAccs {
			few = append(few, a)
		}
	}
	return few
}
