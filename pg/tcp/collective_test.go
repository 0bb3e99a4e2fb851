package tcp

import (
	"fmt"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
	"github.com/skerry-ft/skerry/tensor"
)

// pattern is a rank's input of n elements: small integers, whose sums are exact.
func pattern(rank, n int) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = float32((i*7+rank*13)%101 - 50)
	}
	return s
}

func sumOf(world, n int) []float32 {
	s := make([]float32, n)
	for r := range world {
		for i, v := range pattern(r, n) {
			s[i] += v
		}
	}
	return s
}

func TestAllReduceSizes(t *testing.T) {
	t.Parallel()
	for _, world := range []int{1, 2, 3, 4} {
		t.Run(fmt.Sprintf("world=%d", world), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, world, Options{})
			w.configure(1)
			for _, n := range []int{0, 1, 3, 1000, 8192, 8193, 65536, 100_003, 1 << 20} {
				data := make([][]float32, world)
				for r := range data {
					data[r] = pattern(r, n)
				}
				noError(t, w.all(w.everybody(), func(r int) *pg.Op {
					x := []tensor.Tensor{tensor.Of(data[r])}
					return &pg.Op{Kind: pg.KindAllReduce, In: x, Out: x, Reduce: tensor.Sum}
				}))
				want := sumOf(world, n)
				for r := range data {
					for i := range want {
						if data[r][i] != want[i] {
							t.Fatalf("n %d rank %d: [%d] = %v, want %v", n, r, i, data[r][i], want[i])
						}
					}
				}
			}
		})
	}
}

func tensors(s ...[]float32) []tensor.Tensor {
	var ts []tensor.Tensor
	for _, x := range s {
		ts = append(ts, tensor.Of(x))
	}
	return ts
}

func equal(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%s: [%d] = %v, want %v", what, i, got[i], want[i])
		}
	}
}

// kindCase makes the ops of one kind for n elements, and checks the results.
type kindCase struct {
	name  string
	op    func(rank, world, n int) *pg.Op
	check func(t *testing.T, op *pg.Op, rank, world, n int)
}

func fresh(world, n int) []tensor.Tensor {
	var ts []tensor.Tensor
	for range world {
		ts = append(ts, tensor.Of(make([]float32, n)))
	}
	return ts
}

func patterns(from, world, n int) []tensor.Tensor {
	var ts []tensor.Tensor
	for to := range world {
		ts = append(ts, tensor.Of(pattern(from*17+to, n)))
	}
	return ts
}

const root = 1

func out(op *pg.Op, i int) []float32 { return tensor.Slice[float32](op.Out[i]) }

func kindCases() []kindCase { return append(rootedCases(), symmetricCases()...) }

func rootedCases() []kindCase {
	return []kindCase{
		{"broadcast", func(rank, world, n int) *pg.Op {
			x := tensors(pattern(rank, n), pattern(rank+50, n/3))
			return &pg.Op{Kind: pg.KindBroadcast, In: x, Out: x, Root: root}
		}, func(t *testing.T, op *pg.Op, rank, world, n int) {
			equal(t, "first", out(op, 0), pattern(root, n))
			equal(t, "second", out(op, 1), pattern(root+50, n/3))
		}},
		{"reduce", func(rank, world, n int) *pg.Op {
			op := &pg.Op{Kind: pg.KindReduce, In: tensors(pattern(rank, n)), Root: root}
			if rank == root {
				op.Out = fresh(1, n)
			}
			return op
		}, func(t *testing.T, op *pg.Op, rank, world, n int) {
			if rank == root {
				equal(t, "sum", out(op, 0), sumOf(world, n))
			}
		}},
		{"gather", func(rank, world, n int) *pg.Op {
			op := &pg.Op{Kind: pg.KindGather, In: tensors(pattern(rank, n)), Root: root}
			if rank == root {
				op.Out = fresh(world, n)
			}
			return op
		}, func(t *testing.T, op *pg.Op, rank, world, n int) {
			for r := range op.Out {
				equal(t, "slot", out(op, r), pattern(r, n))
			}
		}},
		{"scatter", func(rank, world, n int) *pg.Op {
			op := &pg.Op{Kind: pg.KindScatter, Out: fresh(1, n), Root: root}
			if rank == root {
				op.In = patterns(root, world, n)
			}
			return op
		}, func(t *testing.T, op *pg.Op, rank, world, n int) {
			equal(t, "slot", out(op, 0), pattern(root*17+rank, n))
		}},
	}
}

