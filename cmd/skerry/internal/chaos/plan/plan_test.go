package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// worldOf draws a world.
func worldOf(r *rand.Rand) World {
	w := World{
		MinReplicas: r.IntN(5), SuspectAfter: time.Duration(1+r.IntN(6)) * 250 * time.Millisecond, LostAfter: 3 * time.Second,
		Disk: r.IntN(2) == 0, Transfer: r.IntN(2) == 0, KillLeader: r.IntN(2) == 0,
	}
	for i := range r.IntN(7) {
		one := Replica{
			ID: fmt.Sprintf("r%d", i), Trains: r.IntN(4) > 0, Busy: r.IntN(5) == 0,
			Local: r.IntN(2) == 0, Killable: r.IntN(4) > 0,
		}
		for rank := range r.IntN(3) {
			one.Ranks = append(one.Ranks, rank+1)
		}
		w.Replicas = append(w.Replicas, one)
	}
	r.Shuffle(len(w.Replicas), func(i, j int) { w.Replicas[i], w.Replicas[j] = w.Replicas[j], w.Replicas[i] })
	return w
}

func find(t *testing.T, w World, id string) Replica {
	t.Helper()
	i := slices.IndexFunc(w.Replicas, func(r Replica) bool { return r.ID == id })
	if i < 0 {
		t.Fatalf("no replica %q in %+v", id, w)
	}
	return w.Replicas[i]
}

// TestFaultsAreAllowed: whatever the world and the seed, a fault hits what it can, and leaves
// what must stay.
func TestFaultsAreAllowed(t *testing.T) {
	t.Parallel()
	drawn := make(map[Kind]int)
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 99))
		w := worldOf(r)
		p := Plan{Seed: seed, Kinds: Kinds(), Every: time.Second, Hold: 10 * time.Second, BelowMin: r.IntN(3) == 0}
		f, err := p.Next(int(seed%50)+1, w)
		if err != nil {
			for _, k := range Kinds() {
				if p.Refuses(k, w) == "" {
					t.Fatalf("seed %d: no fault, though %s is possible in %+v", seed, k, w)
				}
			}
			continue
		}
		drawn[f.Kind]++
		check(t, p, f, w)
	}
	for _, k := range Kinds() {
		if drawn[k] < 50 {
			t.Errorf("%s was drawn %d times of 4000", k, drawn[k])
		}
	}
}

// check holds one fault against the rules of the package comment.
func check(t *testing.T, p Plan, f Fault, w World) {
	t.Helper()
	rest := len(slices.DeleteFunc(slices.Clone(w.Replicas), func(r Replica) bool { return !r.Trains || r.Busy || r.ID == f.Victim }))
	costs := f.Kind == Kill || f.Kind == Rank || f.Kind == Link || f.Kind == Stop && f.For >= min(w.SuspectAfter, shortestPatience)
	if costs && (rest < 1 || rest < w.MinReplicas && !p.BelowMin) {
		t.Errorf("seed %d: %+v leaves %d replicas in %+v", p.Seed, f, rest, w)
	}
	if f.For < 0 || f.For > p.Hold {
		t.Errorf("seed %d: %+v lasts %v, want at most %v", p.Seed, f, f.For, p.Hold)
	}
	if f.Victim != "" {
		v := find(t, w, f.Victim)
		can := map[Kind]bool{Kill: v.Killable, Stop: v.Local, Rank: slices.Contains(v.Ranks, f.Rank), Link: v.Local}
		if !v.Trains || v.Busy || !can[f.Kind] {
			t.Errorf("seed %d: %+v of %+v", p.Seed, f, v)
		}
	}
	switch f.Kind {
	case Link:
		if other := find(t, w, f.Peer); f.Peer == f.Victim || !other.Local || !other.Trains || other.Busy {
			t.Errorf("seed %d: %+v to %+v", p.Seed, f, other)
		}
	case Disk:
		if !w.Disk || f.For != p.Hold {
			t.Errorf("seed %d: %+v in %+v", p.Seed, f, w)
		}
	case Lighthouse:
		if f.Leader == Killed && !w.KillLeader || f.Leader == Transferred && !w.Transfer {
			t.Errorf("seed %d: %+v in %+v", p.Seed, f, w)
		}
	}
}

