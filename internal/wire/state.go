package wire

import (
	"strconv"

	"github.com/skerry-ft/skerry/internal/printable"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/quorum"
)

// This file converts the nouns of the protocol: positions, digests, facts,
// members, accusations, settlements. Messages that carry them are elsewhere.

// PositionToProto converts p.
func PositionToProto(p quorum.Position) *skerrypb.Position {
	return &skerrypb.Position{Cluster: p.Cluster, Step: p.Step, QuorumId: p.QuorumID}
}

// PositionFromProto converts p; nil is the position before the first commit.
func PositionFromProto(p *skerrypb.Position) (quorum.Position, error) {
	return whole("position", p, (*check).position)
}

func (c *check) position(field string, p *skerrypb.Position) quorum.Position {
	c.enter(field)
	defer c.leave()
	return quorum.Position{
		Cluster:  c.text("cluster", p.GetCluster(), MaxClusterBytes),
		Step:     c.rising("step", p.GetStep()),
		QuorumID: c.rising("quorum_id", p.GetQuorumId()),
	}
}

// DigestToProto converts d.
func DigestToProto(d quorum.Digest) *skerrypb.Digest {
	return &skerrypb.Digest{Valid: d.Valid, Sum: d.Sum}
}

// DigestFromProto converts d; nil is the digest of a backend that has none.
// Every value is allowed.
func DigestFromProto(d *skerrypb.Digest) quorum.Digest {
	return quorum.Digest{Valid: d.GetValid(), Sum: d.GetSum()}
}

// DigestsToProto converts the digests of a step, by group rank.
func DigestsToProto(ds []quorum.Digest) []*skerrypb.Digest {
	return listToProto(ds, DigestToProto)
}

func (c *check) digests(field string, ds []*skerrypb.Digest) []quorum.Digest {
	return list(c, field, ds, MaxGroupWorldSize, DigestFromProto)
}

// FactToProto converts f.
func FactToProto(f quorum.Fact) *skerrypb.Fact {
	return &skerrypb.Fact{
		Kind:     skerrypb.FactKind(f.Kind),
		Step:     f.Step,
		QuorumId: f.QuorumID,
		Digests:  DigestsToProto(f.Digests),
	}
}

// fact converts f; nil is no fact.
func (c *check) fact(field string, f *skerrypb.Fact) quorum.Fact {
	c.enter(field)
	defer c.leave()
	return quorum.Fact{
		Kind:     quorum.FactKind(c.enum("kind", int32(f.GetKind()), int32(quorum.Refused))),
		Step:     c.rising("step", f.GetStep()),
		QuorumID: c.rising("quorum_id", f.GetQuorumId()),
		Digests:  c.digests("digests", f.GetDigests()),
	}
}

// MemberToProto converts m.
func MemberToProto(m quorum.Member) *skerrypb.Member {
	return &skerrypb.Member{
		ReplicaId:      string(m.ReplicaID),
		Address:        m.Address,
		StoreAddress:   m.StoreAddress,
		GroupWorldSize: uint32(m.GroupWorldSize),
		Position:       PositionToProto(m.Position),
		ShrinkOnly:     m.ShrinkOnly,
		InitSync:       m.InitSync,
		Sync:           m.Sync,
		FixedWorldSize: uint32(m.FixedWorldSize),
		CommitFailures: m.CommitFailures,
		Data:           m.Data,
		Torn:           m.Torn,
		Differs:        m.Differs,
	}
}

// member converts m, whose path the caller has entered.
func (c *check) member(m *skerrypb.Member) quorum.Member {
	r := quorum.Member{
		ReplicaID:      c.id("replica_id", m.GetReplicaId()),
		Address:        c.text("address", m.GetAddress(), MaxAddressBytes),
		StoreAddress:   c.text("store_address", m.GetStoreAddress(), MaxAddressBytes),
		GroupWorldSize: int(c.number("group_world_size", int64(m.GetGroupWorldSize()), 1, MaxGroupWorldSize)),
		Position:       c.position("position", m.GetPosition()),
		ShrinkOnly:     m.GetShrinkOnly(),
		InitSync:       m.GetInitSync(),
		Sync:           m.GetSync(),
		FixedWorldSize: int(c.number("fixed_world_size", int64(m.GetFixedWorldSize()), 0, MaxMembers)),
		CommitFailures: c.rising("commit_failures", m.GetCommitFailures()),
		Torn:           m.GetTorn(),
		Differs:        m.GetDiffers(),
		Data:           c.data("data", m.GetData(), MaxDataBytes),
	}
	if r.Torn && r.Position != (quorum.Position{}) {
		c.bad("position", r.Position.String(), "none of a torn member")
	}
	return r
}

