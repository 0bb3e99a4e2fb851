package steptest

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"unsafe"
)

// Result is how far Explore came.
type Result struct {
	States, Steps int // states found, and steps between them
	Locals        int // places in the code, with what was read on the way there
	Depth         int // steps of the longest way
	Cut           int // steps that were not taken because of a Bound
	Complete      bool
}

// Stuck is returned by Explore for an interleaving that does not end well.
type Stuck struct {
	Why   string
	Trace []string
}

// Error tells the whole way.
func (s *Stuck) Error() string { return s.Why + "\n" + strings.Join(s.Trace, "\n") }

// Explore takes the goroutines of setup's world through every interleaving of
// their steps, as long as there are at most limit states. It returns a *Stuck
// for the first one after which goroutines that must end wait for ever, or all
// that can come is a circle.
func Explore(limit int, setup func(*World)) (Result, error) {
	x := &explorer{setup: setup, seed: maphash.MakeSeed(), seen: make(map[uint64]int32), idles: make(map[idlePlace]int32)}
	defer x.rest()
	return x.run(limit)
}

// explorer knows the automata of the goroutines as far as they were needed.
type explorer struct {
	setup   func(*World)
	seed    maphash.Seed
	model   *World // for names, and the layout
	nodes   []node
	idles   map[idlePlace]int32
	scratch state
	live    []liveAt         // by goroutine
	seen    map[uint64]int32 // index, by hash
}

// node is a goroutine at one of its requests, with all that it has read.
type node struct {
	thread int
	want   request
	parent int32    // -1: the goroutine's start
	read   []uint64 // at parent, to come here
	edges  []edge
	fresh  bool // at a Round
}

// edge is what a goroutine does at a node, having read something.
type edge struct {
	read   []uint64
	writes []write
	to     int32
}

type write struct {
	slot  int
	value uint64
}

type idlePlace struct {
	thread int
	label  string
}

// liveAt is a coroutine that stands at a node.
type liveAt struct {
	c    *coroutine
	node int32
}

// state is all shared memory and where each goroutine is.
type state struct {
	memory   []uint64
	at       []int32
	last     int32 // goroutine that took the last step, where preemptions are counted
	switches int32
}

// frame is a state on the way that is being explored.
type frame struct {
	state
	next  int   // goroutine to try next
	took  int   // that led to the next frame
	index int32 // in the order of finding
	low   int32 // the first state found that is on the way, or beside it, and can be come to from here
	exits bool  // to states from which there is no way back
	any   bool
}

// left is the index of a state from which there is no way to one that is being
// explored.
const left = -1

func (x *explorer) run(limit int) (Result, error) {
	x.model = newWorld(x.setup)
	first := state{}
	for _, s := range x.model.slots {
		first.memory = append(first.memory, s.get())
	}
	x.live = make([]liveAt, len(x.model.bodies))
	for t := range x.model.bodies {
		first.at = append(first.at, x.root(t))
	}
	way := []frame{{state: first}}
	open := []uint64{x.hash(first)} // states that are not left, in the order of finding
	x.seen[open[0]] = 0
	r := Result{Complete: true}
	for len(way) > 0 {
		f := &way[len(way)-1]
		if f.next == len(f.at) {
			if stuck := x.leave(&way, &open); stuck != nil {
				return r, stuck
			}
			continue
		}
		f.took = f.next
		f.next++
		to, ok := x.step(f.state, f.took)
		if !ok {
			continue
		}
		f.any = true
		if x.model.beyond(to) {
			r.Cut++
			f.exits = true
			continue
		}
		r.Steps++
		key := x.hash(to)
		index, old := x.seen[key]
		switch {
		case old && index == left:
			f.exits = true
		case old:
			f.low = min(f.low, index)
		case len(x.seen) == limit:
			r.Complete, f.exits = false, true
		default:
			index = int32(len(x.seen))
			x.seen[key] = index
			open = append(open, key)
			to.memory, to.at = slices.Clone(to.memory), slices.Clone(to.at)
			way = append(way, frame{state: to, index: index, low: index})
			r.Depth = max(r.Depth, len(way))
		}
		r.States, r.Locals = len(x.seen), len(x.nodes)
	}
	return r, nil
}