// TestPass: a fault that is a little late comes, those whose time has passed do not; and as many
// are counted as come.
func TestPass(t *testing.T) {
	t.Parallel()
	p := Plan{Seed: 3, Every: 8 * time.Second}
	for _, c := range []struct {
		now  time.Duration
		want int
	}{{0, 2}, {p.At(2) + time.Second, 2}, {p.At(2) + time.Second + 1, 3}, {10*p.Every + p.Every/2, 11}} {
		if got := p.Pass(2, c.now, time.Second); got != c.want {
			t.Errorf("at %v fault %d is next, want %d", c.now, got, c.want)
		}
	}
	for before := time.Duration(0); before < 100*time.Second; before += 250 * time.Millisecond {
		n := 0
		for p.At(n+1) < before {
			n++
		}
		if got := p.Count(before); got != n {
			t.Errorf("%d faults before %v, want %d", got, before, n)
		}
	}
}

// TestSeedDecides: a plan is the same for the same seed, whatever order replicas are told in
// and whatever came before; another seed has another one.
func TestSeedDecides(t *testing.T) {
	t.Parallel()
	w := World{MinReplicas: 1, SuspectAfter: time.Second, LostAfter: 2 * time.Second, Transfer: true}
	for i := range 8 {
		w.Replicas = append(w.Replicas, Replica{ID: fmt.Sprint("r", i), Trains: true, Local: true, Killable: true})
	}
	plan := func(seed uint64) (all []string) {
		p := Plan{Seed: seed, Kinds: []Kind{Kill, Stop, Link, Lighthouse}, Every: 10 * time.Second, Hold: time.Minute}
		for n := 1; n <= 20; n++ {
			f, err := p.Next(n, w)
			if err != nil {
				t.Fatal(err)
			}
			at := p.At(n)
			if due := time.Duration(n) * p.Every; at < due || at > due+p.Every/marginOf {
				t.Errorf("fault %d is due at %v, want %v and up to an eighth later", n, at, due)
			}
			all = append(all, fmt.Sprintf("%v %+v", at, f))
		}
		return all
	}
	first := plan(1)
	slices.Reverse(w.Replicas)
	if again := plan(1); !slices.Equal(first, again) {
		t.Errorf("seed 1 gave %q, then %q", first, again)
	}
	if slices.Equal(first, plan(2)) {
		t.Error("seeds 1 and 2 give the same plan")
	}
}

// TestReasons: that there is no fault is explained for each kind that was asked for.
func TestReasons(t *testing.T) {
	t.Parallel()
	two := World{MinReplicas: 2, Replicas: []Replica{{ID: "a", Trains: true, Local: true, Killable: true}, {ID: "b", Trains: true, Killable: true}}}
	p := Plan{Kinds: Kinds(), Every: time.Second, Hold: time.Second}
	p.Kinds = slices.DeleteFunc(p.Kinds, func(k Kind) bool { return k == Stop })
	_, err := p.Next(1, two)
	for _, want := range []string{
		"kill: 2 replicas train, and min_replicas is 2", "rank: no replica that trains has processes above rank 0",
		"link: no two replicas that train", "disk: there is no folder", "lighthouse: no other server",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
	p.BelowMin = true
	if f, err := p.Next(1, two); err != nil || f.Kind != Kill {
		t.Errorf("below min_replicas: %+v, %v", f, err)
	}
	two.Replicas[1].Trains = false
	if _, err := p.Next(1, two); err == nil || !strings.Contains(err.Error(), "the only copy of the state") {
		t.Errorf("the last replica: %v", err)
	}
	if why := p.Refuses("flood", two); why == "" {
		t.Error("there is a fault called flood")
	}
}
