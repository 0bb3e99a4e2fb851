package manager

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/tensor"
)

// comparison is the digest of a slice of this rank's state, which is made beside
// the forward pass, while nothing may write to the tensors. Whoever needs it first
// makes it: a task, or the ballot. It takes the save callbacks' time, and a slice's.
// Safe for concurrent use.
type comparison struct {
	states *states
	at     quorum.Position // of the state
	step   int64           // that the ballot is about

	claim atomic.Bool   // somebody makes it, or has ended it without
	made  chan struct{} // closed then
	sum   stateSum      // to be read after that
}

func newComparison(s *states, at quorum.Position, step int64) *comparison {
	return &comparison{states: s, at: at, step: step, made: make(chan struct{})}
}

// stateSum is a digest, and of what.
type stateSum struct {
	digest      quorum.Digest
	slice       quorum.Slice
	first, last string // tensors of the slice
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
	m.tasks.add(func(ctx context.Context) { c.result(ctx) })
}

// result makes the sum, or waits for whoever does. It is none once ctx ends, or the
// comparison has ended without it.
func (c *comparison) result(ctx context.Context) stateSum {
	if c == nil {
		return stateSum{}
	}
	c.claimed(func() { c.sum = c.states.sum(c.step) })
	select {
	case <-c.made:
		return c.sum
	case <-ctx.Done():
		return stateSum{}
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

// parityStep is how much is summed up at a time: the assembler below cannot be
// interrupted.
const parityStep = 256 << 10

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum sums up what a step compares of the tensors that are not this replica's own:
// their bytes in the order of their names, as one run. Tensors on a device, and such
// with holes, have no bytes here.
func (s *states) sum(step int64) stateSum {
	tensors := s.shared()
	names := slices.Sorted(maps.Keys(tensors))
	var total int64
	for _, name := range names {
		total += int64(len(tensors[name].Bytes()))
	}
	if total == 0 {
		return stateSum{}
	}
	out := stateSum{slice: quorum.ParitySlice(step, total)}
	crc := crc32.Checksum(binary.LittleEndian.AppendUint64(nil, uint64(total)), castagnoli)
	at := int64(0)
	for _, name := range names {
		data := tensors[name].Bytes()
		from, to := max(out.slice.From-at, 0), min(out.slice.To-at, int64(len(data)))
		at += int64(len(data))
		if from >= to {
			continue
		}
		if out.last = name; out.first == "" {
			out.first = name
		}
		for part := range slices.Chunk(data[from:to], parityStep) {
			crc = crc32.Update(crc, castagnoli, part)
		}
	}
	out.digest = quorum.Digest{Valid: true, Sum: crc}
	return out
}

// shared are the tensors that all replicas hold alike.
func (s *states) shared() map[string]tensor.Tensor {
	all := make(map[string]tensor.Tensor)
	for _, p := range s.parts {
		if p.Local || p.Volatile {
			continue
		}
		for name, t := range s.call(p).Tensors {
			all[p.name+"/"+name] = t
		}
	}
	return all
}

// differed tells of replicas whose state is not that of the others. One that is
// named itself accuses itself, for it may differ again, and its heals cost the others
// steps.
func (m *Manager) differed(ctx context.Context, v quorum.Verdict, step int64) {
	sum := m.comparison.result(ctx)
	m.mu.Lock()
	a := m.mu.rank.Assignment()
	e := StateDiffered{
		QuorumID: a.QuorumID, Step: step, Slice: sum.slice, First: sum.first, Last: sum.last,
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
	m.events.emit(e)
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
