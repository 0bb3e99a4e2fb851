package worlds

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// fault is something that happens to a world at a time.
type fault struct {
	at   time.Duration
	kind faultKind
	who  int  // replica
	rank int  // of it
	flag bool // ledger lost; the link is cut, not mended
	back bool // the ledger is as it was when the lighthouse stopped first
	peer int  // the other end of the link
}

type faultKind string

const (
	faultKill       faultKind = "kill"
	faultStart      faultKind = "start"
	faultRankKill   faultKind = "kill one rank"
	faultHouseStop  faultKind = "lighthouse stops"
	faultHouseStart faultKind = "lighthouse starts"
	faultCut        faultKind = "cut off from the lighthouse"
	faultMend       faultKind = "mended"
	faultBlip       faultKind = "all cut off from the lighthouse"
	faultMendAll    faultKind = "all mended"
	faultReset      faultKind = "session reset"
	faultResetAll   faultKind = "all sessions reset"
	faultRankReset  faultKind = "connection between ranks reset"
	faultDrain      faultKind = "drain"
	faultLink       faultKind = "link between two replicas"
)

func (f fault) String() string {
	return fmt.Sprintf("%.3fs %s: replica %d rank %d %t", f.at.Seconds(), f.kind, f.who, f.rank, f.flag)
}

// drawFaults draws what happens, and when it is undone.
func (d *drawn) drawFaults(r *rand.Rand) {
	add := func(at time.Duration, k faultKind, who int) {
		d.faults = append(d.faults, fault{at: at, kind: k, who: who, rank: r.IntN(d.replicas[0].size)})
	}
	for range 2 + r.IntN(10) {
		at, who := between(r, 2*time.Second, d.length), r.IntN(len(d.replicas))
		later := at + between(r, 0, 5*time.Second)
		switch k := r.IntN(12); {
		case k < 4:
			add(at, faultKill, who)
			add(later, faultStart, who)
			if chance(r, 0.3) { // a second fall, perhaps before the first is dealt with
				other := (who + 1) % len(d.replicas)
				at += between(r, 0, 30*time.Millisecond)
				add(at, faultKill, other)
				add(later+time.Second, faultStart, other)
			}
		case k == 4:
			add(at, faultHouseStop, 0)
			add(later, faultHouseStart, 0)
			d.faults[len(d.faults)-1].flag = d.traits[traitLedger] && chance(r, 0.5)
		case k < 7:
			add(at, faultCut, who)
			add(later, faultMend, who)
		case k == 7:
			add(at, faultReset, who)
		case k == 8:
			add(at, faultResetAll, 0)
		case k == 9 && d.traits[traitBlip]:
			add(at, faultBlip, 0)
			add(at+between(r, 500*time.Millisecond, 4*time.Second), faultMendAll, 0)
		case k == 10 && d.traits[traitRankReset]:
			add(at, faultRankReset, who)
		case k == 10 && d.traits[traitRankDeath]:
			add(at, faultRankKill, who)
			add(later+2*time.Second, faultStart, who)
		case k == 11 && d.traits[traitDrain]:
			add(at, faultDrain, who)
			add(later+2*time.Second, faultStart, who)
		}
	}
	slices.SortStableFunc(d.faults, func(a, b fault) int { return int(a.at - b.at) })
}

// drawCuts draws which links between replicas are cut, and for how long.
func (d *drawn) drawCuts(r *rand.Rand) {
	if !d.traits[traitCuts] {
		return
	}
	for range 1 + r.IntN(3) {
		at, who := between(r, 2*time.Second, d.length), r.IntN(len(d.replicas))
		f := fault{at: at, kind: faultLink, who: who, peer: (who + 1 + r.IntN(len(d.replicas)-1)) % len(d.replicas), flag: true}
		d.faults = append(d.faults, f)
		if chance(r, 0.7) { // else it is mended when all faults are over
			f.at, f.flag = at+between(r, 0, 8*time.Second), false
			d.faults = append(d.faults, f)
		}
	}
	slices.SortStableFunc(d.faults, func(a, b fault) int { return int(a.at - b.at) })
}

