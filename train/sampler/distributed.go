package sampler

import (
	"fmt"
	"iter"

	"github.com/skerry-ft/skerry/internal/problems"
)

// Config says how a dataset is divided among a fixed number of ranks. It is the same
// on all of them but for Rank.
type Config struct {
	Samples int // of the dataset, 1 or more
	Ranks   int // 1 or more
	Rank    int // 0 to Ranks-1

	// Seed draws the order of each epoch; InOrder leaves the dataset's own.
	Seed    uint64
	InOrder bool

	// Uneven says what becomes of samples that do not divide by Ranks.
	Uneven Uneven
}

// Uneven is what becomes of the samples that do not divide by the number of ranks.
type Uneven int

// The ways of Uneven. Pad and Drop are torch's, drop_last off and on; a collective in
// every step needs one of them, for all ranks then have as many samples.
const (
	Pad  Uneven = iota // the first samples of the order are read again, until they do
	Drop               // the last ones of the order are left out
	Keep               // some ranks have one sample more than others
)

// Distributed is torch.utils.data.DistributedSampler: rank r reads the samples at
// positions r, r+Ranks, r+2*Ranks… of the epoch's order, which is not torch's of the same
// seed. Safe for concurrent use.
//
// Under a manager it reads the shards of replicas that are away not at all: torchft's
// sampler does the same and calls itself lossy. Use Elastic there.
type Distributed struct{ cfg Config }

// NewDistributed checks cfg, and returns all problems, joined.
func NewDistributed(cfg Config) (*Distributed, error) {
	var bad problems.List
	bad.Want(cfg.Samples >= 1, "Samples", cfg.Samples, "1 or more")
	bad.Want(cfg.Ranks >= 1, "Ranks", cfg.Ranks, "1 or more")
	bad.Want(0 <= cfg.Rank && cfg.Rank < max(cfg.Ranks, 1), "Rank", cfg.Rank, "0 to Ranks-1, %d", cfg.Ranks-1)
	problems.Within(&bad, "Uneven", cfg.Uneven, Pad, Keep)
	if err := bad.Err(); err != nil {
		return nil, fmt.Errorf("sampler: %w", err)
	}
	return &Distributed{cfg}, nil
}

// Len is how many samples this rank reads in an epoch.
func (d *Distributed) Len() int {
	c := d.cfg
	switch c.Uneven {
	case Drop:
		return c.Samples / c.Ranks
	case Keep:
		return (c.Samples - c.Rank + c.Ranks - 1) / c.Ranks
	default:
		return (c.Samples + c.Ranks - 1) / c.Ranks
	}
}

// Epoch yields the samples of this rank in one epoch, as indices into the dataset.
// Each epoch has an order of its own; torch's set_epoch is this argument.
func (d *Distributed) Epoch(epoch int64) iter.Seq[int] {
	return func(yield func(int) bool) {
		order := newOrder(d.cfg.Samples, !d.cfg.InOrder, d.cfg.Seed, epoch)
		for i := range d.Len() {
			at := d.cfg.Rank + i*d.cfg.Ranks
			if !yield(order.at(at % d.cfg.Samples)) { // beyond the end only where padded
				return
			}
		}
	}
}
