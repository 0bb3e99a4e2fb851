package durable

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/safetensors"
	"github.com/skerry-ft/skerry/tensor"
)

// restoreTries is how often Restore looks again for what went away while it read.
const restoreTries = 3

// Restore is Find and Load. It begins again if what it found is deleted, or loses bytes,
// in between. Errors: ErrNone, ErrDamaged; *safetensors.MismatchError; what the store or
// a load callback says; ctx's cause. The tensors are as they were after ErrNone, ErrDamaged
// and *safetensors.MismatchError.
func (c *Checkpointer) Restore(ctx context.Context) (*Found, error) {
	for try := 1; ; try++ {
		f, err := c.Find(ctx)
		if err != nil {
			return nil, err
		}
		err = c.Load(ctx, f)
		if err == nil {
			return f, nil
		}
		if !damaged(err) || try == restoreTries {
			return nil, err
		}
	}
}

// Load fills the registered tensors with what f holds, and calls the load callbacks. It
// belongs to the trainer's goroutine, before the Manager's Run. Errors: those of
// Restore; fs.ErrNotExist or checkpoint.ErrCorrupt if f's files are no longer what they
// were: the tensors are undefined then.
func (c *Checkpointer) Load(ctx context.Context, f *Found) error {
	if err := c.loadFrom(ctx, f); err != nil {
		return fmt.Errorf("durable: load checkpoint %s: %w", f.Name, err)
	}
	return nil
}

func (c *Checkpointer) loadFrom(ctx context.Context, f *Found) error {
	live, err := c.live()
	if err != nil {
		return err
	}
	l := loading{c: c, f: f, live: live.Tensors, came: make(map[string]tensor.Tensor)}
	meta, err := l.plan()
	if err != nil {
		return err
	}
	for _, rank := range l.sources() {
		for i := range f.shards[rank].tensors {
			if err := l.fill(ctx, rank, i); err != nil {
				return fmt.Errorf("group rank %d: file %s: %w", rank, f.shards[rank].manifest.files[i].Name, err)
			}
		}
	}
	for _, p := range c.parts {
		if p.load == nil {
			continue
		}
		if err := p.load(checkpoint.State{Tensors: under(l.came, p.name), Meta: under(meta, p.name)}); err != nil {
			return fmt.Errorf("state %q: %w", p.name, err)
		}
	}
	c.had = slices.Sorted(maps.Keys(l.came))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.last = f.Position
	return nil
}

// loading is one Load.
type loading struct {
	c    *Checkpointer
	f    *Found
	live map[string]tensor.Tensor // what is registered
	came map[string]tensor.Tensor // what the checkpoint fills of it, and what was made
}

// dealt: the checkpoint is of another number of group ranks.
func (l *loading) dealt() bool { return l.f.GroupWorldSize != l.c.cfg.GroupWorldSize }

// sources are the group ranks whose files are read.
func (l *loading) sources() []int {
	if !l.dealt() {
		return []int{l.c.cfg.GroupRank}
	}
	all := make([]int, len(l.f.shards))
	for i := range all {
		all[i] = i
	}
	return all
}

// plan finds out where each tensor comes from and goes to, and gives the Meta. It writes
// nothing.
func (l *loading) plan() (map[string]string, error) {
	got, err := l.union()
	if err != nil {
		return nil, err
	}
	e := &safetensors.MismatchError{}
	made := make(map[string]int64) // bytes, by part
	for _, info := range infosOf(l.live) {
		t, ok := got[info.Name]
		switch {
		case ok && t.DType == info.DType && slices.Equal(t.Shape, info.Shape):
			l.came[info.Name] = l.live[info.Name]
		case ok:
			e.Want, e.Got = append(e.Want, info), append(e.Got, t.TensorInfo)
		case l.c.partOf(info.Name).room == 0:
			e.Want = append(e.Want, info)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, ok := l.live[name]; ok {
			continue
		}
		info, p := got[name].TensorInfo, l.c.partOf(name)
		switch {
		case l.dealt() && (p == nil || p.room == 0): // another rank's
		case l.dealt():
			return nil, fmt.Errorf("tensor %.80q of a part with room, by %d group ranks, not %d: whose it is cannot be told; "+
				"make the part's tensors before Load", name, l.f.GroupWorldSize, l.c.cfg.GroupWorldSize)
		case p == nil || made[p.name]+info.SizeBytes() > p.room:
			e.Got = append(e.Got, info)
		default:
			made[p.name] += info.SizeBytes()
			l.came[name] = tensor.New(info.DType, info.Shape...)
		}
	}
	if len(e.Want)+len(e.Got) > 0 {
		return nil, e
	}
	return l.meta()
}

// union is the tensors of all sources, by name. One that several ranks have must be the
// same in each.
func (l *loading) union() (map[string]foundTensor, error) {
	got := make(map[string]foundTensor)
	for _, rank := range l.sources() {
		for _, tensors := range l.f.shards[rank].tensors {
			for _, t := range tensors {
				o, ok := got[t.Name]
				if ok && (o.sum != t.sum || o.DType != t.DType || !slices.Equal(o.Shape, t.Shape)) {
					return nil, fmt.Errorf("tensor %.80q is not the same in all of %d group ranks (%v and %v), and cannot be dealt out to %d: "+
						"only whole tensors can", t.Name, l.f.GroupWorldSize, o, t, l.c.cfg.GroupWorldSize)
				}
				got[t.Name] = t
			}
		}
	}
	return got, nil
}

// meta is that of all sources, which agree.
func (l *loading) meta() (map[string]string, error) {
	all := make(map[string]string)
	for _, rank := range l.sources() {
		meta := l.f.shards[rank].manifest.meta
		for _, key := range slices.Sorted(maps.Keys(meta)) {
			if had, ok := all[key]; ok && had != meta[key] {
				return nil, fmt.Errorf("metadata %.80q is %.40q in one and %.40q in another of %d group ranks, and cannot be dealt out to %d",
					key, had, meta[key], l.f.GroupWorldSize, l.c.cfg.GroupWorldSize)
			}
			all[key] = meta[key]
		}
	}
	return all, nil
}

// errChanged is why a file is refused that was another when it was found.
var errChanged = errors.New("it has other tensors than when it was found")

// fill reads one file into the tensors, if any of them is in it.
func (l *loading) fill(ctx context.Context, rank, i int) error {
	found := l.f.shards[rank].tensors[i]
	if !slices.ContainsFunc(found, func(t foundTensor) bool { _, ok := l.came[t.Name]; return ok }) {
		return nil
	}
	n := 0
	err := l.c.readFile(ctx, l.f, rank, i, nil, func(info safetensors.TensorInfo) ([]byte, error) {
		if n >= len(found) || found[n].String() != info.String() {
			return nil, fmt.Errorf("%w: %w", checkpoint.ErrCorrupt, errChanged)
		}
		n++
		t, ok := l.came[info.Name]
		if !ok {
			return nil, nil
		}
		return t.Bytes(), nil
	})
	if err == nil && n < len(found) {
		err = fmt.Errorf("%w: %w", checkpoint.ErrCorrupt, errChanged)
	}
	return err
}
