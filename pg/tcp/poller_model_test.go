package tcp

import (
	"flag"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/skerry-ft/skerry/internal/shmring"
	"github.com/skerry-ft/skerry/internal/step"
	"github.com/skerry-ft/skerry/internal/step/steptest"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
)

// side is one process of the model: its poller, its lane and the rings are those
// that run in production; the engine above them is not, which gives each op one
// record each way.
type side struct {
	w    *steptest.World
	name string
	p    *poller
	lane *lane

	bell *steptest.Group
	rung bool

	ops *steptest.Group
	eng struct { // what Backend.mu guards
		queued, begun, read, done int
		need                      int // of the active one
		active, work              bool
	}

	out struct { // what Backend.mu guards, too
		step.Mutex

		left    int // records that are to be sent
		pushing bool
	}
	pushes  bool
	records int // of the peer, that an op needs
	pending step.Int64
	gen     step.Uint64

	in           *steptest.Group // of ops and these
	head, looked *atomic.Uint64
}

// twoSides are two processes with a lane between them.
func twoSides(w *steptest.World) [2]*side {
	var sides [2]*side
	var mine [2][frame.Classes]shmring.Words
	for i, name := range []string{"A", "B"} {
		mine[i][0] = shmring.Words{
			Head: w.Word64(name + ".head"), Tail: w.Word64(name + ".tail"),
			Asleep: w.Word32(name + ".asleep"), Blocked: w.Word32(name + ".blocked"),
		}
		still := make([]byte, controlBytes)
		mine[i][1] = wordsOf(still, 0, nil)
		s := &side{w: w, name: name, lane: new(lane), records: 1}
		sides[i] = s
		s.bell = w.Group(name+".bell", &s.rung)
		o := &s.eng
		s.ops = w.Group(name+".ops", &o.queued, &o.begun, &o.read, &o.done, &o.need, &o.active, &o.work)
		w.Var(name+".pending", &s.pending)
	}
	for i, s := range sides {
		peer := sides[1-i]
		s.lane.knock = peer.ring
		s.lane.refs.Store(1 << 20)
		c := &s.lane.channels[0]
		c.lane = s.lane
		c.connect(mine[i][0], mine[1-i][0], w)
		s.lane.channels[1].connect(mine[i][1], mine[1-i][1], nil)
		w.Var(s.name+".rung", &s.lane.rung)
		w.Var(s.name+".looked", &c.recv.Looked)
		s.head, s.looked = c.recv.Peer.Head.Addr(), c.recv.Looked.Watch(w).(*atomic.Uint64)
		o := &s.eng
		s.in = w.Group(s.name+".in", &o.begun, &o.read, &o.active, any(s.head), any(s.looked))
		w.Bound(c.send.Mine.Asleep.Addr(), modelArms)
		c.send.Waiting.Watch(nil)
		c.send.WaitTail.Watch(nil)
		w.Var(s.name+".again", &c.pulls.again)
		w.Mutex(s.name+".pulls", &c.pulls.Mutex)

		s.p = newPoller(s, s, &s.pending, &s.gen, w)
		s.p.patience = patience{looks: 1}
		s.p.mu.lanes = []watched{{nil, s.lane}}
		w.Var(s.name+".helping", &s.p.helping)
		w.Var(s.name+".armed", &s.p.armed)
		w.Mutex(s.name+".mu", &s.p.mu.Mutex, &s.p.mu.asleep, &s.p.mu.seen)
	}
	return sides
}

// wait implements ringer.
func (s *side) wait() error {
	s.w.Idle("asleep")
	s.bell.Wait(func(v []uint64) bool { return v[0] != 0 }, func() { s.rung = false })
	return nil
}

// ring implements ringer.
func (s *side) ring() { s.bell.Do(func() { s.rung = true }) }

// watchLanes implements polled.
func (s *side) watchLanes() []watched { return []watched{{nil, s.lane}} }

// pull implements polled.
func (s *side) pull(*link) {
	c := &s.lane.channels[0]
	c.pulls.ask()
	for c.pulls.take() {
		for s.pullOne() {
		}
		c.pulls.Unlock()
	}
}

// pushClass implements polled, and does as Backend.pushClass does.
func (s *side) pushClass(*link, int) {
	if !s.pushes {
		return
	}
	send := &s.lane.channels[0].send
	s.out.Lock()
	if s.out.pushing {
		s.out.Unlock()
		return
	}
	s.out.pushing = true
	for {
		if s.out.left == 0 {
			send.Rest()
			break
		}
		memory, err := send.Reserve(0)
		if err != nil {
			panic(err)
		}
		if memory == nil {
			break
		}
		s.out.left--
		end := send.Next
		s.out.Unlock()
		send.Publish(end)
		s.lane.ringBell()
		s.untouch()
		s.out.Lock()
	}
	s.out.pushing = false
	s.out.Unlock()
}

