package sampler

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/tensor"
)

// The names in a sampler's state.
const (
	tensorCursor = "cursor" // int64: epoch, samples read
	metaSamples  = "samples"
	metaSeed     = "seed"
	metaInOrder  = "in_order"
)

// State is the sampler's state for manager.Register and for checkpoints: a view of the
// cursor, and what it is a cursor into.
func (e *Elastic) State() checkpoint.State {
	return checkpoint.State{
		Tensors: map[string]tensor.Tensor{tensorCursor: tensor.Of(e.cursor[:])},
		Meta:    e.dataset(),
	}
}

// dataset says what the cursor stands in.
func (e *Elastic) dataset() map[string]string {
	return map[string]string{
		metaSamples: strconv.Itoa(e.cfg.Samples),
		metaSeed:    strconv.FormatUint(e.cfg.Seed, 10),
		metaInOrder: strconv.FormatBool(e.cfg.InOrder),
	}
}

// Load is told that the cursor has been written, by a heal or from a checkpoint: the
// counterpart of State. It refuses the cursor of another dataset or order, and
// one that no sampler can have; training cannot go on then.
func (e *Elastic) Load(s checkpoint.State) error {
	own := e.dataset()
	for _, k := range slices.Sorted(maps.Keys(own)) {
		if s.Meta[k] != own[k] {
			return fmt.Errorf("sampler: the state's %s is %q, want %q as here", k, s.Meta[k], own[k])
		}
	}
	if e.Epoch() < 0 || e.cursor[fieldRead] < 0 || e.cursor[fieldRead] >= int64(e.cfg.Samples) {
		return fmt.Errorf("sampler: the state's epoch is %d, and of it %d samples are read, want 0 or more, and fewer than %d",
			e.Epoch(), e.cursor[fieldRead], e.cfg.Samples)
	}
	return nil
}
