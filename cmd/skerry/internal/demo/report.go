package demo

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/internal/printable"
)

// ledger keeps what the report is made of. It is owned by the demo's goroutine.
type ledger struct {
	members    map[int64][]string // of each quorum
	commits    map[int64]int64    // step → when the first replica committed it
	discarded  map[[2]int64]bool  // step and quorum of attempts thrown away
	outages    []*outage          // one per kill
	children   int                // of those, kills of a backend's child
	foreign    int                // of those, kills that the demo did not order
	crashes    []string           // of those, ends by a fault of the replica's own
	houseEnds  int                // of lighthouses, not by the demo
	houseKills int                // of leading lighthouses
	heals      int                // of states beyond step 0
	healMs     []float64
	quorum     int64 // the newest
	firstNs    int64 // the first quorum
	lastStep   int64
}

// outage is a kill and how the survivors get over it.
type outage struct {
	at      int64
	victim  string           // replica id of the dead incarnation; "" if a child died
	after   int64            // only commits of later quorums count
	waiting map[*replica]int // survivors that have not committed since, with their generation
	lastNs  int64            // when the last of the others has
	over    bool
}

func newLedger() *ledger {
	return &ledger{
		members: make(map[int64][]string), commits: make(map[int64]int64),
		discarded: make(map[[2]int64]bool),
	}
}

// steps is the highest step that a replica committed.
func (l *ledger) steps() int64 { return l.lastStep }

// take notes an event of r.
func (l *ledger) take(r *replica, e event) {
	switch e.Kind {
	case eventQuorum:
		l.members[e.QuorumID] = e.Members
		l.quorum = max(l.quorum, e.QuorumID)
		l.firstNs = cmp.Or(l.firstNs, e.AtNs)
	case eventCommitted:
		l.lastStep = max(l.lastStep, e.Step)
		if at, ok := l.commits[e.Step]; !ok || e.AtNs < at {
			l.commits[e.Step] = e.AtNs
		}
		for _, o := range l.outages {
			o.committed(r, e, l.members[e.QuorumID])
		}
	case eventDiscarded:
		l.discarded[[2]int64{e.Step, e.QuorumID}] = true
	case eventHealed:
		if e.Step > 0 { // at step 0 all take one replica's first weights
			l.heals++
			l.healMs = append(l.healMs, e.TookMs)
		}
	}
}

// killed notes that victim died, or at nil the process that runs a replica's backend:
// then all have to get over it.
func (l *ledger) killed(at int64, victim *replica, all []*replica) {
	o := &outage{at: at, waiting: make(map[*replica]int)}
	if victim != nil {
		o.victim = victim.id
		l.dismiss(victim) // the dead commit no more
	} else {
		o.after = l.quorum
		l.children++
	}
	for _, r := range all {
		if r != victim && r.committed {
			o.waiting[r] = r.generation
		}
	}
	l.outages = append(l.outages, o)
}

// committed notes that r committed a step. It counts if the quorum that
// committed it does not hold the dead incarnation: a step that was as good as
// committed when the victim died shows nothing.
func (o *outage) committed(r *replica, e event, members []string) {
	generation, waits := o.waiting[r]
	if !waits || e.AtNs < o.at || e.QuorumID <= o.after || slices.Contains(members, o.victim) {
		return
	}
	delete(o.waiting, r)
	if generation == r.generation {
		o.lastNs = max(o.lastNs, e.AtNs)
	}
	o.over = len(o.waiting) == 0
}

// dismiss waits for r no more.
func (o *outage) dismiss(r *replica) {
	if _, waits := o.waiting[r]; waits {
		delete(o.waiting, r)
		o.over = len(o.waiting) == 0 && o.lastNs > 0
	}
}

// dismiss waits for r no more: it has left, or died.
func (l *ledger) dismiss(r *replica) {
	for _, o := range l.outages {
		o.dismiss(r)
	}
}

// spread is a median, a maximum, and what they are of, ascending.
type spread struct {
	Median  float64   `json:"median"`
	Max     float64   `json:"max"`
	Samples []float64 `json:"samples,omitempty"`
}

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	v := slices.Clone(values)
	slices.Sort(v)
	return spread{Median: median(v), Max: v[len(v)-1], Samples: v}
}

// median is that of sorted values.
func median[T cmp.Ordered](sorted []T) T { return sorted[(len(sorted)-1)/2] }

// Report is the demo's result.
type Report struct {
	Steps          int64           `json:"steps"`
	Kills          int             `json:"kills"`
	ChildKills     int             `json:"child_kills"`     // of those, kills of the process that runs a replica's backend
	ForeignKills   int             `json:"foreign_kills"`   // of those, kills that the demo did not order
	Crashes        []string        `json:"crashes"`         // of those, ends by a fault of the replica's own
	LighthouseEnds int             `json:"lighthouse_ends"` // not by the demo
	LeaderKills    int             `json:"leader_kills"`    // of the leading lighthouse
	Heals          int             `json:"heals"`
	DiscardedSteps int             `json:"discarded_steps"` // attempts, however many replicas saw them fail
	TestAccuracy   float64         `json:"test_accuracy"`
	Parity         bool            `json:"parity"`
	Goodput        float64         `json:"goodput"` // steps at the median pace over the time they took
	WallMs         float64         `json:"wall_ms"`
	RecoverMs      spread          `json:"recover_ms"` // SIGKILL to the last survivor's next commit
	HealMs         spread          `json:"heal_ms"`
	StepMs         float64         `json:"step_ms"` // median
	Replicas       []replicaReport `json:"replicas"`

	wanted int64
	whole  bool // all who stayed have come to their end
}

