package worlds

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/failpoint"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/train/sampler"
)

// trap ends a replica where one of its ranks comes to a point.
type trap struct {
	at   failpoint.Point
	rank int
	once sync.Once
	sits chan struct{} // closed when it is there
}

// walksInto is the hook of a process. It waits where it is for the end of the process,
// which the script makes; what a donor passes, its reader does for it, who goes on.
func (p *proc) walksInto(ctx context.Context, at failpoint.Point) {
	t := p.r.trap.Load()
	if t == nil || t.at != at || t.rank != p.rank || !p.alive() {
		return
	}
	if strings.HasPrefix(string(at), "heal-send.") {
		p.healer.kill()
		t.once.Do(func() { close(t.sits) })
		return
	}
	t.once.Do(func() { close(t.sits) })
	<-ctx.Done()
}

// set makes a rank of r die where it comes to at next.
func (r *replica) set(at failpoint.Point, rank int) *trap {
	t := &trap{at: at, rank: rank, sits: make(chan struct{})}
	r.trap.Store(t)
	return t
}

// springs waits for the trap, and ends the replica.
func (r *replica) springs(t *trap, kill func(*replica)) bool {
	select {
	case <-t.sits:
	case <-time.After(time.Minute):
		r.w.t.Errorf("rank %d of %s does not come to %s", t.rank, r.name, t.at)
		return false
	}
	kill(r)
	r.trap.Store(nil)
	return true
}

// rankZero are the points that only group rank 0 passes.
var rankZero = map[failpoint.Point]bool{failpoint.JoinDuring: true, failpoint.VoteDuring: true}

// TestWorldDiesAtEachPoint: a rank dies at each point there is, and its replica with
// it. The others train on, it comes back, and all hold the same bytes of the same steps.
func TestWorldDiesAtEachPoint(t *testing.T) {
	t.Parallel()
	for _, at := range failpoint.All() {
		for size := 1; size <= 2; size++ {
			if size == 1 && (testing.Short() || !testkit.All()) {
				continue
			}
			rank := size - 1
			if rankZero[at] {
				rank = 0
			}
			t.Run(fmt.Sprintf("%s, rank %d of %d", at, rank, size), func(t *testing.T) {
				path := t.TempDir()
				inWorld(t, usual(), func(w *world) { diesAt(w, at, rank, size, path) })
			})
		}
	}
}

func diesAt(w *world, at failpoint.Point, rank, size int, path string) {
	m, kill, end := quick(), (*replica).kill, func(...*replica) {}
	m.heals = 20 * time.Millisecond
	what, _, _ := strings.Cut(string(at), ".")
	if what == "checkpoint" {
		saves := &archive{
			w: w, cfg: sampler.ElasticConfig{Samples: 499, GlobalBatch: 13}, path: path, every: 5, draw: rand.New(rand.NewPCG(1, 1)),
			readers: make(map[*proc]*reader), keepers: make(map[*proc]*keeper),
		}
		m, kill, end = saves.manners(), func(r *replica) { saves.kill(r) }, saves.kill
	}
	a, b, c := w.replica("a", 0, size, m).start(), w.replica("b", 1, size, m).start(), w.replica("c", 2, size, m).start()
	defer end(a, b, c)
	if !w.reach(10, time.Minute, a, b, c) {
		return
	}
	victim := c
	var t *trap
	switch what {
	case "join", "configure": // another's death makes a quorum
		t = victim.set(at, rank)
		kill(b)
	case "heal-receive":
		kill(c)
		t = victim.set(at, rank)
		c.start()
	case "heal-send":
		victim = a
		kill(c)
		t = victim.set(at, rank)
		c.start()
	case "checkpoint": // the first of the participants writes
		victim = a
		t = victim.set(at, rank)
	default:
		t = victim.set(at, rank)
	}
	if !victim.springs(t, kill) {
		return
	}
	alone := b
	if what == "join" || what == "configure" {
		b.start()
		alone = a
	}
	if !w.reach(newestOf([]*replica{alone})+5, time.Minute, alone) {
		return
	}
	victim.start()
	w.reach(newestOf([]*replica{a, b, c})+20, time.Minute, a, b, c)
}
