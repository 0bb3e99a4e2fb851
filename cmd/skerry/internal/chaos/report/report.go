package report

import (
	"cmp"
	"slices"
	"time"

	"github.com/skerry-ft/skerry/cmd/internal/connect"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/changes"
	"github.com/skerry-ft/skerry/lighthouse/api"
)

// The ways in which a run ends.
const (
	EndedDuration    = "duration"    // its time was over
	EndedInterrupted = "interrupted" // by Ctrl-C
	EndedFinished    = "finished"    // the job went in good order
	EndedStall       = "stall"       // the job commits no more
	EndedFailed      = "failed"      // the job has gone, and not in good order
)

// Report is what a run showed.
type Report struct {
	Job       string `json:"job"`
	Seed      uint64 `json:"seed"`
	StartedMs int64  `json:"started_ms"`
	WallMs    int64  `json:"wall_ms"`
	Ended     string `json:"ended"`
	Why       string `json:"why,omitempty"` // of a stall or a failure

	Faults   []Fault `json:"faults"`
	Skipped  []Skip  `json:"skipped"`
	Stalls   int     `json:"stalls"`
	NotWhole int     `json:"not_whole"` // faults after which fewer replicas trained than before
	NoEffect int     `json:"no_effect"` // faults that the job went on from as if nothing had been
	Unnamed  int     `json:"unnamed"`   // quorums that fell by a fault whose victim the lighthouse did not name

	Steps  int64   `json:"steps"`
	StepMs float64 `json:"step_ms"` // when nothing disturbs it
	// Goodput is the time that the steps take when nothing disturbs them, over the time
	// that they took; by the steps that were seen.
	Goodput float64 `json:"goodput"`
	// LostMs is what the lighthouse says that changes of the quorum cost.
	LostMs    float64 `json:"lost_ms"`
	ResumedMs Spread  `json:"resumed_ms"` // fault to the next step, as it was seen

	Timeline []Point `json:"timeline"`
}

// Spread is a median and a maximum.
type Spread struct {
	Median float64 `json:"median"`
	Max    float64 `json:"max"`
}

// Fault is one fault of a report. Times are milliseconds from the fault; absent: it was not
// seen.
type Fault struct {
	Number int    `json:"number"`
	Kind   string `json:"kind"`
	Victim string `json:"victim,omitempty"` // a replica's id
	Peer   string `json:"peer,omitempty"`   // the other end of a link
	Rank   int    `json:"rank,omitempty"`
	Leader string `json:"leader,omitempty"` // how a leader went: transfer or kill
	How    string `json:"how"`
	AtMs   int64  `json:"at_ms"`
	ForMs  int64  `json:"for_ms,omitempty"`
	// ResumedMs is when a step was seen that the job committed after the fault; WholeMs
	// when as many replicas trained as before.
	ResumedMs int64 `json:"resumed_ms,omitempty"`
	WholeMs   int64 `json:"whole_ms,omitempty"`
	Stall     bool  `json:"stall,omitempty"`
	Told      *Told `json:"told,omitempty"` // absent: the quorum did not fall

	text string
}

// Told is what the lighthouse told of a fault.
type Told struct {
	Kind     string   `json:"kind,omitempty"` // of the cause
	Culprits []string `json:"culprits"`
	Named    bool     `json:"named"` // the victim is among them
	Text     string   `json:"text"`

	api.Cost
}

// Result is how a run ended.
type Result struct {
	Job        string
	Seed       uint64
	Ended, Why string
	At         time.Time
	Events     []api.Event // of the job
}

