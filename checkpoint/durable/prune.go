package durable

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// prune deletes the checkpoints that are not kept. wrote has just been written.
func (c *Checkpointer) prune(ctx context.Context, wrote title) error {
	all, err := c.list(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	damaged := maps.Clone(c.mu.damaged)
	c.mu.Unlock()
	for _, t := range unkept(all, damaged, c.cfg.Keep, c.cfg.KeepEvery) {
		if t.title == wrote { // of a run that began again from an older step than others there
			continue
		}
		if err := c.delete(ctx, t); err != nil {
			return fmt.Errorf("delete checkpoint %s: %w", t.title, err)
		}
	}
	return nil
}

// unkept are those of all, newest first, that are older than the keep-th newest position
// with a finished checkpoint that is not damaged, unless they are finished and their step
// is a multiple of every.
func unkept(all []*candidate, damaged map[title]bool, keep int, every int64) []*candidate {
	var out []*candidate
	var counted []title
	for _, t := range all {
		finished := t.world() > 0
		known := len(counted) > 0 && counted[len(counted)-1].samePosition(t.title)
		if len(counted) < keep && finished && !known && !damaged[t.title] {
			counted = append(counted, t.title)
			continue
		}
		milestone := finished && every > 0 && t.title.step%every == 0
		if len(counted) == keep && !known && !milestone {
			out = append(out, t)
		}
	}
	return out
}

func (t title) samePosition(o title) bool { return t.step == o.step && t.quorumID == o.quorumID }

// delete deletes a checkpoint, its manifests first: what a failure leaves is not finished.
func (c *Checkpointer) delete(ctx context.Context, t *candidate) error {
	names := slices.Sorted(maps.Keys(t.sizes))
	for _, manifests := range []bool{true, false} {
		for _, name := range names {
			if strings.HasSuffix(name, "/"+manifestName) != manifests {
				continue
			}
			if err := c.cfg.Store.Delete(ctx, t.title.String()+"/"+name); err != nil {
				return err
			}
		}
	}
	return nil
}
