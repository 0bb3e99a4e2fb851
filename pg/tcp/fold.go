package tcp

import (
	"fmt"

	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
	"github.com/skerry-ft/skerry/tensor"
)

// fold is the reduction that this rank does for an op: one cell per piece of
// its part. Guarded by Backend.mu, but for the memory that cells point at,
// which belongs to whoever folds the cell.
type fold struct {
	world   int
	cells   []cell
	parts   []*buf // peers' pieces: cell k of rank r at k*world+r
	results bool   // peers get them
	slots   int    // index of the first result's checksum
	folded  int    // cells that are done, from the first without a gap
	packed  [1][]byte
}

// cell is one piece of a reduction.
type cell struct {
	in, out []byte // this rank's input, and the result (nil: Out's tensors)
	have    int    // peers whose piece is there
	done    bool
}

func (f *fold) start() { f.parts = resize(f.parts, len(f.cells)*f.world) }

// reuse takes over the memory of another fold that is over.
func (f *fold) reuse(old *fold) {
	clear(old.cells)
	f.cells, f.parts = old.cells[:0], old.parts[:0]
}

// drop returns what was never folded.
func (f *fold) drop(pool *bufPool) {
	for i, p := range f.parts {
		pool.put(p)
		f.parts[i] = nil
	}
}

// foldCell folds cell k, whose parts are all there. The caller holds a touch
// of t and no lock.
func (b *Backend) foldCell(t *task, k int) {
	f := &t.fold
	c := &f.cells[k]
	inputs := b.vector(f.world)
	for r := range inputs {
		inputs[r] = c.in
		if r != t.group.rank {
			inputs[r] = f.parts[k*f.world+r].b
		}
	}
	var err error
	if t.call.Small {
		err = b.reducePacked(t, inputs)
	} else {
		err = t.reduceInto(c.out, inputs)
	}
	if err == nil && f.results {
		t.crcs[f.slots+k].set(frame.Checksum(c.out))
	}
	b.putVector(inputs)
	b.cellDone(t, k, err)
}

// cellDone accounts for a cell that was folded: its buffers go back, its
// result may go out.
func (b *Backend) cellDone(t *task, k int, err error) {
	f := &t.fold
	parts := f.parts[k*f.world : (k+1)*f.world]
	for r, p := range parts {
		b.pool.put(p)
		parts[r] = nil
	}
	var do todo
	b.mu.Lock()
	for r, l := range t.group.peers {
		if r != t.group.rank && l != nil && l.group == t.group {
			l.oweLocked(frame.ClassCollective, len(f.cells[k].in)+frame.HeaderBytes, &do)
		}
	}
	if err != nil {
		// Validate has checked the op, so this is our own fault.
		b.breakLocked(t.group, frame.Cause{Code: frame.CodeUser, Peer: -1, Err: fmt.Errorf("fold: %w", err)}, &do)
	}
	t.need--
	f.cells[k].done = true
	for f.folded < len(f.cells) && f.cells[f.folded].done {
		f.folded++
	}
	if f.results {
		for r := range t.peers {
			t.peers[r].out[1].limit = f.folded
		}
		do.kickAll = t.group
	}
	b.unlock(&do)
}

// vector is a slice for the inputs of one fold.
func (b *Backend) vector(n int) [][]byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	var v [][]byte
	if last := len(b.mu.vectors) - 1; last >= 0 {
		v, b.mu.vectors = b.mu.vectors[last], b.mu.vectors[:last]
	}
	return resize(v, n)
}

// reducePacked folds all tensors of a small op, which lie one after the other
// in each input.
func (b *Backend) reducePacked(t *task, inputs [][]byte) error {
	if len(t.out) == 1 {
		return t.reduceInto(t.out[0], inputs)
	}
	part := b.vector(len(inputs))
	defer b.putVector(part)
	at := 0
	for _, out := range t.out {
		for i, p := range inputs {
			part[i] = p[at : at+len(out)]
		}
		at += len(out)
		if err := t.reduceInto(out, part); err != nil {
			return err
		}
	}
	return nil
}

func (b *Backend) putVector(v [][]byte) {
	clear(v)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.vectors = append(b.mu.vectors, v[:0])
}

func (t *task) reduceInto(out []byte, inputs [][]byte) error {
	if len(out) == 0 {
		return nil
	}
	op := t.op
	return tensor.Reduce(out, inputs, t.call.DType, op.Reduce, op.EffectiveDivisor(t.group.world), op.Factor)
}