func symmetricCases() []kindCase {
	return []kindCase{
		{"all-gather", func(rank, world, n int) *pg.Op {
			return &pg.Op{Kind: pg.KindAllGather, In: tensors(pattern(rank, n)), Out: fresh(world, n)}
		}, func(t *testing.T, op *pg.Op, rank, world, n int) {
			for r := range world {
				equal(t, "slot", out(op, r), pattern(r, n))
			}
		}},
		{"reduce-scatter", func(rank, world, n int) *pg.Op {
			return &pg.Op{Kind: pg.KindReduceScatter, In: patterns(rank, world, n), Out: fresh(1, n)}
		}, func(t *testing.T, op *pg.Op, rank, world, n int) {
			want := make([]float32, n)
			for from := range world {
				for i, v := range pattern(from*17+rank, n) {
					want[i] += v
				}
			}
			equal(t, "part", out(op, 0), want)
		}},
		{"all-to-all", func(rank, world, n int) *pg.Op {
			return &pg.Op{Kind: pg.KindAllToAll, In: patterns(rank, world, n), Out: fresh(world, n)}
		}, func(t *testing.T, op *pg.Op, rank, world, n int) {
			for from := range world {
				equal(t, "slot", out(op, from), pattern(from*17+rank, n))
			}
		}},
		{"barrier", func(rank, world, n int) *pg.Op { return &pg.Op{Kind: pg.KindBarrier} },
			func(*testing.T, *pg.Op, int, int, int) {}},
		{"all-reduce of several", func(rank, world, n int) *pg.Op {
			x := tensors(pattern(rank, n), pattern(rank, 0), pattern(rank, n/2+1))
			return &pg.Op{Kind: pg.KindAllReduce, In: x, Out: x}
		}, func(t *testing.T, op *pg.Op, rank, world, n int) {
			equal(t, "first", out(op, 0), sumOf(world, n))
			equal(t, "third", out(op, 2), sumOf(world, n/2+1))
		}},
	}
}

func TestKinds(t *testing.T) {
	t.Parallel()
	const world = 3
	w := newWorld(t, world, Options{})
	w.configure(1)
	for _, c := range kindCases() {
		for _, n := range []int{0, 1, 5, 4097, 150_001} {
			ops := make([]*pg.Op, world)
			noError(t, w.all(w.everybody(), func(r int) *pg.Op {
				ops[r] = c.op(r, world, n)
				return ops[r]
			}))
			for r := range ops {
				t.Run(fmt.Sprintf("%s/n=%d/rank=%d", c.name, n, r), func(t *testing.T) {
					c.check(t, ops[r], r, world, n)
				})
			}
		}
	}
}

func TestBallotDigest(t *testing.T) {
	t.Parallel()
	const world, n = 3, 300_001
	w := newWorld(t, world, Options{})
	w.configure(1)
	var want pg.Digest
	want.Valid = true
	for _, size := range []int{10, n} {
		noError(t, w.all(w.everybody(), func(r int) *pg.Op {
			x := tensors(pattern(r, size), pattern(r, size/2))
			return &pg.Op{Kind: pg.KindAllReduce, In: x, Out: x}
		}))
		want.Add(tensor.Of(sumOf(world, size)).Bytes())
		want.Add(tensor.Of(sumOf(world, size/2)).Bytes())
	}
	noError(t, w.all(w.everybody(), func(r int) *pg.Op {
		return &pg.Op{Kind: pg.KindBroadcast, In: tensors(pattern(r, n)), Out: tensors(pattern(r, n)), Root: 2}
	}))
	want.Add(tensor.Of(pattern(2, n)).Bytes())
	noError(t, w.all(w.everybody(), func(r int) *pg.Op {
		return &pg.Op{Kind: pg.KindAllGather, In: tensors(pattern(r, n)), Out: fresh(world, n)}
	}))
	for r := range world {
		want.Add(tensor.Of(pattern(r, n)).Bytes())
	}
	for round := range 2 {
		ops := make([]*pg.Op, world)
		noError(t, w.all(w.everybody(), func(r int) *pg.Op {
			ops[r] = &pg.Op{Kind: pg.KindBallot, Ballot: fmt.Appendf(nil, "ballot %d of %d", round, r)}
			return ops[r]
		}))
		for r, op := range ops {
			for from, e := range op.Ballots {
				if !e.Here || e.Digest != want || string(e.Payload) != fmt.Sprintf("ballot %d of %d", round, from) {
					t.Errorf("round %d rank %d from %d: %v %+v %q, want digest %+v", round, r, from, e.Here, e.Digest, e.Payload, want)
				}
			}
		}
		want = pg.Digest{Valid: true} // a ballot resets it
	}
}