// drawRestored has the lighthouse stop twice, at least, and come back the second time
// with what it knew when it stopped first.
func (d *drawn) drawRestored(r *rand.Rand) {
	if !d.traits[traitRestored] {
		return
	}
	early, late := between(r, 2*time.Second, d.length/2), between(r, d.length/2, d.length)
	d.faults = append(d.faults,
		fault{at: early, kind: faultHouseStop}, fault{at: early + between(r, 0, 2*time.Second), kind: faultHouseStart},
		fault{at: late, kind: faultHouseStop}, fault{at: late + between(r, 0, 4*time.Second), kind: faultHouseStart, back: true})
	slices.SortStableFunc(d.faults, func(a, b fault) int { return int(a.at - b.at) })
}

// strike does what the fault says, if it can be done as things are.
func (s *seeded) strike(f fault) {
	w, r := s.w, s.replicas[f.who]
	running := r.ranks != nil && r.up()
	switch f.kind {
	case faultKill:
		if running {
			r.kill()
		}
	case faultRankKill:
		if running {
			w.book.fault(r.name, "rank %d killed", f.rank)
			r.ranks[f.rank].kill()
		}
	case faultStart:
		s.revive(r)
	case faultHouseStop:
		if s.houseUp {
			w.book.fault("lighthouse", "stops")
			w.house.stop()
			s.houseUp = false
			s.backUp()
		}
	case faultHouseStart:
		s.openHouse(f)
	case faultCut, faultMend, faultReset, faultRankReset:
		s.trouble(r, f, running)
	case faultBlip, faultMendAll:
		w.book.fault("lighthouse", "%s", f.kind)
		for _, p := range w.procs() {
			w.net.HoldBoth(p.host.Name, "lighthouse", f.kind == faultBlip)
		}
	case faultLink:
		w.book.fault(r.name, "link to %s cut: %t", s.replicas[f.peer].name, f.flag)
		w.plane.Cut(r.name, s.replicas[f.peer].name, f.flag)
	case faultResetAll:
		w.book.fault("lighthouse", "%s", f.kind)
		w.house.host.Reset()
	case faultDrain:
		if running {
			r.ranks[0].drain()
		}
	}
}

// trouble is strike for the links of one replica.
func (s *seeded) trouble(r *replica, f fault, running bool) {
	if !running {
		return
	}
	s.w.book.fault(r.name, "%s", f.kind)
	switch f.kind {
	case faultCut, faultMend:
		s.w.net.HoldBoth(r.ranks[0].host.Name, "lighthouse", f.kind == faultCut)
	case faultReset:
		r.ranks[0].host.ResetWith("lighthouse")
	case faultRankReset:
		if r.size > 1 {
			r.ranks[0].host.ResetWith(r.ranks[1].host.Name)
		}
	}
}

// backUp keeps what the lighthouse knew when it stopped first.
func (s *seeded) backUp() {
	if s.backup != nil || !s.d.traits[traitRestored] {
		return
	}
	var err error
	if s.backup, err = s.w.memory.Clone(); err != nil {
		s.w.t.Error(err)
	}
}

// openHouse starts the lighthouse if it is down.
func (s *seeded) openHouse(f fault) {
	if s.houseUp {
		return
	}
	s.w.forgetLedger(f.flag)
	back := f.back && s.backup != nil
	if back {
		s.w.memory, s.backup = s.backup, nil
	}
	s.w.book.fault("lighthouse", "starts, ledger lost: %t, an older one put back: %t", f.flag, back)
	s.w.house, s.houseUp = s.w.startHouse(), true
}

// revive starts the replica anew unless all its ranks live and train.
func (s *seeded) revive(r *replica) {
	if r.up() && !r.over() && !r.ranks[0].drains() {
		return
	}
	if r.ranks != nil {
		r.kill() // what is left of it
	}
	r.start()
}

// up: all ranks live.
func (r *replica) up() bool {
	return r.ranks != nil && !slices.ContainsFunc(r.ranks, func(p *proc) bool { return !p.alive() })
}

// over: some rank's loop has ended.
func (r *replica) over() bool {
	return slices.ContainsFunc(r.ranks, func(p *proc) bool { return p.over() })
}
