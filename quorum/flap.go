package quorum

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// This file keeps L1 for a replica that is lost again and again (§6a, "on probation").
//
// A replica that is lost again and again, each time soon after it was let in,
// costs the others a step and a rebuilt group each time; so does one that leaves
// without having been drained, for an error of its program. After ProbationAfter
// such losses in a row it is on probation: its join is not a reason to end a
// quorum that stands, for a while that doubles with each further loss. It goes
// by the replica's name: a restart does not make it another one. Where no quorum
// stands it is let in like anybody: nobody is disturbed, and it may be the one
// that is needed (Q6, Q10).
//
// With ProbationAfter 2 (transcript 48_comes_and_goes):
//
//	let in, lost after 10 s     it may come back at once
//	let in, lost after 10 s     on probation for 2 s
//	let in, lost after 10 s     on probation for 4 s; then 8 s, up to 5 min
//	let in, lost after 90 s     it may come back at once: the row is over

// Times of probation.
const (
	// ShortMembership is how long a membership must have lasted to be no flap.
	ShortMembership = time.Minute
	// ProbationFirst is the first hold-off; it doubles up to ProbationMax.
	ProbationFirst = 2 * time.Second
	ProbationMax   = 5 * time.Minute
	// flapForgotten is how long after its last loss, and its hold-off, a name's
	// record is kept.
	flapForgotten = 10 * time.Minute
	// maxFlaps bounds the records; the oldest goes.
	maxFlaps = 1024
)

// flap is what is remembered of a name.
type flap struct {
	name  string
	short int       // memberships in a row that a loss ended soon
	at    time.Time // of the last loss
	until time.Time // on probation before this; zero: not
}

func replicaName(id ReplicaID) string {
	if name, ok := incarnation(id); ok {
		return name
	}
	return string(id)
}

func compareFlap(f flap, name string) int { return strings.Compare(f.name, name) }

// flapOf is the record of a replica's name, nil if there is none.
func (m *Machine) flapOf(id ReplicaID) *flap {
	if len(m.flaps) == 0 {
		return nil
	}
	if at, found := slices.BinarySearchFunc(m.flaps, replicaName(id), compareFlap); found {
		return &m.flaps[at]
	}
	return nil
}

// flapped notes that a replica was lost or left, if it was a member.
func (m *Machine) flapped(now time.Time, r *replica) {
	// A drain is the way to leave; an eviction is an operator's word, and no loss.
	if m.config.ProbationAfter == 0 || !r.member || r.evicted || r.draining {
		return
	}
	m.forgetFlaps(now)
	name := replicaName(r.id)
	at, found := slices.BinarySearchFunc(m.flaps, name, compareFlap)
	// It stayed, so what was before is over: losses count in a row, or in a long run each
	// replica would come on probation.
	if now.Sub(r.admitted) >= ShortMembership {
		if found {
			m.flaps = slices.Delete(slices.Clone(m.flaps), at, at+1)
		}
		return
	}
	if !found {
		m.flaps = slices.Insert(m.flaps, at, flap{name: name})
	}
	f := &m.flaps[at]
	f.short, f.at = f.short+1, now
	// L1: a few deaths in a row are bad luck, and a restart must not wait for them.
	if f.short < m.config.ProbationAfter {
		return
	}
	f.until = now.Add(doubled(ProbationFirst, ProbationMax, f.short-m.config.ProbationAfter))
	m.event(EventProbation, r.id, f.why(now))
}

// forgetFlaps drops what is old, and the oldest if there are too many.
func (m *Machine) forgetFlaps(now time.Time) {
	m.flaps = slices.DeleteFunc(m.flaps, func(f flap) bool {
		return now.Sub(f.at) >= flapForgotten && now.Sub(f.until) >= flapForgotten
	})
	if len(m.flaps) >= maxFlaps {
		oldest := slices.MinFunc(m.flaps, func(a, b flap) int {
			return cmp.Or(a.at.Compare(b.at), strings.Compare(a.name, b.name))
		})
		m.flaps = slices.DeleteFunc(m.flaps, func(f flap) bool { return f.name == oldest.name })
	}
}

// onProbation says that a replica may not be let into a quorum that stands.
func (m *Machine) onProbation(now time.Time, r *replica) bool {
	// A member is in, whatever was before: the others are not to lose it by its record (L3).
	if r.member || m.config.ProbationAfter == 0 {
		return false
	}
	f := m.flapOf(r.id)
	return f != nil && now.Before(f.until)
}

// why says for people how it came to that.
func (f *flap) why(now time.Time) string {
	return fmt.Sprintf("lost %d times in a row within %v of being let in; not let in for another %v",
		f.short, ShortMembership, f.until.Sub(now))
}
