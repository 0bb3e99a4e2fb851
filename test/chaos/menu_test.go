package chaos

import (
	"errors"
	"strconv"
	"syscall"
	"time"

	"github.com/skerry-ft/skerry/internal/failpoint"
	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/train/spawn"
)

// mishap is a kind of fault of a soak. It is undone, or ends by itself, a while later, and
// meanwhile the next ones come.
type mishap struct {
	name   string
	weight int    // how often it is drawn, beside the others
	needs  string // what this machine must have; see world.missing
	// befall brings it about, and reports whether it could: what it would hit may be in the
	// hands of another one.
	befall func(w *world) bool
}

// How long mishaps last.
const (
	shortest = 10 * time.Millisecond
	short    = 300 * time.Millisecond
	long     = 2500 * time.Millisecond
)

// menu is the kinds of fault, by what they hit. A world draws from each part by itself, so that one
// that has to wait, because too much is disturbed, keeps none of the other parts waiting.
var menu = [...][]mishap{onReplicas, onServers, onRoads, onClocks}

// onReplicas are those after which replicas must commit again. See mayDisturb.
var onReplicas = []mishap{
	{"a replica is killed", 10, "", func(w *world) bool { return w.killReplica(shortest) }},
	{"a replica is killed, and away for a while", 6, "", func(w *world) bool { return w.killReplica(long) }},
	{"a replica is told to end", 4, "", func(w *world) bool { return w.endReplica(false) }},
	{"a replica is stopped", 6, "", (*world).stopReplica},
	{"two replicas are killed", 3, "", (*world).killTwo},
	{"all replicas but one are killed", 2, "", func(w *world) bool { return w.storm(1 + w.rng.IntN(worldReplicas)) }},
	{"all replicas are killed", 2, "", func(w *world) bool { return w.storm(0) }},
	{"a replica dies at a point", 6, "", (*world).dieAtPoint},
	{"a trainer hangs in its step", 2, "", func(w *world) bool { return w.bad(hangsInPass) }},
	{"a trainer hangs between two steps", 2, "", func(w *world) bool { return w.bad(hangsBetween) }},
	{"a replica reduces another size", 2, "", func(w *world) bool { return w.bad(wrongSize) }},
	{"a replica calls no collective", 2, "", func(w *world) bool { return w.bad(missing) }},
	{"a replica has another model", 2, "", func(w *world) bool { return w.bad(otherShape) }},
	{"a replica cannot heal", 2, "", func(w *world) bool { return w.bad(failsToHeal) }},
	{"a bit of a state flips", 4, "", (*world).flipBit},
	{"a replica is out of memory", 3, "memory", (*world).outOfMemory},
	{"a replica gets little of a processor", 4, "processor", (*world).starveReplica},
	{"a replica is of the other build from now on", 6, "earlier", func(w *world) bool { return w.endReplica(true) }},

	{"a host is cut off", 3, "hosts", (*world).cutHost},
	{"two hosts do not reach each other", 2, "hosts", func(w *world) bool { return w.cutPair(true) }},
	{"a host does not reach another one", 2, "hosts", func(w *world) bool { return w.cutPair(false) }},

	{"connections end between two replicas", 5, "loopback", (*world).cutConnections},
}

// onServers are those of the lighthouse. One server has them at a time, so that most are there.
var onServers = []mishap{
	{"a server is killed", 5, "", func(w *world) bool { return w.endServer(w.rng.IntN(worldServers), syscall.SIGKILL, false) }},
	{"the leading server is killed", 4, "", func(w *world) bool { return w.endServer(int(w.leading.Load()), syscall.SIGKILL, false) }},
	{"a server is told to end", 3, "", func(w *world) bool { return w.endServer(w.rng.IntN(worldServers), syscall.SIGTERM, false) }},
	{"a server is stopped", 5, "", (*world).stopServer},
	{"all servers are killed", 2, "", (*world).killServers},
	{"a server gets little of a processor", 3, "processor", (*world).starveServer},
	{"a server's disk is full", 4, "disks", (*world).fillDisk},
	{"a server is of the other build from now on", 5, "earlier", func(w *world) bool { return w.endServer(w.rng.IntN(worldServers), syscall.SIGTERM, true) }},
}

var onRoads = []mishap{
	{"packets are late", 5, "hosts", func(w *world) bool {
		return w.road(func(r *road) { r.delay.Store(int64(w.between(time.Millisecond, 30*time.Millisecond))) }, func(r *road) { r.delay.Store(0) })
	}},
	{"packets are lost", 5, "hosts", func(w *world) bool {
		return w.road(func(r *road) { r.lose.Store(1 + w.rng.Int64N(30)) }, func(r *road) { r.lose.Store(0) })
	}},
	{"a bit flips on the wire", 5, "hosts", func(w *world) bool {
		return w.road(func(r *road) { r.spoil.Store(1 + w.rng.Int64N(2)) }, func(r *road) { r.spoil.Store(0) })
	}},
}

