package mesh

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
	"github.com/skerry-ft/skerry/train/spawn"
)

// patience bounds every wait; only a hang reaches it.
const patience = 60 * time.Second

// watched is a replica's process and what it has said.
type watched struct {
	name string
	has  []int // shards
	p    *spawn.Process

	mu      sync.Mutex
	last    [shards]progress
	changed chan struct{} // closed and replaced with every line
}

// record is what all replicas have said: the hash of each shard at each
// (quorum, step).
type record struct {
	mu     sync.Mutex
	hashes map[string]string
	bad    []string
}

func (r *record) note(name string, p progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := fmt.Sprintf("shard %d step %d", p.Shard, p.Step)
	if old, ok := r.hashes[key]; ok && old != p.Hash {
		r.bad = append(r.bad, fmt.Sprintf("%s of %s is %s, another has %s", key, name, p.Hash, old))
	}
	r.hashes[key] = p.Hash
	if p.Mesh != "mesh replicate=1* shard=2" {
		r.bad = append(r.bad, fmt.Sprintf("%s of %s has %q", key, name, p.Mesh))
	}
}

// startReplica starts all ranks of a replica in one process.
func startReplica(t *testing.T, name, lighthouse string, all *record) *watched {
	t.Helper()
	return startProcess(t, workerName, order{Name: name, Lighthouse: lighthouse}, all, 0, 1)
}

func startProcess(t *testing.T, worker string, o order, all *record, has ...int) *watched {
	t.Helper()
	args, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	reader, writer := io.Pipe()
	p, err := spawn.Start(spawn.Worker{Name: worker, Args: args}, spawn.Options{Stdout: writer})
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{name: o.Name, has: has, p: p, changed: make(chan struct{})}
	var reading sync.WaitGroup
	reading.Go(func() { w.read(reader, all) })
	t.Cleanup(func() {
		p.Kill()
		<-p.Done()
		writer.Close()
		reading.Wait()
	})
	return w
}

func (w *watched) read(r io.Reader, all *record) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var p progress
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil || p.Shard < 0 || p.Shard >= shards {
			p = progress{Fault: fmt.Sprintf("line %q: %v", lines.Text(), err)}
		}
		all.note(w.name, p)
		w.mu.Lock()
		w.last[p.Shard] = p
		close(w.changed)
		w.changed = make(chan struct{})
		w.mu.Unlock()
	}
}

// await waits until ok holds for all shards of the process.
func (w *watched) await(t *testing.T, what string, ok func(progress) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		w.mu.Lock()
		last, changed := w.last, w.changed
		w.mu.Unlock()
		if !slices.ContainsFunc(w.has, func(shard int) bool { return !ok(last[shard]) }) {
			return
		}
		select {
		case <-changed:
		case <-w.p.Done():
			t.Fatalf("%s ended: %v; %s", w.name, w.p.Wait(ctx), w.p.TailStderr())
		case <-ctx.Done():
			t.Fatalf("%s: not within %v: %s; last said %+v", w.name, patience, what, last)
		}
	}
}

func (w *watched) step() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last[w.has[0]].Step
}

// TestShardedTimesReplicated: three replicas of two shards train on a mesh that
// shows one replica. One is killed, both ranks at once: the others go on, each
// with its own shard group as it was, and the replicate dimension of size two;
// the mesh shows the same. It comes back, heals its shards from the others' and
// takes part. At every step all copies of a shard are the same bytes.
func TestShardedTimesReplicated(t *testing.T) {
	light := lighthousetest.Start(t, nil)
	all := &record{hashes: make(map[string]string)}
	a := startReplica(t, "a", light.Addr, all)
	b := startReplica(t, "bb", light.Addr, all)
	c := startReplica(t, "ccc", light.Addr, all)
	for _, w := range []*watched{a, b, c} {
		w.await(t, "5 steps of three replicas", func(p progress) bool { return p.Step >= 5 && p.Participants == 3 })
	}
	c.p.Kill()
	<-c.p.Done()
	from := a.step()
	for _, w := range []*watched{a, b} {
		w.await(t, "20 steps without the dead one", func(p progress) bool { return p.Step >= from+20 && p.Participants == 2 })
	}
	again := startReplica(t, "ccc", light.Addr, all)
	for _, w := range []*watched{a, b, again} {
		w.await(t, "three replicas again", func(p progress) bool { return p.Step >= from+30 && p.Participants == 3 })
	}
	again.await(t, "healed", func(p progress) bool { return p.Heals > 0 })
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, bad := range all.bad {
		t.Error(bad)
	}
}
