package baby

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/internal/shmring"
	"github.com/skerry-ft/skerry/internal/step"
	"github.com/skerry-ft/skerry/internal/step/steptest"
	"github.com/skerry-ft/skerry/internal/testkit"
)

// couple is a parent and a child of the model: listener, rings and futexes are those
// that run in production; the parent's queue and the child's backend are not. Records
// have no body: op n is the n-th.
type couple struct {
	w        *steptest.World
	listener listener
	helper   step.Word32

	mu struct { // as child.mu
		step.Mutex

		queued  int // ops that the child has not been given
		issuing bool
		ops     giver
	}

	ends  *steptest.Group
	done  int // ops that are complete
	ended bool

	child struct {
		ops     taker
		results giver
		over    step.Bool
		holds   int // it answers none before it has so many
	}
}

// aCouple has rings for so many ops and results.
func aCouple(w *steptest.World, ops, results int) *couple {
	p := &couple{w: w}
	words := func(name string) (s side) {
		s.Head, s.Tail, s.Blocked = w.Word64(name+".head"), w.Word64(name+".tail"), w.Word32(name+".blocked")
		s.Asleep, s.helper = w.Word32(name+".asleep"), w.Word32(name+".helper")
		w.Futex(name+".asleep", &s.Asleep)
		w.Futex(name+".helper", &s.helper)
		return s
	}
	parent, child := words("parent"), words("child")
	there, back := make([]byte, ops*shmring.Align), make([]byte, results*shmring.Align)
	l := &p.listener
	l.hook = w
	p.mu.ops.connect(there, parent, child)
	p.child.ops.connect(there, child, parent)
	p.child.results.connect(back, child, parent)
	l.turn.results.connect(back, parent, child)
	p.child.ops.hurries, l.turn.results.hurries = true, true
	p.helper = parent.helper
	w.Var("helping", &l.helping)
	w.Var("over", &l.over)
	w.Var("child's over", &p.child.over)
	w.Mutex("turn", &l.turn.Mutex, &l.turn.results.Read)
	o := &p.mu.ops
	w.Mutex("mu", &p.mu.Mutex, &p.mu.queued, &p.mu.issuing, &o.Next, &o.Freed, o.Waiting.Watch(nil), o.WaitTail.Watch(nil))
	p.ends = w.Group("ends", &p.done, &p.ended)
	return p
}

// answerLocked implements answerer.
func (p *couple) answerLocked() bool {
	t := &p.listener.turn
	ok, err := t.results.take(&t.rec)
	if err != nil {
		panic(err)
	}
	if !ok {
		p.room()
		return false
	}
	p.complete()
	p.issue()
	return true
}

func (p *couple) complete() {
	p.ends.Do(func() { p.done++ })
	p.mu.Lock()
	p.listener.completed(p.helper)
	p.mu.Unlock()
}

// busy implements answerer.
func (p *couple) busy() bool { return true }

// roomCame implements answerer, as child does.
func (p *couple) roomCame() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.ops.RoomCame()
}

// room does as child.room does.
func (p *couple) room() {
	p.mu.Lock()
	came := p.mu.ops.RoomCame()
	if came {
		p.mu.ops.Rest()
	}
	p.mu.Unlock()
	if came {
		p.issue()
	}
}

// issue does as child.issue does.
func (p *couple) issue() {
	p.mu.Lock()
	if p.mu.issuing {
		p.mu.Unlock()
		return
	}
	for p.mu.queued > 0 {
		ok, err := p.mu.ops.room(0)
		if err != nil {
			panic(err)
		}
		if !ok {
			break
		}
		p.mu.queued--
		p.mu.issuing = true
		p.mu.Unlock()
		p.mu.Lock()
		p.mu.ops.put(recordOp, 0, nil)
		p.mu.ops.peer.wake()
		p.mu.Unlock()
		p.mu.Lock()
		p.mu.issuing = false
	}
	p.mu.Unlock()
}

func (p *couple) submit() {
	p.mu.Lock()
	p.mu.queued++
	p.mu.Unlock()
	p.issue()
}

// await waits until n ops are done, and helps or not.
func (p *couple) await(n int, helps bool) {
	if helps {
		p.listener.help(p, func() (over bool) {
			p.ends.Do(func() { over = p.done >= n })
			return over
		})
	}
	p.ends.Wait(func(v []uint64) bool { return v[0] >= uint64(n) }, func() {})
}