// replicaReport is one replica's end.
type replicaReport struct {
	Name   string          `json:"name"`
	Starts int             `json:"starts"`
	Step   int64           `json:"step"`
	SHA256 string          `json:"sha256"`
	Left   string          `json:"left,omitempty"`  // why it was not there at the end
	Stats  json.RawMessage `json:"stats,omitempty"` // of its last incarnation's manager
}

// report sums up a run that came to its end.
func (l *ledger) report(d *demo, wall time.Duration) Report {
	r := Report{
		Steps: l.lastStep, Kills: len(l.outages), ChildKills: l.children, ForeignKills: l.foreign, Crashes: l.crashes, LighthouseEnds: l.houseEnds, LeaderKills: l.houseKills, Heals: l.heals, DiscardedSteps: len(l.discarded),
		WallMs: ms(wall), HealMs: spreadOf(l.healMs), wanted: d.cfg.Steps, whole: d.finished(),
	}
	var first *event
	for _, x := range d.replicas {
		f := x.final
		if f == nil {
			r.Replicas = append(r.Replicas, replicaReport{Name: x.name, Starts: x.generation, Step: x.step, Left: cmp.Or(x.left, x.phase)})
			continue
		}
		r.Replicas = append(r.Replicas, replicaReport{
			Name: x.name, Starts: x.generation, Step: f.Step, SHA256: f.Hash, Stats: f.Stats,
		})
		if first == nil {
			first, r.Parity, r.TestAccuracy = f, r.whole, f.Accuracy
		}
		r.Parity = r.Parity && f.Hash == first.Hash && f.Step == first.Step
		r.TestAccuracy = min(r.TestAccuracy, f.Accuracy)
	}
	var recover []float64
	for _, o := range l.outages {
		if o.over {
			recover = append(recover, float64(o.lastNs-o.at)/1e6)
		}
	}
	r.RecoverMs = spreadOf(recover)
	r.Goodput, r.StepMs = l.goodput()
	return r
}

// goodput compares the time from the first quorum to the last commit with what
// as many steps take at the median pace.
func (l *ledger) goodput() (part, stepMs float64) {
	var paces []int64
	var last int64
	for step, at := range l.commits {
		last = max(last, at)
		if before, ok := l.commits[step-1]; ok {
			paces = append(paces, at-before)
		}
	}
	if len(paces) == 0 || last <= l.firstNs {
		return 0, 0
	}
	slices.Sort(paces)
	pace := median(paces)
	part = float64(pace) * float64(len(l.commits)) / float64(last-l.firstNs)
	return min(part, 1), float64(pace) / 1e6
}

// print writes the report for people.
func (r Report) print(w io.Writer) {
	fmt.Fprintf(w, "\n%s in %.1f s, %s, %s, %s discarded, goodput %.1f %%\n", cli.Plural(r.Steps, "step"), r.WallMs/1e3,
		cli.Plural(r.Kills, "kill"), cli.Plural(r.Heals, "heal"), cli.Plural(r.DiscardedSteps, "step"), 100*r.Goodput)
	if r.ChildKills > 0 {
		fmt.Fprintf(w, "%d of the kills hit the child that runs a replica's backend, not the replica\n", r.ChildKills)
	}
	if r.ForeignKills > 0 {
		fmt.Fprintf(w, "%d of the kills came from elsewhere\n", r.ForeignKills)
	}
	if r.LighthouseEnds > 0 {
		fmt.Fprintf(w, "a lighthouse ended %s, and not by this demo\n", cli.Plural(r.LighthouseEnds, "time"))
	}
	if r.LeaderKills > 0 {
		fmt.Fprintf(w, "the leading lighthouse was killed %s\n", cli.Plural(r.LeaderKills, "time"))
	}
	if r.Kills > 0 {
		fmt.Fprintf(w, "SIGKILL to the survivors' next commit: median %.0f ms, max %.0f ms (a step takes %.0f ms)\n",
			r.RecoverMs.Median, r.RecoverMs.Max, r.StepMs)
	}
	if r.whole {
		fmt.Fprintf(w, "test accuracy %.4f\n", r.TestAccuracy)
	}
	for _, x := range r.Replicas {
		if x.SHA256 == "" {
			fmt.Fprintf(w, "%-11s step %d, %s, %s\n", x.Name, x.Step, printable.Line(x.Left), cli.Plural(x.Starts, "start"))
			continue
		}
		fmt.Fprintf(w, "%-11s step %d sha256 %s, %s\n", x.Name, x.Step, printable.Line(x.SHA256), cli.Plural(x.Starts, "start"))
	}
	if r.whole {
		fmt.Fprintf(w, "parity: %v\n", r.Parity)
	}
}

// trouble is what is wrong with the run in one line, "" if nothing is.
func (r Report) trouble() string {
	if len(r.Crashes) > 0 {
		return fmt.Sprintf("%s without being killed, the first: %s", cli.Plural(len(r.Crashes), "end"), r.Crashes[0])
	}
	held := slices.DeleteFunc(slices.Clone(r.Replicas), func(x replicaReport) bool { return x.SHA256 == "" })
	if len(held) == 0 {
		return fmt.Sprintf("all replicas have left at step %d of %d", r.Steps, r.wanted)
	}
	if r.Steps < r.wanted {
		return fmt.Sprintf("%d of %d steps were made", r.Steps, r.wanted)
	}
	for _, x := range held {
		if first := held[0]; x.SHA256 != first.SHA256 || x.Step != first.Step {
			return fmt.Sprintf("parameters differ: %s at step %d has %.16s…, %s at step %d has %.16s…",
				first.Name, first.Step, first.SHA256, x.Name, x.Step, x.SHA256)
		}
	}
	return ""
}
