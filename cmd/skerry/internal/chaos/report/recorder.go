package report

import (
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
	stepTimes   []time.Duration // the job's own step times
	chunk       Look            // since which steps are timed
	points      []Point
	every       int // looks between two points
	skipped     int // looks since the last point
}

// pace is how long each of some steps took.
type pace struct {
	took  time.Duration // for one
	steps int64
}

// Look takes in the job at a moment. Looks come in the order of time.
func (r *Recorder) Look(l Look) {
	if r.first.At.IsZero() {
		r.first, r.chunk, r.advanced, r.every = l, l, l.At, 1
	}
	if l.Step > r.last.Step && !r.last.At.IsZero() {
		r.advanced = l.At
		r.time(l)
	}
	if l.StepTime > 0 {
		r.stepTimes = append(r.stepTimes, l.StepTime)
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

// timedFor is how long steps are timed together: looks and beats are far more frequent.
const timedFor = 2 * time.Second

// time times the steps since the last time.
func (r *Recorder) time(l Look) {
	took, steps := l.At.Sub(r.chunk.At), l.Step-r.chunk.Step
	if took >= timedFor {
		r.paces = append(r.paces, pace{took / time.Duration(steps), steps})
		r.chunk = l
	}
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

// fine is from when on the job's own step times, which are whole milliseconds, are exact
// enough.
const fine = 20 * time.Millisecond

// stepTime is the median time of a step, the job's own where that is known and exact, else
// over the steps that were seen.
func (r *Recorder) stepTime() time.Duration {
	if own := slices.Sorted(slices.Values(r.stepTimes)); len(own) > 0 && own[(len(own)-1)/2] >= fine {
		return own[(len(own)-1)/2]
	}
	sorted := slices.SortedFunc(slices.Values(r.paces), func(a, b pace) int { return int(a.took - b.took) })
	var all, seen int64
	for _, p := range sorted {
		all += p.steps
	}
	for _, p := range sorted {
		if seen += p.steps; 2*seen >= all {
			return p.took
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
