package quorum

import (
	"cmp"
	"fmt"
	"slices"
)

// Peer is another member, as one that heals or is healed from must know it.
type Peer struct {
	ReplicaID ReplicaID
	Rank      int    // replica rank
	Address   string // URL of its manager server
}

// Assignment is what one rank of one member has to do in a quorum.
type Assignment struct {
	QuorumID, Round   int64
	ReplicaRank       int // index among the members
	ReplicaWorldSize  int // number of members
	ParticipantRank   int // index among the participants; -1: heals beside the step, or spare
	Divisor           int // number of participants
	StoreAddress      string
	Primary           ReplicaID // whose store is StoreAddress, for this group rank
	Max               Position  // what up to date means in this quorum
	Position          Position  // where this member stands after settlement; see Settlement
	Heal              bool      // take the state Max from Sources
	Sources           []Peer    // all donors, the one to ask first is first; empty unless Heal
	Targets           []Peer    // the members that ask this one first, by replica rank
	Healing           []Peer    // all members that heal, by replica rank: a donor may be asked by any
	Donor             bool      // holds Max and may be asked
	CommitFailures    int64     // the most that a member reported
	ReplicaIDs        []ReplicaID
	Settlement        Settlement
	FirstParticipants int // of the members that hold Max; torchft calls it max_world_size
	MaxRank           int // index among the members that hold Max; -1: none of them. torchft's max_replica_rank
}

// Assign turns a quorum into what one rank of one member has to do.
//
// A member with a prepared claim was rolled forward if and only if Position is
// (its fact's step, its fact's quorum id); otherwise the step is discarded, and
// if Heal is set the state comes from Sources. A member that heals and is a
// participant heals before its collectives; one that is no participant may heal
// beside them.
//
// Whom a member that heals asks, and in which order, is healPlan's (heal_plan.go), and so
// is whose store it is: heals and rendezvous are spread over donors and rotate per group
// rank. At step 0 with InitSync the members hold different bytes at one position: the first
// is the only donor, for all group ranks.
//
// Of a quorum that carries a view the assignment is the same, but for lists that
// are cut (see MaxViewSources).
//
// Errors: ErrNotMember; ErrInvalid for a group rank that the member has not.
// Source: torchft compute_quorum_results; we differ at step 0, where torchft
// takes another donor for each group rank.
func Assign(q *Quorum, id ReplicaID, groupRank int) (Assignment, error) {
	// A view is one member's own part, cut by the leader from the same plan.
	if q.View != nil {
		return q.View.assign(q, id, groupRank)
	}
	rank, found := memberRank(q.Members, id)
	// §5: a member that drained is answered with a quorum without it, see Rank.Take.
	if !found {
		return Assignment{}, fmt.Errorf("%w: %q in quorum %d", ErrNotMember, id, q.ID)
	}
	me := q.Members[rank]
	// Of a member that does not tell how many ranks it has, any may ask.
	if limit := max(me.GroupWorldSize, 1); groupRank < 0 || groupRank >= limit && me.GroupWorldSize > 0 {
		return Assignment{}, invalidf("group rank = %d, want 0 to %d", groupRank, limit-1)
	}
	// No lighthouse forms one (choose). Of a list that is made up there is no plan: none is a
	// donor, and primary would divide by zero.
	if !anyWhole(q.Members) {
		return Assignment{}, invalidf("quorum %d: all its %d members are torn", q.ID, len(q.Members))
	}
	p := planHeals(q)
	a := Assignment{
		QuorumID: q.ID, Round: q.Round, ReplicaRank: rank, ReplicaWorldSize: len(q.Members),
		ParticipantRank: slices.Index(q.Participants, id), Divisor: len(q.Participants),
		Max: p.max, Position: me.Position, Heal: p.heals(rank), ReplicaIDs: memberIDs(q.Members),
		Settlement: q.Settlement, FirstParticipants: len(p.upToDate), MaxRank: slices.Index(p.upToDate, rank),
		Donor: slices.Contains(p.donors, rank),
	}
	primary := q.Members[p.primary(groupRank)]
	a.Primary, a.StoreAddress = primary.ReplicaID, primary.StoreAddress
	for _, m := range q.Members {
		a.CommitFailures = max(a.CommitFailures, m.CommitFailures)
	}
	for i, target := range p.healing {
		a.Healing = append(a.Healing, peer(q, target))
		if target == rank {
			a.Sources = p.sources(q, i, groupRank, len(p.donors))
		}
	}
	if donor := slices.Index(p.donors, rank); donor >= 0 {
		a.Targets = p.targets(q, donor, groupRank, len(p.healing))
	}
	return a, nil
}