// leave goes back from the last state of the way, all of whose steps were tried.
// States that can be come to from one another are left together (Tarjan): if
// there is no way out of them, that is for ever.
func (x *explorer) leave(way *[]frame, open *[]uint64) error {
	last := len(*way) - 1
	f := (*way)[last]
	switch {
	case !f.any && !x.over(f.state):
		return x.stuck("goroutines wait for ever", *way)
	case !f.any:
		f.exits = true
	case f.low == f.index && !f.exits:
		return x.stuck("goroutines go round and round", *way)
	}
	*way = (*way)[:last]
	if f.low < f.index {
		parent := &(*way)[last-1]
		parent.low, parent.exits = min(parent.low, f.low), parent.exits || f.exits
		return nil
	}
	for i := len(*open) - 1; ; i-- {
		key := (*open)[i]
		index := x.seen[key]
		x.seen[key] = left
		if index == f.index {
			*open = (*open)[:i]
			break
		}
	}
	if last > 0 {
		(*way)[last-1].exits = true
	}
	return nil
}

func (x *explorer) hash(s state) uint64 {
	var h maphash.Hash
	h.SetSeed(x.seed)
	h.Write(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s.memory))), 8*len(s.memory)))
	h.Write(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s.at))), 4*len(s.at)))
	h.WriteByte(byte(s.last))
	h.WriteByte(byte(s.switches))
	return h.Sum64()
}

// over tells whether all that must end has ended.
func (x *explorer) over(s state) bool {
	for t, n := range s.at {
		if !x.model.bodies[t].daemon && x.nodes[n].want.kind != end {
			return false
		}
	}
	return true
}

// step is the state after goroutine t's next step, valid until the next call; false
// if it cannot take one.
func (x *explorer) step(s state, t int) (state, bool) {
	n := s.at[t]
	read, ok := x.reads(&x.nodes[n].want, s.memory)
	if !ok {
		return state{}, false
	}
	e := x.edge(n, read)
	to := &x.scratch
	to.memory, to.at = append(to.memory[:0], s.memory...), append(to.at[:0], s.at...)
	to.last, to.switches = s.last, s.switches
	for _, w := range e.writes {
		to.memory[w.slot] = w.value
	}
	to.at[t] = e.to
	if x.model.most > 0 {
		if int(s.last) != t && x.goesOn(s) {
			to.switches++
		}
		to.last = int32(t)
	}
	return *to, true
}

// goesOn tells whether the goroutine that took the last step can take another, and
// is not at the head of a loop, where giving others their turn is free.
func (x *explorer) goesOn(s state) bool {
	n := &x.nodes[s.at[s.last]]
	_, ok := x.reads(&n.want, s.memory)
	return ok && !n.fresh
}

// reads is what a request would find; false if it has to wait.
func (x *explorer) reads(r *request, memory []uint64) ([]uint64, bool) {
	switch r.kind {
	case access:
		return memory[r.at : r.at+1], true
	case end:
		return nil, false
	case unlock:
		return nil, true
	}
	g := x.model.groups[r.at]
	var read []uint64
	if g.held >= 0 {
		if held := memory[g.held]; held != 0 {
			return []uint64{held}, r.kind == tryLock
		}
		read = append(read, 0)
	}
	for _, at := range g.slots {
		read = append(read, memory[at])
	}
	return read, r.ready == nil || r.ready(read)
}

// edge looks up what the goroutine at n does having read that, or has it do it.
func (x *explorer) edge(n int32, read []uint64) *edge {
	for i := range x.nodes[n].edges {
		if e := &x.nodes[n].edges[i]; slices.Equal(e.read, read) {
			return e
		}
	}
	thread := x.nodes[n].thread
	c := x.reach(n)
	e := edge{read: slices.Clone(read)}
	want := x.nodes[n].want
	c.w.inject(&want, read)
	next, _ := c.next()
	e.writes = c.w.written(&want, read)
	e.to = x.arrive(thread, next, n, e.read, c)
	x.nodes[n].edges = append(x.nodes[n].edges, e)
	return &x.nodes[n].edges[len(x.nodes[n].edges)-1]
}

// root is where a goroutine begins.
func (x *explorer) root(thread int) int32 {
	c := newWorld(x.setup).start(thread)
	r, _ := c.next()
	return x.arrive(thread, r, -1, nil, c)
}