var onClocks = []mishap{
	{"a clock jumps", 6, "clocks", func(w *world) bool { return w.jump(false) }},
	{"all clocks jump", 1, "clocks", func(w *world) bool { return w.jump(true) }},
}

// free draws a replica that may be disturbed now, or -1.
func (w *world) free() int {
	if w.alone != "" || w.disturbed() >= mayDisturb {
		return -1
	}
	i := w.rng.IntN(worldReplicas)
	if r := w.replicas[i]; r.busy || r.since != 0 {
		return -1
	}
	return i
}

// freeServer draws a server, or none while one of them is disturbed.
func (w *world) freeServer() *server {
	for _, s := range w.servers {
		if s.busy {
			return nil
		}
	}
	return w.servers[w.rng.IntN(worldServers)]
}

// takes puts replica i into a mishap's hands.
func (w *world) takes(i int, why string) *replica {
	r := w.replicas[i]
	r.busy, r.why, r.taken = true, why, time.Now()
	return r
}

// again starts replica i anew: it is well from then on.
func (w *world) again(i int) {
	w.startReplica(i, nil)
	w.replicas[i].busy = false
}

// well says that replica i, whose process goes on, is in no mishap's hands any more.
func (w *world) well(i int) {
	w.replicas[i].busy, w.replicas[i].since = false, monotonic()
}

func (w *world) killReplica(atMost time.Duration) bool {
	i := w.free()
	if i < 0 {
		return false
	}
	r := w.takes(i, "killed")
	w.end(r.proc, syscall.SIGKILL)
	w.later(w.between(0, atMost), func() { w.again(i) })
	return true
}

// endReplica has one end in an orderly way, and start again: of the other build, if so wanted.
func (w *world) endReplica(other bool) bool {
	i := w.free()
	if i < 0 {
		return false
	}
	r := w.takes(i, "told to end")
	_ = r.proc.Signal(syscall.SIGTERM) // that it ends is waited for
	w.undoing = append(w.undoing, undo{ready: func() bool { return !runs(r.proc) }, do: func() {
		if err := r.proc.Wait(w.t.Context()); err != nil && !diedOf(err, syscall.SIGTERM) {
			w.t.Errorf("replica %d/%d, told to end: %v", i, w.started[i], err)
		}
		if other {
			r.build = 1 - r.build
		}
		w.again(i)
	}})
	return true
}

// diedOf reports whether a signal ended a process: SIGTERM does, before the process has said
// that it will see to it.
func diedOf(err error, s syscall.Signal) bool {
	exit, ok := errors.AsType[*spawn.ExitError](err)
	return ok && exit.Signal == s
}

func (w *world) stopReplica() bool {
	i := w.free()
	if i < 0 {
		return false
	}
	r := w.takes(i, "stopped")
	w.signal(r.proc, syscall.SIGSTOP)
	w.later(w.between(shortest, long), func() {
		w.signal(r.proc, syscall.SIGCONT)
		w.well(i)
	})
	return true
}

func (w *world) killTwo() bool {
	if w.alone != "" || w.disturbed() > 0 {
		return false
	}
	for w.disturbed() < mayDisturb {
		w.killReplica(short) // not the one that is killed already
	}
	return true
}

// storm kills all replicas but one, none for 0, and starts them all at one moment. If none is
// left the run begins anew, and what was committed before is judged by itself.
func (w *world) storm(but int) bool {
	if w.alone != "" || w.disturbed() > 0 {
		return false
	}
	w.alone = "storm"
	for i, r := range w.replicas {
		if i != but-1 {
			_ = r.proc.Signal(syscall.SIGKILL) // it runs: check has seen it
		}
	}
	for i, r := range w.replicas {
		if i != but-1 {
			<-r.proc.Done()
			w.takes(i, "killed in a storm")
		}
	}
	if but == 0 {
		w.nextRun()
	}
	w.later(w.between(0, short), func() {
		for i := range w.replicas {
			if i == but-1 {
				w.well(i)
			} else {
				w.again(i)
			}
		}
	})
	return true
}

