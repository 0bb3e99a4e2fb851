package manager

import (
	"context"
	"errors"
	"sync"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/quorum"
)

// ballotCutter loses ballots on their way in: cut says which ranks' ballots of
// the step that begins at a position never come. Each step is cut once.
type ballotCutter struct {
	pg.Backend

	cut func(from quorum.Position) []int

	mu struct {
		sync.Mutex

		done map[quorum.Position]bool
	}
}

var errCut = errors.New("cut by the test")

func newBallotCutter(b pg.Backend, cut func(quorum.Position) []int) *ballotCutter {
	c := &ballotCutter{Backend: b, cut: cut}
	c.mu.done = make(map[quorum.Position]bool)
	return c
}

func (c *ballotCutter) Unwrap() pg.Backend { return c.Backend }

func (c *ballotCutter) SetRound(round int64) { c.Backend.(pg.Rounder).SetRound(round) }

func (c *ballotCutter) Submit(op *pg.Op) *pg.Work {
	if op.Kind != pg.KindBallot {
		return c.Backend.Submit(op)
	}
	own, err := wire.DecodeBallot(op.Ballot)
	if err != nil {
		panic(err)
	}
	c.mu.Lock()
	var lost []int
	if !c.mu.done[own.Position] {
		lost = c.cut(own.Position)
		c.mu.done[own.Position] = true
	}
	c.mu.Unlock()
	inner := *op
	w := pg.NewWork(op)
	c.Backend.Submit(&inner).Then(func(err error) {
		op.Ballots = inner.Ballots
		for _, rank := range lost {
			if rank < len(op.Ballots) {
				op.Ballots[rank] = pg.BallotEntry{}
				err = errCut
			}
		}
		w.Complete(err)
	})
	return w
}

// flaky fails, once, the next all-reduce after trip: the group breaks.
type flaky struct {
	pg.Backend

	mu struct {
		sync.Mutex

		armed bool
		epoch pg.Epoch
	}
}

func (f *flaky) Unwrap() pg.Backend { return f.Backend }

func (f *flaky) SetRound(round int64) { f.Backend.(pg.Rounder).SetRound(round) }

func (f *flaky) trip() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.armed = true
}

func (f *flaky) Configure(ctx context.Context, c pg.Config) error {
	f.mu.Lock()
	f.mu.epoch = c.Epoch()
	f.mu.Unlock()
	return f.Backend.Configure(ctx, c)
}

func (f *flaky) Submit(op *pg.Op) *pg.Work {
	f.mu.Lock()
	armed, epoch := f.mu.armed && op.Kind == pg.KindAllReduce, f.mu.epoch
	if armed {
		f.mu.armed = false
	}
	f.mu.Unlock()
	if armed {
		f.Backend.Abort(epoch, errCut)
	}
	return f.Backend.Submit(op)
}
