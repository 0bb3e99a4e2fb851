package manager

import (
	"context"
	"fmt"
	"slices"

	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/quorum"
)

// compare begins a comparison, if one is due in this attempt.
func (m *Manager) compare() {
	m.mu.Lock()
	step, at, ok := m.mu.rank.Compares()
	m.mu.Unlock()
	m.comparison.End()
	m.comparison = nil
	if !ok {
		return
	}
	c := m.states.Compare(at, step, m.cfg.ParityWhole)
	m.comparison = c
	m.tasks.Add(func(ctx context.Context) { c.Result(ctx) })
}

// differed tells of replicas whose state is not that of the others. One that is
// named itself accuses itself, for it may differ again, and its heals cost the others
// steps.
func (m *Manager) differed(ctx context.Context, v quorum.Verdict, step int64) {
	sum := m.comparison.Result(ctx)
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
	if m.cfg.OnDiffering == StopAll || m.cfg.OnDiffering == EndDiffering && e.Own {
		m.setFinal(fmt.Errorf("%w: %v before step %d, %s; look for %s", ErrDiffered, e.Replicas, step, e.where(), againAdvice))
	}
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
