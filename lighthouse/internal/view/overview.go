package view

import (
	"math"
	"slices"
	"time"

	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/lighthouse/internal/feed"
	"github.com/skerry-ft/skerry/quorum"
)

// Overview is the job as the API has it.
func (j Job) Overview() api.Job {
	m := j.Rules
	o := api.Job{JobFacts: api.JobFacts{
		Job: j.Name, Client: m.Client.String(), State: string(m.State), Stands: m.Stands, Fell: feed.Cause(m.Fell), FellBy: m.Fell.String(), Wanted: m.Wanted,
		Reason: m.Reason.String(), ReasonCode: m.Reason.Code.String(), Rules: j.rules(), LastSeq: j.LastSeq,
		StateSinceMs: j.Now.Add(-m.Since).UnixMilli(),
	}, Replicas: []api.Replica{}}
	if q := m.Last; q != nil {
		o.QuorumID, o.Round, o.CreatedMs, o.Formed = q.ID, q.Round, q.CreatedMs, q.Reason
		o.Members, o.Participants = len(q.Members), len(q.Participants)
	}
	if m.Stands && m.StepTime > 0 {
		o.StepRate = digits(1/m.StepTime.Seconds(), 2)
	}
	for _, r := range m.Replicas {
		o.MaxStep = max(o.MaxStep, position(r).Step)
	}
	for _, r := range m.Replicas {
		o.Replicas = append(o.Replicas, replicaOverview(r, o.MaxStep))
	}
	return o
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

func replicaOverview(r quorum.ReplicaStatus, highest int64) api.Replica {
	at := position(r)
	return api.Replica{
		ReplicaID: string(r.ReplicaID), State: string(r.State), Why: r.Why, Cause: feed.Cause(r.Gone),
		Member: r.Member, Participant: r.Participant, Heals: r.Heals, Session: r.Session,
		Step: at.Step, StepQuorum: at.QuorumID, Behind: highest - at.Step, Phase: r.Beat.Phase.String(), Progress: r.Beat.Progress,
		SilenceMs: r.Silence.Milliseconds(), IdleMs: r.Idle.Milliseconds(),
		WaitingMs: r.Waiting.Milliseconds(), Address: r.Address,
	}
}

// digits rounds to so many digits after the first.
func digits(v float64, more int) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0
	}
	scale := math.Pow(10, float64(more)-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}

// Document is what a stream tells: o, coarse enough to stand still while jobs train.
func Document(o api.Overview, servers api.Servers) api.Document {
	d := api.Document{
		Head: o.Head, NowMs: o.NowMs, Jobs: make(map[string]api.JobDocument), Servers: make(map[string]api.ServerFacts),
	}
	for _, j := range o.Jobs {
		one := api.JobDocument{JobFacts: j.JobFacts, Replicas: make(map[string]api.Replica)}
		one.StepTimeMs = int64(digits(float64(j.StepTimeMs), 1))
		one.StepRate = digits(j.StepRate, 1)
		one.StateSinceMs -= one.StateSinceMs % 1000
		slack := slackOf(j.Rules)
		for _, r := range j.Replicas {
			one.Replicas[r.ReplicaID] = coarse(r, slack)
		}
		d.Jobs[j.Job] = one
	}
	for _, s := range servers.Servers {
		s.LastIndex = 0
		if s.Alive {
			s.SilenceMs = 0
		}
		if s.Lag < fewEntries {
			s.Lag = 0
		}
		s.SilenceMs -= s.SilenceMs % 1000
		d.Servers[s.ID] = s
	}
	return d
}

// fewEntries are entries on their way to a server: they are no lag.
const fewEntries = 16

// slackOf is how many steps behind the job a replica looks that keeps up: its last beat
// is up to a beat's interval old.
func slackOf(r api.Rules) int64 {
	if r.StepTimeMs <= 0 {
		return 2 * r.BeatIntervalMs // steps shorter than a millisecond
	}
	return 2 + 2*r.BeatIntervalMs/r.StepTimeMs
}

// ordinary are the phases of a replica that trains, step after step.
var ordinary = []string{quorum.PhaseIdle.String(), quorum.PhaseTraining.String(), quorum.PhaseBalloting.String()}

// coarse is a replica without what ticks while it trains.
func coarse(r api.Replica, slack int64) api.Replica {
	r.Step, r.StepQuorum, r.Progress, r.IdleMs, r.WaitingMs = 0, 0, 0, 0, 0
	if r.Behind <= slack {
		r.Behind = 0
	}
	r.Behind = int64(digits(float64(r.Behind), 1))
	if r.SilenceMs <= time.Second.Milliseconds() {
		r.SilenceMs = 0
	}
	r.SilenceMs -= r.SilenceMs % time.Second.Milliseconds()
	if slices.Contains(ordinary, r.Phase) {
		r.Phase = ""
	}
	r.StepMs, r.WaitMs = digits(r.StepMs, 1), digits(r.WaitMs, 1)
	return r
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
