package sampler

import (
	"fmt"
	"math"

	"github.com/skerry-ft/skerry/internal/problems"
)

// ElasticConfig says how a dataset is dealt out. It is the same on all replicas.
type ElasticConfig struct {
	Samples int // of the dataset, 1 or more

	// Seed draws the order of each epoch; InOrder leaves the dataset's own.
	Seed    uint64
	InOrder bool

	// Batch is how many samples each share of a step has, so that a step has more
	// where more take part. GlobalBatch is how many a step has in all, whoever takes
	// part. One of them is 1 or more, and the other 0.
	Batch, GlobalBatch int
}

func (c ElasticConfig) validate() error {
	var bad problems.List
	bad.Want(c.Samples >= 1, "Samples", c.Samples, "1 or more")
	problems.NotNegative(&bad, "Batch", c.Batch)
	problems.NotNegative(&bad, "GlobalBatch", c.GlobalBatch)
	bad.Want((c.Batch > 0) != (c.GlobalBatch > 0), "GlobalBatch", c.GlobalBatch,
		"1 or more with Batch = 0, or 0 with a Batch of 1 or more (it is %d)", c.Batch)
	return bad.Err()
}

// Share is one of the equal parts of a step's samples.
type Share struct {
	Rank  int // 0 to Count-1; -1: this rank reads nothing, for it heals or is a spare
	Count int // 1 or more
}

// ShareOf is the share of one rank of a replica in the step for which
// manager.WaitParticipants has answered rank and count: of groupRank, among
// groupSize ranks that read samples of their own. Where all ranks of a replica read
// the same samples, as under tensor parallelism, they pass 0 and 1.
// Source: torchft DistributedSampler, global_rank.
func ShareOf(rank, count, groupRank, groupSize int) Share {
	if rank < 0 {
		return Share{Rank: -1, Count: count * groupSize}
	}
	return Share{Rank: rank*groupSize + groupRank, Count: count * groupSize}
}

// Step is what a rank reads in one step.
type Step struct {
	Epoch int64 // counts from 0
	Rows  []int // indices into the dataset; maybe none
	Total int   // samples of all shares of this step, 1 or more
	Last  bool  // the epoch ends with this step
}

// Elastic deals the samples of each epoch out to those who take part in a step; see
// the package comment. It is owned by the trainer's goroutine, but for State, which a
// manager calls from another while the trainer is between StartQuorum and ShouldCommit.
type Elastic struct {
	cfg    ElasticConfig
	cursor [cursorFields]int64 // registered: a heal writes here

	order   order // of orderOf
	orderOf int64
	dealt   int // shares of the step under way; 0: none is
}

// The fields of a cursor.
const (
	fieldEpoch = iota // the epoch under way
	fieldRead         // samples of it that committed steps have had, below Samples
	cursorFields
)

// NewElastic checks cfg, and returns all problems, joined. The sampler stands before
// the first sample of epoch 0.
func NewElastic(cfg ElasticConfig) (*Elastic, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("sampler: %w", err)
	}
	e := &Elastic{cfg: cfg}
	e.order = newOrder(cfg.Samples, !cfg.InOrder, cfg.Seed, 0)
	return e, nil
}

// Epoch is the epoch under way, from 0, and Read how many of its samples committed
// steps have had.
func (e *Elastic) Epoch() int64 { return e.cursor[fieldEpoch] }

// Read is explained at Epoch.
func (e *Elastic) Read() int { return int(e.cursor[fieldRead]) }

// Next deals out the step under way: of package localsgd, the round. Called again before Commit
// it deals the same samples out anew, as after a step that was discarded. It panics if s is not
// a share.
func (e *Elastic) Next(s Share) Step {
	if s.Count < 1 || s.Rank < -1 || s.Rank >= s.Count {
		panic(fmt.Sprintf("sampler: share %d of %d, want -1 or a rank below the count", s.Rank, s.Count))
	}
	e.dealt = s.Count
	total, last := e.total()
	step := Step{Epoch: e.Epoch(), Total: total, Last: last}
	if s.Rank < 0 {
		return step
	}
	from, to := s.Rank*total/s.Count, (s.Rank+1)*total/s.Count
	if e.orderOf != e.Epoch() {
		e.orderOf = e.Epoch()
		e.order = newOrder(e.cfg.Samples, !e.cfg.InOrder, e.cfg.Seed, e.orderOf)
	}
	step.Rows = make([]int, 0, to-from)
	for i := from; i < to; i++ {
		step.Rows = append(step.Rows, e.order.at(e.Read()+i))
	}
	return step
}

// total is how many samples the step under way has, and whether they are the last of
// the epoch.
func (e *Elastic) total() (n int, last bool) {
	left := e.cfg.Samples - e.Read()
	n = e.cfg.GlobalBatch
	if n == 0 {
		n = min(e.dealt, math.MaxInt/e.cfg.Batch) * e.cfg.Batch
	}
	return min(n, left), n >= left
}

// Commit moves the cursor behind the samples that Next dealt out: call it when the
// step is committed, before the next StartQuorum, where the optimizer steps. What was
// dealt out is counted from the cursor as it is now, which a heal may have moved since.
// It panics without a Next since the last Commit.
func (e *Elastic) Commit() {
	if e.dealt == 0 {
		panic("sampler: Commit without Next: every step that may be committed deals its samples out")
	}
	n, last := e.total()
	e.dealt = 0
	e.cursor[fieldRead] += int64(n)
	if last {
		e.cursor = [cursorFields]int64{fieldEpoch: e.Epoch() + 1}
	}
}
