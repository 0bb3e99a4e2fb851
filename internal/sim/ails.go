package sim

import (
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// ails is what is the matter with one member in the world of a cause. The zero value
// is nothing.
type ails struct {
	hung     bool          // its trainer moves no more
	late     bool          // it hangs after it has sent its gradients
	since    int64         // when it moved last; 0: it moves
	moved    uint64        // its progress then
	odd      bool          // it calls other collectives than the others
	unhealed bool          // its heals fail
	slow     time.Duration // by how much its steps are longer
	joins    int64         // when it joins first: it copies a state before, or cannot
}

// any says that it is not one of those that must go on.
func (a *ails) any() bool { return a.hung || a.odd || a.unhealed || a.joins > 0 }

// hang says that the trainer stands still here, from now on.
func (m *member) hang(late bool) bool {
	if !m.ails.hung || m.ails.late != late {
		return m.ails.since > 0
	}
	if m.ails.since == 0 {
		m.ails.since, m.ails.moved = m.w.now, m.progress()
	}
	return true
}

// progress is the trainer's counter.
func (m *member) progress() uint64 {
	if m.ails.since > 0 {
		return m.ails.moved
	}
	return m.moves + uint64(m.group)
}

// away says that the manager joins no more for its trainer.
func (m *member) away() bool {
	return m.ails.since > 0 && quorum.TrainerAway(time.Duration(m.w.now-m.ails.since), opDeadline, false)
}

// stays says that the member does not join now, and may look again later.
func (m *member) stays() bool {
	if d := m.ails.joins - m.w.now; d > 0 {
		m.after(time.Duration(d), m.joinIfDue)
		return true
	}
	return m.away()
}

// recover ends what is the matter with the member.
func (m *member) recover() {
	hung := m.ails.since > 0
	m.ails = ails{}
	if m.up && hung {
		m.breakGroup("the trainer goes on")
		m.joinIfDue()
	}
}

// mismatches says that a peer called another collective than this member. Both say
// so of each other.
func (m *member) mismatches(s *stepMessage) bool {
	if s.vote != nil || s.odd == m.ails.odd || m.in() == nil || s.key.q != m.in().ID || !m.stands() {
		return false
	}
	m.accuse(quorum.Accusation{
		By: m.rid(), Against: s.from.rid(), QuorumID: m.in().ID, Evidence: "called something else", Kind: quorum.AccusedOdd,
	})
	m.breakGroup(s.from.id + " called something else")
	return true
}

// failsToHeal says that the member's heal fails: it says so, and its quorum ends.
func (m *member) failsToHeal() bool {
	if !m.ails.unhealed {
		return false
	}
	m.accuse(quorum.Accusation{
		By: m.rid(), Against: m.rid(), QuorumID: m.in().ID, Evidence: "its heal failed", Kind: quorum.AccusedUnhealed,
	})
	m.breakGroup("its heal failed")
	return true
}
