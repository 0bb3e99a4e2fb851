package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// ballot exchanges payload and returns what came.
func ballot(ctx context.Context, g *pg.Group, payload []byte) ([]pg.BallotEntry, error) {
	op := &pg.Op{Kind: pg.KindBallot, Ballot: payload}
	err := g.Do(ctx, op)
	return op.Ballots, err
}

func payloadOf(rank, round, size int) []byte {
	return bytes.Repeat([]byte{byte(rank + 1), byte(round)}, size/2)
}

// testBallot: everybody gets everybody's payload, at every world size, up to
// the bound; digests are valid and equal, cover what was reduced since the last
// ballot, and are those that pg.Digest defines; a ballot beyond the bound is
// refused and breaks nothing.
func testBallot(t *testing.T, h Harness) {
	for worldSize := 1; worldSize <= h.MaxWorldSize; worldSize++ {
		w := newWorld(t, h, worldSize)
		w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
			for round, size := range []int{0, 10, pg.MaxBallotBytes} {
				want := pg.Digest{Valid: true}
				for range round {
					x := input(tensor.Float32, 70_001*round, seedOf(round, rank, 0))
					if err := g.AllReduce(ctx, x, tensor.Sum); err != nil {
						return err
					}
					want.Add(x.Bytes())
				}
				got, err := ballot(ctx, g, payloadOf(rank, round, size))
				if err != nil {
					return err
				}
				if h.NoDigests {
					want = pg.Digest{}
				}
				if err := checkBallots(got, worldSize, round, size, want); err != nil {
					return fmt.Errorf("ballot %d: %w", round, err)
				}
			}
			if _, err := ballot(ctx, g, make([]byte, pg.MaxBallotBytes+1)); !errors.Is(err, pg.ErrInvalidOp) {
				return fmt.Errorf("ballot beyond the bound: %w, want ErrInvalidOp", err)
			}
			return g.Barrier(ctx)
		})
	}
}

func checkBallots(got []pg.BallotEntry, worldSize, round, size int, want pg.Digest) error {
	if len(got) != worldSize {
		return fmt.Errorf("%d entries, want %d", len(got), worldSize)
	}
	for rank, e := range got {
		switch {
		case !e.Here:
			return fmt.Errorf("that of rank %d is missing", rank)
		case !bytes.Equal(e.Payload, payloadOf(rank, round, size)):
			return fmt.Errorf("payload of rank %d is %d bytes, want its own %d", rank, len(e.Payload), size)
		case e.Digest != want:
			return fmt.Errorf("digest of rank %d is %+v, want %+v", rank, e.Digest, want)
		}
	}
	return nil
}

// testBallotCorrupt: if one rank's result is not that of the others, its digest
// differs, and only its, in what everybody sees; the next ballot starts anew.
func testBallotCorrupt(t *testing.T, h Harness) {
	if h.Corrupt == nil {
		t.Skip("harness cannot corrupt")
	}
	const worldSize, culprit = 3, 1
	w := newWorld(t, h, worldSize)
	h.Corrupt(w.Members[culprit].Backend)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		for round := range 2 {
			if err := g.AllReduce(ctx, input(tensor.Float32, 1000, seedOf(0, rank, 0)), tensor.Sum); err != nil {
				return err
			}
			got, err := ballot(ctx, g, nil)
			if err != nil {
				return err
			}
			differs := got[culprit].Digest != got[0].Digest
			if got[0].Digest != got[2].Digest || differs != (round == 0) {
				return fmt.Errorf("ballot %d: digests %+v", round, got)
			}
		}
		return nil
	})
}

// testBallotBroken: a ballot that fails half-way still gives what has come,
// this rank's own included, on every rank that balloted; and one in a group
// that is broken gives its own, and nothing of the exchange before it.
func testBallotBroken(t *testing.T, h Harness) {
	const worldSize, silent = 3, 2
	w := newWorld(t, h, worldSize)
	cause := errors.New("given up")
	works := make([]*pg.Work, silent)
	for rank := range works {
		works[rank] = w.Groups[rank].Submit(&pg.Op{Kind: pg.KindBallot, Ballot: payloadOf(rank, 0, 6)})
	}
	w.Groups[silent].Abort(cause)
	for rank, work := range works {
		within(t, PromptBound, "broken ballot", func() { <-work.Done() })
		entries := work.Op().Ballots
		if work.Err() == nil || len(entries) != worldSize {
			t.Fatalf("rank %d: error %v, %d entries; want an error and %d", rank, work.Err(), len(entries), worldSize)
		}
		if !entries[rank].Here || entries[silent].Here {
			t.Errorf("rank %d: own here %v, silent one here %v; want true, false",
				rank, entries[rank].Here, entries[silent].Here)
		}
		for from, e := range entries {
			if e.Here && !bytes.Equal(e.Payload, payloadOf(from, 0, 6)) {
				t.Errorf("rank %d: payload of rank %d is %x", rank, from, e.Payload)
			}
		}
	}
	for rank, work := range works {
		op := work.Op()
		op.Ballot = payloadOf(rank, 1, 6)
		late := w.Groups[rank].Submit(op)
		within(t, PromptBound, "ballot of a broken group", func() { <-late.Done() })
		if late.Err() == nil || len(op.Ballots) != worldSize {
			t.Fatalf("rank %d, broken: error %v, %d entries; want an error and %d", rank, late.Err(), len(op.Ballots), worldSize)
		}
		for from, e := range op.Ballots {
			if e.Here != (from == rank) || e.Here && !bytes.Equal(e.Payload, op.Ballot) {
				t.Errorf("rank %d, broken: entry of rank %d is %+v", rank, from, e)
			}
		}
	}
}
