package baby

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/internal/shmring"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

// vandal is a backend that scribbles over the shared rings, as one does that
// writes through a wild pointer. The length of an all-reduce is the seed.
const vandal = "vandal"

type vandals struct{ pg.Backend }

func (v vandals) Submit(op *pg.Op) *pg.Work {
	if op.Kind != pg.KindAllReduce {
		return v.Backend.Submit(op)
	}
	b, err := unix.Mmap(ringFD, 0, channelBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return pg.Finished(op, err)
	}
	random := rand.New(rand.NewPCG(uint64(op.In[0].Len()), 3))
	for range 20_000 {
		at := random.IntN(2 * shmring.WordsBytes / 8)
		if random.IntN(4) == 0 {
			at = random.IntN(len(b) / 8)
		}
		v := random.Uint64()
		if random.IntN(2) == 0 {
			v %= 1 << 20
		}
		binary.LittleEndian.PutUint64(b[8*at:], v)
	}
	return v.Backend.Submit(op)
}

// A child that writes over the rings breaks its own group and nothing else: ops
// end within their deadlines, and the next child is as good as new.
func TestCorruptChild(t *testing.T) {
	t.Parallel()
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	w := pgtest.NewWorld(t, pgtest.StartStore(t))
	b := newBaby(t, Options{Backend: vandal})
	m := w.Join("solo", b)
	failed := 0
	for round := range rounds {
		w.Configure(m)
		g := w.Groups[0]
		if err := g.Barrier(t.Context()); err != nil {
			t.Fatalf("round %d: barrier of a new child: %v", round, err)
		}
		var pending []*pg.Work
		const limit = 500 * time.Millisecond
		for range 20 {
			x := tensor.New(tensor.Float32, round+1)
			pending = append(pending, g.Submit(&pg.Op{
				Kind: pg.KindAllReduce, In: []tensor.Tensor{x}, Out: []tensor.Tensor{x}, Deadline: time.Now().Add(limit),
			}))
		}
		allEnded(t, pending, limit)
		for _, work := range pending {
			if work.Err() != nil {
				failed++
			}
		}
	}
	if failed == 0 {
		t.Error("no op failed: the vandal does nothing")
	}
}

// A result for an op that is over, or never was, ends the child.
func TestForgedResult(t *testing.T) {
	t.Parallel()
	b, g := alone(t, Options{})
	if err := g.Barrier(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := b.current()
	if err != nil {
		t.Fatal(err)
	}
	forge(t, c, appendDone(nil, 1, new(pg.Op))) // that of the barrier
	broken := brokenBy(t, b)
	if e, ok := errors.AsType[*ChildError](broken); !ok || e.Signal != syscall.SIGKILL || e.Why == "" {
		t.Errorf("group is broken by %v, want by our kill, with a reason", broken)
	}
}

// So does a result that its op cannot have had.
func TestForgedSuccess(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		op     *pg.Op
		result *pg.Op
		why    string
	}{
		"ballots of nobody": {&pg.Op{Kind: pg.KindBallot, Ballot: []byte("x")}, &pg.Op{}, "ballots"},
		"message of nobody": {pg.RecvOp(tensor.Of([]int32{0}), pg.Envelope{Peer: 1}), &pg.Op{Source: 99}, "rank 99"},
		"half a batch": {
			&pg.Op{Kind: pg.KindBatch, Batch: []*pg.Op{pg.RecvOp(tensor.Of([]int32{0}), pg.Envelope{Peer: 1})}}, &pg.Op{}, "batch",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := pair(t, Options{Silence: time.Minute})
			b := w.Members[0].Backend.(*Backend)
			stopChild(t, b)
			work := w.Groups[0].Submit(c.op)
			child, err := b.current()
			if err != nil {
				t.Fatal(err)
			}
			forge(t, child, appendDone(nil, 1, c.result))
			broken := brokenBy(t, b)
			if e, ok := errors.AsType[*ChildError](broken); !ok || !strings.Contains(e.Why, c.why) {
				t.Errorf("group is broken by %v, want by our kill because of %q", broken, c.why)
			}
			if err := work.Wait(t.Context()); err == nil {
				t.Error("the op succeeded")
			}
		})
	}
}

