package gpu

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// A pattern is a collective with nccl-tests' arithmetic: what counts as its
// size, and how many bytes per byte of that each rank must send and receive.
type pattern struct {
	name   string
	factor func(n float64) float64 // busbw / algbw, of n ranks
	op     func(p *plan) *pg.Op
}

// plan is a pattern with memory: in and out have the size that nccl-tests names,
// and ins and outs are their parts by rank.
type plan struct {
	in, out   tensor.Tensor
	ins, outs []tensor.Tensor
	rank, n   int
}

// patterns as in nccl-tests, doc/PERFORMANCE.md. The size is of the larger of
// the two buffers.
func patterns() []pattern {
	share := func(n float64) float64 { return (n - 1) / n }
	one := func(float64) float64 { return 1 }
	return []pattern{
		{"all_reduce", func(n float64) float64 { return 2 * (n - 1) / n }, func(p *plan) *pg.Op {
			return &pg.Op{Kind: pg.KindAllReduce, In: []tensor.Tensor{p.in}, Out: []tensor.Tensor{p.out}}
		}},
		{"all_gather", share, func(p *plan) *pg.Op {
			return &pg.Op{Kind: pg.KindAllGather, In: []tensor.Tensor{p.ins[0]}, Out: p.outs}
		}},
		{"reduce_scatter", share, func(p *plan) *pg.Op {
			return &pg.Op{Kind: pg.KindReduceScatter, In: p.ins, Out: []tensor.Tensor{p.outs[0]}}
		}},
		{"alltoall", share, func(p *plan) *pg.Op {
			return &pg.Op{Kind: pg.KindAllToAll, In: p.ins, Out: p.outs}
		}},
		{"broadcast", one, func(p *plan) *pg.Op {
			return &pg.Op{Kind: pg.KindBroadcast, In: []tensor.Tensor{p.out}, Out: []tensor.Tensor{p.out}}
		}},
		{"reduce", one, func(p *plan) *pg.Op {
			op := &pg.Op{Kind: pg.KindReduce, In: []tensor.Tensor{p.in}}
			if p.rank == 0 {
				op.Out = []tensor.Tensor{p.out}
			}
			return op
		}},
		{"sendrecv", one, func(p *plan) *pg.Op {
			return &pg.Op{Kind: pg.KindBatch, Batch: []*pg.Op{
				{Kind: pg.KindSend, Peer: (p.rank + 1) % p.n, In: []tensor.Tensor{p.in}},
				{Kind: pg.KindRecv, Peer: (p.rank + p.n - 1) % p.n, Out: []tensor.Tensor{p.out}},
			}}
		}},
	}
}

// algbw and busbw are in GB/s (10⁹ bytes), as nccl-tests prints them.
func (p pattern) algbw(bytes int64, seconds float64) float64 { return float64(bytes) / seconds / 1e9 }

func (p pattern) busbw(bytes int64, seconds float64, n int) float64 {
	return p.algbw(bytes, seconds) * p.factor(float64(n))
}

// rounds of a measurement, as nccl-tests' defaults.
const (
	warmups    = 5
	iterations = 20
)

// sweep are the sizes that are measured, torch's too.
func sweep(full bool) []int64 {
	if !full {
		return []int64{1 << 10, 1 << 20}
	}
	return []int64{1 << 10, 32 << 10, 1 << 20, 8 << 20, 64 << 20, 128 << 20}
}

// bandwidth measures every pattern, with iterations queued one behind the other.
func (r *rank) bandwidth(ctx context.Context) error {
	g, err := r.group(ctx)
	if err != nil {
		return err
	}
	for _, size := range sweep(r.Full) {
		p, free, err := r.plan(size)
		if err != nil {
			return err
		}
		for _, pat := range patterns() {
			took, err := r.measure(ctx, g, func() *pg.Op { return pat.op(p) })
			if err != nil {
				return fmt.Errorf("%s of %d bytes: %w", pat.name, size, err)
			}
			r.say(record{What: pat.name, Bytes: size, Count: iterations, Seconds: took.Seconds() / iterations})
		}
		if err := free(); err != nil {
			return err
		}
	}
	return g.Close()
}

