package facts

import (
	"math"
	"time"

	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/lighthouse/internal/steprate"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/quorum/story"
)

// Overview is the job as the API has it.
func (j Job) Overview() api.Job {
	m := j.Rules
	o := api.Job{JobFacts: api.JobFacts{
		Job: j.Name, Client: m.Client.String(), State: string(m.State), StateSinceMs: m.Since.UnixMilli(),
		Stands: m.Stands, Fell: causeOf(m.Fell), FellBy: m.Fell.String(), Wanted: m.Wanted,
		Reason: m.Reason.String(), ReasonCode: m.Reason.Code.String(), Rules: j.rules(), LastSeq: j.LastSeq,
		WantedReplicas: j.Wanted, Launchers: j.Launchers,
		LostMs: j.Cost.Lost.Milliseconds(), Goodput: digits(j.Cost.Goodput(j.Now.UnixMilli(), j.down()), 4),
	}, Replicas: []api.Replica{}}
	if q := m.Last; q != nil {
		o.Ordinal = j.Ordinal
		o.QuorumID, o.Round, o.CreatedMs, o.Formed = q.ID, q.Round, q.CreatedMs, q.Reason
		o.Members, o.Participants = len(q.Members), len(q.Participants)
	}
	if m.State == quorum.JobFinished && j.Cost.ToMs > 0 {
		// Another leader may have told it.
		o.StateSinceMs, o.MaxStep = j.Cost.ToMs, j.Cost.Step
	}
	if m.Stands && m.StepTime > 0 {
		o.StepRate = digits(1/m.StepTime.Seconds(), 2)
	}
	for _, r := range m.Replicas {
		o.MaxStep = max(o.MaxStep, position(r).Step)
	}
	if o.StepsTotal = j.StepsTotal; m.State.InUse() {
		o.EtaMs = steprate.Left(o.MaxStep, j.StepsTotal, j.LongRate).Milliseconds()
	}
	slow := story.StragglesAbove(m.Replicas)
	for _, r := range m.Replicas {
		o.Replicas = append(o.Replicas, replicaOverview(j, r, o.MaxStep, slow))
	}
	return o
}

// down is for how long the job has been without the quorum that it had.
func (j Job) down() time.Duration {
	if j.Rules.State != quorum.JobTraining && j.Rules.Last != nil {
		return j.Now.Sub(j.Rules.Since)
	}
	return 0
}

func (j Job) rules() api.Rules {
	m := j.Rules
	return api.Rules{
		MinReplicas: m.Config.MinReplicas, MaxReplicas: m.Config.MaxReplicas,
		JoinTimeoutMs:      m.Config.JoinTimeout.Milliseconds(),
		HeartbeatTimeoutMs: m.Config.HeartbeatTimeout.Milliseconds(),
		SuspectAfterMs:     m.Config.SuspectAfter.Milliseconds(),
		GraceMs:            m.Config.Grace.Milliseconds(),
		StuckAfterMs:       m.StuckAfter.Milliseconds(),
		EvictStuck:         m.Config.EvictStuck,
		ProbationAfter:     m.Config.ProbationAfter,
		StepTimeMs:         m.StepTime.Milliseconds(),
		BeatIntervalMs:     j.BeatInterval.Milliseconds(),
	}
}

// position is the highest that is known of a replica.
func position(r quorum.ReplicaStatus) quorum.Position {
	if r.Beat.Position.Compare(r.Position) > 0 {
		return r.Beat.Position
	}
	return r.Position
}

func replicaOverview(j Job, r quorum.ReplicaStatus, highest int64, slow time.Duration) api.Replica {
	at := position(r)
	o := api.Replica{
		ReplicaID: string(r.ReplicaID), State: string(r.State), Why: r.Why,
		Member: r.Member, Participant: r.Participant, Heals: r.Heals, Session: r.Session,
		Step: at.Step, StepQuorum: at.QuorumID, Behind: highest - at.Step, Phase: r.Beat.Phase.String(), Progress: r.Beat.Progress,
		SilenceMs: r.Silence.Milliseconds(), IdleMs: r.Idle.Milliseconds(),
		WaitingMs: r.Waiting.Milliseconds(), Address: r.Address,
		Cause: causeOf(r.Gone), StepMs: ms(r.Beat.Own), WaitMs: ms(r.Beat.Wait),
	}
	if r.State == quorum.StateLive && slow > 0 && r.Beat.Own > slow {
		o.State, o.Straggler = "straggler", true
	}
	if r.State == quorum.StateHealing {
		o.Heal = healOf(j, r)
	}
	return o
}

// maxDonors is how many donors of a heal are named.
const maxDonors = 8

// healOf is how far a member's heal is.
func healOf(j Job, r quorum.ReplicaStatus) *api.Heal {
	h := &api.Heal{Bytes: bytesOf(r.Beat.HealBytes), TotalBytes: bytesOf(r.Beat.HealTotal), From: []string{}}
	for _, donor := range j.Rules.Replicas {
		if donor.Member && !donor.Heals && len(h.From) < maxDonors {
			h.From = append(h.From, string(donor.ReplicaID))
		}
	}
	if s := j.Now.Sub(j.Rules.Since).Seconds(); j.Rules.Stands && s > 0 {
		h.MBPerS = digits(float64(h.Bytes)/1e6/s, 2)
	}
	return h
}

// bytesOf is a peer's word, which may be any number.
func bytesOf(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

// digits rounds to so many digits after the first.
func digits(v float64, more int) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0
	}
	scale := math.Pow(10, float64(more)-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}

// Overview is a status as the API has it, without its jobs.
func Overview(st api.Status, started time.Time) api.Overview {
	return api.Overview{
		Head: api.Head{
			Cluster: st.Cluster, Version: st.Version, Addr: st.Addr, Leads: st.Leads, Leader: st.Leader, Term: st.Term,
			StartedMs: started.UnixMilli(), Sessions: st.Sessions, Durable: st.Durable, OpenJoins: st.OpenJoins,
			CertificateUntilMs: st.CertificateUntilMs, CertificateWarning: st.CertificateWarning, Refused: st.Refused,
		},
		NowMs: st.NowMs, UptimeMs: st.UptimeMs, Servers: st.Servers, Jobs: []api.Job{},
	}
}

// server is a server as the API has it; last is the index of the leader's last entry.
func server(m *skerrypb.MemberInfo, last uint64) api.ServerFacts {
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