// dieAtPoint restarts a replica that ends itself at one of failpoint's points, soon. It may
// never come there.
func (w *world) dieAtPoint() bool {
	i := w.free()
	if i < 0 || w.replicas[i].build != 0 { // an earlier build has no points
		return false
	}
	r := w.takes(i, "died at a point")
	points := failpoint.All()
	at := points[w.rng.IntN(len(points))]
	w.end(r.proc, syscall.SIGKILL)
	w.startReplica(i, func(a *workerArgs) {
		a.DieAt, a.DieFrom = string(at), w.rng.Int64N(2)*(w.step()+w.rng.Int64N(20))
	})
	proc, limit := r.proc, time.Now().Add(long)
	w.undoing = append(w.undoing, undo{ready: func() bool { return !runs(proc) || time.Now().After(limit) }, do: func() {
		w.end(proc, syscall.SIGKILL)
		w.again(i)
	}})
	return true
}

// bad restarts a replica as one that does something wrong for ever, and later as itself.
func (w *world) bad(fault string) bool {
	i := w.free()
	if i < 0 {
		return false
	}
	r := w.takes(i, fault)
	w.end(r.proc, syscall.SIGKILL)
	w.startReplica(i, func(a *workerArgs) { a.Fault = fault })
	w.later(w.between(short, long), func() {
		w.end(w.replicas[i].proc, syscall.SIGKILL)
		w.again(i)
	})
	return true
}

// flipBit flips a bit of a replica's state, and waits until it has been found out and healed.
// No other replica is disturbed meanwhile: it could heal from this one.
func (w *world) flipBit() bool {
	i := w.free()
	if i < 0 || w.disturbed() > 0 {
		return false
	}
	w.alone = "flip"
	r := w.takes(i, flipped)
	heals := w.healsOf(i)
	w.signal(r.proc, syscall.SIGUSR1)
	w.undoing = append(w.undoing, undo{ready: func() bool { return w.healsOf(i) > heals }, do: func() { w.well(i) }})
	return true
}

// healsOf is how often a replica's present incarnation has healed.
func (w *world) healsOf(i int) (n int) {
	w.each(func(r report) {
		if r.Kind == healed && r.Text == noError && r.index == i && r.incarnation == w.started[i] {
			n++
		}
	})
	return n
}

// noError is what fmt makes of a nil error.
const noError = "<nil>"

func (w *world) outOfMemory() bool {
	i := w.free()
	if i < 0 {
		return false
	}
	r := w.takes(i, "out of memory")
	if err := r.memory.exhaust(r.proc.PID()); err != nil {
		w.t.Fatal(err)
	}
	w.later(w.between(shortest, short), func() {
		w.end(r.proc, syscall.SIGKILL) // should the other one have been ended in its place
		w.again(i)
	})
	return true
}

func (w *world) starveReplica() bool {
	i := w.free()
	if i < 0 {
		return false
	}
	r := w.takes(i, "got little of a processor")
	w.starve(r.slow, r.proc.PID(), func() { w.well(i) })
	return true
}

func (w *world) starveServer() bool {
	s := w.freeServer()
	if s == nil {
		return false
	}
	s.busy = true
	w.starve(s.slow, s.proc.PID(), func() { s.busy = false })
	return true
}

func (w *world) starve(g *starving, pid int, then func()) {
	if err := g.write("cgroup.procs", strconv.Itoa(pid)); err != nil {
		w.t.Fatal(err)
	}
	if err := g.limit(share); err != nil {
		w.t.Fatal(err)
	}
	w.later(w.between(short, long), func() {
		if err := g.limit(-1); err != nil {
			w.t.Fatal(err)
		}
		then()
	})
}

// endServer ends a server, and starts it again, of the other build if so wanted.
func (w *world) endServer(i int, how syscall.Signal, other bool) bool {
	if w.freeServer() == nil {
		return false
	}
	w.awayServer(i, how, other)
	return true
}

func (w *world) awayServer(i int, how syscall.Signal, other bool) {
	s := w.servers[i]
	s.busy = true
	_ = s.proc.Signal(how) // that it ends is waited for
	at := time.Now().Add(w.between(0, long))
	w.undoing = append(w.undoing, undo{at: at, ready: func() bool { return !runs(s.proc) }, do: func() {
		if err := s.proc.Wait(w.t.Context()); err != nil && !diedOf(err, how) {
			w.t.Errorf("server %d, told to end: %v", i, err)
		}
		if other {
			s.build = 1 - s.build
		}
		w.startServer(i)
		s.busy = false
	}})
}

func (w *world) killServers() bool {
	if w.freeServer() == nil {
		return false
	}
	for i := range w.servers {
		w.awayServer(i, syscall.SIGKILL, false)
	}
	return true
}