// sends has the side's op send n records, into a ring that holds one.
func (s *side) sends(n int) {
	o, c := &s.eng, &s.lane.channels[0]
	o.queued, o.begun, o.active, o.need = 1, 1, true, n
	s.pending.Add(1)
	s.pushes, s.out.left = true, n
	c.send.Data = make([]byte, shmring.Bytes(recordHead, 0))
	s.w.Var(s.name+".waiting", &c.send.Waiting)
	s.w.Var(s.name+".waitTail", &c.send.WaitTail)
	s.w.Mutex(s.name+".out", &s.out.Mutex, &s.out.left, &s.out.pushing, &c.send.Next, &c.send.Freed)
}

// frees is a peer that takes n records, and gives their memory back.
func (s *side) frees(n int) {
	c := &s.lane.channels[0]
	theirs := s.w.Group(s.name+" sees", c.recv.Peer.Head.Addr())
	s.w.Go(s.name, func() {
		for i := range n {
			s.w.Idle(fmt.Sprint("record ", i))
			end := uint64(i+1) * uint64(shmring.Bytes(recordHead, 0))
			theirs.Wait(func(v []uint64) bool { return v[0] >= end }, func() {})
			c.recv.Release(end)
			s.w.Idle(fmt.Sprint("rings for ", i))
			c.roomMade()
		}
	})
}

// pullOne does what Backend.pullOne does with Backend.mu locked; of what the peer does
// meanwhile, all comes to the same as before or after.
func (s *side) pullOne() (took bool) {
	s.in.Do(func() {
		s.looked.Store(s.head.Load())
		took = s.eng.active && s.eng.read < s.eng.begun*s.records && uint64(s.eng.read) < s.head.Load()
		if took {
			s.eng.read++
		}
	})
	if took {
		s.untouch()
	}
	return took
}

// untouch ends the active op if that was all it needed.
func (s *side) untouch() (complete bool) {
	more := false
	s.ops.Do(func() {
		if s.eng.need--; s.eng.need == 0 {
			s.eng.active, complete = false, true
			more = s.eng.begun < s.eng.queued
		}
	})
	if complete {
		s.pending.Add(-1)
		s.ops.Do(func() {
			s.eng.done++
			s.eng.work = s.eng.work || more
		})
	}
	return complete
}

// advance does as Backend.advance does.
func (s *side) advance(label string) {
	for i := 0; ; i++ {
		s.w.Idle(fmt.Sprint(label, " advance ", i))
		begun, ok := 0, false
		s.ops.Do(func() {
			if ok = !s.eng.active && s.eng.begun < s.eng.queued; ok {
				s.eng.begun++
				s.eng.active, s.eng.need = true, 1+s.records // ours and the peer's
				begun = s.eng.begun
			}
		})
		if !ok {
			return
		}
		s.lane.channels[0].send.Publish(uint64(begun))
		s.w.Idle(fmt.Sprint(label, " ring ", i))
		s.lane.ringBell()
		s.w.Idle(fmt.Sprint(label, " pull ", i))
		s.pull(nil)
		s.w.Idle(fmt.Sprint(label, " pulled ", i))
		if !s.untouch() {
			return
		}
	}
}

func (s *side) submit(label string) {
	s.pending.Add(1)
	s.ops.Do(func() { s.eng.queued++ })
	s.advance(label)
	s.w.Idle(label + " rest")
	s.p.rest()
	s.w.Idle(label + " submitted")
}

// await waits until n ops are done; a goroutine that helps does so first.
func (s *side) await(n int, helps bool) {
	if helps {
		s.p.help(func() (over bool) {
			s.ops.Do(func() { over = s.eng.done >= n })
			return over
		})
	}
	s.ops.Wait(func(v []uint64) bool { return v[3] >= uint64(n) }, func() {})
}

// run adds the goroutines of a process: the poller's, the worker, and a user.
func (s *side) run(user func()) {
	s.w.Daemon(s.name+" poller", s.p.run)
	s.w.Daemon(s.name+" worker", func() {
		for {
			s.w.Idle("idle")
			s.ops.Wait(func(v []uint64) bool { return v[6] != 0 }, func() { s.eng.work = false })
			s.advance("worker")
		}
	})
	s.w.Go(s.name+" user", user)
}

// publishes is a peer that publishes n records, whenever it likes.
func (s *side) publishes(n int) {
	s.w.Go(s.name, func() {
		for i := range n {
			s.w.Idle(fmt.Sprint("record ", i))
			s.publish(i + 1)
		}
	})
}

