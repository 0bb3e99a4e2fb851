package gpu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/nccl"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

// dtypes are those that NCCL can add, or whose bytes it moves.
func dtypes() []tensor.DType {
	return []tensor.DType{
		tensor.Int8, tensor.Uint8, tensor.Int32, tensor.Uint32, tensor.Int64, tensor.Uint64,
		tensor.Float16, tensor.BFloat16, tensor.Float32, tensor.Float64,
		tensor.Int16, tensor.Uint16, tensor.Bool, tensor.Complex64, tensor.Complex128,
	}
}

// reduces tells whether NCCL has op for a dtype.
func reduces(d tensor.DType, op tensor.ReduceOp) bool {
	switch d {
	case tensor.Int16, tensor.Uint16, tensor.Bool:
		return false
	case tensor.Complex64, tensor.Complex128:
		return op == tensor.Sum
	}
	return d.Reduces(op) == nil
}

// reduceOps are those of NCCL, with parameters.
func reduceOps(world int) []pgtest.Reduction {
	return []pgtest.Reduction{
		{Op: tensor.Sum}, {Op: tensor.Product}, {Op: tensor.Min}, {Op: tensor.Max},
		{Op: tensor.Avg, Divisor: world},     // ncclAvg
		{Op: tensor.Avg, Divisor: 2 * world}, // premul-sum
		{Op: tensor.PreMulSum, Factor: 0.5},
	}
}

// value is an element of a rank's input: small, so that every sum and product of
// a few ranks is exact in every dtype and in every order, as NCCL may choose.
func value(rank, slot, i int) int { return 1 + (i*7+rank*3+slot*5+i>>9)%4 }

// input is what a rank gives for a slot.
func input(d tensor.DType, rank, slot, n int) tensor.Tensor {
	t := tensor.New(d, n)
	b, size := t.Bytes(), d.Size()
	for i := range n {
		put(b[i*size:(i+1)*size], d, value(rank, slot, i))
	}
	return t
}

func put(b []byte, d tensor.DType, v int) {
	switch d {
	case tensor.Float16:
		copy(b, tensor.Of([]tensor.F16{tensor.NewF16(float32(v))}).Bytes())
	case tensor.BFloat16:
		copy(b, tensor.Of([]tensor.BF16{tensor.NewBF16(float32(v))}).Bytes())
	case tensor.Float32:
		copy(b, tensor.Of([]float32{float32(v)}).Bytes())
	case tensor.Float64:
		copy(b, tensor.Of([]float64{float64(v)}).Bytes())
	case tensor.Complex64:
		copy(b, tensor.Of([]complex64{complex(float32(v), -float32(v))}).Bytes())
	case tensor.Complex128:
		copy(b, tensor.Of([]complex128{complex(float64(v), -float64(v))}).Bytes())
	case tensor.Bool:
		b[0] = byte(v & 1)
	default: // integers, little end first
		b[0] = byte(v)
	}
}

// ops checks every op with every dtype against the host.
func (r *rank) ops(ctx context.Context) error {
	g, err := r.group(ctx)
	if err != nil {
		return err
	}
	sizes := []int{1, 1000}
	if r.Short {
		sizes = sizes[1:]
	}
	if r.Full {
		sizes = []int{1, 3, 1000, 1 << 17}
	}
	began, checked := time.Now(), 0
	for _, n := range sizes {
		for _, d := range dtypes() {
			c := check{r: r, g: g, dtype: d, n: n}
			for _, f := range []func(context.Context) error{c.reductions, c.moves} {
				if err := errors.Join(f(ctx), c.free()); err != nil {
					return fmt.Errorf("%v × %d: %w", d, n, err)
				}
			}
			checked += c.done
		}
	}
	for _, d := range []tensor.DType{tensor.Float32, tensor.BFloat16} {
		c := check{r: r, g: g, dtype: d, n: r.many()}
		if err := errors.Join(c.sum(ctx), c.free()); err != nil {
			return fmt.Errorf("%v × %d: %w", d, c.n, err)
		}
		checked += c.done
	}
	if err := g.Barrier(ctx); err != nil {
		return err
	}
	r.say(record{What: "ops", Count: checked + 1, Seconds: time.Since(began).Seconds()})
	return g.Close()
}

// many is how many elements a large tensor has: so many that NCCL uses another
// protocol and all its channels.
func (r *rank) many() int {
	if r.Full {
		return 64 << 20
	}
	return 1 << 20
}

