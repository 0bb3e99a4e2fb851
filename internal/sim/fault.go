package sim

import (
	"fmt"
	"time"
)

// The kinds of fault. Options.Kinds weighs them, 0 to 4.
const (
	faultCrash  = iota // a replica dies; its peers and the lighthouse see it at once
	faultSilent        // it dies and nobody is told
	faultPause         // it stops for a while, and goes on
	faultCut           // its session breaks
	faultLink          // a link between two replicas is cut for a while
	faultLeader        // the lighthouse stops, and starts again from its ledger
	faultGiveUp        // trainers do not wait for a settlement
	faultOdd           // a reduction is wrong
	faultCheck         // a local check fails before the ballot
	faultHeal          // a heal fails
	faultKinds
)

// unlucky says that a fault of a kind that strikes by itself strikes now.
func (w *world) unlucky(kind int) bool {
	return !w.calm && w.o.Kinds[kind] > 0 && w.rng.IntN(100) < w.o.Kinds[kind]
}

// faults makes one happen, and plans the next.
func (w *world) faults() {
	if w.calm {
		return
	}
	w.after(w.between(w.o.FaultMean/4, w.o.FaultMean*7/4), w.faults)
	total := 0
	for _, n := range w.o.Kinds[:faultGiveUp] {
		total += n
	}
	if total == 0 {
		return
	}
	at := w.rng.IntN(total)
	for kind, n := range w.o.Kinds[:faultGiveUp] {
		if at -= n; at < 0 {
			w.strike(kind)
			return
		}
	}
}

func (w *world) strike(kind int) {
	m := w.anybody()
	if kind == faultLeader {
		if w.lh.up {
			w.lh.stop()
			w.after(w.between(20*time.Millisecond, 3*time.Second), w.lh.start)
		}
		return
	}
	if m == nil {
		return
	}
	switch kind {
	case faultCrash, faultSilent:
		m.die(kind == faultCrash)
		w.reborn(m, w.between(0, 3*time.Second))
	case faultPause:
		lasts := w.between(10*time.Millisecond, 3*time.Second)
		w.note("%s pauses for %v", m.id, lasts)
		m.asleep = w.now.Add(lasts)
		if lasts > linkSilence {
			w.peersNotice(m, linkSilence)
		}
	case faultCut:
		if m.x != nil && m.x.open {
			w.note("session of %s is cut", m.id)
			w.lh.broke(m.x, "cut")
			w.lh.lose(m.x)
		}
	case faultLink:
		if o := w.anybody(); o != m {
			w.cutLink(m, o, w.between(time.Millisecond, 2*time.Second))
		}
	}
}

// reborn starts a dead member's replica again, as another incarnation.
func (w *world) reborn(m *member, after time.Duration) {
	w.after(after, func() {
		for _, o := range w.members {
			if o.name == m.name && o.life > m.life {
				return
			}
		}
		w.birth(m.name, m.life+1, w.between(0, 100*time.Millisecond))
	})
}

// anybody draws a replica that is up.
func (w *world) anybody() *member {
	var up []*member
	for _, m := range w.members {
		if m.up {
			up = append(up, m)
		}
	}
	if len(up) == 0 {
		return nil
	}
	return up[w.rng.IntN(len(up))]
}

// settleDown ends the faults. Whoever is dead comes back soon, by what reborn
// has planned; so does the lighthouse.
func (w *world) settleDown() {
	w.calm = true
	w.note("faults are over")
}

// together says that all replicas are up, participate in one quorum, and have
// committed there.
func (w *world) together() bool {
	var first *member
	n := 0
	for _, m := range w.members {
		if !m.up {
			continue
		}
		n++
		if first == nil {
			first = m
		}
		if !m.stands || m.in.ID != first.in.ID || m.pos != first.pos || m.pos.QuorumID != m.in.ID || m.bytes != first.bytes {
			return false
		}
	}
	return n == w.o.Replicas && w.lh.up && len(first.in.Participants) == n
}

// picture shows where everybody is.
func (w *world) picture() string {
	s := fmt.Sprintf("lighthouse up=%v: %v\n", w.lh.up, w.lh.m.Decide(w.now).Reason)
	for _, m := range w.members {
		if !m.up {
			continue
		}
		s += fmt.Sprintf("%s at %v connected=%v stands=%v ask=%v wants=%v ready=%v %v", m.id, m.pos, m.connected(), m.stands, m.ask, m.wants, m.ready, m.fact)
		if m.in != nil {
			s += fmt.Sprintf(" in %d.%d%v", m.in.ID, m.in.Round, ids(m.in))
		}
		if m.join != nil {
			s += fmt.Sprintf(" join #%d %v", m.join.Number, m.join.Kind)
		}
		s += "\n"
	}
	return s
}