// answers is a peer that publishes a record for each that it sees of ours.
func (s *side) answers(n int) {
	ours := s.w.Group(s.name+" sees", s.lane.channels[0].recv.Peer.Head.Addr())
	s.w.Go(s.name, func() {
		for i := range n {
			s.w.Idle(fmt.Sprint("record ", i))
			ours.Wait(func(v []uint64) bool { return v[0] > uint64(i) }, func() {})
			s.publish(i + 1)
		}
	})
}

func (s *side) publish(i int) {
	s.lane.channels[0].send.Publish(uint64(i))
	s.w.Idle(fmt.Sprint("rings for ", i))
	s.lane.ringBell()
}

// op is what a user does: it submits the n-th op and waits for it.
func (s *side) op(n int, helps bool) {
	s.submit(fmt.Sprint("op ", n))
	s.await(n, helps)
}

// under begins with n ops submitted, of which the first has begun, and with a peer that
// has been told to ring.
func (s *side) under(n int) {
	o := &s.eng
	o.queued, o.begun, o.active, o.need = n, 1, true, s.records
	s.pending.Add(int64(n))
	s.lane.channels[0].send.Mine.Head.Addr().Store(1)
	s.tells(1)
}

// tells begins with what the peer has been told.
func (s *side) tells(asleep uint32) {
	s.lane.asleep().Addr().Store(asleep)
	s.p.mu.asleep = asleep
	s.p.armed.Store(asleep%2 == 1)
}

// reads is the reader of a socket, which comes to its peer's end.
func (s *side) reads() {
	s.w.Go(s.name+" reader", func() {
		c := &s.lane.channels[0]
		c.pulls.Lock()
		for s.pullOne() {
		}
		c.pulls.Unlock()
		if c.pulls.asked() {
			s.pull(nil)
		}
	})
}

// modelWorlds are what TestPollerModel goes through: b is a whole process, a its
// peer. What two goroutines a side do is gone through entirely; where there are
// three, all that a few preemptions can lead to.
var modelWorlds = []struct {
	name        string
	preemptions int // 0: all there are
	short       bool
	fill        func(a, b *side)
}{
	{"both sides, an op that is helped", 0, true, func(a, b *side) {
		a.run(func() { a.op(1, true) })
		b.run(func() { b.op(1, true) })
	}},
	{"both sides, an op that nobody helps", 0, true, func(a, b *side) {
		a.run(func() { a.op(1, false) })
		b.run(func() { b.op(1, false) })
	}},
	{"a ballot behind a helped op, a peer ahead", 0, false, func(a, b *side) {
		a.publishes(2)
		b.run(func() {
			b.op(1, true)
			b.op(2, false)
		})
	}},
	{"a ring that is full, an op that nobody helps", 0, true, func(a, b *side) {
		roomWorld(a, b, false)
	}},
	{"a ring that is full, a helped op", 0, false, func(a, b *side) {
		roomWorld(a, b, true)
	}},
	{"the rest after an op of four records began", 0, false, func(a, b *side) {
		b.records = 4
		a.publishes(4)
		b.under(1)
		b.tells(0)
		b.run(func() {
			b.p.rest()
			b.w.Idle("rested")
			b.await(1, false)
		})
	}},
	{"a ballot behind a helped op, a reader", 2, false, func(a, b *side) {
		a.answers(2)
		b.under(1)
		b.reads()
		b.run(func() {
			b.await(1, true)
			b.op(2, false)
		})
	}},
	{"two ops at once, a worker", 3, false, func(a, b *side) {
		a.answers(2)
		b.under(2)
		b.run(func() {
			b.await(1, true)
			b.w.Idle("first is done")
			b.await(2, false)
		})
	}},
	{"two users", 2, false, func(a, b *side) {
		a.answers(2)
		b.under(1)
		b.run(func() { b.await(1, true) })
		b.w.Go("other user", func() { b.op(2, false) })
	}},
}

// roomWorld has b send more than its ring holds, to a peer that takes it.
func roomWorld(a, b *side, helps bool) {
	const records = 3
	a.frees(records)
	b.sends(records)
	b.run(func() {
		b.pushClass(nil, 0)
		b.w.Idle("pushed")
		b.p.rest()
		b.w.Idle("rested")
		b.await(1, helps)
	})
}

const (
	modelLimit = 1 << 24
	// modelArms is how large asleep may become: it rises as long as goroutines of one
	// side get in each other's way. A peer rings for at most four values, then.
	modelArms = 7
)