// oneMember converts a member that must be there.
func (c *check) oneMember(field string, m *skerrypb.Member) quorum.Member {
	if m == nil {
		c.missing(field)
		return quorum.Member{}
	}
	c.enter(field)
	defer c.leave()
	return c.member(m)
}

// members converts a member list: sorted by replica id, none twice.
func (c *check) members(field string, ms []*skerrypb.Member) []quorum.Member {
	var last quorum.ReplicaID // of which none is empty
	return list(c, field, ms, MaxMembers, func(m *skerrypb.Member) quorum.Member {
		r := c.member(m)
		if r.ReplicaID <= last {
			c.bad("replica_id", string(r.ReplicaID), "an id after %q: sorted, none twice", printable.Cut(string(last), maxShownBytes))
		}
		last = r.ReplicaID
		return r
	})
}

// LastAnswerToProto converts a; nil stays nil.
func LastAnswerToProto(a *quorum.LastAnswer) *skerrypb.LastAnswer {
	if a == nil {
		return nil
	}
	return &skerrypb.LastAnswer{
		Cluster:  a.Cluster,
		QuorumId: a.QuorumID,
		Round:    a.Round,
		Members:  listToProto(a.Members, MemberToProto),
		Part:     partToProto(a.Part),
	}
}

func partToProto(p *quorum.AnswerPart) *skerrypb.AnswerPart {
	if p == nil {
		return nil
	}
	r := &skerrypb.AnswerPart{
		Self: MemberToProto(p.Self), WorldSize: uint32(p.WorldSize), Max: PositionToProto(p.Max), Heal: p.Heal,
	}
	if s := p.Self.Seat; s != (quorum.Seat{}) {
		r.Seat = &skerrypb.SeatRun{QuorumId: s.QuorumID, First: uint32(s.Rank), Count: 1}
	}
	return r
}

func (c *check) part(field string, p *skerrypb.AnswerPart) *quorum.AnswerPart {
	if p == nil {
		return nil
	}
	c.enter(field)
	defer c.leave()
	r := &quorum.AnswerPart{
		Self:      c.oneMember("self", p.GetSelf()),
		WorldSize: int(c.number("world_size", int64(p.GetWorldSize()), 1, MaxMembers)),
		Max:       c.position("max", p.GetMax()),
		Heal:      p.GetHeal(),
	}
	if p.GetSeat() != nil {
		for _, s := range c.seats("seat", []*skerrypb.SeatRun{p.GetSeat()}, 1) {
			r.Self.Seat = quorum.Seat{QuorumID: s.QuorumID, Rank: s.First}
		}
	}
	return r
}

func (c *check) lastAnswer(field string, a *skerrypb.LastAnswer) *quorum.LastAnswer {
	if a == nil {
		return nil
	}
	c.enter(field)
	defer c.leave()
	return &quorum.LastAnswer{
		Cluster:  c.text("cluster", a.GetCluster(), MaxClusterBytes),
		QuorumID: c.rising("quorum_id", a.GetQuorumId()),
		Round:    c.rising("round", a.GetRound()),
		Members:  c.members("members", a.GetMembers()),
		Part:     c.part("part", a.GetPart()),
	}
}

// AccusationToProto converts a; its evidence is cut to MaxEvidenceBytes.
func AccusationToProto(a quorum.Accusation) *skerrypb.Accusation {
	return &skerrypb.Accusation{
		By:       string(a.By),
		Against:  string(a.Against),
		QuorumId: a.QuorumID,
		Evidence: Evidence(a.Evidence),

		Unreachable: a.Unreachable,
		Kind:        skerrypb.AccusationKind(a.Kind),
	}
}

// AccusationFromProto converts a.
func AccusationFromProto(a *skerrypb.Accusation) (quorum.Accusation, error) {
	var c check
	c.enter("accusation")
	r := c.accusation(a)
	return r, c.result()
}

func (c *check) accusation(a *skerrypb.Accusation) quorum.Accusation {
	return quorum.Accusation{
		By:       c.id("by", a.GetBy()),
		Against:  c.id("against", a.GetAgainst()),
		QuorumID: c.rising("quorum_id", a.GetQuorumId()),
		Evidence: c.text("evidence", a.GetEvidence(), MaxEvidenceBytes),

		Unreachable: a.GetUnreachable(),
		Kind:        quorum.AccusationKind(c.enum("kind", int32(a.GetKind()), int32(quorum.AccusedDiffers))),
	}
}

// LinkReportToProto converts r, but for who says it: a session has one replica.
func LinkReportToProto(r quorum.LinkReport) *skerrypb.LinkReport {
	return &skerrypb.LinkReport{To: string(r.To), Holds: r.Holds, Evidence: Evidence(r.Evidence)}
}

