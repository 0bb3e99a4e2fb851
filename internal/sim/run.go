package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skerry-ft/skerry/internal/sim/checker"
)

// Result is what a run saw.
type Result struct {
	Options   Options
	Steps     int // attempts at a step that somebody began
	Faults    int // that struck
	Quorums   int // told, rounds and repeated answers included
	Commits   int // by all replicas together
	Crashes   int
	Forwarded int // contested steps, and those that members stand on
	Discarded int
	Recovery  time.Duration    // from the end of the faults to training together
	Gaps      [2]time.Duration // of a cause: the longest between commits, soon after something has happened and at rest

	Rule    string // that was broken; "" if none
	Err     error
	Trace   []string              // what happened, if it was asked for
	History []checker.Observation // what the lighthouse told, if it was asked for

	state uint64
}

// Settings say what Run does besides running a seed.
type Settings struct {
	Mutant  Mutant // a rule that is taken out; the zero value changes nothing
	Cause   string // of Causes: nothing else fails; "": all kinds of faults
	Trace   bool   // fill Result.Trace
	History bool   // fill Result.History
	GoOn    bool   // do not end at the first broken rule, nor tell it: somebody else judges the history
}

// Run runs a seed through both phases. A broken rule is in the result.
func Run(seed uint64, s Settings) Result { return runOptions(s.draw(seed), s) }

// draw draws a seed's options. Bits flip only where that may show a mutant: the
// others are hunted in worlds of their own faults.
func (s Settings) draw(seed uint64) Options {
	if s.Cause != "" {
		return drawCause(seed, causeOf(s.Cause))
	}
	o := draw(seed)
	if s.Mutant.Name != "" && !s.Mutant.flips {
		o.Faults = slices.DeleteFunc(o.Faults, func(f Fault) bool { return f.Kind == FaultFlip })
	}
	return o
}

func runOptions(o Options, s Settings) (r Result) {
	w := newWorld(o, s.Mutant, s.Trace, s.History)
	w.goOn = s.GoOn
	defer func() {
		if p := recover(); p != nil {
			r = Result{Options: o, Rule: "panic", Err: fmt.Errorf("panic: %v", p), Trace: w.log, History: w.check.History()}
		}
	}()
	return w.runAll()
}

// Shrink takes faults out of a seed's list for as long as the same rule is broken
// without them, and returns the last result, with its trace.
func Shrink(seed uint64, s Settings) Result {
	quick := Settings{Mutant: s.Mutant}
	best := runOptions(s.draw(seed), quick)
	rule := best.Rule
	if rule == "" {
		return best
	}
	for size := (len(best.Options.Faults) + 1) / 2; size >= 1; {
		cut := false
		for i := 0; i < len(best.Options.Faults); {
			o := best.Options
			o.Faults = slices.Delete(slices.Clone(o.Faults), i, min(i+size, len(o.Faults)))
			if r := runOptions(o, quick); r.Rule == rule {
				best, cut = r, true
			} else {
				i += size
			}
		}
		if !cut {
			size /= 2
		} else {
			size = min(size, (len(best.Options.Faults)+1)/2)
		}
	}
	s.Trace = true
	return runOptions(best.Options, s)
}

// lastEvents is how many events Report prints.
const lastEvents = 50

// Report is what a failure prints: the rule, the options, the faults, the last
// events, and how to repeat it.
func (r Result) Report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v\n%v\n", r.Err, r.Options)
	for _, f := range r.Options.Faults {
		fmt.Fprintf(&b, "  fault %v\n", f)
	}
	for _, l := range r.Trace[max(0, len(r.Trace)-lastEvents):] {
		fmt.Fprintf(&b, "%s\n", l)
	}
	repeat := fmt.Sprintf("skerry sim --trace %d", r.Options.Seed)
	if r.Options.Cause != "" {
		repeat += " --cause " + r.Options.Cause
	}
	fmt.Fprintf(&b, "repeat: %s\n", repeat)
	return b.String()
}
