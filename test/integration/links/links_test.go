package links

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/internal/paralleltest"
	"github.com/skerry-ft/skerry/train/spawn"
)

// testsAtOnce is how many jobs run at a time, unless -parallel says otherwise: they
// wait for timeouts rather than compute.
const testsAtOnce = 12

func TestMain(m *testing.M) {
	enterNetNS()
	spawn.Register(workerName, serveRank)
	spawn.Register(trainerName, train)
	spawn.Register(lighthouseName, keepLighthouse)
	spawn.Init() // does not return in a worker
	paralleltest.AtOnce(testsAtOnce)
	goleak.VerifyTestMain(m)
}

// beats is after how long a silent link is dead, and patience bounds every wait.
const (
	beats    = 2 * time.Second
	patience = 2 * limit
)

// process is the test's end of a worker, which is spoken to in lines of JSON.
type process struct {
	*spawn.Process

	t           *testing.T
	id, address string
	orders      *json.Encoder
	answers     *bufio.Scanner
	stdout      *os.File
}

// lab is three ranks: two on one host, the third on another, and the wire.
type lab struct {
	t     *testing.T
	wire  *wire
	ranks []*process
	store string
	q     int64
}

func newLab(t *testing.T) *lab {
	t.Helper()
	h := newHosts(t)
	l := &lab{t: t, wire: connect(t, h)}
	for i, host := range []int{0, 0, 1} {
		p := &process{t: t, id: fmt.Sprintf("replica%d", i), address: h.address(host)}
		p.start(spawn.Worker{Name: workerName}, h.names[host])
		l.ranks = append(l.ranks, p)
	}
	l.send(0, order{Do: "serve", Address: h.address(0)})
	l.store = l.receive(0).Store
	return l
}

// start runs a worker in a network namespace until the test ends.
func (p *process) start(w spawn.Worker, netns string) {
	p.t.Helper()
	inR, inW := pipe(p.t)
	outR, outW := pipe(p.t)
	child, err := spawn.Start(w, spawn.Options{Stdin: inR, Stdout: outW, Stderr: os.Stderr, Env: []string{envNetNS + "=" + netns}})
	if err != nil {
		p.t.Fatal(err)
	}
	inR.Close()
	outW.Close()
	p.t.Cleanup(func() {
		inW.Close()
		child.Kill()
		<-child.Done()
		outR.Close()
	})
	p.Process, p.orders, p.answers, p.stdout = child, json.NewEncoder(inW), bufio.NewScanner(outR), outR
	p.answers.Buffer(nil, 1<<20)
}

func (p *process) tell(order any) {
	p.t.Helper()
	if err := p.orders.Encode(order); err != nil {
		p.t.Fatalf("%s: send %+v: %v", p.id, order, err)
	}
}

// hear waits for the next answer.
func (p *process) hear(answer any) {
	p.t.Helper()
	if err := p.stdout.SetReadDeadline(time.Now().Add(patience)); err != nil {
		p.t.Fatal(err)
	}
	if !p.answers.Scan() {
		p.t.Fatalf("%s: no answer: %v", p.id, p.answers.Err())
	}
	if err := json.Unmarshal(p.answers.Bytes(), answer); err != nil {
		p.t.Fatal(err)
	}
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}

func (l *lab) send(i int, o order) {
	l.t.Helper()
	o.Address, o.Store, o.BeatTimeout = l.ranks[i].address, l.store, beats
	l.ranks[i].tell(o)
}

func (l *lab) receive(i int) (a answer) {
	l.t.Helper()
	l.ranks[i].hear(&a)
	if a.Wrong > 0 {
		l.t.Errorf("%s: %d elements without an error are not the sum", l.ranks[i].id, a.Wrong)
	}
	return a
}

// order sends one order to some ranks, in rank order.
func (l *lab) order(o order, members ...int) {
	l.t.Helper()
	for _, m := range members {
		o.IDs = append(o.IDs, l.ranks[m].id)
	}
	o.Quorum = l.q
	for rank, m := range members {
		o.Rank = rank
		l.send(m, o)
	}
}

// ok wants that all have done what they were told.
func (l *lab) ok(what string, members ...int) []answer {
	l.t.Helper()
	var all []answer
	for _, m := range members {
		a := l.receive(m)
		if a.Err != "" {
			l.t.Fatalf("%s: %s: %s", what, l.ranks[m].id, a.Err)
		}
		all = append(all, a)
	}
	return all
}

// configure makes the members a group, and reduces once.
func (l *lab) configure(members ...int) {
	l.t.Helper()
	l.q++
	l.order(order{Do: "configure", Within: limit}, members...)
	for i, a := range l.ok("configure", members...) {
		want := 0 // lanes: only within a host
		if members[i] < 2 {
			want = 1
		}
		if a.Lanes != want {
			l.t.Errorf("%s has %d lanes, want %d", l.ranks[members[i]].id, a.Lanes, want)
		}
	}
	l.order(order{Do: "reduce", Times: 1, Bytes: 100_000}, members...)
	l.ok("first reduction", members...)
}

// storm orders reductions for ever.
func (l *lab) storm() { l.order(order{Do: "reduce", Times: 1 << 30, Bytes: 1 << 20}, 0, 1, 2) }