func (w *world) stopServer() bool {
	s := w.freeServer()
	if s == nil {
		return false
	}
	s.busy = true
	w.signal(s.proc, syscall.SIGSTOP)
	w.later(w.between(shortest, long), func() {
		w.signal(s.proc, syscall.SIGCONT)
		s.busy = false
	})
	return true
}

// fillDisk fills what a server keeps its data on, and has it end and start again meanwhile, now
// and then: its log has room for a while, what it writes at a start has none.
func (w *world) fillDisk() bool {
	s := w.freeServer()
	if s == nil {
		return false
	}
	s.busy = true
	remove := fill(w.t, s.disk)
	i := 0
	for w.servers[i] != s {
		i++
	}
	again := w.rng.IntN(2) == 0
	if again {
		w.end(s.proc, syscall.SIGKILL)
		w.startServer(i)
	}
	w.later(w.between(short, long), func() {
		remove()
		if !runs(s.proc) { // it did not start on a full disk
			w.startServer(i)
		}
		s.busy = false
	})
	return true
}

// cutHost cuts a host off from all others, or it from them, or them from it.
func (w *world) cutHost() bool {
	if w.alone != "" {
		return false
	}
	host := w.rng.IntN(worldServers)
	var on []int
	for i, h := range hostOf {
		if r := w.replicas[i]; h == host && !r.busy && r.since == 0 {
			on = append(on, i)
		} else if h == host {
			return false
		}
	}
	if w.disturbed()+len(on) > mayDisturb {
		return false
	}
	for _, i := range on {
		w.takes(i, "its host was cut off")
	}
	out, in := true, true
	if n := w.rng.IntN(3); n > 0 {
		out, in = n == 1, n == 2
	}
	set := func(cut bool) {
		for other := range w.hosts.roads {
			if other != host {
				w.hosts.roads[host][other].cut.Store(cut && out)
				w.hosts.roads[other][host].cut.Store(cut && in)
			}
		}
	}
	w.alone = "cut"
	set(true)
	w.later(w.between(shortest, long), func() {
		set(false)
		for _, i := range on {
			w.well(i)
		}
	})
	return true
}

// cutPair cuts two hosts off from each other, or one from the other: which replicas go on is
// for them to find out, and nothing else happens meanwhile.
func (w *world) cutPair(both bool) bool {
	if w.alone != "" || w.disturbed() > 0 {
		return false
	}
	a := w.rng.IntN(worldServers)
	b := (a + 1 + w.rng.IntN(worldServers-1)) % worldServers
	w.alone = "cut"
	set := func(cut bool) {
		w.hosts.roads[a][b].cut.Store(cut)
		w.hosts.roads[b][a].cut.Store(cut && both)
	}
	for i := range w.replicas {
		w.takes(i, "two hosts were cut off from each other")
	}
	set(true)
	w.later(w.between(shortest, long), func() {
		set(false)
		for i := range w.replicas {
			w.well(i)
		}
	})
	return true
}

// road makes a road bad for a while.
func (w *world) road(bad, good func(*road)) bool {
	a := w.rng.IntN(worldServers)
	r := &w.hosts.roads[a][(a+1+w.rng.IntN(worldServers-1))%worldServers]
	if !r.bad.CompareAndSwap(false, true) {
		return false
	}
	bad(r)
	w.later(w.between(short, long), func() {
		good(r)
		r.bad.Store(false)
	})
	return true
}

// jump makes the clock of a process wrong for a while, or all clocks, each in its own way: by no
// more than certificates and proofs bear, where there are some. A process whose clock is wrong
// by more than guard.ProofAge is refused, and ends with that, as it should.
func (w *world) jump(all bool) bool {
	by := []time.Duration{time.Hour, 365 * 24 * time.Hour}
	if w.guarded {
		by = []time.Duration{time.Minute, guard.ProofAge/2 - 10*time.Second} // two clocks may be wrong
	}
	one := w.rng.IntN(worldServers + worldReplicas)
	for i := range worldServers + worldReplicas {
		if !all && i != one {
			continue
		}
		wall := w.wallOf(i)
		wall.Jump(w.t, by[w.rng.IntN(2)]*time.Duration(1-2*w.rng.IntN(2)))
		w.later(w.between(shortest, long), func() { wall.Jump(w.t, 0) })
	}
	return true
}

// cutConnections ends those between two replicas; both live.
func (w *world) cutConnections() bool {
	a := w.rng.IntN(worldReplicas)
	b := (a + 1 + w.rng.IntN(worldReplicas-1)) % worldReplicas
	return w.disturbed() == 0 && w.cut(a, b)
}
