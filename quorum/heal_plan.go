package quorum

import "slices"

// This file is who heals, from whom, and in which order it asks (§5): planHeals says who
// gives and who takes, sources in which order, and targets is the same order seen by a
// donor. [Assign] and the views of large quorums hand it out, manager/heal.go and
// checkpoint carry it out.

// healPlan is who gives and who takes, by replica rank.
type healPlan struct {
	max      Position
	upToDate []int // members at max, whose bytes are those of the donors, or will be at step 0
	donors   []int // members whose bytes count
	healing  []int // members that take
}

// planHeals finds who gives and who takes (§5). Of members at the highest position whose bytes differ (C1 at
// rest) the ones that are said to differ heal from the others. Where all do, because
// the others are gone, the first is right: its bytes are all that is left. (Were it to
// wait for somebody who is right, a job of two would end with the death of one.)
//
//	a 9@3, b 9@3, c 7@2, d torn         a and b give, c and d take
//	a 9@3 and differs, b 9@3            b gives, a takes
//	a 9@3 and differs, b 7@2            a gives, b takes: what a has is all that is left
//	a 0@0, b 0@0, with InitSync         a gives, b takes: at the start each has bytes of its own
//	a 0@0, b 0@0, without               none takes: each keeps its own state
func planHeals(q *Quorum) healPlan {
	p := healPlan{max: highest(q.Cluster, q.Members)}
	initSync := p.max.Step == 0
	at := func(m Member) bool { return !m.Torn && m.Position == p.max }
	alike := slices.ContainsFunc(q.Members, func(m Member) bool { return at(m) && !m.Differs })
	for rank, m := range q.Members {
		switch {
		case !at(m), m.Differs && (alike || len(p.donors) > 0):
			// Behind, torn, or of other bytes than the others at the highest position (§2.7).
			p.healing = append(p.healing, rank)
			continue
		case initSync && m.InitSync && len(p.donors) > 0:
			// At step 0 one position has as many states as replicas: one donor for all (C1).
			p.healing = append(p.healing, rank)
		default:
			p.donors = append(p.donors, rank)
		}
		p.upToDate = append(p.upToDate, rank)
	}
	return p
}

// heals says that a member takes; the list is sorted, for it was made in the order of ranks.
func (p healPlan) heals(rank int) bool {
	_, found := slices.BinarySearch(p.healing, rank)
	return found
}

// sources are the donors of the i-th member that heals, the one to ask first is first, and
// at most limit of them: donor (i + groupRank) mod count, and those after it. So the load is
// spread over donors, and the ranks of one replica ask different ones.
func (p healPlan) sources(q *Quorum, i, groupRank, limit int) []Peer {
	var peers []Peer
	for k := range min(len(p.donors), limit) {
		peers = append(peers, peer(q, p.donors[(i+groupRank+k)%len(p.donors)]))
	}
	return peers
}

// targets are the members that ask the given donor first, by replica rank, and at most limit
// of them: those of which it is the first of sources.
func (p healPlan) targets(q *Quorum, donor, groupRank, limit int) []Peer {
	var peers []Peer
	count := len(p.donors)
	// sources begins with donor (i + groupRank) mod count, so i is donor - groupRank mod count.
	for i := (donor - groupRank%count + count) % count; i < len(p.healing) && len(peers) < limit; i += count {
		peers = append(peers, peer(q, p.healing[i]))
	}
	return peers
}

// primary is the member whose store a group rank meets at: another one for each group rank, so
// that one store does not serve all.
func (p healPlan) primary(groupRank int) int { return p.upToDate[groupRank%len(p.upToDate)] }

func peer(q *Quorum, rank int) Peer {
	return Peer{ReplicaID: q.Members[rank].ReplicaID, Rank: rank, Address: q.Members[rank].Address}
}
