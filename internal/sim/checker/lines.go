package checker

import "slices"

// This file is about bits that flip in a state (C1 at rest): what is true of the
// world, whatever the members know of it. A state and all that descends from it has a
// line, by the flip that it descends from; replicas of one line hold the same bytes at
// one position, those of two do not.

// NoLine is that of a ballot that tells no state: its sender heals.
const NoLine = -1

// BitFlipped notes a new line, which begins after a step.
func (c *Checker) BitFlipped(line int, step int64) { c.born[line] = step }

// lineOf is whose bytes a rank of a replica holds.
func (c *Checker) lineOf(id string, g int) int {
	if c.world.Line == nil {
		return 0
	}
	return c.world.Line(id, g)
}

// ComparedStates checks, at a commit by ballots, that no flipped bit lives beside others for
// longer than it takes to compare states once.
func (c *Checker) ComparedStates(id string, s StepName, lines []int) {
	for _, a := range lines {
		for _, b := range lines {
			if a == b || a == NoLine || b == NoLine {
				continue
			}
			if since := s.Step - c.born[max(a, b)]; since >= c.world.ParityEvery {
				c.fail("C1", "%s commits %v with states of the lines %v, of which one began %d steps ago", id, s, lines, since)
				return
			}
		}
	}
}

// RolledForward notes a commit that only the settlement said: nothing was compared in it.
func (c *Checker) RolledForward(s StepName) {
	for line := range c.born {
		c.born[line] = max(c.born[line], s.Step)
	}
}

// NamedDiffering checks whom ballots name as differing: never one of a strict majority's line,
// and if there is such a majority, everybody else.
func (c *Checker) NamedDiffering(id string, s StepName, lines []int, named []int) {
	if len(named) == 0 {
		return
	}
	told, count := 0, map[int]int{}
	for _, l := range lines {
		if l != NoLine {
			told++
			count[l]++
		}
	}
	for rank, l := range lines {
		isNamed := slices.Contains(named, rank)
		if l == NoLine {
			if isNamed {
				c.fail("C1", "%s names rank %d in %v, which heals: %v", id, rank, s, named)
			}
			continue
		}
		for other, n := range count {
			if 2*n > told && isNamed != (l != other) {
				c.fail("C1", "%s names %v in %v, of the lines %v", id, named, s, lines)
				return
			}
		}
	}
	if len(named) >= told {
		c.fail("C1", "%s names all who told in %v: %v", id, s, named)
	}
}