// LinkReportFromProto converts r, which came in the session of by.
func LinkReportFromProto(by quorum.ReplicaID, r *skerrypb.LinkReport) (quorum.LinkReport, error) {
	var c check
	c.enter("link")
	out := quorum.LinkReport{
		By: by, To: c.id("to", r.GetTo()), Holds: r.GetHolds(),
		Evidence: c.text("evidence", r.GetEvidence(), MaxEvidenceBytes),
	}
	return out, c.result()
}

// AccusationsToProto converts the newest MaxAccusations of as.
func AccusationsToProto(as []quorum.Accusation) []*skerrypb.Accusation {
	return listToProto(as[max(0, len(as)-MaxAccusations):], AccusationToProto)
}

func (c *check) accusations(field string, as []*skerrypb.Accusation) []quorum.Accusation {
	return list(c, field, as, MaxAccusations, c.accusation)
}

// SettlementToProto converts s.
func SettlementToProto(s quorum.Settlement) *skerrypb.Settlement {
	return &skerrypb.Settlement{
		Outcome:  skerrypb.Outcome(s.Outcome),
		Step:     s.Step,
		QuorumId: s.QuorumID,
		Digests:  DigestsToProto(s.Digests),
	}
}

func (c *check) settlement(field string, s *skerrypb.Settlement) quorum.Settlement {
	c.enter(field)
	defer c.leave()
	return quorum.Settlement{
		Outcome:  quorum.Outcome(c.enum("outcome", int32(s.GetOutcome()), int32(quorum.Discard))),
		Step:     c.rising("step", s.GetStep()),
		QuorumID: c.rising("quorum_id", s.GetQuorumId()),
		Digests:  c.digests("digests", s.GetDigests()),
	}
}

// QuorumToProto converts q; its reason is cut to MaxTextBytes.
func QuorumToProto(q quorum.Quorum) *skerrypb.Quorum {
	return &skerrypb.Quorum{
		Cluster:      q.Cluster,
		Job:          q.Job,
		Id:           q.ID,
		Round:        q.Round,
		Members:      listToProto(q.Members, MemberToProto),
		Participants: listToProto(q.Participants, func(id quorum.ReplicaID) string { return string(id) }),
		Settlement:   SettlementToProto(q.Settlement),
		Token:        q.Token[:],
		Reason:       Text(q.Reason),
		CreatedMs:    q.CreatedMs,
		View:         viewToProto(q.View),
	}
}

// QuorumFromProto converts q. It checks what its users rely on: members sorted
// by id, none twice; participants sorted, none twice, all of them members.
func QuorumFromProto(q *skerrypb.Quorum) (quorum.Quorum, error) {
	return whole("quorum", q, (*check).quorum)
}

func (c *check) quorum(field string, q *skerrypb.Quorum) quorum.Quorum {
	if q == nil {
		c.missing(field)
		return quorum.Quorum{}
	}
	c.enter(field)
	defer c.leave()
	r := quorum.Quorum{
		Cluster:    c.text("cluster", q.GetCluster(), MaxClusterBytes),
		Job:        c.job("job", q.GetJob()),
		ID:         c.rising("id", q.GetId()),
		Round:      c.rising("round", q.GetRound()),
		Members:    c.members("members", q.GetMembers()),
		Settlement: c.settlement("settlement", q.GetSettlement()),
		Reason:     c.text("reason", q.GetReason(), MaxTextBytes),
		CreatedMs:  c.rising("created_ms", q.GetCreatedMs()),
	}
	c.token(&r.Token, q.GetToken())
	r.Participants = c.participants("participants", q.GetParticipants(), r.Members)
	if q.GetView() != nil {
		r.View = c.view("view", q.GetView())
		if len(r.Members) > 0 {
			c.bad("members", strconv.Itoa(len(r.Members)), "none beside a view")
		}
	}
	return r
}

func (c *check) token(to *quorum.Token, token []byte) {
	if len(token) != TokenBytes {
		c.fail("token", strconv.Itoa(len(token))+" bytes", strconv.Itoa(TokenBytes))
	}
	copy(to[:], token)
}

// participants converts a sorted part of the members' ids.
func (c *check) participants(field string, ids []string, members []quorum.Member) []quorum.ReplicaID {
	if c.failed() || !c.count(field, len(ids), len(members)) {
		return nil
	}
	r := make([]quorum.ReplicaID, len(ids))
	next := 0
	for i, id := range ids {
		for next < len(members) && string(members[next].ReplicaID) < id {
			next++
		}
		if next == len(members) || string(members[next].ReplicaID) != id {
			c.element(field, i)
			c.bad("id", id, "members' ids, sorted, none twice")
			c.leave()
			return nil
		}
		r[i] = members[next].ReplicaID
		next++
	}
	return r
}
