package quorum

import "slices"

// This file is a rank's part in comparing states at rest (C1, see parity.go).

// rest is what an attempt's ballot says of the state.
type rest struct {
	at     Position
	digest Digest
	whole  bool
}

// Compares says whether the ballot of the open attempt is to speak of the state, of
// which step it would be, and at which position the state is. It is asked when
// StartQuorum ends: until the ballot nothing writes to the state.
//
// A rank that has copied a state ahead, and not healed, holds parts of several: it
// has none to compare.
func (r *Rank) Compares() (step int64, at Position, ok bool) {
	step = r.position.Step + 1
	return step, r.position, r.attempt.open && ParityDue(step, r.cfg.ParityEvery) && !r.ahead
}

// Rested notes the digest of the state at a position, of a slice of it or of the whole,
// for the ballot of the open attempt.
func (r *Rank) Rested(at Position, d Digest, whole bool) { r.attempt.rest = rest{at, d, whole} }

// state is what the ballot says of the state; none if it is not that of the position
// which the ballot names, or was replaced since it was summed up.
func (r *Rank) state(unhealed bool) Digest {
	rest := r.attempt.rest
	if unhealed || r.behind || r.ahead || r.attempt.healed || rest.at != r.position {
		return Digest{}
	}
	return rest.digest
}

// learn takes in whose states differ. One that is named says so in each join, until
// it has healed, or is told that it need not: else it would give what is wrong to
// whoever heals, and be found out again.
func (r *Rank) learn(v Verdict) {
	r.differs = r.differs || slices.Contains(v.Differ, r.assign.ReplicaRank)
}

// Differs says that this rank's state is known not to be that of the others: it gives
// it to nobody.
func (r *Rank) Differs() bool { return r.differs }
