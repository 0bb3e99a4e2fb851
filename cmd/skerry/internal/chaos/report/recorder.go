package report

import (
	"cmp"
	"slices"
	"time"

	"github.com/skerry-ft/skerry/cmd/skerry/internal/chaos/plan"
)

// Point is the job at one moment of a drawing.
type Point struct {
	AtMs   int64 `json:"at_ms"`
	Step   int64 `json:"step"`
	Trains int   `json:"trains"` // replicas; 0: the quorum has fallen
}

// maxPoints bounds the drawing of a run: of more, every second one is left out.
const maxPoints = 2000

// Skip is a fault that there was none of.
type Skip struct {
	AtMs   int64  `json:"at_ms"`
	Number int    `json:"number"`
	Why    string `json:"why"`
}

// Recorder takes in what happens in a run.
type Recorder struct {
	Bound   time.Duration // no step for so long is a stall
	Began   time.Time
	Outages []*Outage
	Skips   []Skip

	first, last Look
	advanced    time.Time // when the last step was seen
	paces       []pace
	quiet       pace // of the stretches without a fault
	stretch     Look // the first step in this one; zero: none yet
	points      []Point
	every       int // looks between two points
	skipped     int // looks since the last point
}

// pace is how long some steps took.
type pace struct {
	took  time.Duration
	steps int64
}

// each is how long one of them took.
func (p pace) each() time.Duration { return p.took / time.Duration(max(p.steps, 1)) }

// Look takes in the job at a moment. Looks come in the order of time.
func (r *Recorder) Look(l Look) {
	if r.first.At.IsZero() {
		r.first, r.advanced, r.every = l, l.At, 1
	}
	if l.Step > r.last.Step && !r.last.At.IsZero() {
		r.time(l)
	}
	if len(r.Open()) > 0 {
		r.stretch = Look{}
	}
	r.last = l
	r.draw(l)
	for _, o := range r.Outages {
		if !o.Open() {
			continue
		}
		o.look(l)
		goesOn := !o.Resumed.IsZero() || l.At.Sub(r.advanced) < r.Bound/2
		if o.Open() && goesOn && l.At.Sub(later(o.At, o.ends)) >= r.Bound {
			o.Late = l.At
		}
	}
}

// time times the steps up to a look, which is the first to see the newest.
func (r *Recorder) time(l Look) {
	if r.quiet.steps < enough {
		r.paces = append(r.paces, pace{l.At.Sub(r.advanced), l.Step - r.last.Step})
	}
	if r.advanced = l.At; len(r.Open()) > 0 {
		return
	}
	if r.stretch.At.IsZero() {
		r.stretch = l
		return
	}
	r.quiet.took += l.At.Sub(r.stretch.At)
	r.quiet.steps += l.Step - r.stretch.Step
	r.stretch = l
}

func (r *Recorder) draw(l Look) {
	p := Point{AtMs: l.At.UnixMilli(), Step: l.Step}
	if l.Stands {
		p.Trains = len(l.Trains)
	}
	turn := len(r.points) > 0 && r.points[len(r.points)-1].Trains != p.Trains
	if r.skipped++; r.skipped < r.every && !turn {
		return
	}
	r.skipped = 0
	r.points = append(r.points, p)
	if len(r.points) > maxPoints {
		i := 0
		r.points = slices.DeleteFunc(r.points, func(Point) bool { i++; return i%2 == 0 })
		r.every *= 2
	}
}

// Fault begins an outage. How is what was done, at is when.
func (r *Recorder) Fault(f plan.Fault, how string, at time.Time) *Outage {
	o := &Outage{Fault: f, How: how, At: at, before: r.last, ends: at.Add(f.For)}
	r.Outages = append(r.Outages, o)
	return o
}

// Open are the outages that the job is not back from.
func (r *Recorder) Open() []*Outage {
	return slices.DeleteFunc(slices.Clone(r.Outages), func(o *Outage) bool { return !o.Open() })
}

// Stalled says that no step was seen within the bound, at a moment: since the last one, or
// since the last fault. Moments at which nothing could be seen count, too.
func (r *Recorder) Stalled(now time.Time) bool {
	if r.first.At.IsZero() {
		return false
	}
	since := r.advanced
	if n := len(r.Outages); n > 0 {
		since = later(since, r.Outages[n-1].At)
	}
	return now.Sub(since) >= r.Bound
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// enough is how many steps without a fault tell how long one takes.
const enough = 5

// stepTime is how long a step takes when nothing disturbs it: the mean of those between the
// faults, for looks and beats are too coarse for a single one. Where there are too few, it is the
// median over all steps.
func (r *Recorder) stepTime() time.Duration {
	if r.quiet.steps >= enough {
		return r.quiet.each()
	}
	sorted := slices.SortedFunc(slices.Values(r.paces), func(a, b pace) int { return cmp.Compare(a.each(), b.each()) })
	var all, seen int64
	for _, p := range sorted {
		all += p.steps
	}
	for _, p := range sorted {
		if seen += p.steps; 2*seen >= all {
			return p.each()
		}
	}
	return 0
}

// goodput is the time that the steps of the run take when nothing disturbs them, over the
// time that there was.
func (r *Recorder) goodput() (share float64, steps int64) {
	steps = r.last.Step - r.first.Step
	pace, end := r.stepTime(), r.advanced
	if r.last.At.Sub(end) > 2*pace { // and not merely in the middle of a step
		end = r.last.At
	}
	if steps <= 0 || !end.After(r.first.At) {
		return 0, max(steps, 0)
	}
	return min(float64(pace)*float64(steps)/float64(end.Sub(r.first.At)), 1), steps
}