// sum is an all-reduce of a large tensor; it has the faster of two references.
func (c *check) sum(ctx context.Context) error {
	x, err := c.up(c.mine(0))
	if err != nil {
		return err
	}
	if err := c.g.AllReduce(ctx, x, tensor.Sum); err != nil {
		return err
	}
	in, want := make([][]byte, c.r.WorldSize), make([]byte, x.NumBytes())
	for rank := range in {
		in[rank] = input(c.dtype, rank, 0, c.n).Bytes()
	}
	if err := tensor.Reduce(want, in, c.dtype, tensor.Sum, 1, 1); err != nil {
		return err
	}
	return c.is("all-reduce sum", x, want)
}

// check is one dtype and size at work.
type check struct {
	r     *rank
	g     *pg.Group
	dtype tensor.DType
	n     int
	held  []*nccl.Buffer
	done  int
}

func (c *check) free() (err error) {
	for _, b := range c.held {
		err = errors.Join(err, b.Close())
	}
	c.held = nil
	return err
}

// up is a tensor on the device with t's bytes; t is on the host.
func (c *check) up(t tensor.Tensor) (tensor.Tensor, error) {
	x, buf, err := c.r.tensor(c.dtype, t.Len())
	if err != nil {
		return x, err
	}
	c.held = append(c.held, buf)
	return x, buf.CopyFromHost(0, t.Bytes())
}

// ups is up for one tensor a rank, given by slot.
func (c *check) ups(of func(slot int) tensor.Tensor) ([]tensor.Tensor, error) {
	all := make([]tensor.Tensor, c.r.WorldSize)
	for slot := range all {
		x, err := c.up(of(slot))
		if err != nil {
			return nil, err
		}
		all[slot] = x
	}
	return all, nil
}

func (c *check) blank(int) tensor.Tensor { return tensor.New(c.dtype, c.n) }

func (c *check) mine(slot int) tensor.Tensor { return input(c.dtype, c.r.Rank, slot, c.n) }

// is checks a result on the device.
func (c *check) is(what string, got tensor.Tensor, want []byte) error {
	c.done++
	mem, offset := got.Memory()
	b := make([]byte, got.NumBytes())
	if err := mem.CopyToHost(b, offset); err != nil {
		return err
	}
	if bytes.Equal(b, want) {
		return nil
	}
	size := c.dtype.Size()
	for i := 0; i < len(b); i += size {
		if !bytes.Equal(b[i:i+size], want[i:i+size]) {
			return fmt.Errorf("%s: element %d is %x, want %x", what, i/size, b[i:i+size], want[i:i+size])
		}
	}
	return nil
}

// expect is the reduction of what all ranks give for a slot.
func (c *check) expect(red pgtest.Reduction, slot int) []byte {
	in := make([][]byte, c.r.WorldSize)
	for rank := range in {
		in[rank] = input(c.dtype, rank, slot, c.n).Bytes()
	}
	return pgtest.Reference(c.dtype, red, in)
}

// reductions are all-reduce, reduce to every root, and reduce-scatter.
func (c *check) reductions(ctx context.Context) error {
	for _, red := range reduceOps(c.r.WorldSize) {
		if !reduces(c.dtype, red.Op) {
			continue
		}
		what := fmt.Sprintf("%v (divisor %d, factor %v)", red.Op, red.Divisor, red.Factor)
		run := func(kind pg.Kind, root int, in, out []tensor.Tensor) error {
			return c.g.Do(ctx, &pg.Op{
				Kind: kind, In: in, Out: out, Root: root, Reduce: red.Op, Divisor: red.Divisor, Factor: red.Factor,
			})
		}
		x, err := c.up(c.mine(0))
		if err != nil {
			return err
		}
		if err := run(pg.KindAllReduce, 0, []tensor.Tensor{x}, []tensor.Tensor{x}); err != nil {
			return fmt.Errorf("all-reduce %s: %w", what, err)
		}
		if err := c.is("all-reduce "+what, x, c.expect(red, 0)); err != nil {
			return err
		}
		if err := c.reduceTo(run, what, red); err != nil {
			return err
		}
		in, err := c.ups(c.mine)
		if err != nil {
			return err
		}
		out, err := c.up(c.blank(0))
		if err != nil {
			return err
		}
		if err := run(pg.KindReduceScatter, 0, in, []tensor.Tensor{out}); err != nil {
			return fmt.Errorf("reduce-scatter %s: %w", what, err)
		}
		if err := c.is("reduce-scatter "+what, out, c.expect(red, c.r.Rank)); err != nil {
			return err
		}
		if err := c.free(); err != nil {
			return err
		}
	}
	return nil
}