// moving waits until packets go both ways.
func (l *lab) moving() {
	l.t.Helper()
	deadline := time.Now().Add(patience)
	for _, y := range l.wire.ways {
		for before := y.carried.Load(); y.carried.Load() < before+500; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				l.t.Fatal("nothing moves")
			}
		}
	}
}

// TestCorrupted: a bit that flips on the wire, under a right TCP checksum, is
// found, the sender is named, and no sum has it; after Configure all is well.
// Both ways, and a wire that spoils many packets.
func TestCorrupted(t *testing.T) {
	together(t)
	l := newLab(t)
	for round, packets := range []int64{1, 1, 1, 50} {
		l.configure(0, 1, 2)
		y := l.wire.ways[round%2]
		before := y.spoiled.Load()
		l.storm()
		l.moving()
		saw, found := 0, y.keepSpoiling(packets)
		t.Cleanup(found)
		for m := range l.ranks {
			a := l.receive(m)
			found()
			if a.Err == "" {
				t.Errorf("round %d: %s has no error", round, l.ranks[m].id)
			}
			if a.Corrupt && a.First {
				saw++
				if sender := a.Culprit == "replica2"; sender != (round%2 == 1) {
					t.Errorf("round %d: %s blames %s: %s", round, l.ranks[m].id, a.Culprit, a.Err)
				}
			}
		}
		if saw == 0 || y.spoiled.Load() == before {
			t.Errorf("round %d: %d ranks found %d spoiled packets", round, saw, y.spoiled.Load()-before)
		}
	}
	l.configure(0, 1, 2)
}

// keepSpoiling spoils some packets, and some more each second until found is called: a
// busy host sends packets again that have come, and what is spoiled of those nobody reads.
func (y *way) keepSpoiling(packets int64) (found func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			y.spoil.Store(packets)
			select {
			case <-stop:
				y.spoil.Store(0)
				return
			case <-time.After(time.Second):
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(stop)
		<-stopped
	})
}

// TestCut: when the wire is cut, both ways or one, every rank learns that a rank
// on the other side is lost, and those on one side go on; healed, all meet again.
func TestCut(t *testing.T) {
	together(t)
	l := newLab(t)
	for name, cut := range map[string][]int{"both ways": {0, 1}, "from the first host": {0}, "from the second host": {1}} {
		l.configure(0, 1, 2)
		l.storm()
		l.moving()
		for _, i := range cut {
			l.wire.ways[i].cut.Store(true)
		}
		at := time.Now()
		var heard []answer
		for m := range 2 {
			a := l.receive(m)
			// Where the wire is cut one way, the rank that hears nothing may be the first to
			// notice, and tells the others of the first of them that it holds for lost.
			toldFirst := len(cut) == 1 && strings.Contains(a.Err, "told by rank 2 (replica2): pg: peer lost")
			if a.Culprit != "replica2" && !toldFirst {
				t.Errorf("%s: %s blames %q: %s", name, l.ranks[m].id, a.Culprit, a.Err)
			}
			heard = append(heard, a)
		}
		took := time.Since(at)
		a := l.receive(2)
		// What the others say of it may reach it before it has noticed by itself.
		if a.Err == "" || a.Culprit == "replica2" && !strings.Contains(a.Err, "told by") {
			t.Errorf("%s: the rank that is cut off: %q blames %q", name, a.Err, a.Culprit)
		}
		t.Logf("%s: reported within %v by both, %v by all, beats of %v; after %d and %d reductions",
			name, took, time.Since(at), beats, heard[0].Done, heard[1].Done)
		l.configure(0, 1)
		for _, i := range cut {
			l.wire.ways[i].cut.Store(false)
		}
	}
	l.configure(0, 1, 2)
}

// TestSlow: a wire that delays, one that throttles, and one that is away for less
// than a beat timeout are slow, and not dead: ops take several beat timeouts
// and succeed.
func TestSlow(t *testing.T) {
	l := newLab(t)
	l.configure(0, 1, 2)
	set := func(delay time.Duration, rate int64) {
		for _, y := range l.wire.ways {
			y.delay.Store(int64(delay))
			y.rate.Store(rate)
		}
	}
	set(200*time.Millisecond, 0)
	l.order(order{Do: "reduce", Times: 2, Bytes: 200_000}, 0, 1, 2)
	l.ok("delayed", 0, 1, 2)

	set(20*time.Millisecond, 3<<19)
	l.order(order{Do: "reduce", Times: 1, Bytes: 3 << 20}, 0, 1, 2)
	for m, a := range l.ok("throttled", 0, 1, 2) {
		if a.Took < beats {
			t.Errorf("%s: took %v: too fast to show anything", l.ranks[m].id, a.Took)
		}
	}

	set(0, 0)
	l.order(order{Do: "reduce", Times: 100, Bytes: 100_000}, 0, 1, 2)
	for range 3 {
		for _, y := range l.wire.ways {
			y.cut.Store(true)
		}
		time.Sleep(beats / 8)
		for _, y := range l.wire.ways {
			y.cut.Store(false)
		}
		time.Sleep(beats / 2)
	}
	for m, a := range l.ok("interrupted", 0, 1, 2) {
		if a.Took < beats/8 {
			t.Errorf("%s: took %v: was not interrupted", l.ranks[m].id, a.Took)
		}
	}
}
