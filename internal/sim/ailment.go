package sim

import "time"

// ailment is what is the matter with one member in the world of a cause. The zero value
// is nothing.
type ailment struct {
	hung     bool          // its trainer moves no more
	late     bool          // it hangs after it has sent its gradients
	odd      bool          // it calls other collectives than the others
	unhealed bool          // its heals fail
	slow     time.Duration // by how much its steps are longer
	joins    int64         // when it joins first: it copies a state before, or cannot
}

// any says that it is not one of those that must go on.
func (a *ailment) any() bool { return a.hung || a.odd || a.unhealed || a.joins > 0 }

// hangs says that the trainer stands still here, from now on.
func (r *rank) hangs(late bool) bool {
	if a := &r.m.ailment; !a.hung || a.late != late {
		return false
	}
	r.enter(hanging, 0, nil)
	return true
}

// recover ends what is the matter with the member.
func (m *member) recover() {
	late := m.ailment.late
	m.ailment = ailment{}
	for _, r := range m.ranks {
		if r.phase != hanging {
			continue
		}
		r.m.soon(func() {
			switch {
			case r.phase != hanging:
			case late:
				r.reduced()
			default:
				r.exchange()
			}
		})
	}
}