var (
	modelMore = flag.Int("tcp.model", 0, "preemptions more where TestPollerModel counts them")
	modelAll  = flag.Bool("tcp.models", false, "TestPollerModel takes its large worlds, too, and TestPollerMutants the first mutant")
	mutants   = flag.Bool("tcp.mutants", false, "TestPollerMutants runs all mutants")
)

// TestPollerModel takes the poller, the bell and the turns, as they run in production,
// through every interleaving of their accesses: none leaves a goroutine waiting for
// an op whose record has been published.
func TestPollerModel(t *testing.T) {
	if testkit.RaceEnabled {
		t.Skip("one goroutine runs at a time")
	}
	t.Parallel()
	for _, c := range modelWorlds {
		t.Run(c.name, func(t *testing.T) {
			if !*modelAll && !c.short {
				t.Skip("up to a million states: run with -tcp.models, as .ci/run does")
			}
			r, err := steptest.Explore(modelLimit, func(w *steptest.World) {
				if c.preemptions > 0 {
					w.Preemptions(c.preemptions + *modelMore)
				}
				sides := twoSides(w)
				c.fill(sides[0], sides[1])
			})
			t.Logf("%+v", r)
			if err != nil {
				t.Fatal(err)
			}
			if !r.Complete {
				t.Errorf("more than %d states", modelLimit)
			}
		})
	}
}

// pollerMutants are changes of the code, one rule broken by each.
var pollerMutants = []struct{ name, file, old, fresh string }{
	{"rule 1: a helper arms, and a ring is dropped (as it was)", "poller.go", `
		if !p.spinLocked(idle) {
			return
		}`, `
		if p.spinLocked(idle) {
			continue
		}
		if p.pending.Load() == 0 || len(p.mu.lanes) == 0 {
			return
		}
		p.tellLocked(true)
		if !p.pendingLocked() {
			return
		}
		p.tellLocked(false)`},
	{"rule 1: rings are dropped until after the leaving", "poller.go",
		"p.helping.Store(false)\n\tp.leave()", "p.leave()\n\tp.helping.Store(false)"},
	{"rule 2: no look after arming", "poller.go",
		"if !p.pendingLocked() {\n\t\t\treturn\n\t\t}\n\t\tif try", "if p.armed.Load() {\n\t\t\treturn\n\t\t}\n\t\tif try"},
	{"rule 2: the look finds something, and none follows", "poller.go", "p.bell.ring()\n", "\n"},
	{"rule 3: who has let go looks at nothing", "poller.go",
		"|| p.pending.Load() == 0 || !p.mu.TryLock()", "|| p.pending.Load() >= 0 || !p.mu.TryLock()"},
	{"rule 5: a helper does not disarm", "poller.go",
		"p.tellLocked(false)\n\tidle", "if over == nil {\n\t\tp.tellLocked(false)\n\t}\n\tidle"},
	{"room: nobody is told of it", "../../internal/shmring/ring.go", "c.Peer.Blocked.Load() != 0", "c.Peer.Blocked.Load() > 1"},
	{"room: the look after arming leaves it out", "lane.go", "if c.recv.Pending() || c.send.RoomCame() {", "if c.recv.Pending() {"},
	{"a value is shown twice", "poller.go", "p.mu.asleep++", "p.mu.asleep ^= 1"},
	{"a ring that is not answered for counts", "lane.go", "|| old == v ||", "|| old != 0 ||"},
	{"who has the turn does not look whether it was asked", "lane.go",
		"if !t.asked() || !t.TryLock() {\n\t\treturn false\n\t}\n\tt.again.Store(false)\n\treturn true",
		"if !t.asked() {\n\t\treturn false\n\t}\n\tt.again.Store(false)\n\treturn t.TryLock()"},
}

// TestPollerMutants builds this package with one rule broken at a time:
// TestPollerModel fails.
func TestPollerMutants(t *testing.T) {
	if !*modelAll && !*mutants {
		t.Skip("builds this package anew: run with -tcp.models, as .ci/run does")
	}
	t.Parallel()
	for i, m := range pollerMutants {
		if i > 0 && !*mutants {
			t.Log("the others run with -tcp.mutants")
			break
		}
		t.Run(m.name, func(t *testing.T) {
			out, err := steptest.RunMutant(t.TempDir(), m.file, m.old, m.fresh, "-run", "^TestPollerModel$", "-failfast", ".", "-tcp.models")
			switch {
			case err != nil:
				t.Fatal(err)
			case !strings.Contains(out, "goroutines wait for ever") && !strings.Contains(out, "goroutines go round"):
				t.Errorf("not found:\n%s", out)
			}
		})
	}
}
