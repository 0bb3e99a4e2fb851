package sim

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
	w.check.BitFlipped(r.line, r.Position().Step)
	w.note("a bit of %s flips at %v", r.name, r.Position())
}
