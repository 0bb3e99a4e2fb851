package facts

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

// Servers are the members of a cluster as the API has them.
func Servers(members *skerrypb.MembersResponse) []api.ServerFacts {
	all := []api.ServerFacts{}
	for _, m := range members.GetMembers() {
		all = append(all, server(m, members.GetLastIndex()))
	}
	return all
}

// HistoryToProto is an entry of a job's history as a call answers with it.
func HistoryToProto(e quorum.HistoryEntry) *skerrypb.HistoryEntry {
	return &skerrypb.HistoryEntry{
		CreatedMs: e.CreatedMs, QuorumId: e.QuorumID, Round: e.Round,
		Members: Texts(e.Members), Joined: Texts(e.Joined), Left: Texts(e.Left), Reason: e.Reason,
		Accusations: wire.AccusationsToProto(e.Accusations),
		Settlement:  wire.SettlementToProto(e.Settlement),
	}
}

// Info is a job in a line.
func Info(job string, m quorum.Status, rules *skerrypb.JobRules) *skerrypb.JobInfo {
	info := &skerrypb.JobInfo{Job: job, Client: m.Client.String(), Stands: m.Stands, Replicas: uint32(len(m.Replicas)), Rules: rules}
	if m.Last != nil {
		info.QuorumId, info.Members = m.Last.ID, uint32(len(m.Last.Members))
	}
	for _, r := range m.Replicas {
		info.Step = max(info.Step, position(r).Step)
	}
	return info
}
