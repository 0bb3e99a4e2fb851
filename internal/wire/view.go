package wire

import (
	"strconv"

	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/quorum"
)

func viewToProto(w *quorum.View) *skerrypb.View {
	if w == nil {
		return nil
	}
	r := &skerrypb.View{
		Self: MemberToProto(w.Self), Rank: uint32(w.Rank), WorldSize: uint32(w.WorldSize),
		ParticipantRank: optionalRank(w.ParticipantRank), Divisor: uint32(w.Divisor),
		Max: PositionToProto(w.Max), MaxRank: optionalRank(w.MaxRank), MaxWorldSize: uint32(w.MaxWorldSize),
		CommitFailures: w.CommitFailures, Donor: w.Donor, Heal: w.Heal,
		Healing: peersToProto(w.Healing), HealingCount: uint32(w.HealingCount),
	}
	for _, s := range w.Seats {
		r.Seats = append(r.Seats, &skerrypb.SeatRun{QuorumId: s.QuorumID, First: uint32(s.First), Count: uint32(s.Count)})
	}
	for _, p := range w.Participants {
		r.Participants = append(r.Participants, &skerrypb.RankRange{First: uint32(p.First), Count: uint32(p.Count)})
	}
	for _, p := range w.Ranks {
		r.Ranks = append(r.Ranks, &skerrypb.RankView{
			Primary: string(p.Primary), StoreAddress: p.StoreAddress,
			Sources: peersToProto(p.Sources), Targets: peersToProto(p.Targets),
		})
	}
	return r
}

// optionalRank is absent for -1.
func optionalRank(rank int) *uint32 {
	if rank < 0 {
		return nil
	}
	return new(uint32(rank))
}

func peersToProto(ps []quorum.Peer) []*skerrypb.Peer {
	r := make([]*skerrypb.Peer, len(ps))
	for i, p := range ps {
		r[i] = &skerrypb.Peer{ReplicaId: string(p.ReplicaID), Rank: uint32(p.Rank), Address: p.Address}
	}
	return r
}

// view converts one member's part of a quorum. It checks what its users rely on:
// every rank within the world, ranges that rise, parts for all group ranks.
func (c *check) view(field string, w *skerrypb.View) *quorum.View {
	c.enter(field)
	defer c.leave()
	world := c.number("world_size", int64(w.GetWorldSize()), 1, MaxMembers)
	r := &quorum.View{
		Rank:            int(c.number("rank", int64(w.GetRank()), 0, world-1)),
		WorldSize:       int(world),
		ParticipantRank: c.rankOrNone("participant_rank", w.ParticipantRank, world),
		Divisor:         int(c.number("divisor", int64(w.GetDivisor()), 0, world)),
		Max:             c.position("max", w.GetMax()),
		MaxRank:         c.rankOrNone("max_rank", w.MaxRank, world),
		MaxWorldSize:    int(c.number("max_world_size", int64(w.GetMaxWorldSize()), 1, world)),
		CommitFailures:  c.rising("commit_failures", w.GetCommitFailures()),
		Donor:           w.GetDonor(),
		Heal:            w.GetHeal(),
		Healing:         c.peers("healing", w.GetHealing(), quorum.MaxViewPeers, world),
		HealingCount:    int(c.number("healing_count", int64(w.GetHealingCount()), 0, world)),
	}
	if c.enter("self"); w.GetSelf() == nil {
		c.missing("self")
	} else {
		r.Self = c.member(w.GetSelf())
	}
	c.leave()
	r.Seats = c.seats("seats", w.GetSeats(), world)
	if c.failed() {
		return r
	}
	r.Self.Seat = quorum.SeatAt(r.Seats, r.Rank)
	r.Participants = c.ranges("participants", w.GetParticipants(), int64(r.Divisor), world)
	if want := max(r.Self.GroupWorldSize, 1); len(w.GetRanks()) != want {
		c.bad("ranks", strconv.Itoa(len(w.GetRanks())), "%d, one for each group rank", want)
		return r
	}
	for i, p := range w.GetRanks() {
		c.element("ranks", i)
		r.Ranks = append(r.Ranks, quorum.RankView{
			Primary:      c.id("primary", p.GetPrimary()),
			StoreAddress: c.text("store_address", p.GetStoreAddress(), MaxAddressBytes),
			Sources:      c.peers("sources", p.GetSources(), quorum.MaxViewSources, world),
			Targets:      c.peers("targets", p.GetTargets(), quorum.MaxViewPeers, world),
		})
		c.leave()
	}
	return r
}

func (c *check) rankOrNone(field string, rank *uint32, world int64) int {
	if rank == nil {
		return -1
	}
	return int(c.number(field, int64(*rank), 0, world-1))
}

func (c *check) peers(field string, ps []*skerrypb.Peer, limit int, world int64) []quorum.Peer {
	if !c.count(field, len(ps), limit) || len(ps) == 0 {
		return nil
	}
	r := make([]quorum.Peer, len(ps))
	for i, p := range ps {
		c.element(field, i)
		r[i] = quorum.Peer{
			ReplicaID: c.id("replica_id", p.GetReplicaId()), Rank: int(c.number("rank", int64(p.GetRank()), 0, world-1)),
			Address: c.text("address", p.GetAddress(), MaxAddressBytes),
		}
		c.leave()
	}
	return r
}

// seats converts runs of seats, total in all, or none.
func (c *check) seats(field string, rs []*skerrypb.SeatRun, total int64) []quorum.SeatRun {
	if !c.count(field, len(rs), MaxMembers) || len(rs) == 0 {
		return nil
	}
	var r []quorum.SeatRun
	sum := int64(0)
	for i, s := range rs {
		c.element(field, i)
		run := quorum.SeatRun{
			QuorumID: c.rising("quorum_id", s.GetQuorumId()),
			First:    int(c.number("first", int64(s.GetFirst()), 0, MaxMembers-1)),
			Count:    int(c.number("count", int64(s.GetCount()), 1, MaxMembers)),
		}
		c.leave()
		if c.failed() {
			return nil
		}
		sum += int64(run.Count)
		r = append(r, run)
	}
	if sum != total {
		c.bad(field, strconv.FormatInt(sum, 10)+" seats", "%d", total)
	}
	return r
}

// ranges converts ranges of ranks that rise and do not touch, total ranks in all.
func (c *check) ranges(field string, rs []*skerrypb.RankRange, total, world int64) []quorum.RankRange {
	if !c.count(field, len(rs), MaxMembers) {
		return nil
	}
	var r []quorum.RankRange
	next, sum := int64(0), int64(0)
	for i, p := range rs {
		c.element(field, i)
		first := c.number("first", int64(p.GetFirst()), next, world-1)
		count := c.number("count", int64(p.GetCount()), 1, max(world-first, 1))
		c.leave()
		if c.failed() {
			return nil
		}
		next, sum = first+count+1, sum+count
		r = append(r, quorum.RankRange{First: int(first), Count: int(count)})
	}
	if sum != total {
		c.bad(field, strconv.FormatInt(sum, 10)+" ranks", "as many as the divisor, %d", total)
	}
	return r
}
