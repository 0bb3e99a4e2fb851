package steptest

import (
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/skerry-ft/skerry/internal/step"
)

// World is one set of goroutines and what they share. A setup function fills it,
// the same way each time.
type World struct {
	names  []string // of slots
	slots  []slot
	groups []*Group

	atomics map[any]int // address → slot
	mutexes map[*step.Mutex]int
	futexes map[*atomic.Uint32]*Group

	bodies []body
	bounds []bound
	most   int32              // preemptions; 0: any number
	yield  func(request) bool // of the goroutine that runs
	label  string             // of its last Idle
	mine   []*Group           // mutexes that it holds
}

// slot is one piece of shared memory.
type slot struct {
	get func() uint64
	set func(uint64)
}

type bound struct {
	slot int
	most uint64
}

type body struct {
	name   string
	run    func()
	daemon bool
}

// Group is plain memory that is read and changed in one step, or while a mutex is
// held.
type Group struct {
	w     *World
	name  string
	held  int // slot of "the mutex is held", or -1
	slots []int
	index int

	waiting, woken uint64 // of a futex
}

// request is what a goroutine wants to do next.
type request struct {
	kind  kind
	at    int // a slot, or a group
	label string
	round bool
	ready func([]uint64) bool // of what the group holds
}

type kind uint8

const (
	access kind = iota
	lock
	tryLock
	unlock
	together // a group's step
	idle
	end
)

// quit unwinds a goroutine that is not needed any more.
type quit struct{}

func newWorld(setup func(*World)) *World {
	w := &World{atomics: make(map[any]int), mutexes: make(map[*step.Mutex]int), futexes: make(map[*atomic.Uint32]*Group)}
	setup(w)
	return w
}

// Var makes an atomic known. Every copy of a word is to be given, under one name.
func (w *World) Var(name string, copies ...interface{ Watch(h step.Hook) any }) {
	for _, v := range copies {
		at := v.Watch(w)
		if _, ok := w.atomics[at]; !ok {
			w.atomics[at] = w.slot(name, at)
		}
	}
}

// Word32 is a new word, known to w.
func (w *World) Word32(name string) step.Word32 {
	x := step.At32(new(atomic.Uint32), nil)
	w.Var(name, &x)
	return x
}

// Word64 is a new word, known to w.
func (w *World) Word64(name string) step.Word64 {
	x := step.At64(new(atomic.Uint64), nil)
	w.Var(name, &x)
	return x
}

// Mutex makes a mutex known, and pointers to what it guards.
func (w *World) Mutex(name string, m *step.Mutex, guarded ...any) {
	m.Watch(w)
	held := new(bool)
	g := w.Group(name, guarded...)
	g.held = w.slot(name+" held", held)
	w.mutexes[m] = g.index
}

// Group makes memory known that goroutines use in steps of one group. Groups
// may have memory in common, and atomics that the world knows already.
func (w *World) Group(name string, fields ...any) *Group {
	g := &Group{w: w, name: name, held: -1, index: len(w.groups)}
	for i, f := range fields {
		at, ok := w.atomics[f]
		if !ok {
			at = w.slot(fmt.Sprintf("%s %d", name, i), f)
			w.atomics[f] = at
		}
		g.slots = append(g.slots, at)
	}
	w.groups = append(w.groups, g)
	return g
}

// Futex makes a word known that goroutines sleep on.
func (w *World) Futex(name string, copies ...*step.Word32) {
	for _, v := range copies {
		w.Var(name, v)
	}
	g := new(Group)
	*g = *w.Group(name+" futex", &g.waiting, &g.woken, any(copies[0].Addr()))
	w.groups[g.index] = g
	w.futexes[copies[0].Addr()] = g
}

// Bound leaves out what comes after the memory at an address, which the world knows
// as an atomic, has become larger than most: for counters that rise as long as
// goroutines get in each other's way.
func (w *World) Bound(at any, most uint64) { w.bounds = append(w.bounds, bound{w.atomics[at], most}) }

// Preemptions leaves out interleavings in which a goroutine that could go on has to
// wait for another more often than most times: where all of them are too many. At
// the head of a loop giving way is free.
func (w *World) Preemptions(most int) { w.most = int32(most) }

func (w *World) beyond(s state) bool {
	return w.most > 0 && s.switches > w.most ||
		slices.ContainsFunc(w.bounds, func(b bound) bool { return s.memory[b.slot] > b.most })
}

// Go adds a goroutine that must come to its end.
func (w *World) Go(name string, run func()) { w.bodies = append(w.bodies, body{name, run, false}) }

// Daemon adds a goroutine that may wait for ever.
func (w *World) Daemon(name string, run func()) { w.bodies = append(w.bodies, body{name, run, true}) }

