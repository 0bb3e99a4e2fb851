package ddp

import (
	"context"
	"fmt"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// plan is what the ops of a step follow from: the order of the gradients in buckets, and
// the phase of the hook. Each step begins with a broadcast of it from the first
// participant, which all wait for before they start a bucket. So the ops of a step are
// the same on all that take part, whatever each of them held before: a newcomer that has
// the state of none of them, one that is healed beside the step, a spare.
type plan struct {
	words  []int32       // what is broadcast; nothing else writes to it between two steps
	there  tensor.Tensor // the words on a device, for a group that may take no others; else none
	failed error         // of the copy to there
	seen   []bool        // scratch of read
	mark   uint32        // fingerprint
	op     pg.Pending
}

// The words of a plan, before the order.
const (
	wordVersion = iota
	wordMark
	wordRebuilt // 0 or 1
	wordPhaseLow
	wordPhaseHigh
	planWords
)

const planVersion = 1

func newPlan(n int, mark uint32) plan {
	return plan{words: make([]int32, planWords+n), seen: make([]bool, n), mark: mark}
}

// write sets what this rank would have the others do, if it is the first participant.
func (p *plan) write(order []int, rebuilt bool, phase int64) {
	p.words[wordVersion], p.words[wordMark] = planVersion, int32(p.mark)
	p.words[wordRebuilt] = 0
	if rebuilt {
		p.words[wordRebuilt] = 1
	}
	p.words[wordPhaseLow], p.words[wordPhaseHigh] = int32(phase), int32(phase>>32)
	for at, i := range order {
		p.words[planWords+at] = int32(i)
	}
}

// start broadcasts it. Of a plan that cannot be copied to its device it starts nothing: fetch
// has the error.
func (p *plan) start(g *pg.Group) {
	t := tensor.Of(p.words)
	if mem, at := p.there.Memory(); mem != nil {
		if p.failed = mem.CopyFromHost(at, t.Bytes()); p.failed != nil {
			return
		}
		t = p.there
	}
	p.op.Start(g, pg.Op{Kind: pg.KindBroadcast, Root: 0}, t, t)
}

// wait waits for the first participant's.
func (p *plan) wait(ctx context.Context) error { return p.op.Wait(ctx) }

// fetch brings the words from their device, once the broadcast is through.
func (p *plan) fetch() error {
	mem, at := p.there.Memory()
	if mem == nil {
		return nil
	}
	err := p.failed
	if err == nil {
		err = mem.CopyToHost(tensor.Of(p.words).Bytes(), at)
	}
	if err != nil {
		return fmt.Errorf("copy the plan on %v: %w", mem.Device(), err)
	}
	return nil
}

// check refuses what no Reducer of this model sends.
func (p *plan) check() error {
	w := p.words
	switch {
	case w[wordVersion] != planVersion:
		return fmt.Errorf("the plan's version is %d, want %d", w[wordVersion], planVersion)
	case uint32(w[wordMark]) != p.mark:
		return fmt.Errorf("the plan is for other parameters or sizes of buckets (%#x), want those of here (%#x)", uint32(w[wordMark]), p.mark)
	case w[wordRebuilt] != 0 && w[wordRebuilt] != 1:
		return fmt.Errorf("the plan's rebuilt is %d, want 0 or 1", w[wordRebuilt])
	case p.phase() < 0:
		return fmt.Errorf("the plan's phase is %d, want 0 or more", p.phase())
	case !permutes(p.order(), p.seen):
		return fmt.Errorf("the plan's order does not name each of %d gradients once", len(p.seen))
	}
	return nil
}

func (p *plan) order() []int32 { return p.words[planWords:] }
func (p *plan) rebuilt() bool  { return p.words[wordRebuilt] == 1 }
func (p *plan) phase() int64 {
	return int64(p.words[wordPhaseHigh])<<32 | int64(uint32(p.words[wordPhaseLow]))
}
