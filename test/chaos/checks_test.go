package chaos

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/skerry-ft/skerry/train/spawn"
)

// finish waits for the end of the run and makes the closing checks.
func (c *cluster) finish() {
	c.t.Helper()
	c.await("every replica has had all its steps", func() bool { return len(c.finals()) == c.o.replicas })
	c.checkParity()
	c.checkSteps()
	c.shutDown()
	c.checkNothingLeft()
}

// finals maps a replica to the final report of its present incarnation.
func (c *cluster) finals() map[int]report {
	f := make(map[int]report)
	c.each(func(r report) {
		if r.Kind == final && r.incarnation == c.started[r.index] {
			f[r.index] = r
		}
	})
	return f
}

// checkParity: whoever commits a step holds the same bytes as all others who
// do (C1), and at the end everybody does.
func (c *cluster) checkParity() {
	c.t.Helper()
	at := make(map[int64]report)
	c.each(func(r report) {
		if r.Kind != committed {
			return
		}
		first, seen := at[r.Step]
		if !seen {
			at[r.Step] = r
		} else if first.Hash != r.Hash {
			c.t.Errorf("step %d: replica %d/%d has %.12s, replica %d/%d has %.12s",
				r.Step, first.index, first.incarnation, first.Hash, r.index, r.incarnation, r.Hash)
		}
	})
	for i, r := range c.finals() {
		if want := at[c.o.steps].Hash; r.Hash != want || r.Step != c.o.steps {
			c.t.Errorf("replica %d ended at step %d with %.12s, want step %d with %.12s",
				i, r.Step, r.Hash, c.o.steps, want)
		}
	}
}

// checkSteps: every step was committed by somebody, and no incarnation went
// back or committed a step twice. Within one it may skip steps by a heal only.
func (c *cluster) checkSteps() {
	c.t.Helper()
	type who struct{ index, incarnation int }
	last := make(map[who]int64)
	seen := make(map[int64]bool)
	healing := make(map[who]bool)
	c.each(func(r report) {
		w := who{r.index, r.incarnation}
		switch r.Kind {
		case healStarted:
			healing[w] = true
		case committed:
			before, some := last[w]
			if some && (r.Step <= before || r.Step != before+1 && !healing[w]) {
				c.t.Errorf("replica %d/%d committed step %d after step %d", w.index, w.incarnation, r.Step, before)
			}
			last[w], seen[r.Step], healing[w] = r.Step, true, false
		}
	})
	for step := int64(1); step <= c.o.steps; step++ {
		if !seen[step] {
			c.t.Errorf("nobody committed step %d", step)
		}
	}
}

// shutDown ends everybody in an orderly way: SIGTERM, exit status 0.
func (c *cluster) shutDown() {
	c.t.Helper()
	all := append(append([]*spawn.Process(nil), c.trainers...), c.light)
	for _, p := range all {
		if !runs(p) && c.o.drill {
			continue
		}
		c.signal(p, syscall.SIGTERM)
		select {
		case <-p.Done():
			if err := p.Wait(c.t.Context()); err != nil {
				c.t.Errorf("after SIGTERM: %v", err)
			}
		case <-time.After(patience):
			c.t.Errorf("pid %d did not end within %v of SIGTERM", p.PID(), patience)
		}
	}
}

// checkNothingLeft: no process of this cluster runs, and no temporary file is
// there.
func (c *cluster) checkNothingLeft() {
	c.t.Helper()
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		c.t.Fatal(err)
	}
	for _, name := range environs {
		env, err := os.ReadFile(name)
		if err != nil {
			continue // it has just ended, or is not ours to read
		}
		if bytes.Contains(env, []byte(c.mark)) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			c.t.Errorf("process %d is left behind", pid)
		}
	}
	left, err := os.ReadDir(c.tmp)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, f := range left {
		c.t.Errorf("temporary file %s is left behind", f.Name())
	}
}
