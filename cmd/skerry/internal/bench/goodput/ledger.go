package goodput

import (
	"cmp"
	"slices"
	"time"
)

// commit is a step as the first replica told of it.
type commit struct {
	step         int64
	at           int64 // nanoseconds
	participants int
	hash         string
}

// blow is one fault.
type blow struct {
	kind   string
	victim int
	at     int64 // nanoseconds
	ended  int64 // of what lasts, or at
	back   int64 // when the victim has committed a step again; 0: never
}

// ledger is what a run showed. It is pure: times come in with events.
type ledger struct {
	begin, end int64 // of what is counted
	first      int64 // the step at begin
	commits    []commit
	hashes     map[int64]string
	compared   int // commits of a step after the first
	differed   int // of them, with other parameters
	discarded  map[int64]int
	blows      []*blow
	crashes    int // ends that were no fault
	skipped    int // faults that no replica could be spared for
}

func newLedger() *ledger {
	return &ledger{hashes: make(map[int64]string), discarded: make(map[int64]int)}
}

// committed takes a step that a replica told of, and says whether it is new.
func (l *ledger) committed(replica int, c commit) (isNew bool) {
	for _, b := range l.blows {
		if b.victim == replica && b.back == 0 && c.at > b.ended && b.ended != 0 {
			b.back = c.at
		}
	}
	if hash, known := l.hashes[c.step]; known {
		l.compared++
		if hash != c.hash {
			l.differed++
		}
		at := len(l.commits) - 1
		for at >= 0 && l.commits[at].step > c.step {
			at--
		}
		if at >= 0 && l.commits[at].step == c.step { // the pipes of two processes have no order
			l.commits[at].at = min(l.commits[at].at, c.at)
			l.commits[at].participants = max(l.commits[at].participants, c.participants)
		}
		return false
	}
	l.hashes[c.step] = c.hash
	l.commits = append(l.commits, c)
	return true
}

// start begins what is counted with the newest commit.
func (l *ledger) start() {
	last := l.commits[len(l.commits)-1]
	l.begin, l.first = last.at, last.step
}

// counted are the commits of the run, the one at its begin first.
func (l *ledger) counted() []commit {
	sorted := slices.SortedFunc(slices.Values(l.commits), func(a, b commit) int { return cmp.Compare(a.step, b.step) })
	return slices.DeleteFunc(sorted, func(c commit) bool { return c.step < l.first || c.at > l.end })
}

// quiet tells whether no fault was felt between two moments.
func (l *ledger) quiet(from, to int64) bool {
	return !slices.ContainsFunc(l.blows, func(b *blow) bool {
		return b.at < to && (b.back == 0 || b.back > from)
	})
}

// pace is the median time of a step that nothing disturbs; 0: there was none.
func (l *ledger) pace(all []commit) time.Duration {
	var paces []int64
	for i := 1; i < len(all); i++ {
		if l.quiet(all[i-1].at, all[i].at) {
			paces = append(paces, (all[i].at-all[i-1].at)/max(all[i].step-all[i-1].step, 1))
		}
	}
	if len(paces) == 0 {
		return 0
	}
	slices.Sort(paces)
	return time.Duration(paces[len(paces)/2])
}

// shares are the three of the package's comment.
type shares struct{ goodput, compute, replicas float64 }

func (l *ledger) shares(all []commit, pace, step time.Duration, replicas int) (s shares) {
	wall := float64(l.end - l.begin)
	if len(all) < 2 || wall <= 0 {
		return s
	}
	steps := float64(all[len(all)-1].step - all[0].step)
	work := 0.0
	for i := 1; i < len(all); i++ {
		work += float64(all[i].step-all[i-1].step) * float64(all[i].participants) / float64(replicas)
	}
	s.goodput = min(steps*float64(pace)/wall, 1)
	s.compute = steps * float64(step) / wall
	s.replicas = work * float64(step) / wall
	return s
}

// cost is what one fault cost: the longest time without a commit that it is part of, and how
// much longer the steps took until its victim was back, or the next fault, than undisturbed.
func (l *ledger) cost(b *blow, all []commit, pace time.Duration) (gap, lost time.Duration) {
	until := cmp.Or(b.back, l.end)
	for _, other := range l.blows {
		if other.at > b.at {
			until = min(until, other.at)
		}
	}
	from := -1
	for i, c := range all {
		if c.at <= b.at {
			from = i
			continue
		}
		if from < 0 {
			return 0, 0
		}
		gap = max(gap, time.Duration(c.at-all[i-1].at))
		if c.at >= until {
			steps := c.step - all[from].step
			return gap, max(time.Duration(c.at-all[from].at)-time.Duration(steps)*pace, 0)
		}
	}
	if from >= 0 && len(all) > 0 { // no step ended what the fault began
		last := all[len(all)-1]
		gap = max(gap, time.Duration(l.end-last.at))
		lost = max(time.Duration(l.end-all[from].at)-time.Duration(last.step-all[from].step)*pace, 0)
	}
	return gap, lost
}

// longest is the longest time without a commit.
func (l *ledger) longest(all []commit) (gap time.Duration) {
	for i := 1; i < len(all); i++ {
		gap = max(gap, time.Duration(all[i].at-all[i-1].at))
	}
	if len(all) > 0 {
		gap = max(gap, time.Duration(l.end-all[len(all)-1].at))
	}
	return gap
}