// Of sums up a run.
func (r *Recorder) Of(end Result) Report {
	rep := Report{
		Job: end.Job, Seed: end.Seed, StartedMs: r.Began.UnixMilli(), WallMs: end.At.Sub(r.Began).Milliseconds(),
		Ended: end.Ended, Why: end.Why, Faults: []Fault{}, Skipped: append([]Skip{}, r.Skips...), Timeline: append([]Point{}, r.points...),
	}
	rep.Goodput, rep.Steps = r.goodput()
	rep.StepMs = float64(r.stepTime()) / float64(time.Millisecond)
	told := r.told(changes.Of(end.Events))
	var resumed []float64
	for i, o := range r.Outages {
		f := o.fault()
		f.Stall = end.Ended == EndedStall && i == len(r.Outages)-1
		f.Told = told[o]
		if f.Told != nil && f.Victim != "" && !f.Told.Named {
			rep.Unnamed++
		}
		if o.Resumed.IsZero() && end.Ended == EndedStall {
			f.Stall = true
		}
		switch {
		case o.Late.IsZero():
		case o.Resumed.IsZero():
			rep.NoEffect++
		default:
			rep.NotWhole++
		}
		if !o.Resumed.IsZero() {
			resumed = append(resumed, float64(f.ResumedMs))
		}
		rep.Faults = append(rep.Faults, f)
	}
	if end.Ended == EndedStall {
		rep.Stalls = 1 // it ends the run
	}
	rep.LostMs = r.lost(changes.Of(end.Events))
	if slices.Sort(resumed); len(resumed) > 0 {
		rep.ResumedMs = Spread{resumed[(len(resumed)-1)/2], resumed[len(resumed)-1]}
	}
	return rep
}

// fault is what is known of an outage without the lighthouse.
func (o *Outage) fault() Fault {
	f := Fault{
		Number: o.Fault.Number, Kind: string(o.Fault.Kind), Victim: o.Fault.Victim, Peer: o.Fault.Peer, Rank: o.Fault.Rank,
		Leader: string(o.Fault.Leader), How: o.How, AtMs: o.At.UnixMilli(), ForMs: o.Fault.For.Milliseconds(),
		text: connect.Named(o.Fault.String()),
	}
	if !o.Resumed.IsZero() {
		f.ResumedMs = o.Resumed.Sub(o.At).Milliseconds()
	}
	if !o.Over.IsZero() {
		f.WholeMs = o.Over.Sub(o.At).Milliseconds()
	}
	return f
}

// slack is how much two clocks may differ after they were compared: a call's way.
const slack = 100 * time.Millisecond

// told finds what the lighthouse told of each fault: the first quorum after it that fell by
// something, before the next fault.
func (r *Recorder) told(all []api.Event) map[*Outage]*Told {
	found := make(map[*Outage]*Told)
	for i, o := range r.Outages {
		from := o.At.Add(o.before.Ahead - slack).UnixMilli()
		to := r.last.At.Add(o.before.Ahead + slack).UnixMilli()
		if i+1 < len(r.Outages) {
			to = r.Outages[i+1].At.Add(o.before.Ahead - slack).UnixMilli()
		}
		at := slices.IndexFunc(all, func(e api.Event) bool {
			return e.AtMs >= from && e.AtMs < to && (e.Cause != nil || len(e.Gone) > 0)
		})
		if at >= 0 {
			found[o] = toldOf(o, all[at])
		}
	}
	return found
}

// toldOf is a change of the quorum as the answer to a fault.
func toldOf(o *Outage, e api.Event) *Told {
	t := &Told{Text: e.Text, Culprits: []string{}}
	causes := slices.Clone(e.Gone)
	if e.Cause != nil {
		t.Kind = e.Cause.Kind
		causes = append(causes, *e.Cause)
	}
	for _, c := range causes {
		t.Kind = cmp.Or(t.Kind, c.Kind)
		if c.Replica != "" && !slices.Contains(t.Culprits, c.Replica) {
			t.Culprits = append(t.Culprits, c.Replica)
		}
		t.Named = t.Named || c.Replica != "" && (c.Replica == o.Fault.Victim || c.Replica == o.Fault.Peer)
	}
	if e.Cost != nil {
		t.Cost = *e.Cost
	}
	return t
}

// lost is what changes of the quorum cost since the run began.
func (r *Recorder) lost(all []api.Event) (ms float64) {
	from := r.Began.Add(r.first.Ahead).UnixMilli()
	for _, e := range all {
		if e.AtMs >= from && e.Cost != nil {
			ms += e.Cost.LostMs
		}
	}
	return ms
}

// Trouble is what is wrong with a run in one line, "" if nothing is.
func (r Report) Trouble() string {
	switch r.Ended {
	case EndedStall, EndedFailed:
		return r.Why
	}
	return ""
}
