package links

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/train/spawn"
)

// full: each cut lasts for three minutes, and gaps are judged, not only told.
var (
	full   = flag.Bool("links.full", false, "cuts last for three minutes each, and their gaps are judged")
	minute = flag.Duration("links.minute", time.Minute, "how long such a minute is")
)

// together lets jobs run beside each other: they wait more than they compute. Where
// gaps are judged each has the machine for itself.
func together(t *testing.T) {
	if !*full {
		t.Parallel()
	}
}

// job is a lighthouse and replicas, each a process on a host of its own.
type job struct {
	t        *testing.T
	f        *fabric
	replicas []*process
	light    *process
	names    []string
}

func newJob(t *testing.T, replicas int) *job {
	t.Helper()
	return newJobWith(t, replicas, 0)
}

// newJobWith is newJob with a time after which a silent link of the trainers is broken; 0: the
// default.
func newJobWith(t *testing.T, replicas int, silent time.Duration) *job {
	t.Helper()
	j := &job{t: t, f: newFabric(t, replicas+1)}
	j.light = j.start(lighthouseName, replicas, place{Name: "lighthouse"})
	at := j.status().Addr
	for i := range replicas {
		j.names = append(j.names, fmt.Sprintf("r%d", i))
		j.replicas = append(j.replicas, j.start(trainerName, i, place{Name: j.names[i], Lighthouse: at, BeatTimeout: silent}))
	}
	return j
}

func (j *job) start(worker string, host int, p place) *process {
	j.t.Helper()
	p.Address, p.Log = j.f.address(host), os.Getenv("SKERRY_TEST_LOG") != ""
	args, err := json.Marshal(p)
	if err != nil {
		j.t.Fatal(err)
	}
	started := &process{t: j.t, id: p.Name, address: p.Address}
	started.start(spawn.Worker{Name: worker, Args: args}, j.f.names[host])
	return started
}

// ask has a process say something.
func (j *job) ask(p *process, what string, answer any) {
	j.t.Helper()
	p.tell(what)
	p.hear(answer)
}

func (j *job) status() (st lighthouse.Status) {
	j.t.Helper()
	j.ask(j.light, "status", &st)
	return st
}

func (j *job) standing(i int) standing { return j.asked(i, "standing") }

func (j *job) asked(i int, what string) (s standing) {
	j.t.Helper()
	j.ask(j.replicas[i], what, &s)
	if s.Err != "" {
		j.t.Fatalf("r%d ended: %s", i, s.Err)
	}
	return s
}

// reach waits until the replicas are in one quorum of so many, and have committed
// n steps more.
func (j *job) reach(what string, n int64, replicas ...int) {
	j.t.Helper()
	j.reachOne(what, n, replicas)
}

