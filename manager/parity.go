package manager

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/manager/internal/state"
	"github.com/skerry-ft/skerry/quorum"
)

// comparison is the digest of a slice of this rank's state, which is made beside
// the forward pass, while nothing may write to the tensors. Whoever needs it first
// makes it: a task, or the ballot. It takes the save callbacks' time, and a slice's.
// Safe for concurrent use.
type comparison struct {
	states *state.Parts
	at     quorum.Position // of the state
	step   int64           // that the ballot is about

	claim atomic.Bool   // somebody makes it, or has ended it without
	made  chan struct{} // closed then
	sum   state.Sum     // to be read after that
}

func newComparison(s *state.Parts, at quorum.Position, step int64) *comparison {
	return &comparison{states: s, at: at, step: step, made: make(chan struct{})}
}

// compare begins a comparison, if one is due in this attempt.
func (m *Manager) compare() {
	m.mu.Lock()
	step, at, ok := m.mu.rank.Compares()
	m.mu.Unlock()
	m.comparison.end()
	m.comparison = nil
	if !ok {
		return
	}
	c := newComparison(&m.states, at, step)
	m.comparison = c
	m.tasks.Add(func(ctx context.Context) { c.result(ctx) })
}

// result makes the sum, or waits for whoever does. It is none once ctx ends, or the
// comparison has ended without it.
func (c *comparison) result(ctx context.Context) state.Sum {
	if c == nil {
		return state.Sum{}
	}
	c.claimed(func() { c.sum = c.states.Sum(c.step) })
	select {
	case <-c.made:
		return c.sum
	case <-ctx.Done():
		return state.Sum{}
	}
}

// end returns once nothing reads the tensors for c, and nothing will: it waits for a
// save callback that has been called, and for nothing else.
func (c *comparison) end() {
	if c == nil {
		return
	}
	c.claimed(func() {})
	<-c.made
}

// claimed runs f for the first caller; the others go on at once.
func (c *comparison) claimed(f func()) {
	if c.claim.CompareAndSwap(false, true) {
		defer close(c.made)
		f()
	}
}

// differed tells of replicas whose state is not that of the others. One that is
// named itself accuses itself, for it may differ again, and its heals cost the others
// steps.
func (m *Manager) differed(ctx context.Context, v quorum.Verdict, step int64) {
	sum := m.comparison.result(ctx)
	m.mu.Lock()
	a := m.mu.rank.Assignment()
	e := StateDiffered{
		QuorumID: a.QuorumID, Step: step, Slice: sum.Slice, First: sum.First, Last: sum.Last,
		Majority: v.Majority, Own: slices.Contains(v.Differ, a.ReplicaRank),
	}
	for _, rank := range v.Differ {
		e.Replicas = append(e.Replicas, string(a.ReplicaIDs[rank]))
	}
	if e.Own {
		m.mu.stats.Differed++
		e.Again = m.mu.stats.Differed > 1
	}
	m.mu.Unlock()
	line := m.log.Error().Strs("replicas", e.Replicas).Int64(logkey.QuorumID, e.QuorumID).Int64(logkey.Step, step).
		Int64("slice", e.Slice.Index).Int64("slices", e.Slice.Count).Str("first", e.First).Str("last", e.Last).
		Bool("majority", e.Majority).Bool("own", e.Own)
	if e.Again {
		line = line.Str("look_for", againAdvice)
	}
	line.Msg("state differed")
	m.events.Emit(e)
	if e.Own {
		m.tell(quorum.Accusation{
			By: m.id, Against: m.id, QuorumID: e.QuorumID, Kind: quorum.AccusedDiffers, Evidence: wire.Evidence(e.evidence()),
		})
	}
}

// againAdvice is what a replica whose state differs again and again may look for.
const againAdvice = "an optimizer or kernel that is not deterministic, tensors written between StartQuorum and " +
	"ShouldCommit, memory that fails, or a part that is this replica's own, to be registered with StateOptions.Local, or changes in the forward pass, with Volatile"

// evidence is what the replica that differs says of itself.
func (e StateDiffered) evidence() string {
	s := fmt.Sprintf("its state was not that of the others before step %d: %s", e.Step, e.where())
	if e.Again {
		s += "; again after a heal, look for " + againAdvice
	}
	return s
}

// where names the slice.
func (e StateDiffered) where() string {
	return fmt.Sprintf("slice %d of %d, %s to %s", e.Slice.Index+1, e.Slice.Count, e.First, e.Last)
}