func (w *World) slot(name string, at any) int {
	var s slot
	switch p := at.(type) {
	case *atomic.Bool:
		s = slot{func() uint64 { return number(p.Load()) }, func(v uint64) { p.Store(v != 0) }}
	case *atomic.Int64:
		s = slot{func() uint64 { return uint64(p.Load()) }, func(v uint64) { p.Store(int64(v)) }}
	case *atomic.Uint32:
		s = slot{func() uint64 { return uint64(p.Load()) }, func(v uint64) { p.Store(uint32(v)) }}
	case *atomic.Uint64:
		s = slot{p.Load, p.Store}
	case *bool:
		s = slot{func() uint64 { return number(*p) }, func(v uint64) { *p = v != 0 }}
	case *int:
		s = slot{func() uint64 { return uint64(*p) }, func(v uint64) { *p = int(v) }}
	case *uint32:
		s = slot{func() uint64 { return uint64(*p) }, func(v uint64) { *p = uint32(v) }}
	case *uint64:
		s = slot{func() uint64 { return *p }, func(v uint64) { *p = v }}
	default:
		panic(fmt.Sprintf("steptest: %s is a %T, which is no memory of a known kind", name, at))
	}
	w.names = append(w.names, name)
	w.slots = append(w.slots, s)
	return len(w.slots) - 1
}

func number(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// next stops the goroutine that runs until it is r's turn.
func (w *World) next(r request) {
	if w.yield == nil {
		return // the setup function
	}
	if !w.yield(r) {
		panic(quit{})
	}
}

// Idle says that the goroutine remembers nothing but what label says.
func (w *World) Idle(label string) {
	w.label = label
	w.next(request{kind: idle, label: label + w.holds()})
}

// holds is what the goroutine that runs has in its hands: what the mutexes guard
// that it has locked.
func (w *World) holds() string {
	text := ""
	for _, g := range w.mine {
		text += "; " + g.name
		for _, at := range g.slots {
			text += fmt.Sprintf(" %d", w.slots[at].get())
		}
	}
	return text
}

// Round implements step.Hook: it is an Idle within the one before, at this place.
func (w *World) Round() {
	var at [1]uintptr
	runtime.Callers(3, at[:]) // the caller of step.Round
	w.next(request{kind: idle, round: true, label: fmt.Sprintf("%s, round at %x%s", w.label, at[0], w.holds())})
}

// Do runs f, which reads and changes the group's memory and stops nowhere.
func (g *Group) Do(f func()) {
	g.w.next(request{kind: together, at: g.index})
	f()
}

// Wait is Do once ready says so of the group's fields; ready looks at nothing else.
func (g *Group) Wait(ready func(fields []uint64) bool, f func()) {
	g.w.next(request{kind: together, at: g.index, ready: ready})
	f()
}

// Access implements step.Hook.
func (w *World) Access(x any) {
	at, ok := w.atomics[x]
	if !ok {
		panic(fmt.Sprintf("steptest: access of a %T that the world does not know", x))
	}
	w.next(request{kind: access, at: at})
}

// Lock implements step.Hook.
func (w *World) Lock(m *step.Mutex) {
	g := w.groups[w.mutexes[m]]
	w.next(request{kind: lock, at: g.index})
	w.mine = append(w.mine, g)
}

// TryLock implements step.Hook.
func (w *World) TryLock(m *step.Mutex) bool {
	g := w.groups[w.mutexes[m]]
	w.next(request{kind: tryLock, at: g.index})
	ok := w.slots[g.held].get() == 0
	if ok {
		w.mine = append(w.mine, g)
	}
	return ok
}

// Unlock implements step.Hook.
func (w *World) Unlock(m *step.Mutex) {
	g := w.groups[w.mutexes[m]]
	w.next(request{kind: unlock, at: g.index})
	w.mine = slices.DeleteFunc(w.mine, func(x *Group) bool { return x == g })
}

// Sleep implements step.Futex, as futex(2) does it: the look at the word and the
// going to sleep are one step.
func (w *World) Sleep(x *atomic.Uint32, value uint32) {
	g := w.futexes[x]
	slept := false
	g.Do(func() {
		if slept = x.Load() == value; slept {
			g.waiting++
		}
	})
	if slept {
		g.Wait(func(v []uint64) bool { return v[1] > 0 }, func() { g.woken-- })
	}
}

// Wake implements step.Futex: it wakes one sleeper, if there is one.
func (w *World) Wake(x *atomic.Uint32) {
	g := w.futexes[x]
	g.Do(func() {
		if g.waiting > 0 {
			g.waiting--
			g.woken++
		}
	})
}

// coroutine is a goroutine of w that runs from request to request.
type coroutine struct {
	w    *World
	next func() (request, bool)
	stop func()
}

func (w *World) start(thread int) *coroutine {
	b := w.bodies[thread]
	next, stop := iter.Pull(func(yield func(request) bool) {
		over := false
		w.yield = func(r request) bool {
			if over || !yield(r) { // what is deferred may ask on
				over = true
			}
			return !over
		}
		defer func() {
			if e := recover(); e != nil && e != any(quit{}) {
				panic(e)
			}
		}()
		b.run()
		yield(request{kind: end})
	})
	return &coroutine{w, next, stop}
}
