package links

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/train/spawn"
)

// full: each cut lasts for three minutes, and gaps are judged, not only told.
var full = flag.Bool("links.full", false, "TestOneLinkCut judges gaps for three minutes each")

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
	j := &job{t: t, f: newFabric(t, replicas+1)}
	j.light = j.start(lighthouseName, replicas, place{Name: "lighthouse"})
	at := j.status().Addr
	for i := range replicas {
		j.names = append(j.names, fmt.Sprintf("r%d", i))
		j.replicas = append(j.replicas, j.start(trainerName, i, place{Name: j.names[i], Lighthouse: at}))
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
	inR, inW := pipe(j.t)
	outR, outW := pipe(j.t)
	child, err := spawn.Start(spawn.Worker{Name: worker, Args: args}, spawn.Options{
		Stdin: inR, Stdout: outW, Stderr: os.Stderr, Env: []string{envNetNS + "=" + j.f.names[host]},
	})
	if err != nil {
		j.t.Fatal(err)
	}
	inR.Close()
	outW.Close()
	j.t.Cleanup(func() {
		inW.Close()
		child.Kill()
		<-child.Done()
		outR.Close()
	})
	answers := bufio.NewScanner(outR)
	answers.Buffer(nil, 1<<20)
	return &process{Process: child, id: p.Name, address: p.Address, orders: json.NewEncoder(inW), answers: answers, stdout: outR}
}

// ask has a process say something.
func (j *job) ask(p *process, what string, answer any) {
	j.t.Helper()
	if err := p.orders.Encode(what); err != nil {
		j.t.Fatalf("%s: ask: %v", p.id, err)
	}
	if err := p.stdout.SetReadDeadline(time.Now().Add(patience)); err != nil {
		j.t.Fatal(err)
	}
	if !p.answers.Scan() {
		j.t.Fatalf("%s: no answer: %v", p.id, p.answers.Err())
	}
	if err := json.Unmarshal(p.answers.Bytes(), answer); err != nil {
		j.t.Fatal(err)
	}
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
	deadline := time.Now().Add(patience)
	from := make([]int64, len(replicas))
	for k, i := range replicas {
		from[k] = j.standing(i).Step
	}
	for {
		ids := map[int64]bool{}
		done := true
		for k, i := range replicas {
			s := j.standing(i)
			ids[s.Quorum] = true
			done = done && s.Step >= from[k]+n && s.Members == len(replicas)
		}
		if done && len(ids) == 1 {
			return
		}
		if time.Now().After(deadline) {
			j.t.Fatalf("%s: %v are not in one quorum, at steps %v\n%s", what, replicas, from, j.why())
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
	if testing.Short() {
		t.Skip("makes networks")
	}
	for _, c := range []struct {
		name string
		cuts [][2]int
		out  []int // one of these is
	}{
		{"one way, from who dials", [][2]int{{1, 3}}, []int{1, 3}},
		{"one way, to who dials", [][2]int{{3, 1}}, []int{1, 3}},
		{"both ways", [][2]int{{1, 2}, {2, 1}}, []int{1, 2}},
		{"to the store", [][2]int{{3, 0}, {0, 3}}, []int{0, 3}},
		{"one way to the store", [][2]int{{3, 0}}, []int{0, 3}},
		{"a replica from all others", [][2]int{{0, 1}, {1, 0}, {0, 2}, {2, 0}, {0, 3}, {3, 0}}, []int{0}},
	} {
		t.Run(c.name, func(t *testing.T) {
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
			j.lasts(rest)
			cut(false)
			j.reach("mended", 20, all...)
			t.Logf("mended: longest gap %v", j.longest(rest).Round(time.Millisecond))
		})
	}
}

// TestJobIsParted: of two sets of replicas that do not reach each other the larger
// one trains on, and both together when the cut is mended.
func TestJobIsParted(t *testing.T) {
	if testing.Short() {
		t.Skip("makes networks")
	}
	for _, c := range []struct {
		name  string
		parts [2][]int
		stays int
	}{
		{"the smaller one has the store", [2][]int{{0, 1}, {2, 3, 4}}, 1},
		{"the larger one has the store", [2][]int{{0, 1, 2}, {3, 4}}, 0},
		{"both are as large", [2][]int{{0, 1}, {2, 3}}, 0},
		{"two replicas", [2][]int{{0}, {1}}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
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
			rest := c.parts[c.stays]
			j.reach("parted", 50, rest...)
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
	if testing.Short() {
		t.Skip("makes networks")
	}
	for _, away := range []time.Duration{300 * time.Millisecond, 1500 * time.Millisecond, 4 * time.Second} {
		t.Run(away.String(), func(t *testing.T) {
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
// more, and with -links.full no gap in the third minute.
func (j *job) lasts(rest []int) {
	j.t.Helper()
	before := j.standing(rest[0])
	windows := []time.Duration{4 * time.Second}
	if *full {
		windows = []time.Duration{time.Minute, time.Minute, time.Minute}
	}
	for k, window := range windows {
		j.longest(rest)
		time.Sleep(window)
		gap := j.longest(rest)
		j.t.Logf("window %d of %v: longest gap %v", k, window, gap.Round(time.Millisecond))
		if *full && k == 2 && gap > time.Second/2 {
			j.t.Errorf("longest gap in the third minute %v, want at most 0.5s", gap)
		}
	}
	if after := j.standing(rest[0]); after.Quorum != before.Quorum || after.Step <= before.Step {
		j.t.Errorf("quorum %d at step %d while the link was cut, quorum %d at step %d before: the retry has a price\n%s",
			after.Quorum, after.Step, before.Quorum, before.Step, j.why())
	}
}