// arrive is the node of a goroutine that has come to r, where c stands.
func (x *explorer) arrive(thread int, r request, parent int32, read []uint64, c *coroutine) int32 {
	n := int32(len(x.nodes))
	fresh := r.kind == idle && r.round
	for r.kind == idle {
		at := idlePlace{thread, r.label}
		if known, ok := x.idles[at]; ok {
			c.stop()
			return known
		}
		x.idles[at] = n
		r, _ = c.next()
	}
	x.nodes = append(x.nodes, node{thread: thread, want: r, parent: parent, read: read, fresh: fresh})
	if old := x.live[thread].c; old != nil && old != c {
		old.stop()
	}
	x.live[thread] = liveAt{c, n}
	return n
}

// reach has a coroutine stand at n.
func (x *explorer) reach(n int32) *coroutine {
	thread := x.nodes[n].thread
	l := &x.live[thread]
	if l.c != nil && l.node == n {
		c := l.c
		l.c = nil
		return c
	}
	var path []int32
	for at := n; at >= 0; at = x.nodes[at].parent {
		path = append(path, at)
	}
	c := newWorld(x.setup).start(thread)
	c.skip()
	for i := len(path) - 1; i > 0; i-- {
		c.w.inject(&x.nodes[path[i]].want, x.nodes[path[i-1]].read)
		c.skip()
	}
	return c
}

// skip goes to the next request that is a step.
func (c *coroutine) skip() {
	for {
		if r, ok := c.next(); !ok || r.kind != idle {
			return
		}
	}
}

func (x *explorer) rest() {
	for _, l := range x.live {
		if l.c != nil {
			l.c.stop()
		}
	}
}

// inject puts what a request is to find into the world's memory.
func (w *World) inject(r *request, read []uint64) {
	switch r.kind {
	case access:
		w.slots[r.at].set(read[0])
		return
	case unlock, end:
		return
	}
	g := w.groups[r.at]
	if g.held >= 0 {
		w.slots[g.held].set(read[0])
		read = read[1:]
	}
	for i, v := range read {
		w.slots[g.slots[i]].set(v)
	}
}

// written is what a step has left in the world's memory.
func (w *World) written(r *request, read []uint64) []write {
	if r.kind == access {
		return []write{{r.at, w.slots[r.at].get()}}
	}
	g := w.groups[r.at]
	switch {
	case r.kind == lock || r.kind == tryLock && read[0] == 0:
		return []write{{g.held, 1}}
	case r.kind == tryLock:
		return nil
	}
	var writes []write
	if r.kind == unlock {
		writes = append(writes, write{g.held, 0})
	}
	for _, at := range g.slots {
		writes = append(writes, write{at, w.slots[at].get()})
	}
	return writes
}

// stuck tells how it came to the last state of the way.
func (x *explorer) stuck(why string, way []frame) *Stuck {
	s := &Stuck{Why: why}
	for i := range way[:len(way)-1] {
		f := &way[i]
		n := &x.nodes[f.at[f.took]]
		s.Trace = append(s.Trace, fmt.Sprintf("%3d %-12s %s", i, x.model.bodies[f.took].name, x.describe(&n.want, f.memory, way[i+1].memory)))
	}
	last := &way[len(way)-1]
	for t, n := range last.at {
		s.Trace = append(s.Trace, fmt.Sprintf("    %-12s is at: %s", x.model.bodies[t].name, x.describe(&x.nodes[n].want, last.memory, last.memory)))
	}
	return s
}

func (x *explorer) describe(r *request, before, after []uint64) string {
	verb := [...]string{access: "", lock: "lock ", tryLock: "try ", unlock: "unlock ", together: "", end: "end"}[r.kind]
	if r.kind == end {
		return verb
	}
	slots := []int{r.at}
	if r.kind != access {
		g := x.model.groups[r.at]
		verb += g.name + " "
		slots = g.slots
		if g.held >= 0 {
			slots = append([]int{g.held}, slots...)
		}
	}
	for _, at := range slots {
		verb += fmt.Sprintf("%s %d", x.model.names[at], before[at])
		if after[at] != before[at] {
			verb += fmt.Sprintf(" -> %d", after[at])
		}
		verb += "; "
	}
	return strings.TrimSuffix(verb, "; ")
}
