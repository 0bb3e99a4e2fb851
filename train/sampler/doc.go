// Package sampler will say which examples a replica reads, so that elastic
// membership neither repeats nor skips data.
//
// This is the contract; there is no implementation yet.
//
// # Contract
//
// A sampler is a pure function of (seed, position, participants): the same
// committed step reads the same examples on every replica, whoever was there,
// and a discarded step is read again. Its state is one integer, the number of
// examples committed, and travels with a heal. Participants are those of the step
// under way: manager.WaitParticipants, and not manager.NumParticipants, which is
// the last quorum's while the next one is on its way.
package sampler

// Sampler hands out example indices.
type Sampler interface {
	// Batch returns the indices for one participant of the step that follows
	// committed examples: disjoint over participants, size each, in [0, n).
	Batch(p Participant) []int
	// Commit moves on past the step's examples.
	Commit(count int)
	// Committed is the number of examples committed so far.
	Committed() int64
}

// Participant says who asks.
type Participant struct {
	Rank  int // manager.Participants.Rank
	Count int // manager.Participants.Count
	Size  int // examples per participant
}