func (c *check) reduceTo(run func(pg.Kind, int, []tensor.Tensor, []tensor.Tensor) error, what string, red pgtest.Reduction) error {
	for root := range c.r.WorldSize {
		x, err := c.up(c.mine(root))
		if err != nil {
			return err
		}
		var out []tensor.Tensor
		if root == c.r.Rank {
			out = []tensor.Tensor{x}
		}
		if err := run(pg.KindReduce, root, []tensor.Tensor{x}, out); err != nil {
			return fmt.Errorf("reduce to %d %s: %w", root, what, err)
		}
		if root != c.r.Rank {
			continue
		}
		if err := c.is("reduce "+what, x, c.expect(red, root)); err != nil {
			return err
		}
	}
	return nil
}

// moves are the verbs that add nothing.
func (c *check) moves(ctx context.Context) error {
	me, world := c.r.Rank, c.r.WorldSize
	for root := range world {
		x, err := c.up(c.mine(0))
		if err != nil {
			return err
		}
		if err := c.g.Broadcast(ctx, x, root); err != nil {
			return fmt.Errorf("broadcast from %d: %w", root, err)
		}
		if err := c.is("broadcast", x, input(c.dtype, root, 0, c.n).Bytes()); err != nil {
			return err
		}
		if err := c.rooted(ctx, root); err != nil {
			return err
		}
	}
	in, err := c.ups(c.mine)
	if err != nil {
		return err
	}
	out, err := c.ups(c.blank)
	if err != nil {
		return err
	}
	if err := c.g.AllGather(ctx, in[0], out); err != nil {
		return fmt.Errorf("all-gather: %w", err)
	}
	for from := range world {
		if err := c.is("all-gather", out[from], input(c.dtype, from, 0, c.n).Bytes()); err != nil {
			return err
		}
	}
	if err := c.g.AllToAll(ctx, in, out); err != nil {
		return fmt.Errorf("all-to-all: %w", err)
	}
	for from := range world {
		if err := c.is("all-to-all", out[from], input(c.dtype, from, me, c.n).Bytes()); err != nil {
			return err
		}
	}
	return c.ring(ctx, in[0], out[0])
}

// rooted are gather and scatter.
func (c *check) rooted(ctx context.Context, root int) error {
	me := c.r.Rank
	own, err := c.up(c.mine(root))
	if err != nil {
		return err
	}
	var all []tensor.Tensor
	if me == root {
		if all, err = c.ups(c.blank); err != nil {
			return err
		}
	}
	if err := c.g.Gather(ctx, own, all, root); err != nil {
		return fmt.Errorf("gather at %d: %w", root, err)
	}
	for from, t := range all {
		if err := c.is("gather", t, input(c.dtype, from, root, c.n).Bytes()); err != nil {
			return err
		}
	}
	var give []tensor.Tensor
	if me == root {
		if give, err = c.ups(c.mine); err != nil {
			return err
		}
	}
	if err := c.g.Scatter(ctx, give, own, root); err != nil {
		return fmt.Errorf("scatter from %d: %w", root, err)
	}
	return c.is("scatter", own, input(c.dtype, root, me, c.n).Bytes())
}

// ring sends to the next rank and receives from the one before, at once.
func (c *check) ring(ctx context.Context, in, out tensor.Tensor) error {
	me, world := c.r.Rank, c.r.WorldSize
	before := (me + world - 1) % world
	err := c.g.Do(ctx, &pg.Op{Kind: pg.KindBatch, Batch: []*pg.Op{
		{Kind: pg.KindSend, Peer: (me + 1) % world, In: []tensor.Tensor{in}},
		{Kind: pg.KindRecv, Peer: before, Out: []tensor.Tensor{out}},
	}})
	if err != nil {
		return fmt.Errorf("send and receive: %w", err)
	}
	return c.is("receive", out, input(c.dtype, before, 0, c.n).Bytes())
}

// Every op with every dtype is right, on every rank.
func TestOps(t *testing.T) {
	const title = "every op and dtype against the host"
	results.follow(t, title)
	o := start(t, "ops")
	o.succeed(t)
	for _, rec := range o.records {
		if rec.Count < 300 {
			t.Errorf("rank %d has checked %d results, want hundreds", rec.Rank, rec.Count)
		}
		if rec.Rank == 0 {
			t.Logf("%d results checked in %.1f s", rec.Count, rec.Seconds)
			results.passed(title, fmt.Sprintf("%d results a rank, %.1f s", rec.Count, rec.Seconds))
		}
	}
}
