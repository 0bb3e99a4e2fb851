package chaos

import (
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/store"
)

var onlyCause = flag.String("chaos.cause", "all", "which of TestCauses: a part of its name, or all")

// The timings of TestCauses: in the proportion of the defaults, but shorter.
const (
	causeStepTimeout = 2 * time.Second // default: 60 s
	causeStuckAfter  = 2 * time.Second // default: 60 s
)

// The bounds on the others' gaps, in the first and the third part of a cause that
// lasts.
const (
	firstPart = 5 * time.Second
	thirdPart = 500 * time.Millisecond
)

// cause is something that is wrong for ever with one replica, the odd one.
type cause struct {
	name     string
	replicas int // 0: 4; the odd one is the last
	ranks    int // of each replica; 0: 1
	fault    string
	at       int64         // the odd one is there from the start, and goes wrong at this step; 0: it comes later
	delay    time.Duration // of a fault that has one
	again    bool          // the odd one is started again whenever it has ended
	joiners  bool          // in each part another one comes, and the last part's goes
	kill     int           // this rank of the odd one is killed; -1: none
	pause    time.Duration // each step takes so much longer
	why      []string      // skerry why says one of these of the odd one; none: nothing
}

var causes = []cause{
	{name: "hung trainer, in its forward pass", fault: hangsInPass, at: 30, kill: -1, why: []string{"away", "stuck"}},
	{name: "rank 1 of 2 dead", replicas: 3, ranks: 2, kill: 1, at: 1, why: []string{"group rank 1 is gone"}},
	{name: "wrong size", fault: wrongSize, kill: -1, why: []string{"refused"}},
	{name: "hung trainer, between two steps", fault: hangsBetween, at: 30, kill: -1, why: []string{"away", "stuck"}},
	{name: "wrong size, from the start", fault: wrongSize, at: 1, kill: -1, why: []string{"refused"}},
	{name: "missing collective", fault: missing, kill: -1, why: []string{"refused"}},
	{name: "other shape", fault: otherShape, again: true, kill: -1, why: []string{"state does not fit"}},
	{name: "heal that always fails", fault: failsToHeal, again: true, kill: -1, why: []string{"refused"}},
	{name: "rank 0 of 2 dead", replicas: 3, ranks: 2, kill: 0, at: 1, why: []string{"lost"}},
	{name: "slow heals", replicas: 6, fault: healsSlowly, delay: 3 * causeStuckAfter, joiners: true, kill: -1},
	{name: "late members", replicas: 6, fault: comesLate, at: 30, delay: 1500 * time.Millisecond, pause: 1500 * time.Millisecond, joiners: true, kill: -1},
}

// TestCauses: whatever is wrong with one replica for ever, the others train on,
// and the lighthouse says what it is.
func TestCauses(t *testing.T) {
	if *drillFor == 0 {
		t.Parallel()
	}
	for _, k := range testkit.Some(causes, 3) {
		t.Run(k.name, func(t *testing.T) {
			if *onlyCause != "all" && !strings.Contains(k.name, *onlyCause) {
				t.Skip("another cause is asked for")
			}
			if *drillFor == 0 { // nobody judges its times
				t.Parallel()
			}
			newTrial(t, k).run()
		})
	}
}

// trial is a cause in effect.
type trial struct {
	*cluster

	k      cause
	ranks  int
	odd    int   // the replica that is wrong, or the first joiner
	others []int // the trainers of those who go on
	stores map[int]string
	began  time.Time
}

func newTrial(t *testing.T, k cause) *trial {
	if k.replicas == 0 {
		k.replicas = 4
	}
	r := &trial{k: k, ranks: max(k.ranks, 1), odd: k.replicas - 1, stores: make(map[int]string)}
	if k.joiners {
		r.odd = k.replicas - 3
	}
	for i := range r.odd * r.ranks {
		r.others = append(r.others, i)
	}
	o := options{
		drill: true, replicas: k.replicas * r.ranks, begin: k.replicas * r.ranks, stuckAfter: causeStuckAfter,
		stepTimeout: causeStepTimeout, tune: r.tune,
	}
	if k.at == 0 || k.joiners {
		o.begin = r.odd * r.ranks
	}
	if r.ranks > 1 {
		for i := range k.replicas {
			r.stores[i] = groupStore(t)
		}
	}
	r.cluster = start(t, o)
	return r
}

// groupStore serves the store of one replica's ranks.
func groupStore(t *testing.T) string {
	t.Helper()
	server, err := store.NewServer(store.ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Run(t.Context()) }()
	t.Cleanup(func() { <-done })
	return server.Addr()
}

// tune says to trainer i what it does.
func (r *trial) tune(a *workerArgs, i int) {
	a.Index, a.Rank, a.Ranks, a.GroupStore = i/r.ranks, i%r.ranks, r.k.ranks, r.stores[i/r.ranks]
	a.Delay = r.k.delay
	switch {
	case r.k.fault == comesLate && a.Index == r.odd-1:
		a.Fault, a.FaultAt = comesLate, r.k.at // one of the members
		if *drillFor == 0 {
			a.Delay /= 10
		}
	case r.k.fault != comesLate && a.Index >= r.odd:
		a.Fault, a.FaultAt = r.k.fault, r.k.at
	}
}

