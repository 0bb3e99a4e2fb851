package facts

import (
	"time"

	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/quorum/story"
)

// shown is how many quorums and events /status.json has of each job.
const shown = 40

// Job is what a job's status is made of.
type Job struct {
	Name         string
	Rules        quorum.Status
	BeatInterval time.Duration
	History      []quorum.HistoryEntry // oldest first
	Events       []api.Note            // oldest first
	LastSeq      int64                 // of the newest event that the feed has
	Cost         story.Cost            // of the changes in it
	Ordinal      int64                 // of the last quorum, among the job's; 0: not known
	StepsTotal   int64                 // of the run; 0: not known
	LongRate     float64               // steps a second over the last minutes; 0: not known
	Wanted       *api.Wanted           // how many replicas are; nil: no number
	Launchers    int                   // that have asked for it of late
	Now          time.Time             // of the rest
}

// Status is the job as /status.json has it.
func (j Job) Status() api.JobStatus {
	m := j.Rules
	st := api.JobStatus{
		Job: j.Name, Client: m.Client.String(), Stands: m.Stands, FellBy: m.Fell.String(), Wanted: m.Wanted,
		Reason: m.Reason.String(), Replicas: []api.ReplicaStatus{}, History: historyStatus(j.History), Rules: j.rules(),
	}
	if q := m.Last; q != nil {
		st.QuorumID, st.Round, st.CreatedMs, st.Formed = q.ID, q.Round, q.CreatedMs, q.Reason
		st.Members, st.Participants = len(q.Members), len(q.Participants)
	}
	for _, r := range m.Replicas {
		st.MaxStep = max(st.MaxStep, r.Position.Step, r.Beat.Position.Step)
		st.Replicas = append(st.Replicas, replicaStatus(r))
	}
	for i := len(j.Events) - 1; i >= 0 && len(st.Events) < shown; i-- {
		st.Events = append(st.Events, j.Events[i])
	}
	return st
}

func replicaStatus(r quorum.ReplicaStatus) api.ReplicaStatus {
	at := position(r)
	return api.ReplicaStatus{
		ReplicaID: string(r.ReplicaID), State: string(r.State), Why: r.Why,
		Member: r.Member, Participant: r.Participant, Heals: r.Heals, Session: r.Session,
		Step: at.Step, StepQuorum: at.QuorumID, Phase: r.Beat.Phase.String(), Progress: r.Beat.Progress,
		SilenceMs: r.Silence.Milliseconds(), IdleMs: r.Idle.Milliseconds(),
		WaitingMs: r.Waiting.Milliseconds(), Address: r.Address,
	}
}

func historyStatus(all []quorum.HistoryEntry) []api.HistoryStatus {
	st := []api.HistoryStatus{}
	for i := len(all) - 1; i >= 0 && len(st) < shown; i-- {
		e := all[i]
		h := api.HistoryStatus{
			AtMs: e.CreatedMs, QuorumID: e.QuorumID, Round: e.Round, Members: max(e.Size, len(e.Members)),
			Joined: Texts(e.Joined), Left: Texts(e.Left), Reason: e.Reason,
		}
		if e.Settlement.Settles() {
			h.Settled = e.Settlement.String()
		}
		for _, a := range e.Accusations {
			h.Accusations = append(h.Accusations, string(a.By)+" accused "+string(a.Against)+": "+a.Evidence)
		}
		st = append(st, h)
	}
	return st
}

// Texts are ids as the API and the wire have them.
func Texts(ids []quorum.ReplicaID) []string {
	all := make([]string, len(ids))
	for i, id := range ids {
		all[i] = string(id)
	}
	return all
}
