package sim

// This file is about bits that flip in a state (C1 at rest): what is true of the
// world, whatever the members know of it. A state and all that descends from it has a
// line, by the flip that it descends from; replicas of one line hold the same bytes at
// one position, those of two do not.

// noLine is that of a ballot that tells no state: its sender heals.
const noLine = -1

// flip flips a bit of the rank's state before a step, if that fault is due. It waits
// for one that is at rest: neither healing nor in the step of its heal, whose ballot
// tells no state, and beyond the first step, where states may differ anyway.
func (r *rank) flip() {
	if r.Position().Step == 0 || r.Behind() || !r.strikes(FaultFlip) {
		return
	}
	w := r.m.w
	w.flips++
	r.bytes ^= 1 << (w.flips * 7 % 64)
	r.line = w.flips
	w.check.flipped(r.line, r.Position().Step)
	w.note("a bit of %s flips at %v", r.name, r.Position())
}

// flipped notes a new line, which begins after a step.
func (c *checker) flipped(line int, step int64) { c.born[line] = step }

// lineOf is whose bytes a rank of a replica holds.
func (c *checker) lineOf(id string, g int) int {
	if c.line == nil {
		return 0
	}
	return c.line(id, g)
}

// mixed checks, at a commit by ballots, that no flipped bit lives beside others for
// longer than it takes to compare states once.
func (c *checker) mixed(id string, s stepName, lines []int) {
	for _, a := range lines {
		for _, b := range lines {
			if a == b || a == noLine || b == noLine {
				continue
			}
			if since := s.step - c.born[max(a, b)]; since >= parityEvery {
				c.fail("C1", "%s commits %v with states of the lines %v, of which one began %d steps ago", id, s, lines, since)
				return
			}
		}
	}
}

// told notes a commit that only the settlement said: nothing was compared in it.
func (c *checker) told(s stepName) {
	for line := range c.born {
		c.born[line] = max(c.born[line], s.step)
	}
}

// named checks whom ballots name as differing: never one of a strict majority's line,
// and if there is such a majority, everybody else.
func (c *checker) named(id string, s stepName, lines []int, named []int) {
	if len(named) == 0 {
		return
	}
	told, count := 0, map[int]int{}
	for _, l := range lines {
		if l != noLine {
			told++
			count[l]++
		}
	}
	isNamed := map[int]bool{}
	for _, rank := range named {
		isNamed[rank] = true
	}
	for rank, l := range lines {
		if l == noLine {
			if isNamed[rank] {
				c.fail("C1", "%s names rank %d in %v, which heals: %v", id, rank, s, named)
			}
			continue
		}
		for other, n := range count {
			if 2*n > told && isNamed[rank] != (l != other) {
				c.fail("C1", "%s names %v in %v, of the lines %v", id, named, s, lines)
				return
			}
		}
	}
	if len(named) >= told {
		c.fail("C1", "%s names all who told in %v: %v", id, s, named)
	}
}