func TestSendRecv(t *testing.T) {
	t.Parallel()
	const n = 400_000
	w := newWorld(t, 3, Options{})
	w.configure(1)
	send := func(from, to, tag, n int) *pg.Work {
		return w.backends[from].Submit(&pg.Op{Kind: pg.KindSend, In: tensors(pattern(from+tag, n)), Peer: to, Tag: tag})
	}
	recv := func(at, from, tag, n int) (*pg.Work, *pg.Op) {
		op := &pg.Op{Kind: pg.KindRecv, Out: fresh(1, n), Peer: from, Tag: tag}
		return w.backends[at].Submit(op), op
	}
	check := func(w *pg.Work, op *pg.Op, from, tag, n int) {
		t.Helper()
		if err := wait(t, w); err != nil {
			t.Fatal(err)
		}
		equal(t, "message", tensor.Slice[float32](op.Out[0]), pattern(from+tag, n))
		if op.Source != from {
			t.Fatalf("source %d, want %d", op.Source, from)
		}
	}
	// Posted first, sent first, out of order by tag, and from any source.
	w1, op1 := recv(1, 0, 7, n)
	s1 := send(0, 1, 7, n)
	check(w1, op1, 0, 7, n)
	s2, s3 := send(0, 1, 1, n), send(0, 1, 2, 5)
	w3, op3 := recv(1, 0, 2, 5)
	check(w3, op3, 0, 2, 5)
	w2, op2 := recv(1, 0, 1, n)
	check(w2, op2, 0, 1, n)
	wAny, opAny := recv(1, pg.AnySource, 9, 3)
	s4 := send(2, 1, 9, 3)
	check(wAny, opAny, 2, 9, 3)
	for _, s := range []*pg.Work{s1, s2, s3, s4} {
		if err := wait(t, s); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMessagesUnclaimed: more bytes than the window, under a tag that nobody
// receives yet, hold up no other message; order per tag holds.
func TestMessagesUnclaimed(t *testing.T) {
	t.Parallel()
	const n, many = 300_000, 20 // 1.2 MB each, 24 in all
	w := newWorld(t, 2, Options{WindowBytes: frame.MinWindowBytes * 6})
	w.configure(1)
	var sends []*pg.Work
	send := func(tag, n int) {
		op := &pg.Op{Kind: pg.KindSend, In: tensors(pattern(tag+len(sends), n)), Peer: 1, Tag: tag}
		sends = append(sends, w.backends[0].Submit(op))
	}
	recv := func(i, tag, n int) {
		t.Helper()
		op := &pg.Op{Kind: pg.KindRecv, Out: fresh(1, n), Peer: 0, Tag: tag}
		if err := wait(t, w.backends[1].Submit(op)); err != nil {
			t.Fatal(err)
		}
		equal(t, "message", out(op, 0), pattern(tag+i, n))
	}
	for range many {
		send(1, n)
	}
	send(2, 10)
	send(3, n)
	recv(many, 2, 10)
	recv(many+1, 3, n)
	w.reduceOK(w.everybody(), 1<<20)
	for i := range many {
		recv(i, 1, n)
	}
	for _, s := range sends {
		if err := wait(t, s); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "buffers come back", func() bool { return w.backends[1].Stats().Buffers == 0 })
}
