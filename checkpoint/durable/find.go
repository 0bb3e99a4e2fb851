package durable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/safetensors"
	"github.com/skerry-ft/skerry/quorum"
)

// Errors of Find and Restore that callers tell apart.
var (
	// ErrNone is returned by Find and Restore when no checkpoint has ever been finished
	// there, or none is left: training begins at step 0.
	ErrNone = errors.New("durable: no checkpoint")
	// ErrDamaged is returned by Find and Restore when there are checkpoints, and none is
	// whole: joined with what is wrong with each.
	ErrDamaged = errors.New("durable: no checkpoint is whole")

	// errUnfinished is why one is passed over whose writer died, or writes yet.
	errUnfinished = errors.New("not finished: a manifest is missing")
)

// maxEntries bounds the files of a store.
const maxEntries = 1 << 21

// Found is a checkpoint that is whole.
type Found struct {
	Name     string
	Position quorum.Position // for manager.Start
	Batches  int64           // for manager.Start

	Participants   int // of the quorum that committed the step, as the writer saw it
	GroupWorldSize int // of the writer
	SizeBytes      int64
	// Rejected are the newer ones that were passed over, newest first.
	Rejected []Rejected

	shards []foundShard // by group rank
}

// Rejected is a checkpoint that was passed over, and why.
type Rejected struct {
	Name string
	Err  error
}

// foundShard is one group rank's part.
type foundShard struct {
	manifest *manifest
	tensors  [][]foundTensor // by file, those that were read
}

// foundTensor is a tensor of a file, with a checksum of its bytes.
type foundTensor struct {
	safetensors.TensorInfo
	sum uint32
}

// String says what was found, in a line.
func (f *Found) String() string {
	s := fmt.Sprintf("checkpoint %s: step %d of quorum %d, %d bytes, group world size %d",
		f.Name, f.Position.Step, f.Position.QuorumID, f.SizeBytes, f.GroupWorldSize)
	for _, r := range f.Rejected {
		s += fmt.Sprintf("; passed over %s: %v", r.Name, r.Err)
	}
	return s
}

// candidate is what a store lists of one checkpoint.
type candidate struct {
	title title
	sizes map[string]int64 // by "folder/file"
	ranks map[shard]bool   // those whose manifest is there
}

// world is the group world size of which all manifests are there; 0: none is.
func (c *candidate) world() int {
	for _, size := range c.worlds() {
		n := 0
		for s := range c.ranks {
			if s.size == size {
				n++
			}
		}
		if n == size {
			return size
		}
	}
	return 0
}

func (c *candidate) worlds() []int {
	var all []int
	for s := range c.ranks {
		all = append(all, s.size)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// list gives all checkpoints, whole or not, newest first.
func (c *Checkpointer) list(ctx context.Context) ([]*candidate, error) {
	all := make(map[title]*candidate)
	n := 0
	err := c.cfg.Store.List(ctx, "", func(e Entry) error {
		if n++; n > maxEntries {
			return fmt.Errorf("store has over %d files", maxEntries)
		}
		p, ok := parsePlace(e.Name)
		if !ok {
			return nil
		}
		t := all[p.title]
		if t == nil {
			t = &candidate{title: p.title, sizes: make(map[string]int64), ranks: make(map[shard]bool)}
			all[p.title] = t
		}
		t.sizes[p.shard.folder()+"/"+p.file] = e.SizeBytes
		if p.file == manifestName {
			t.ranks[p.shard] = true
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list checkpoints: %w", err)
	}
	out := make([]*candidate, 0, len(all))
	for _, t := range all {
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b *candidate) int { return b.title.compare(a.title) })
	return out, nil
}

// compare orders by position; the writers' names break ties, in one way for all.
func (t title) compare(o title) int {
	return cmp.Or(cmp.Compare(t.step, o.step), cmp.Compare(t.quorumID, o.quorumID), strings.Compare(t.writer, o.writer))
}

// Find looks for the newest checkpoint that is whole, and reads all of it to be sure
// of that; it writes to no tensor. All ranks of all replicas that find the same files
// find the same checkpoint. Errors: ErrNone, ErrDamaged, what the store says, ctx's
// cause.
func (c *Checkpointer) Find(ctx context.Context) (*Found, error) {
	all, err := c.list(ctx)
	if err != nil {
		return nil, fmt.Errorf("durable: %w", err)
	}
	var rejected []Rejected
	damage := []error{ErrDamaged}
	for _, t := range all {
		err := errUnfinished
		if world := t.world(); world > 0 {
			var f *Found
			if f, err = c.verify(ctx, t, world); err == nil {
				f.Rejected = rejected
				return f, nil
			}
			if !damaged(err) {
				return nil, fmt.Errorf("durable: read checkpoint %s: %w", t.title, err)
			}
			c.noteDamaged(t.title)
			damage = append(damage, fmt.Errorf("%s: %w", t.title, err))
		}
		rejected = append(rejected, Rejected{Name: t.title.String(), Err: err})
		c.log.Warn().Str("checkpoint", t.title.String()).Err(err).Msg("checkpoint passed over")
	}
	if len(damage) > 1 {
		return nil, errors.Join(damage...)
	}
	return nil, ErrNone
}

// noteDamaged: this one does not count among those that are kept.
func (c *Checkpointer) noteDamaged(t title) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.damaged[t] = true
}

// damaged: the bytes are lost, and no other try will find them.
func damaged(err error) bool {
	return errors.Is(err, checkpoint.ErrCorrupt) || errors.Is(err, fs.ErrNotExist)
}
