package facts

import (
	"math"
	"slices"
	"time"

	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/quorum"
)

// Document is what a stream tells: o, coarse enough to stand still while jobs train.
func Document(o api.Overview, servers api.Servers) api.Document {
	d := api.Document{
		Head: o.Head, NowMs: o.NowMs, Jobs: make(map[string]api.JobDocument), Servers: make(map[string]api.ServerFacts),
	}
	for _, j := range o.Jobs {
		one := api.JobDocument{JobFacts: j.JobFacts, Replicas: make(map[string]api.Replica)}
		one.StepTimeMs = int64(digits(float64(j.StepTimeMs), 1))
		one.StepRate, one.Goodput = digits(j.StepRate, 1), math.Round(j.Goodput*1000)/1000
		one.EtaMs = int64(digits(float64(j.EtaMs), 1))
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