// run brings the cause about, and looks at the others.
func (r *trial) run() {
	r.t.Helper()
	r.awaitStep(20)
	paused := r.pauses()
	r.begin()
	r.await("the lighthouse says why", func() bool {
		r.restart()
		return r.k.why == nil || slices.ContainsFunc(r.k.why, func(w string) bool { return strings.Contains(r.why(r.odd), w) })
	})
	why := r.why(r.odd)
	for _, i := range r.others {
		if *drillFor == 0 {
			r.awaitStep(r.step(i)+10, i)
		}
	}
	var parts [3]time.Duration
	if *drillFor > 0 {
		parts = r.last()
		if r.k.why == nil {
			why = r.why(r.odd)
		}
	}
	longest := r.gaps(r.began, time.Now(), r.others...)
	all := r.step()
	r.stop() // the odd one first: left alone it would begin again with what it has
	steps := r.replay()
	r.checkParity()
	equal := "equal"
	if r.t.Failed() {
		equal = "NOT equal"
	}
	fmt.Printf("cause %q, %v: longest gap %s (the machine's own pauses: to %s); in minute 1 %s, in minute 3 %s; %d steps, %d quorums; replay of %d steps %s; load %s; why: %s\n",
		r.k.name, time.Since(r.began).Round(time.Second), ms(longest), ms(paused()), ms(parts[0]), ms(parts[2]), all, r.quorums(), steps, equal, load(), why)
	if more := r.k.pause + paused(); *drillFor > 0 && (parts[0] > firstPart+more || parts[2] > thirdPart+more) {
		r.t.Errorf("longest gap in the first part %v, in the third %v, want at most %v, %v",
			parts[0], parts[2], firstPart+more, thirdPart+more)
	}
}

// begin brings the cause about, and notes when that was.
func (r *trial) begin() {
	r.t.Helper()
	switch {
	case r.k.joiners:
		if r.k.at > 0 {
			r.awaitFault()
		}
		r.began = time.Now()
		r.startTrainer(r.odd)
	case r.k.kill >= 0:
		r.began = time.Now()
		r.kill(r.odd*r.ranks + r.k.kill)
	case r.k.at > 0:
		r.awaitFault()
	default:
		r.began = time.Now()
		r.startTrainer(r.odd)
	}
}

func (r *trial) awaitFault() {
	r.t.Helper()
	r.await("the fault is in effect", func() bool { return r.count(faulty) > 0 })
	r.each(func(f report) {
		if f.Kind == faulty {
			r.began = time.Unix(0, f.At)
		}
	})
}

// restart starts the odd one again if it has ended, as a supervisor does.
func (r *trial) restart() {
	if r.k.again && !runs(r.trainers[r.odd]) {
		r.startTrainer(r.odd)
	}
}

// last lets the cause last, in three parts, and gives the longest gap of each.
func (r *trial) last() (parts [3]time.Duration) {
	r.t.Helper()
	for k := range parts {
		from := r.began.Add(time.Duration(k) * *drillFor / 3)
		to := from.Add(*drillFor / 3)
		if r.k.joiners && k > 0 {
			r.startTrainer(r.odd + k)
			r.drain(r.odd + k - 1)
		}
		for time.Now().Before(to) {
			time.Sleep(50 * time.Millisecond)
			r.restart()
		}
		parts[k] = r.gaps(from, to, r.others...)
		r.t.Logf("part %d: longest gap %v, load %s; %s", k+1, parts[k].Round(time.Millisecond), load(), r.why(r.odd))
		if limit := firstPart + r.k.pause; parts[k] > limit || k == 2 && parts[k] > thirdPart+r.k.pause {
			r.t.Logf("the lighthouse:\n%s", r.events(60))
		}
	}
	return parts
}

// drain asks a replica to leave in good order.
func (r *trial) drain(replica int) {
	r.t.Helper()
	for _, one := range r.status().Replicas {
		if !strings.HasPrefix(one.ReplicaID, fmt.Sprintf("replica-%d:", replica)) {
			continue
		}
		resp, err := http.Post("http://"+r.addr+"/jobs/default/replicas/"+url.PathEscape(one.ReplicaID)+"/drain", "", nil)
		if err != nil {
			r.t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode >= http.StatusMultipleChoices {
			r.t.Errorf("drain %s: %s", one.ReplicaID, resp.Status)
		}
	}
}

// quorums is how many the others have been in since the cause began.
func (r *trial) quorums() int {
	seen := make(map[int64]bool)
	r.each(func(f report) {
		if f.Kind == formed && f.index == r.others[0] && time.Unix(0, f.At).After(r.began) {
			seen[f.Quorum] = true
		}
	})
	return len(seen)
}
