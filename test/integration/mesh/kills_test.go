package mesh

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
	"github.com/skerry-ft/skerry/pg/pgtest"
)

var kills = flag.Int("mesh.kills", 3, "how many ranks TestKillsOfSingleRanks kills")

// startRanks starts a replica whose ranks are a process each.
func startRanks(t *testing.T, name, lighthouse string, all *record) [shards]*watched {
	t.Helper()
	return startRanksAs(t, order{Name: name, Lighthouse: lighthouse}, all)
}

func startRanksAs(t *testing.T, o order, all *record) (ranks [shards]*watched) {
	t.Helper()
	o.GroupStore = pgtest.StartStore(t)
	for o.Shard = range shards {
		ranks[o.Shard] = startProcess(t, rankName, o, all, o.Shard)
	}
	return ranks
}

// TestKillsOfSingleRanks: three replicas of two shards, a process per rank. Again
// and again one rank of one replica is killed. The other rank of it, whose shard is
// worth nothing alone, learns of it from its shard group and ends; the other
// replicas go on, and the mesh shows what it showed. The replica starts anew,
// heals each shard from the same shard of another and takes part. At every step
// all copies of a shard are the same bytes.
func TestKillsOfSingleRanks(t *testing.T) {
	light := lighthousetest.Start(t, nil)
	all := &record{hashes: make(map[string]string)}
	names := []string{"a", "bb", "ccc"}
	var replicas [3][shards]*watched
	for i, name := range names {
		replicas[i] = startRanks(t, name, light.Addr, all)
	}
	each := func(but int, what string, ok func(progress) bool) {
		t.Helper()
		for i, ranks := range replicas {
			for _, w := range ranks {
				if i != but {
					w.await(t, what, ok)
				}
			}
		}
	}
	each(-1, "5 steps of three replicas", func(p progress) bool { return p.Step >= 5 && p.Participants == 3 })
	rounds := *kills
	if testing.Short() {
		rounds = 1
	}
	for round := range rounds {
		hit, shard := rand.IntN(len(replicas)), rand.IntN(shards)
		victim, partner := replicas[hit][shard], replicas[hit][1-shard]
		from := victim.step()
		killed := time.Now()
		victim.p.Kill()
		<-victim.p.Done()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		err := partner.p.Wait(ctx)
		ended, gone := ctx.Err() == nil, time.Since(killed)
		cancel()
		if err == nil || !ended {
			t.Fatalf("round %d: the other rank of %s goes on alone (%v)", round, victim.name, err)
		}
		each(hit, "10 steps without the replica", func(p progress) bool { return p.Step >= from+10 && p.Participants == 2 })
		alone := time.Since(killed)
		replicas[hit] = startRanks(t, names[hit], light.Addr, all)
		each(-1, "three replicas again", func(p progress) bool { return p.Step >= from+15 && p.Participants == 3 })
		for _, w := range replicas[hit] {
			w.await(t, "healed", func(p progress) bool { return p.Heals > 0 })
		}
		t.Logf("round %d: shard %d of %s killed at step %d, its other rank ended after %d ms, the other replicas had 10 steps without it after %d ms, all together again at %d",
			round, shard, victim.name, from, gone.Milliseconds(), alone.Milliseconds(), replicas[hit][0].step())
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, bad := range all.bad {
		t.Error(bad)
	}
	if steps := len(all.hashes); steps < 30*rounds {
		t.Errorf("%d steps of shards were compared, want more", steps)
	}
}

// TestKillOfARankThatSharesNothing: the ranks of a replica share no group that
// would notice a death, and no timeout ends a wait before the test's patience
// does. One rank is killed: the other ends by itself, and the other replica goes
// on at once.
func TestKillOfARankThatSharesNothing(t *testing.T) {
	for dead := range shards {
		t.Run(fmt.Sprint("rank ", dead), func(t *testing.T) {
			light := lighthousetest.Start(t, func(c *lighthouse.Config) {
				c.Rules.JoinTimeout, c.Rules.StuckAfter = 4*patience, 8*patience
			})
			all := &record{hashes: make(map[string]string)}
			a := startRanksAs(t, order{Name: "a", Lighthouse: light.Addr, Apart: true}, all)
			b := startRanksAs(t, order{Name: "bb", Lighthouse: light.Addr, Apart: true}, all)
			for _, w := range append(a[:], b[:]...) {
				w.await(t, "5 steps of two replicas", func(p progress) bool { return p.Step >= 5 && p.Participants == 2 })
			}
			from := b[dead].step()
			b[dead].p.Kill()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := b[1-dead].p.Wait(ctx); err == nil || ctx.Err() != nil {
				t.Fatalf("the other rank goes on alone (%v)", err)
			}
			for _, w := range a {
				w.await(t, "10 steps alone", func(p progress) bool { return p.Step >= from+10 && p.Participants == 1 })
			}
		})
	}
}
