package baby

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

var (
	faultRounds = flag.Int("baby.faults", 4, "rounds per kind of fault in TestFaults")
	faultSeed   = flag.Uint64("baby.seed", 7, "what TestFaults draws from")
)

// stormLimit bounds an op in the storm: its deadline finds a child that is stopped.
const (
	stormLimit = 500 * time.Millisecond
	stormWorld = 3
)

// TestFaults kills, crashes and stops children at random moments of random ops:
// the parent gets an error within the deadline, reconfigures, and the next
// all-reduce is right; nothing is left over.
func TestFaults(t *testing.T) {
	rounds := *faultRounds
	if testing.Short() {
		rounds = min(rounds, 2)
	}
	t.Run("first", func(t *testing.T) { stormOf(t, syscall.SIGKILL, 1) }) // the runtime opens what it keeps
	before := left(t)
	t.Run("all", func(t *testing.T) {
		for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSEGV, syscall.SIGSTOP} {
			t.Run(sig.String(), func(t *testing.T) {
				t.Parallel()
				stormOf(t, sig, rounds)
			})
		}
	})
	deadline := time.Now().Add(pgtest.PromptBound)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	after := left(t)
	for ; after.beyond(before) && time.Now().Before(deadline); after = left(t) {
		<-tick.C
	}
	if after.beyond(before) {
		t.Errorf("%+v after %d faults of each kind, %+v before", after, rounds, before)
	}
}

// leftovers is what a child that is gone must not leave in its parent.
type leftovers struct {
	goroutines, descriptors, mappings, processes int
}

// beyond tells whether there is more of anything than before.
func (l leftovers) beyond(before leftovers) bool {
	return l.goroutines > before.goroutines || l.descriptors > before.descriptors ||
		l.mappings > before.mappings || l.processes > before.processes
}

func left(t *testing.T) leftovers {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return leftovers{
		goroutines: runtime.NumGoroutine(), descriptors: len(fds),
		mappings: strings.Count(string(maps), "memfd:skerry-baby"), processes: len(childrenOf(t, os.Getpid())),
	}
}

// childrenOf lists the processes that a process has started and not reaped.
func childrenOf(t testing.TB, pid int) (children []string) {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		b, _ := os.ReadFile(list) // a thread that has ended has none
		children = append(children, strings.Fields(string(b))...)
	}
	return children
}

func stormOf(t *testing.T, sig syscall.Signal, rounds int) {
	random := rand.New(rand.NewPCG(uint64(sig), *faultSeed))
	w := pgtest.NewWorld(t, pgtest.StartStore(t))
	members := make([]pgtest.Member, stormWorld)
	for i := range members {
		members[i] = w.Join(fmt.Sprintf("replica-%d", i), newBaby(t, Options{Spare: i == 0}))
	}
	var took []time.Duration
	missed := 0
	for round := 0; round < rounds; {
		w.Configure(members...)
		sums(t, w)
		if d, ok := strike(t, w, sig, random, round); ok {
			took = append(took, d)
			round++
		} else if missed++; missed > rounds+10 {
			t.Fatalf("%d children had ended before they were struck", missed)
		}
	}
	w.Configure(members...)
	sums(t, w)
	slices.Sort(took)
	t.Logf("%d times %v: the group was broken after %v (p50), %v (p99), %v (max); %d children had ended before", rounds, sig,
		took[len(took)/2], took[len(took)*99/100], took[len(took)-1], missed)
}

// strike sends sig to one child at a random moment of random ops, and returns how
// long it took until its group was broken; false if a loaded machine had ended the
// child before, whose ops were overdue.
func strike(t *testing.T, w *pgtest.World, sig syscall.Signal, random *rand.Rand, round int) (time.Duration, bool) {
	t.Helper()
	victim := random.IntN(stormWorld)
	size := []int{10, 40_000, 1 << 20}[random.IntN(3)]
	delay := time.Duration(random.Int64N(int64(3 * time.Millisecond)))
	kinds := make([]pg.Kind, 3)
	for i := range kinds {
		all := []pg.Kind{pg.KindAllReduce, pg.KindBroadcast, pg.KindAllGather, pg.KindReduceScatter, pg.KindAllToAll, pg.KindBarrier, pg.KindBallot}
		kinds[i] = all[random.IntN(len(all))]
	}
	var pending []*pg.Work
	for rank, g := range w.Groups {
		for _, kind := range kinds {
			pending = append(pending, g.Submit(stormOp(kind, rank, size)))
		}
		if rank == victim { // it hangs, should the others be fast
			pending = append(pending, g.Submit(stormOp(pg.KindBarrier, rank, size)))
		}
	}
	timer := time.NewTimer(delay)
	<-timer.C
	b := w.Members[victim].Backend.(*Backend)
	pid, ok := b.Child()
	broken := b.Broken(w.Epoch())
	start := time.Now()
	if !ok || syscall.Kill(pid, sig) != nil {
		allEnded(t, pending, stormLimit)
		return 0, false
	}
	select {
	case <-broken:
	case <-time.After(stormLimit + pgtest.PromptBound):
		t.Fatalf("round %d: %v of child %d breaks nothing; ops %v, size %d, delay %v", round, sig, pid, kinds, size, delay)
	}
	took := time.Since(start)
	allEnded(t, pending, stormLimit)
	err := brokenBy(t, b)
	// A crash that takes longer than the deadline, on a loaded machine, is cut short.
	if e, ok := errors.AsType[*ChildError](err); ok && sig != syscall.SIGSTOP && e.Signal != sig && e.Code != 2 && e.Why == "" {
		t.Errorf("round %d: %v, want the child's end by %v", round, e, sig)
	}
	return took, true
}

// stormOp is an op of that kind at that rank.
func stormOp(kind pg.Kind, rank, size int) *pg.Op {
	op := &pg.Op{Kind: kind, Reduce: tensor.Sum, Deadline: time.Now().Add(stormLimit)}
	many := func() (ts []tensor.Tensor) {
		for range stormWorld {
			ts = append(ts, tensor.New(tensor.Float32, size/stormWorld+1))
		}
		return ts
	}
	one := func() []tensor.Tensor { return []tensor.Tensor{tensor.New(tensor.Float32, size/stormWorld+1)} }
	switch kind {
	case pg.KindAllReduce, pg.KindBroadcast:
		x := tensor.New(tensor.Float32, size)
		op.In, op.Out = []tensor.Tensor{x}, []tensor.Tensor{x}
	case pg.KindAllGather:
		op.In, op.Out = one(), many()
	case pg.KindReduceScatter:
		op.In, op.Out = many(), one()
	case pg.KindAllToAll:
		op.In, op.Out = many(), many()
	case pg.KindBallot:
		op.Ballot = []byte{byte(rank)}
	}
	return op
}

// sums checks an all-reduce.
func sums(t *testing.T, w *pgtest.World) {
	t.Helper()
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		x := []int32{int32(1 << rank)}
		if err := g.AllReduce(ctx, tensor.Of(x), tensor.Sum); err != nil || x[0] != 1<<stormWorld-1 {
			return fmt.Errorf("sum is %d (%w), want %d", x[0], err, 1<<stormWorld-1)
		}
		return nil
	})
}
