package raft

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// world is a few servers in virtual time, whose commands are numbers.
type world struct {
	t      *testing.T
	rng    *rand.Rand
	now    int64
	events []event
	group  Group[int]
	hosts  []*host
	led    map[uint64]int // by term: which host was told that it leads
	newest uint64         // of these
	acked  []int          // commands that ended well

	// link is how long a message takes, below 0 if it is lost. Nil: both are drawn.
	link func(from, to int) time.Duration
}

type event struct {
	at int64
	do func()
}

// host is a server's process.
type host struct {
	*Server[int]

	w       *world
	index   int
	life    int
	up      bool
	cut     bool // no message comes or goes
	leading bool // it was told so
	applied []int
}

func newWorld(t *testing.T, seed uint64, servers int) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 0)), led: map[uint64]int{}}
	for i := range servers {
		h := &host{w: w, index: i, up: true}
		w.hosts = append(w.hosts, h)
		h.Server = w.group.Add(h)
	}
	return w
}

// run lets events happen for d.
func (w *world) run(d time.Duration) {
	end := w.now + int64(d)
	for len(w.events) > 0 && w.events[0].at <= end {
		e := w.events[0]
		w.events = w.events[1:]
		w.now = e.at
		e.do()
	}
	w.now = end
}

func (w *world) after(d time.Duration, do func()) {
	e := event{w.now + int64(d), do}
	at, _ := slices.BinarySearchFunc(w.events, e.at, func(o event, at int64) int {
		return cmp.Or(cmp.Compare(o.at, at), -1) // behind its equals
	})
	w.events = slices.Insert(w.events, at, e)
}

// leader is the host that leads and is not cut off; nil: none.
func (w *world) leader() *host {
	for _, h := range w.hosts {
		if h.up && !h.cut && h.leading {
			return h
		}
	}
	return nil
}

func (h *host) Now() int64 { return h.w.now }

func (h *host) Between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(h.w.rng.Int64N(int64(hi-lo+1)))
}

func (h *host) After(d time.Duration, do func()) {
	life := h.life
	h.w.after(d, func() {
		if h.up && h.life == life {
			do()
		}
	})
}

func (h *host) Send(to int, handle func()) {
	o := h.w.hosts[to]
	if h.cut || o.cut {
		return
	}
	takes := time.Duration(-1)
	switch {
	case h.w.link != nil:
		takes = h.w.link(h.index, to)
	case h.w.rng.IntN(20) != 0:
		takes = h.Between(time.Millisecond, 30*time.Millisecond)
	}
	if takes < 0 {
		return
	}
	h.w.after(takes, func() {
		if o.up && !o.cut {
			handle()
		}
	})
}

func (h *host) Note(string, ...any) {}

func (h *host) Apply(index, c int) error {
	if index != len(h.applied)+1 {
		h.w.t.Errorf("server %d applies entry %d after %d", h.index, index, len(h.applied))
	}
	h.applied = append(h.applied, c)
	for _, o := range h.w.hosts {
		if len(o.applied) >= index && o.applied[index-1] != c {
			h.w.t.Errorf("entry %d is %d at server %d, and %d at server %d", index, c, h.index, o.applied[index-1], o.index)
		}
	}
	if c < 0 {
		return errRefused
	}
	return nil
}

// errRefused is what a command below 0 comes to.
var errRefused = errors.New("refused")

func (h *host) Lead() {
	if old, ok := h.w.led[h.Term()]; ok {
		h.w.t.Errorf("servers %d and %d lead in term %d", old, h.index, h.Term())
	}
	h.w.led[h.Term()] = h.index
	h.w.newest = max(h.w.newest, h.Term())
	h.leading = true
}

func (h *host) Dismiss() { h.leading = false }

func (h *host) kill() {
	h.up, h.leading = false, false
	h.life++
	h.Stop()
}

func (h *host) restart() {
	if !h.up {
		h.up = true
		h.Start()
	}
}