// serves is the child: it answers each op, until it is told to end.
func (p *couple) serves() {
	t := &p.child.ops
	var rec record
	for {
		p.w.Idle(fmt.Sprint("served ", p.child.results.Next, " of ", t.Read))
		took, err := t.take(&rec)
		switch {
		case err != nil:
			panic(err)
		case took && t.Read >= uint64(p.child.holds)*shmring.Align:
			for p.child.results.Next < t.Read {
				p.w.Idle(fmt.Sprint("serves ", p.child.results.Next, " of ", t.Read))
				if ok, err := p.child.results.room(0); !ok || err != nil {
					panic(fmt.Sprint("no room for a result: ", err))
				}
				p.child.results.put(recordDone, 0, nil)
				p.w.Idle(fmt.Sprint("wakes ", p.child.results.Next, " of ", t.Read))
				p.child.results.peer.wake()
			}
		case took:
		case p.child.over.Load():
			return
		default:
			t.rest(&p.child.over)
		}
	}
}

// begins has n ops in the ring from the start.
func (p *couple) begins(n int) {
	for range n {
		p.mu.ops.put(recordOp, 0, nil)
	}
}

// ringWorlds are what TestRingModel goes through.
var ringWorlds = []struct {
	name        string
	preemptions int // 0: all there are
	short       bool
	fill        func(w *steptest.World) *couple
}{
	{"two helped ops", 0, false, func(w *steptest.World) *couple {
		p := aCouple(w, 2, 2)
		w.Go("user", func() {
			for n := range 2 {
				w.Idle(fmt.Sprint("op ", n))
				p.submit()
				w.Idle(fmt.Sprint("submitted ", n))
				p.await(n+1, true)
			}
		})
		return p
	}},
	{"two ops that nobody helps", 0, false, func(w *steptest.World) *couple {
		p := aCouple(w, 2, 2)
		w.Go("user", func() {
			for n := range 2 {
				w.Idle(fmt.Sprint("op ", n))
				p.submit()
				w.Idle(fmt.Sprint("submitted ", n))
				p.await(n+1, false)
			}
		})
		return p
	}},
	{"room for one op, and the first needs the second", 0, true, func(w *steptest.World) *couple {
		p := aCouple(w, 1, 2)
		p.child.holds = 2
		p.begins(1)
		w.Go("user", func() {
			p.submit()
			w.Idle("submitted")
			p.await(2, false)
		})
		return p
	}},
	{"the same, helped", 2, true, func(w *steptest.World) *couple {
		p := aCouple(w, 1, 2)
		p.child.holds = 2
		p.begins(1)
		w.Go("user", func() {
			p.submit()
			w.Idle("submitted")
			p.await(2, true)
		})
		w.Go("helper", func() { p.await(1, true) })
		return p
	}},
	{"a helper leaves, another op is under way", 0, true, func(w *steptest.World) *couple {
		p := aCouple(w, 2, 2)
		p.begins(2)
		w.Go("helper", func() { p.await(1, true) })
		w.Go("other", func() { p.await(2, false) })
		return p
	}},
	{"an op that ends without a record", 0, true, func(w *steptest.World) *couple {
		p := aCouple(w, 2, 2)
		w.Go("helper", func() { p.await(1, true) })
		w.Go("socket's reader", p.complete)
		return p
	}},
	{"the end", 0, false, func(w *steptest.World) *couple {
		p := aCouple(w, 2, 2)
		p.begins(1)
		w.Go("user", func() { p.await(1, true) })
		w.Go("reader", func() {
			p.ends.Wait(func(v []uint64) bool { return v[0] == 1 }, func() {})
			p.child.over.Store(true)
			p.child.ops.mine.wake()
			p.listener.over.Store(true)
			p.listener.turn.results.mine.wake()
			p.ends.Wait(func(v []uint64) bool { return v[1] != 0 }, func() {})
		})
		return p
	}},
}

var (
	ringModelLimit = 1 << 22
	ringMutant     = flag.Bool("baby.mutant", false, "TestRingMutants runs the first mutant")
	ringMutantsAll = flag.Bool("baby.mutants", false, "TestRingMutants runs all mutants")
)