// StorePrefix is the namespace of one rendezvous, used once: "skerry/<cluster>/
// <job>/<quorum id>/<group rank>".
func StorePrefix(q *Quorum, groupRank int) string {
	return fmt.Sprintf("skerry/%s/%s/%d/%d", q.Cluster, q.Job, q.ID, groupRank)
}

// participants are the members whose gradients count, by replica rank: those up
// to date, and those that heal before their collectives (Sync, or InitSync at
// step 0, which is a process's first quorum). FixedWorldSize makes the rest
// spares. All members have the same list, so that all divide by the same number (§2.2).
//
//	a, b and c at 9@3, d behind                    a, b and c: d heals beside the step
//	the same, and d heals before its collectives   all four: d has the state by then
//	a to d at 9@3, FixedWorldSize 3                a, b and c: d is a spare
func participants(cluster string, members []Member) []ReplicaID {
	p := planHeals(&Quorum{Cluster: cluster, Members: members})
	var ids []ReplicaID
	limit := len(members)
	for rank, m := range members {
		if m.FixedWorldSize > 0 {
			// Equal in a job of our own clients (checkModes).
			limit = min(limit, m.FixedWorldSize)
		}
		_, level := slices.BinarySearch(p.upToDate, rank)
		// One that heals beside its collectives has no gradients of this state: its part is
		// zeros, and counting it would make the step too short.
		if m.Sync || level || !m.Torn && m.InitSync && p.max.Step == 0 {
			ids = append(ids, m.ReplicaID)
		}
	}
	return ids[:min(limit, len(ids))]
}

// anyWhole says that a member holds a whole state, so that the others can heal.
func anyWhole(members []Member) bool {
	return slices.ContainsFunc(members, func(m Member) bool { return !m.Torn })
}

// highest returns the highest position of the members that are not torn. Two that differ in
// nothing but the cluster are ordered too, ours first, so that exactly one of
// them counts as up to date.
func highest(cluster string, members []Member) Position {
	var top Position
	found := false
	for _, m := range members {
		// §5: a torn one is at no position; its zero one would be step 0.
		if !m.Torn && (!found || orderPositions(cluster, m.Position, top) > 0) {
			top, found = m.Position, true
		}
	}
	return top
}

// orderPositions orders positions, and of two that differ only in the cluster puts that of
// cluster last, for it is the ledger that is in force.
//
//	5@9 < 6@3         the step comes first
//	5@3 < 5@9         one step of two quorums: the later quorum did it again
//	y/5@3 < x/5@3     for cluster x; two of others are ordered by name, so that one is higher
func orderPositions(cluster string, a, b Position) int {
	if c := a.Compare(b); c != 0 || a.Cluster == b.Cluster {
		return c
	}
	switch {
	case a.Cluster == cluster:
		return 1
	case b.Cluster == cluster:
		return -1
	}
	return cmp.Compare(a.Cluster, b.Cluster)
}

// memberRank finds a replica among members sorted by id.
func memberRank(members []Member, id ReplicaID) (int, bool) {
	return slices.BinarySearchFunc(members, id, func(m Member, id ReplicaID) int {
		return cmp.Compare(m.ReplicaID, id)
	})
}