// propose appends a command and begins a check of leadership at whichever server leads,
// as it believes itself.
func (w *world) propose(command int) {
	for _, h := range w.hosts {
		if !h.up || !h.leading {
			continue
		}
		h.Append(command, func(err error) {
			if err == nil {
				w.acked = append(w.acked, command)
			}
		})
		led := w.newest
		h.Verify(func(err error) {
			if err == nil && h.Term() < led {
				w.t.Errorf("server %d led in term %d when another one led in term %d", h.index, h.Term(), led)
			}
		})
	}
}

// TestFaults has servers cut off, killed and started again, and messages lost: one leads
// in a term, all apply the same, and nothing that ended well is lost.
func TestFaults(t *testing.T) {
	t.Parallel()
	terms, acked := 0, 0
	for seed := range uint64(200) {
		w := newWorld(t, seed, 3+2*int(seed%2))
		for i := range 150 {
			h := w.hosts[w.rng.IntN(len(w.hosts))]
			switch w.rng.IntN(12) {
			case 0:
				h.kill()
			case 1:
				h.cut = true
			case 2, 3:
				h.cut = false
				h.restart()
			case 4:
				if l := w.leader(); l != nil {
					l.cut = true
				}
			default:
				w.propose(1000*i + w.rng.IntN(1000))
			}
			w.run(time.Duration(w.rng.IntN(300)) * time.Millisecond)
		}
		for _, h := range w.hosts {
			h.cut = false
			h.restart()
		}
		w.run(10 * time.Second)
		w.propose(1)
		w.run(time.Second)
		for _, h := range w.hosts {
			if !slices.Equal(h.applied, w.hosts[0].applied) {
				t.Errorf("seed %d: server %d has applied %v, server 0 %v", seed, h.index, h.applied, w.hosts[0].applied)
			}
		}
		for _, c := range append(w.acked, 1) {
			if !slices.Contains(w.hosts[0].applied, c) {
				t.Errorf("seed %d: command %d ended well, and is lost", seed, c)
			}
		}
		terms += len(w.led)
		acked += len(w.acked)
		if t.Failed() {
			return
		}
	}
	if terms < 1000 || acked < 4000 {
		t.Errorf("%d leaderships and %d commands: the test saw little", terms, acked)
	}
}

// TestWhoIsCutOffLeadsNoMore: a leader that hears no majority says so within a lease and
// a heartbeat, and ends what waits; a command that is refused says why.
func TestWhoIsCutOffLeadsNoMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 3)
	w.run(5 * time.Second)
	l := w.leader()
	if l == nil {
		t.Fatal("no server leads after 5 s")
	}
	var refused, lost, checked error
	l.Append(-1, func(err error) { refused = err })
	w.run(2 * time.Second)
	if l = w.leader(); !errors.Is(refused, errRefused) || l == nil {
		t.Fatalf("a command that is refused ends with %v, want %v", refused, errRefused)
	}
	l.cut = true
	l.Append(7, func(err error) { lost = err })
	l.Verify(func(err error) { checked = err })
	w.run(lease + 2*interval)
	if l.leading || l.Leads() || !errors.Is(lost, ErrNotLeader) || !errors.Is(checked, ErrNotLeader) {
		t.Errorf("leads %t, told so %t; the command ended with %v, the check with %v", l.Leads(), l.leading, lost, checked)
	}
	w.run(5 * time.Second)
	if n := w.leader(); n == nil || n == l {
		t.Error("no other server leads 5 s later")
	}
	l.cut = false
	w.run(5 * time.Second)
	if slices.Contains(l.applied, 7) {
		t.Error("a command that reached no other server has taken effect")
	}
	var late error
	l.Verify(func(err error) { late = err })
	if l.Leads() == (late != nil) {
		t.Errorf("leads %t, and a check ends at once with %v", l.Leads(), late)
	}
}

// TestAlone: a single server leads, and decides at once.
func TestAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 1)
	w.run(time.Second)
	done := 0
	count := func(err error) {
		if err == nil {
			done++
		}
	}
	w.hosts[0].Append(5, count)
	w.hosts[0].Verify(count)
	if all, committed := w.hosts[0].Log(); done != 2 || all != 2 || committed != 2 {
		t.Errorf("%d of 2 ended well, %d entries, %d committed", done, all, committed)
	}
}