// forge puts a result into the ring as the child would. It holds the lock that
// keeps the ring mapped: our kill may have followed before it wakes anybody.
func forge(t *testing.T, c *child, body []byte) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.orphan {
		t.Fatal("the child has ended by itself")
	}
	var forger giver
	if err := connect(c.segment, childSide, &forger, new(taker)); err != nil {
		t.Fatal(err)
	}
	forger.Next = forger.Mine.Head.Load()
	forger.put(recordDone, 0, body)
	forger.peer.wake()
}

// Submit returns at once however many ops the child has not taken; all of them
// run in the end, in order.
func TestBackPressure(t *testing.T) {
	t.Parallel()
	b, g := alone(t, Options{Silence: time.Minute})
	pid := stopChild(t, b)
	const n = 2000
	x, err := b.Alloc(tensor.Int32, 1)
	if err != nil {
		t.Fatal(err)
	}
	var pending []*pg.Work
	for range n {
		pending = append(pending, g.AllReduceAsync(x, tensor.Sum))
	}
	if got := b.Active(); got != n {
		t.Errorf("%d ops active in a stopped child, want %d", got, n)
	}
	c, _ := b.current()
	c.mu.Lock()
	queued := c.mu.queue.len()
	c.mu.Unlock()
	if queued == 0 {
		t.Errorf("%d ops fit into the ring, want some to wait", n)
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), pgtest.Bound)
	defer cancel()
	for i, work := range pending {
		if err := work.Wait(ctx); err != nil {
			t.Fatalf("op %d: %v", i, err)
		}
	}
	if got := b.Active(); got != 0 {
		t.Errorf("%d ops active, want none", got)
	}
}

// What has no room in a record of the ring takes the socket, in its turn.
func TestLargeOpsInTurn(t *testing.T) {
	t.Parallel()
	w := pair(t, Options{})
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		var small, large []*pg.Work
		for range 30 {
			small = append(small, g.AllReduceAsync(tensor.Of([]int32{1}), tensor.Sum))
			ops := make([]*pg.Op, 200)
			for i := range ops {
				if i%2 == 0 {
					ops[i] = pg.SendOp(tensor.Of([]int32{int32(i)}), pg.Envelope{Peer: 1 - rank, Tag: i})
				} else {
					ops[i] = pg.RecvOp(tensor.Of([]int32{-1}), pg.Envelope{Peer: 1 - rank, Tag: i - 1})
				}
			}
			large = append(large, g.BatchAsync(ops))
		}
		for i := range small {
			if err := small[i].Wait(ctx); err != nil {
				return fmt.Errorf("small op %d: %w", i, err)
			}
			if err := large[i].Wait(ctx); err != nil {
				return fmt.Errorf("batch %d: %w", i, err)
			}
			for j, op := range large[i].Op().Batch {
				if j%2 == 1 && tensor.Slice[int32](op.Out[0])[0] != int32(j-1) {
					return fmt.Errorf("batch %d: message %d holds %d", i, j, tensor.Slice[int32](op.Out[0])[0])
				}
			}
		}
		return nil
	})
}

// A small op allocates nothing on the trainer's side.
func TestSteadyAllocations(t *testing.T) {
	if testkit.RaceEnabled {
		t.Skip("the race detector allocates")
	}
	_, g := alone(t, Options{})
	x := tensor.New(tensor.Float32, 16)
	run := func() {
		if err := g.AllReduce(t.Context(), x, tensor.Sum); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		run()
	}
	if n := testing.AllocsPerRun(2000, run); n > 0.5 {
		t.Errorf("%.2f allocations an op, want none", n)
	}
}

// Waiting for an op of a child that does nothing ends with its context, whoever
// else waits, and the results of others are taken meanwhile.
func TestWaitEndsWithContext(t *testing.T) {
	t.Parallel()
	b, g := alone(t, Options{Silence: time.Minute})
	pid := stopChild(t, b)
	works := []*pg.Work{g.BarrierAsync(), g.BarrierAsync(), g.BarrierAsync()}
	cause := errors.New("waited enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, len(works))
	for _, work := range works {
		go func() { ended <- work.Wait(ctx) }()
	}
	cancel(cause)
	for range works {
		select {
		case err := <-ended:
			if !errors.Is(err, cause) {
				t.Errorf("wait: %v, want %v", err, cause)
			}
		case <-time.After(pgtest.PromptBound):
			t.Fatal("a wait goes on after its context")
		}
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for _, work := range works {
		if err := work.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
