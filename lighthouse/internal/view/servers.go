package view

import (
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/quorum"
)

// RulesRequest is a change of rules as a call, whose bounds are checked in one place.
func RulesRequest(c api.RulesChange) *skerrypb.ConfigureRequest {
	return &skerrypb.ConfigureRequest{
		MinReplicas: c.MinReplicas, MaxReplicas: c.MaxReplicas, JoinTimeoutMs: c.JoinTimeoutMs, HeartbeatTimeoutMs: c.HeartbeatTimeoutMs,
		SuspectAfterMs: c.SuspectAfterMs, GraceMs: c.GraceMs, StuckAfterMs: c.StuckAfterMs, EvictStuck: c.EvictStuck,
		ProbationAfter: c.ProbationAfter, Reset_: c.Reset,
	}
}

// ServersOf are the members of a cluster as the API has them.
func ServersOf(members *skerrypb.MembersResponse) []api.ServerFacts {
	all := []api.ServerFacts{}
	for _, m := range members.GetMembers() {
		all = append(all, serverFacts(m, members.GetLastIndex()))
	}
	return all
}

func serverFacts(m *skerrypb.MemberInfo, last uint64) api.ServerFacts {
	f := api.ServerFacts{
		ID: m.GetRaftId(), Addr: m.GetRpcAddress(), Raft: m.GetRaftAddress(), Version: m.GetVersion(), State: "follower",
		Leader: m.GetLeader(), Voter: m.GetVoter(), Alive: m.GetAlive(), LastIndex: m.GetLastIndex(),
		Lag: last - min(m.GetLastIndex(), last), SilenceMs: m.GetSilenceMs(),
	}
	switch {
	case f.Leader:
		f.State, f.Lag = "leader", 0
	case !f.Alive:
		f.State = "away"
	case !m.GetInRaft():
		f.State = "joining"
	case !f.Voter:
		f.State = "spare"
	}
	return f
}

// HistoryToProto is an entry of a job's history as a call answers with it.
func HistoryToProto(e quorum.HistoryEntry) *skerrypb.HistoryEntry {
	return &skerrypb.HistoryEntry{
		CreatedMs: e.CreatedMs, QuorumId: e.QuorumID, Round: e.Round,
		Members: texts(e.Members), Joined: texts(e.Joined), Left: texts(e.Left), Reason: e.Reason,
		Accusations: wire.AccusationsToProto(e.Accusations),
		Settlement:  wire.SettlementToProto(e.Settlement),
	}
}
