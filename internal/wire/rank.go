package wire

import (
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/quorum"
)

// This file converts what passes between a replica's ranks and its manager
// server.

// RankReportToProto converts r.
func RankReportToProto(r quorum.RankReport) *skerrypb.RankQuorumRequest {
	m := &skerrypb.RankQuorumRequest{
		GroupRank:          uint32(r.GroupRank),
		Kind:               skerrypb.JoinKind(r.Kind),
		Position:           PositionToProto(r.Position),
		HaveQuorumId:       r.HaveQuorumID,
		HaveRound:          r.HaveRound,
		Fact:               skerrypb.FactKind(r.Fact.Kind),
		FactStep:           r.Fact.Step,
		FactQuorumId:       r.Fact.QuorumID,
		LastDigest:         DigestToProto(r.LastDigest),
		CheckpointMetadata: r.CheckpointMetadata,
		ShrinkOnly:         r.ShrinkOnly,
		InitSync:           r.InitSync,
		Sync:               r.Sync,
		FixedWorldSize:     uint32(r.FixedWorldSize),
		CommitFailures:     r.CommitFailures,
		Accusations:        AccusationsToProto(r.Accusations),
		Attempt:            r.Attempt,
		Void:               r.Void,
		Withdraw:           r.Withdraw,
		Away:               r.Away,
		Differs:            r.Differs,
		Why:                Evidence(r.Fall.Why),
		AgoUs:              uint64(r.Fall.Ago.Microseconds()),
	}
	if len(r.Fact.Digests) > 0 {
		m.FactDigest = DigestToProto(r.Fact.Digests[0])
	}
	return m
}

// RankReportFromProto converts m.
func RankReportFromProto(m *skerrypb.RankQuorumRequest) (quorum.RankReport, error) {
	var c check
	c.enter("report")
	r := quorum.RankReport{
		GroupRank:    c.groupRank(m.GetGroupRank()),
		Kind:         quorum.JoinKind(c.enum("kind", int32(m.GetKind()), int32(quorum.JoinAsk))),
		Position:     c.position("position", m.GetPosition()),
		HaveQuorumID: c.rising("have_quorum_id", m.GetHaveQuorumId()),
		HaveRound:    c.rising("have_round", m.GetHaveRound()),
		Fact: quorum.Fact{
			Kind:     quorum.FactKind(c.enum("fact", int32(m.GetFact()), int32(quorum.Refused))),
			Step:     c.rising("fact_step", m.GetFactStep()),
			QuorumID: c.rising("fact_quorum_id", m.GetFactQuorumId()),
		},
		LastDigest:         DigestFromProto(m.GetLastDigest()),
		CheckpointMetadata: c.data("checkpoint_metadata", m.GetCheckpointMetadata(), MaxMetadataBytes),
		ShrinkOnly:         m.GetShrinkOnly(),
		InitSync:           m.GetInitSync(),
		Sync:               m.GetSync(),
		FixedWorldSize:     int(c.number("fixed_world_size", int64(m.GetFixedWorldSize()), 0, MaxMembers)),
		CommitFailures:     c.rising("commit_failures", m.GetCommitFailures()),
		Accusations:        c.accusations("accusations", m.GetAccusations()),
		Attempt:            m.GetAttempt(),
		Void:               m.GetVoid(),
		Withdraw:           m.GetWithdraw(),
		Away:               m.GetAway(),
		Differs:            m.GetDiffers(),
		Fall:               fallFromProto(m.GetWhy(), m.GetAgoUs()),
	}
	if m.GetFactDigest() != nil {
		r.Fact.Digests = []quorum.Digest{DigestFromProto(m.GetFactDigest())}
	}
	return r, c.result()
}

// groupRank checks a group rank; whether it is below the group's own world
// size is for the receiver to say.
func (c *check) groupRank(rank uint32) int {
	return int(c.number("group_rank", int64(rank), 0, MaxGroupWorldSize-1))
}

// CheckGroupRank checks a group rank that stands alone in a request, against
// the size of the group.
func CheckGroupRank(rank uint32, groupWorldSize int) (int, error) {
	var c check
	r := c.number("group_rank", int64(rank), 0, int64(groupWorldSize)-1)
	return int(r), c.result()
}

// VoteToProto converts v.
func VoteToProto(v quorum.RankVote) *skerrypb.VoteRequest {
	return &skerrypb.VoteRequest{
		GroupRank:    uint32(v.GroupRank),
		QuorumId:     v.QuorumID,
		Round:        v.Round,
		Step:         v.Step,
		Vote:         skerrypb.VoteKind(v.Vote),
		ChangeWanted: v.ChangeWanted,
		Broken:       v.Broken,
		Digest:       DigestToProto(v.Digest),
		Attempt:      v.Attempt,
		Void:         v.Void,
		Last:         v.Last,
	}
}

// VoteFromProto converts m.
func VoteFromProto(m *skerrypb.VoteRequest) (quorum.RankVote, error) {
	var c check
	c.enter("vote")
	v := quorum.RankVote{
		GroupRank:    c.groupRank(m.GetGroupRank()),
		QuorumID:     c.rising("quorum_id", m.GetQuorumId()),
		Round:        c.rising("round", m.GetRound()),
		Step:         c.rising("step", m.GetStep()),
		Vote:         quorum.Vote(c.enum("vote", int32(m.GetVote()), int32(quorum.VoteBehind))),
		ChangeWanted: m.GetChangeWanted(),
		Broken:       m.GetBroken(),
		Digest:       DigestFromProto(m.GetDigest()),
		Attempt:      m.GetAttempt(),
		Void:         m.GetVoid(),
		Last:         m.GetLast(),
	}
	return v, c.result()
}

// TallyResultToProto converts r.
func TallyResultToProto(r quorum.TallyResult) *skerrypb.VoteResponse {
	return &skerrypb.VoteResponse{
		Outcome:      skerrypb.TallyOutcome(r.Outcome),
		ChangeWanted: r.ChangeWanted,
		Stands:       r.Stands,
		Digests:      DigestsToProto(r.Digests),
	}
}

// TallyResultFromProto converts m.
func TallyResultFromProto(m *skerrypb.VoteResponse) (quorum.TallyResult, error) {
	var c check
	c.enter("tally")
	r := quorum.TallyResult{
		Outcome:      quorum.TallyOutcome(c.enum("outcome", int32(m.GetOutcome()), int32(quorum.TallyBehind))),
		ChangeWanted: m.GetChangeWanted(),
		Stands:       m.GetStands(),
		Digests:      c.digests("digests", m.GetDigests()),
	}
	return r, c.result()
}