// plan makes the memory of a size.
func (r *rank) plan(size int64) (*plan, func() error, error) {
	p := &plan{rank: r.Rank, n: r.WorldSize}
	in, err := r.dev.Alloc(int(size))
	if err != nil {
		return nil, nil, err
	}
	out, err := r.dev.Alloc(int(size))
	if err != nil {
		return nil, nil, err
	}
	free := func() error {
		if err := in.Close(); err != nil {
			return err
		}
		return out.Close()
	}
	zero := make([]byte, size)
	if err := in.CopyFromHost(0, zero); err != nil {
		return nil, nil, err
	}
	if err := out.CopyFromHost(0, zero); err != nil {
		return nil, nil, err
	}
	elements := int(size / 4)
	if p.in, err = tensor.OnDevice(in, tensor.Float32, elements); err != nil {
		return nil, nil, err
	}
	if p.out, err = tensor.OnDevice(out, tensor.Float32, elements); err != nil {
		return nil, nil, err
	}
	part := elements / r.WorldSize
	for i := range r.WorldSize {
		p.ins = append(p.ins, p.in.Slice(i*part, (i+1)*part))
		p.outs = append(p.outs, p.out.Slice(i*part, (i+1)*part))
	}
	return p, free, nil
}

// measure is the time of all iterations together.
func (r *rank) measure(ctx context.Context, g *pg.Group, op func() *pg.Op) (time.Duration, error) {
	for range warmups {
		if err := g.Do(ctx, op()); err != nil {
			return 0, err
		}
	}
	if err := g.Barrier(ctx); err != nil {
		return 0, err
	}
	works := make([]*pg.Work, iterations)
	began := time.Now()
	for i := range works {
		works[i] = g.Submit(op())
	}
	for _, w := range works {
		if err := w.Wait(ctx); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

// The arithmetic is nccl-tests', worked out by hand for four ranks.
func TestArithmetic(t *testing.T) {
	want := map[string]float64{ // bus GB/s of 1 GB in 1 s
		"all_reduce": 1.5, "all_gather": 0.75, "reduce_scatter": 0.75, "alltoall": 0.75,
		"broadcast": 1, "reduce": 1, "sendrecv": 1,
	}
	for _, p := range patterns() {
		if got := p.busbw(1e9, 1, 4); got != want[p.name] || p.algbw(1e9, 2) != 0.5 {
			t.Errorf("%s: busbw %v, want %v; algbw of 1 GB in 2 s %v, want 0.5", p.name, got, want[p.name], p.algbw(1e9, 2))
		}
		delete(want, p.name)
	}
	if len(want) > 0 {
		t.Errorf("not measured: %v", want)
	}
}

// All patterns are measured at all sizes.
func TestBandwidth(t *testing.T) {
	const title = "bandwidth of every collective"
	results.follow(t, title)
	o := start(t, "bandwidth")
	o.succeed(t)
	if got, want := len(o.records), len(patterns())*len(sweep(*real))**ranks; got != want {
		t.Errorf("%d measurements, want %d", got, want)
	}
	results.measured("skerry", slowest(o.records))
	results.passed(title, fmt.Sprintf("%d measurements", len(o.records)))
}

// slowest keeps, of each measurement, the rank that took longest.
func slowest(all []record) []record {
	var kept []record
	at := map[string]int{}
	for _, rec := range all {
		key := fmt.Sprint(rec.What, rec.Bytes)
		i, ok := at[key]
		switch {
		case !ok:
			at[key] = len(kept)
			kept = append(kept, rec)
		case rec.Seconds > kept[i].Seconds:
			kept[i] = rec
		}
	}
	return kept
}
