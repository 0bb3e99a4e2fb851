package manager

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/skerry-ft/skerry/quorum"
)

// All replicas were down, and come back from their files: of step 40, of 50, and
// one without. All go on from 50's bytes, though the smallest id has none, and
// another one has more than none.
func TestTheNewestFileWins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		files := map[string]Start{
			"b": {Position: quorum.Position{Step: 40}, Batches: 120},
			"c": {Position: quorum.Position{Step: 50}, Batches: 150},
		}
		var mu sync.Mutex
		first := make(map[string]string) // the bytes with which each replica began its first step
		var all []*trainer
		for _, name := range []string{"a", "b", "c"} {
			w.tune = func(c *Config) { c.Start = files[name] }
			tr := w.trainer(name)
			tr.before = func(_ context.Context, step int64) error {
				mu.Lock()
				defer mu.Unlock()
				if first[name] == "" {
					first[name] = hashOf(tr.params)
					if step != 50 {
						t.Errorf("%s begins at step %d, want 50", name, step)
					}
				}
				return nil
			}
			all = append(all, tr)
		}
		newest := hashOf(all[2].params)
		for _, tr := range all {
			tr.start(60)
		}
		w.reaches(60, all...)
		w.agree(all...)
		for _, tr := range all {
			if got := tr.m.BatchesCommitted(); got != 180 {
				t.Errorf("%s: %d batches committed, want 150 of the file and 30", tr.name, got)
			}
			if first[tr.name] != newest {
				t.Errorf("%s began with other bytes than those of step 50's file", tr.name)
			}
		}
	})
}

// A replica that comes back from an old file, to others that train, heals.
func TestAnOldFileHeals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.trainer("a").start(1<<40), w.trainer("b").start(1<<40)
		w.reaches(10, a, b)
		w.tune = func(c *Config) { c.Start = Start{Position: a.m.Position()} }
		old := a.m.Step()
		c := w.trainer("c")
		w.reaches(old+5, a, b)
		c.start(1 << 40)
		w.reaches(old+20, a, b, c)
		w.agree(a, b, c)
		if c.m.Stats().Heals == 0 {
			t.Error("the replica with the old file did not heal")
		}
	})
}
