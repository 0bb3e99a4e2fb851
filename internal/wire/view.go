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
	r.Seats = listToProto(w.Seats, func(s quorum.SeatRun) *skerrypb.SeatRun {
		return &skerrypb.SeatRun{QuorumId: s.QuorumID, First: uint32(s.First), Count: uint32(s.Count)}
	})
	r.Participants = listToProto(w.Participants, func(p quorum.RankRange) *skerrypb.RankRange {
		return &skerrypb.RankRange{First: uint32(p.First), Count: uint32(p.Count)}
	})
	r.Ranks = listToProto(w.Ranks, func(p quorum.RankView) *skerrypb.RankView {
		return &skerrypb.RankView{
			Primary: string(p.Primary), StoreAddress: p.StoreAddress,
			Sources: peersToProto(p.Sources), Targets: peersToProto(p.Targets),
		}
	})
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
	return listToProto(ps, func(p quorum.Peer) *skerrypb.Peer {
		return &skerrypb.Peer{ReplicaId: string(p.ReplicaID), Rank: uint32(p.Rank), Address: p.Address}
	})
}

// view converts one member's part of a quorum. It checks what its users rely on:
// every rank within the world, ranges that rise, parts for all group ranks.
func (c *check) view(field string, w *skerrypb.View) *quorum.View {
	c.enter(field)
	defer c.leave()
	world := c.number("world_size", int64(w.GetWorldSize()), 1, MaxMembers)
	r := &quorum.View{
		Self:            c.oneMember("self", w.GetSelf()),
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
	r.Ranks = list(c, "ranks", w.GetRanks(), MaxGroupWorldSize, func(p *skerrypb.RankView) quorum.RankView {
		return quorum.RankView{
			Primary:      c.id("primary", p.GetPrimary()),
			StoreAddress: c.text("store_address", p.GetStoreAddress(), MaxAddressBytes),
			Sources:      c.peers("sources", p.GetSources(), quorum.MaxViewSources, world),
			Targets:      c.peers("targets", p.GetTargets(), quorum.MaxViewPeers, world),
		}
	})
	return r
}

func (c *check) rankOrNone(field string, rank *uint32, world int64) int {
	if rank == nil {
		return -1
	}
	return int(c.number(field, int64(*rank), 0, world-1))
}

func (c *check) peers(field string, ps []*skerrypb.Peer, limit int, world int64) []quorum.Peer {
	return list(c, field, ps, limit, func(p *skerrypb.Peer) quorum.Peer {
		return quorum.Peer{
			ReplicaID: c.id("replica_id", p.GetReplicaId()), Rank: int(c.number("rank", int64(p.GetRank()), 0, world-1)),
			Address: c.text("address", p.GetAddress(), MaxAddressBytes),
		}
	})
}

// seats converts runs of seats, total in all, or none.
func (c *check) seats(field string, rs []*skerrypb.SeatRun, total int64) []quorum.SeatRun {
	sum := int64(0)
	r := list(c, field, rs, MaxMembers, func(s *skerrypb.SeatRun) quorum.SeatRun {
		run := quorum.SeatRun{
			QuorumID: c.rising("quorum_id", s.GetQuorumId()),
			First:    int(c.number("first", int64(s.GetFirst()), 0, MaxMembers-1)),
			Count:    int(c.number("count", int64(s.GetCount()), 1, MaxMembers)),
		}
		sum += int64(run.Count)
		return run
	})
	if r != nil && sum != total {
		c.bad(field, strconv.FormatInt(sum, 10)+" seats", "%d", total)
	}
	return r
}

// ranges converts ranges of ranks that rise and do not touch, total ranks in all.
func (c *check) ranges(field string, rs []*skerrypb.RankRange, total, world int64) []quorum.RankRange {
	next, sum := int64(0), int64(0)
	r := list(c, field, rs, MaxMembers, func(p *skerrypb.RankRange) quorum.RankRange {
		first := c.number("first", int64(p.GetFirst()), next, world-1)
		count := c.number("count", int64(p.GetCount()), 1, max(world-first, 1))
		next, sum = first+count+1, sum+count
		return quorum.RankRange{First: int(first), Count: int(count)}
	})
	if sum != total {
		c.bad(field, strconv.FormatInt(sum, 10)+" ranks", "as many as the divisor, %d", total)
	}
	return r
}