// reachOne is reach for one of several sets of replicas, and says for which.
func (j *job) reachOne(what string, n int64, sets ...[]int) int {
	j.t.Helper()
	deadline := time.Now().Add(patience)
	from := map[int]int64{}
	for _, i := range slices.Concat(sets...) {
		from[i] = j.standing(i).Step
	}
	for {
		for k, replicas := range sets {
			ids := map[int64]bool{}
			done := true
			for _, i := range replicas {
				s := j.standing(i)
				ids[s.Quorum] = true
				done = done && s.Step >= from[i]+n && s.Members == len(replicas)
			}
			if done && len(ids) == 1 {
				return k
			}
		}
		if time.Now().After(deadline) {
			j.t.Fatalf("%s: %v are not in one quorum, at steps %v\n%s", what, sets, from, j.why())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// why is what the lighthouse says of the replicas.
func (j *job) why() string {
	text := ""
	for _, one := range j.status().Jobs {
		text += fmt.Sprintf("quorum %d: %s; next: %s\n", one.QuorumID, one.Formed, one.Reason)
		for _, r := range one.Replicas {
			text += fmt.Sprintf("  %s is %s: %s\n", r.ReplicaID, r.State, r.Why)
		}
		for _, e := range one.Events[:min(len(one.Events), 30)] {
			text += fmt.Sprintf("    %s\n", e.Text)
		}
	}
	return text
}

// longest is the longest gap of the replicas since it was asked for last.
func (j *job) longest(replicas []int) (gap time.Duration) {
	j.t.Helper()
	for _, i := range replicas {
		gap = max(gap, j.asked(i, "anew").Gap)
	}
	return gap
}

// TestOneLinkCut: where two of four replicas do not reach each other, three train
// on, for as long as it lasts, and the lighthouse says who is out and why. The cut
// link is not tried again at their cost, and when it is mended all four train.
func TestOneLinkCut(t *testing.T) {
	together(t)
	if testing.Short() {
		t.Skip("makes networks")
	}
	type row struct {
		name string
		cuts [][2]int
		out  []int // one of these is
	}
	for _, c := range testkit.Some([]row{
		{"one way, to who dials", [][2]int{{3, 1}}, []int{1, 3}},
		{"one way, from who dials", [][2]int{{1, 3}}, []int{1, 3}},
		{"both ways", [][2]int{{1, 2}, {2, 1}}, []int{1, 2}},
		{"to the store", [][2]int{{3, 0}, {0, 3}}, []int{0, 3}},
		{"one way to the store", [][2]int{{3, 0}}, []int{0, 3}},
		{"a replica from all others", [][2]int{{0, 1}, {1, 0}, {0, 2}, {2, 0}, {0, 3}, {3, 0}}, []int{0}},
	}, 1) {
		t.Run(c.name, func(t *testing.T) {
			together(t)
			j := newJob(t, 4)
			all := []int{0, 1, 2, 3}
			j.reach("at first", 20, all...)
			cut := func(is bool) {
				for _, way := range c.cuts {
					j.f.cut(way[0], way[1], is)
				}
			}
			j.longest(all)
			cut(true)
			out := j.apart(c.out)
			rest := slices.DeleteFunc(slices.Clone(all), func(i int) bool { return i == out })
			j.reach("cut", 50, rest...)
			gap := j.longest(rest)
			t.Logf("cut: longest gap %v; %s", gap.Round(time.Millisecond), j.reason(out))
			if *full && gap > 5*time.Second {
				t.Errorf("longest gap %v, want at most 5s", gap)
			}
			windows := j.lasts(rest)
			windows[0] = max(windows[0], gap)
			j.tell("link cut "+c.name, windows, j.reason(out))
			cut(false)
			j.reach("mended", 20, all...)
			t.Logf("mended: longest gap %v", j.longest(rest).Round(time.Millisecond))
		})
	}
}

// TestLighthouseBlip: no byte flows between the lighthouse and anybody for 2 s, at
// the start of each minute. The quorum stands, and its members train on. It has the machine
// for itself: two seconds of silence and those of a starved lighthouse are too many.
func TestLighthouseBlip(t *testing.T) {
	if testing.Short() {
		t.Skip("makes networks")
	}
	j := newJobWith(t, 3, patience) // none of their own links is cut
	all := []int{0, 1, 2}
	j.reach("at first", 20, all...)
	before := j.standing(0)
	j.longest(all)
	times := 1
	if *full {
		times = 3
	}
	var windows [3]time.Duration
	for k := range times {
		began := time.Now()
		for _, silent := range []bool{true, false} {
			for i := range all {
				j.f.cut(i, len(all), silent)
				j.f.cut(len(all), i, silent)
			}
			if silent {
				time.Sleep(2 * time.Second)
			}
		}
		j.reach("after the blip", 50, all...)
		if *full {
			time.Sleep(time.Until(began.Add(*minute)))
		}
		windows[k] = j.longest(all)
		if limit := []time.Duration{5 * time.Second, 5 * time.Second, time.Second / 2}[k]; *full && windows[k] > limit {
			t.Errorf("longest gap in minute %d: %v, want at most %v", k+1, windows[k], limit)
		}
	}
	if after := j.standing(0); after.Quorum != before.Quorum {
		t.Errorf("quorum %d after the blip, %d before\n%s", after.Quorum, before.Quorum, j.why())
	}
	events := j.status().Jobs[0].Events
	j.tell("lighthouse blip of 2 s", windows, events[0].Text)
}

// tell writes the figures of a cause in one line.
func (j *job) tell(what string, windows [3]time.Duration, why string) {
	j.t.Helper()
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		j.t.Fatal(err)
	}
	fmt.Printf("cause %q: longest gap %d ms; in minute 1 %d ms, in minute 3 %d ms; %d steps; load %.4s; why: %s\n", what,
		slices.Max(windows[:]).Milliseconds(), windows[0].Milliseconds(), windows[2].Milliseconds(), j.standing(0).Step, load, why)
}

// TestJobIsParted: of two sets of replicas that do not reach each other the larger
// one trains on, of equal ones either, and both together when the cut is mended.
func TestJobIsParted(t *testing.T) {
	together(t)
	if testing.Short() {
		t.Skip("makes networks")
	}
	type row struct {
		name  string
		parts [2][]int
	}
	for _, c := range testkit.Some([]row{
		{"the smaller one has the store", [2][]int{{0, 1}, {2, 3, 4}}},
		{"the larger one has the store", [2][]int{{0, 1, 2}, {3, 4}}},
		{"both are as large", [2][]int{{0, 1}, {2, 3}}},
		{"two replicas", [2][]int{{0}, {1}}},
	}, 1) {
		t.Run(c.name, func(t *testing.T) {
			together(t)
			all := slices.Concat(c.parts[0], c.parts[1])
			j := newJob(t, len(all))
			j.reach("at first", 20, all...)
			cut := func(is bool) {
				for _, a := range c.parts[0] {
					for _, b := range c.parts[1] {
						j.f.cut(a, b, is)
						j.f.cut(b, a, is)
					}
				}
			}
			j.longest(all)
			cut(true)
			rest := c.parts[j.reachOne("parted", 50, c.parts[0], c.parts[1])]
			if 2*len(rest) < len(all) {
				t.Errorf("%v trains on, want the larger set", rest)
			}
			gap := j.longest(rest)
			t.Logf("parted: longest gap %v", gap.Round(time.Millisecond))
			if *full && gap > 5*time.Second {
				t.Errorf("longest gap %v, want at most 5s", gap)
			}
			j.lasts(rest)
			cut(false)
			j.reach("mended", 20, all...)
			t.Logf("mended: longest gap %v", j.longest(rest).Round(time.Millisecond))
		})
	}
}

// TestShortCuts: a link that is away for a moment holds up the others for less than
// the moment and a dial timeout, whatever the system's timers say; all are together
// again.
func TestShortCuts(t *testing.T) {
	together(t)
	if testing.Short() {
		t.Skip("makes networks")
	}
	for _, away := range testkit.Some([]time.Duration{1500 * time.Millisecond, 300 * time.Millisecond, 4 * time.Second}, 1) {
		t.Run(away.String(), func(t *testing.T) {
			together(t)
			j := newJob(t, 3)
			all := []int{0, 1, 2}
			j.reach("at first", 20, all...)
			j.longest(all)
			j.f.cut(1, 2, true)
			time.Sleep(away)
			j.f.cut(1, 2, false)
			j.reach("mended", 20, all...)
			gap := min(j.longest([]int{0, 1}), j.longest([]int{0, 2})) // one of 1 and 2 was left out
			t.Logf("away for %v: longest gap %v of those who stay", away, gap.Round(time.Millisecond))
			if *full && gap > min(away, 1500*time.Millisecond)+1500*time.Millisecond {
				t.Errorf("longest gap %v", gap)
			}
		})
	}
}

// apart waits until one of the replicas is kept apart, and gives it.
func (j *job) apart(which []int) int {
	j.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		for _, i := range which {
			if j.reason(i) != "" {
				return i
			}
		}
	}
	j.t.Fatalf("none of %v is kept apart\n%s", which, j.why())
	return 0
}

// reason is why a replica is kept apart, empty if it is not.
func (j *job) reason(i int) string {
	j.t.Helper()
	for _, one := range j.status().Jobs {
		for _, r := range one.Replicas {
			if strings.HasPrefix(r.ReplicaID, j.names[i]+":") && r.State == "kept apart" {
				return r.Why
			}
		}
	}
	return ""
}

// lasts sees that a cut that goes on costs those who train nothing: no quorum
// more, and with -links.full no gap in the third minute. It returns the longest gap
// of each minute.
func (j *job) lasts(rest []int) (gaps [3]time.Duration) {
	j.t.Helper()
	before := j.standing(rest[0])
	windows := []time.Duration{4 * time.Second}
	if *full {
		windows = []time.Duration{*minute, *minute, *minute}
	}
	for k, window := range windows {
		j.longest(rest)
		time.Sleep(window)
		gap := j.longest(rest)
		gaps[k] = gap
		j.t.Logf("window %d of %v: longest gap %v", k, window, gap.Round(time.Millisecond))
		if *full && k == 2 && gap > time.Second/2 {
			j.t.Errorf("longest gap in the third minute %v, want at most 0.5s", gap)
		}
	}
	if after := j.standing(rest[0]); after.Quorum != before.Quorum || after.Step <= before.Step {
		j.t.Errorf("quorum %d at step %d while the link was cut, quorum %d at step %d before: the retry has a price\n%s",
			after.Quorum, after.Step, before.Quorum, before.Step, j.why())
	}
	return gaps
}
