package chaos

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
)

var (
	faults   = flag.Int("chaos.faults", 8, "how many faults TestRandom injects, if no -chaos.duration is given")
	perLeg   = flag.Int("chaos.leg", 200, "how many of them there are in a world, before it is judged and another one is made")
	duration = flag.Duration("chaos.duration", 0, "make worlds of -chaos.leg faults in TestRandom until then, and end the last one; 0: -chaos.faults of them")
	seed     = flag.Uint64("chaos.seed", 0, "repeat the random run of this seed; 0 draws one")
	keep     = flag.String("chaos.report", "", "keep the report of TestRandom in this folder, and the logs of each world that something was wrong with; empty: in a new folder, if there was one")
)

// pace is how long it is from one fault to the next, at least and at most, if the next one
// can hit something.
const pace, slowestPace = 10 * time.Millisecond, 50 * time.Millisecond

// TestRandom injects faults of all kinds at random moments, the next ones long before the last
// ones are overcome. See menu. Each world is made from a seed of its own, and ends with the
// closing checks.
func TestRandom(t *testing.T) {
	testkit.Long(t)
	if testing.Short() {
		t.Skip("chaos scenarios take seconds each: run without -short")
	}
	t.Parallel()
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	dir := *keep
	if dir == "" {
		dir = keptIfWrong(t)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Logf("repeat with: %s", repeat(flag.CommandLine, t.Name(), s))
	programs := build(t)
	r := newRecord(t, dir, s)
	for leg := uint64(0); ; leg++ {
		count := r.next(time.Since(r.Began), *duration, *faults, *perLeg)
		if count == 0 {
			break
		}
		l := &legRecord{Seed: s + leg, dir: filepath.Join(dir, fmt.Sprint("world-", s+leg))}
		if !t.Run(fmt.Sprint("world ", s+leg), func(t *testing.T) { l.run(t, programs, count) }) {
			l.Wrong = append(l.Wrong, "see "+l.dir)
		}
		r.add(t, l)
	}
	r.print()
}

// run makes a world and injects that many faults.
func (l *legRecord) run(t *testing.T, builds []programs, count int) {
	if err := os.MkdirAll(l.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(l.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // when all that writes there has ended
		err := log.Close()
		switch {
		case !t.Failed():
			err = errors.Join(err, os.RemoveAll(l.dir))
		case *keep == "": // what an unattended run prints may be all that is left of it
			t.Log(logTails(t, l.dir))
		}
		if err != nil {
			t.Error(err)
		}
	})
	l.ByKind, l.Missing = map[string]int{}, map[string]string{}
	began := time.Now()
	w := newWorld(t, l.Seed, builds, log)
	defer func() {
		l.Seconds = time.Since(began).Seconds()
		l.figures(w)
	}()
	for d := newDeck(w); l.Faults < count; {
		time.Sleep(w.between(pace, slowestPace))
		w.check()
		w.undoDue()
		for _, m := range d.deal(w, count-l.Faults) {
			l.Faults++
			l.ByKind[m.name]++
			w.say("%s", m.name)
		}
	}
	w.judge()
}

// legStats is what is measured while a world lasts.
type legStats struct {
	from int64           // monotonic
	took []time.Duration // from when a replica is well to its next commit

	gaveUp int // replicas that were started while no server could be reached, and had to be again
}

func (s *legStats) settled(took time.Duration) { s.took = append(s.took, took) }

// legRecord is what a report says of one world.
type legRecord struct {
	Seed       uint64         `json:"seed"`
	Faults     int            `json:"faults"`
	ByKind     map[string]int `json:"by_kind"`
	Seconds    float64        `json:"seconds"`
	Guarded    bool           `json:"guarded"`
	Babies     int            `json:"babies"`
	Steps      int64          `json:"steps"`
	Discarded  int            `json:"discarded"`
	Quorums    int            `json:"quorums"`
	Starts     int            `json:"starts"`
	GaveUp     int            `json:"starts_in_vain"` // they reached no lighthouse, and were started again
	Runs       int            `json:"runs"`           // all replicas died between them
	GapMs      int64          `json:"longest_gap_ms"`
	RecoverP50 int64          `json:"recovery_ms_p50"` // from when nothing disturbs a replica any more to its commit
	RecoverP99 int64          `json:"recovery_ms_p99"`
	RecoverMax int64          `json:"recovery_ms_max"`
	Wrong      []string       `json:"wrong,omitempty"`

	Unchecked bool `json:"history_not_checked_to_its_end,omitempty"` // the search took too long: neither right nor wrong

	Missing map[string]string `json:"missing,omitempty"` // what this machine cannot do, and why

	dir string
}

// figures reads a world's.
func (l *legRecord) figures(w *world) {
	l.GaveUp = w.stats.gaveUp
	l.Guarded, l.Missing, l.Runs, l.Unchecked = w.guarded, w.missing, w.run+1, w.unchecked
	for _, r := range w.replicas {
		if r.baby {
			l.Babies++
		}
	}
	for _, n := range w.started {
		l.Starts += n
	}
	for _, s := range w.servers {
		l.Starts += s.starts
	}
	steps, quorums := map[[2]int64]bool{}, map[int64]bool{}
	var at []int64
	w.each(func(r report) {
		switch r.Kind {
		case committed:
			steps[[2]int64{int64(r.run), r.Step}] = true
			if r.Mono >= w.stats.from {
				at = append(at, r.Mono)
			}
		case discarded:
			l.Discarded++
		case formed:
			quorums[r.Quorum] = true
		}
	})
	l.Steps, l.Quorums = int64(len(steps)), len(quorums)
	slices.Sort(at)
	for i := 1; i < len(at); i++ {
		l.GapMs = max(l.GapMs, time.Duration(at[i]-at[i-1]).Milliseconds())
	}
	slices.Sort(w.stats.took)
	l.RecoverP50, l.RecoverP99 = quantile(w.stats.took, 0.5).Milliseconds(), quantile(w.stats.took, 0.99).Milliseconds()
	l.RecoverMax = quantile(w.stats.took, 1).Milliseconds()
}

// record is the report of a run.
type record struct {
	Seed   uint64         `json:"seed"`
	Commit string         `json:"commit"`
	Began  time.Time      `json:"began"`
	Ended  time.Time      `json:"ended"`
	Faults int            `json:"faults"`
	ByKind map[string]int `json:"by_kind"`
	Steps  int64          `json:"steps"`
	Starts int            `json:"starts"`
	GapMs  int64          `json:"longest_gap_ms"`
	Wrong  int            `json:"worlds_with_something_wrong"`
	Worlds []*legRecord   `json:"worlds"`

	path  string
	empty int // worlds in a row, the last ones, without a fault
}

// mostEmpty is how many worlds in a row may end before their first fault: a machine on which
// none comes about any more would make them until the time is over.
const mostEmpty = 3

// next is how many faults the next world is to have; 0: there is to be none. If there is a
// duration, it alone says when.
func (r *record) next(elapsed, duration time.Duration, faults, perLeg int) int {
	switch {
	case duration == 0:
		return max(min(perLeg, faults-r.Faults), 0)
	case elapsed >= duration, r.empty >= mostEmpty:
		return 0
	}
	return perLeg
}

func newRecord(t *testing.T, dir string, s uint64) *record {
	r := &record{Seed: s, Began: time.Now(), ByKind: map[string]int{}, path: filepath.Join(dir, fmt.Sprintf("soak-%d.json", s))}
	if *keep != "" {
		r.Commit = command(t, ".", "git", "describe", "--always", "--dirty", "--abbrev=12")
	}
	return r
}

// add takes a world's, and writes the report anew: a run that is ended has one, too.
func (r *record) add(t *testing.T, l *legRecord) {
	r.Worlds = append(r.Worlds, l)
	r.Ended = time.Now()
	r.Faults += max(l.Faults, 1) // of a world that did not come about, too: the run ends
	if r.empty++; l.Faults > 0 {
		r.empty = 0
	}
	r.Steps, r.Starts, r.GapMs = r.Steps+l.Steps, r.Starts+l.Starts, max(r.GapMs, l.GapMs)
	for kind, n := range l.ByKind {
		r.ByKind[kind] += n
	}
	if len(l.Wrong) > 0 {
		r.Wrong++
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = errors.Join(os.WriteFile(r.path, text, 0o644), os.WriteFile(strings.TrimSuffix(r.path, "json")+"txt", []byte(r.String()), 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (r *record) print() { fmt.Print(r) }

// String is the report as text.
func (r *record) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, commit %s: %d faults in %v, %d worlds, %d with something wrong; %d steps, %d starts of processes; longest gap between two commits %d ms\n",
		r.Seed, r.Commit, r.Faults, r.Ended.Sub(r.Began).Round(time.Second), len(r.Worlds), r.Wrong, r.Steps, r.Starts, r.GapMs)
	for _, part := range menu {
		for _, m := range part {
			fmt.Fprintf(&b, "%7d  %s\n", r.ByKind[m.name], m.name)
		}
	}
	for _, l := range r.Worlds {
		fmt.Fprintf(&b, "world %d: %d faults in %.0f s; TLS %v, %d babies; %d steps of %d runs, %d discards, %d quorums, %d starts; gap %d ms; well to commit p50 %d, p99 %d, max %d ms; %s\n",
			l.Seed, l.Faults, l.Seconds, l.Guarded, l.Babies, l.Steps, l.Runs, l.Discarded, l.Quorums, l.Starts, l.GapMs, l.RecoverP50, l.RecoverP99, l.RecoverMax, l.verdict())
	}
	if n := len(r.Worlds); n > 0 {
		for what, why := range r.Worlds[n-1].Missing {
			fmt.Fprintf(&b, "not on this machine: %s: %s\n", what, why)
		}
	}
	return b.String()
}

func (l *legRecord) verdict() string {
	if len(l.Wrong) > 0 {
		return "WRONG: " + strings.Join(l.Wrong, "; ")
	}
	if l.Unchecked {
		return "parity, replay, counts, nothing left: ok; history: not checked to its end"
	}
	return "parity, replay, counts, history, nothing left: ok"
}
