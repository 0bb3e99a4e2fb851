package goodput

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// Result is what a run showed.
type Result struct {
	Impl     string `json:"impl"`
	Mode     string `json:"mode"`
	Replicas int    `json:"replicas"`

	DeviceStepMs float64  `json:"device_step_ms"`
	Every        string   `json:"every"`
	Kinds        []string `json:"kinds"`
	HoldMs       float64  `json:"hold_ms"`
	Seed         uint64   `json:"seed"`

	Started time.Time `json:"started"`
	WallMs  float64   `json:"wall_ms"`
	Load    [2]string `json:"load"` // of the host, before and after

	Steps          int64   `json:"steps"`
	StepMs         float64 `json:"step_ms"` // the median of those that nothing disturbed
	Goodput        float64 `json:"goodput"`
	Compute        float64 `json:"compute"`
	ReplicaCompute float64 `json:"replica_compute"`
	LongestGapMs   float64 `json:"longest_gap_ms"`
	Discarded      int     `json:"discarded_steps"`
	Crashes        int     `json:"crashes"` // ends of a replica that were no fault
	Skipped        int     `json:"skipped"` // faults left out, as too few replicas trained
	Compared       int     `json:"compared"`
	Differed       int     `json:"differed"` // of them, parameters unlike another replica's

	Faults   []Fault `json:"faults"`
	Timeline []Point `json:"timeline"`
}

// Fault is one of them. Times are since the begin.
type Fault struct {
	Kind   string  `json:"kind"`
	Victim int     `json:"victim"`
	AtMs   float64 `json:"at_ms"`
	GapMs  float64 `json:"gap_ms"`  // the longest time without a commit until the victim was back
	LostMs float64 `json:"lost_ms"` // what steps took until then beyond undisturbed ones
	BackMs float64 `json:"back_ms"` // from its end to the victim's next commit; 0: never
}

// Point is the run at a moment.
type Point struct {
	AtMs         float64 `json:"at_ms"`
	Step         int64   `json:"step"`
	Participants int     `json:"participants"`
}

// timelinePoints bounds the timeline: of more commits, some are left out.
const timelinePoints = 2000

func (r *run) result() *Result {
	c := r.cfg
	every := c.Every.String()
	if c.EverySteps > 0 {
		every = fmt.Sprintf("%d steps", c.EverySteps)
	}
	return &Result{
		Impl: c.Impl, Mode: c.Mode, Replicas: c.Replicas, DeviceStepMs: ms(c.Step), Every: every, Kinds: c.Faults,
		HoldMs: ms(c.Hold), Seed: c.Seed, Started: time.Now(), Load: [2]string{load(), ""},
	}
}

// finish fills in what the ledger has.
func (r *run) finish(res *Result) {
	l := r.ledger
	all := l.counted()
	pace := l.pace(all)
	s := l.shares(all, pace, r.cfg.Step, r.cfg.Replicas)
	res.WallMs, res.StepMs, res.Load[1] = ms(time.Duration(l.end-l.begin)), ms(pace), load()
	res.Steps = all[len(all)-1].step - all[0].step
	res.Goodput, res.Compute, res.ReplicaCompute = s.goodput, s.compute, s.replicas
	res.LongestGapMs, res.Crashes, res.Skipped = ms(l.longest(all)), l.crashes, l.skipped
	res.Discarded, res.Compared, res.Differed = len(l.discarded), l.compared, l.differed
	for _, b := range l.blows {
		gap, lost := l.cost(b, all, pace)
		f := Fault{Kind: b.kind, Victim: b.victim, AtMs: ms(time.Duration(b.at - l.begin)), GapMs: ms(gap), LostMs: ms(lost)}
		if b.back != 0 {
			f.BackMs = ms(time.Duration(b.back - b.ended))
		}
		res.Faults = append(res.Faults, f)
	}
	every := len(all)/timelinePoints + 1
	for i, c := range all {
		if i%every == 0 || i == len(all)-1 || c.participants != all[i-1].participants {
			res.Timeline = append(res.Timeline, Point{ms(time.Duration(c.at - l.begin)), c.step, c.participants})
		}
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// load is the host's load averages, "" where they cannot be read.
func load() string {
	text, _ := os.ReadFile("/proc/loadavg") // other systems have none
	fields := strings.Fields(string(text))
	return strings.Join(fields[:min(len(fields), 3)], " ")
}

// Write tells a person.
func (r *Result) Write(w io.Writer) error {
	_, err := fmt.Fprintf(w, `%s, %s, %d replicas, steps of %.0f ms, a fault every %s of %s: %d faults in %.0f s
goodput %.2f %%: %d steps, one takes %.1f ms undisturbed
compute %.2f %%, by replicas %.2f %%
longest time without a step %.0f ms, %d steps discarded, %d ends that were no fault
%d parameters compared, %d differed
`, r.Impl, r.Mode, r.Replicas, r.DeviceStepMs, r.Every, strings.Join(r.Kinds, ","), len(r.Faults), r.WallMs/1000,
		100*r.Goodput, r.Steps, r.StepMs, 100*r.Compute, 100*r.ReplicaCompute, r.LongestGapMs, r.Discarded, r.Crashes, r.Compared, r.Differed)
	return err
}