// TestRingModel takes rings, listener and futexes, as they run in production, through
// every interleaving of their accesses, without bounds of their sleeps: none
// leaves a goroutine waiting for an op whose result has been published.
func TestRingModel(t *testing.T) {
	if testkit.RaceEnabled {
		t.Skip("one goroutine runs at a time")
	}
	t.Parallel()
	for _, c := range ringWorlds {
		t.Run(c.name, func(t *testing.T) {
			if !c.short {
				testkit.Long(t)
				if testing.Short() {
					t.Skip("half a million states")
				}
			}
			r, err := steptest.Explore(ringModelLimit, func(w *steptest.World) {
				if c.preemptions > 0 {
					w.Preemptions(c.preemptions)
				}
				p := c.fill(w)
				w.Daemon("listener", func() {
					p.listener.listen(p)
					p.ends.Do(func() { p.ended = true })
				})
				w.Daemon("child", p.serves)
			})
			t.Logf("%+v", r)
			if err != nil {
				t.Fatal(err)
			}
			if !r.Complete {
				t.Errorf("more than %d states", ringModelLimit)
			}
		})
	}
}

// shared is the ring that pg/tcp has, too.
const shared = "../../internal/shmring/ring.go"

// ringMutants are changes of the code, one rule broken by each.
var ringMutants = []struct{ name, file, old, fresh string }{
	{"rule 1: the thread does not look after it has shown 1", "listen.go",
		"if t.Waits() || l.over.Load() || a.roomCame() { // rule 1", "if l.over.Load() || a.roomCame() {"},
	{"rule 1: nor for room", "listen.go",
		"if t.Waits() || l.over.Load() || a.roomCame() { // rule 1", "if t.Waits() || l.over.Load() {"},
	{"rule 1: nor whether it is over", "listen.go",
		"if t.Waits() || l.over.Load() || a.roomCame() { // rule 1", "if t.Waits() || a.roomCame() {"},
	{"rule 1: a helper does not look", "listen.go", "if !t.Waits() && !l.over.Load() && !a.roomCame() && !done() {", "if !a.roomCame() && !done() {"},
	{"rule 1: a helper does not look for room (as it was)", "listen.go",
		"if !t.Waits() && !l.over.Load() && !a.roomCame() && !done() {", "if !t.Waits() && !l.over.Load() && !done() {"},
	{"rule 1: a helper does not ask again", "listen.go",
		"if !t.Waits() && !l.over.Load() && !a.roomCame() && !done() {", "if !t.Waits() && !l.over.Load() && !a.roomCame() {"},
	{"rule 2: a helper leaves without a look", "listen.go", "if t.Waits() || l.over.Load() || a.roomCame() { // rule 2", "if false {"},
	{"rule 2: a helper leaves the thread's word 0", "listen.go", "\tt.mine.Asleep.Store(1)\n\tif t.Waits() || l.over.Load() || a.roomCame() { // rule 2",
		"\tif t.Waits() || l.over.Load() || a.roomCame() {"},
	{"rule 3: an op that completes wakes nobody", "listen.go", "helper.Load() != 0 {", "helper.Load() > 1 {"},
	{"rule 4: the giver does not look again", shared, "if try > 0 {", "if try >= 0 {\n\t\t\tp.WaitTail.Store(tail)\n\t\t\tp.Waiting.Store(true)\n\t\t\tp.Mine.Blocked.Store(1)"},
	{"rule 4: a release wakes nobody", shared, "c.Peer.Blocked.Load() != 0", "c.Peer.Blocked.Load() > 1"},
	{"rule 4: a giver is woken before the release", "ring.go", "\tt.Release(end)\n\tif t.PeerBlocked() {\n\t\tt.peer.wake()\n\t}", "\tif t.PeerBlocked() {\n\t\tt.peer.wake()\n\t}\n\tt.Release(end)"},
	{"the child does not look after it has shown 1", "ring.go", "if !over.Load() && !t.Waits() {", "if !over.Load() {"},
	{"a wake-up leaves out the helper", "ring.go", "\tfutex.Wake(s.helper)\n", "\n"},
}

// TestRingMutants builds this package with one rule broken at a time: TestRingModel
// fails.
func TestRingMutants(t *testing.T) {
	if !*ringMutant && !*ringMutantsAll {
		t.Skip("builds this package anew for each mutant: -baby.mutants, or -baby.mutant for the first")
	}
	t.Parallel()
	for i, m := range ringMutants {
		if i > 0 && !*ringMutantsAll {
			t.Log("the others run with -baby.mutants") // as make mutants does
			break
		}
		t.Run(m.name, func(t *testing.T) {
			out, err := steptest.RunMutant(t.TempDir(), m.file, m.old, m.fresh, "-run", "^TestRingModel$", "-failfast", ".")
			switch {
			case err != nil:
				t.Fatal(err)
			case !strings.Contains(out, "goroutines wait for ever") && !strings.Contains(out, "goroutines go round"):
				t.Errorf("not found:\n%s", out)
			}
		})
	}
}
