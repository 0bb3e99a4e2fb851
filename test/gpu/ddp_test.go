package gpu

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/nccl"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/ddp"
)

// gradients of a DDP step: so many parameters, of so many elements each.
func (r *rank) gradients() (params, elements, steps int) {
	if r.Full {
		return 25, 1 << 18, 20 // 25 MiB
	}
	return 5, 1 << 12, 3
}

// backward is how long a backward pass takes, which steps are measured with.
const backward = 50 * time.Millisecond

// ddp averages gradients that lie on the GPU, in buckets there.
func (r *rank) ddp(ctx context.Context) error {
	g, err := r.group(ctx)
	if err != nil {
		return err
	}
	if err := r.ddpOver(ctx, g); err != nil {
		return errors.Join(err, g.Close())
	}
	return errors.Join(r.meet(ctx, "ddp"), r.leave(g))
}

func (r *rank) ddpOver(ctx context.Context, g *pg.Group) error {
	count, n, steps := r.gradients()
	var params []ddp.Param
	for i := range count {
		params = append(params, ddp.Param{Name: fmt.Sprintf("layer.%d", i), DType: tensor.Float32, Shape: []int{n}})
	}
	red, err := ddp.New(ddp.Over(g), params, ddp.Options{Views: true, BucketBytes: 4 << 20, Alloc: r.alloc})
	if err != nil {
		return err
	}
	host := tensor.New(tensor.Float32, n)
	values := tensor.Slice[float32](host)
	var took []time.Duration
	for step := range steps {
		began := time.Now()
		for i := count - 1; i >= 0; i-- {
			<-time.After(backward / time.Duration(count)) // this layer's part of the backward pass
			for j := range values {
				values[j] = float32(step + i + r.Rank + j%7)
			}
			mem, at := red.Grad(i).Memory()
			if err := mem.CopyFromHost(at, host.Bytes()); err != nil {
				return err
			}
			red.Ready(i)
		}
		passed := time.Since(began)
		if err := red.Reduce(ctx); err != nil {
			return err
		}
		took = append(took, time.Since(began)-passed)
		mean := float32(r.WorldSize-1) / 2
		for i := range count {
			mem, at := red.Grad(i).Memory()
			if err := mem.CopyToHost(host.Bytes(), at); err != nil {
				return err
			}
			for j, v := range values {
				if want := float32(step+i+j%7) + mean; v != want {
					return fmt.Errorf("step %d: element %d of gradient %d is %v, want %v", step, j, i, v, want)
				}
			}
		}
	}
	slices.Sort(took)
	r.say(record{What: "ddp", Bytes: int64(4 * n * count), Count: steps, Seconds: took[len(took)/2].Seconds()})
	return nil
}

// alloc makes a zeroed tensor of the device, which leave frees.
func (r *rank) alloc(dtype tensor.DType, shape ...int) (tensor.Tensor, error) {
	n, err := tensor.Elements(dtype, shape)
	if err != nil {
		return tensor.Tensor{}, err
	}
	var buf *nccl.Buffer
	if buf, err = r.dev.Alloc(n * dtype.Size()); err != nil {
		return tensor.Tensor{}, err
	}
	r.held = append(r.held, buf)
	if err := buf.CopyFromHost(0, make([]byte, n*dtype.Size())); err != nil {
		return tensor.Tensor{}, err
	}
	return tensor.OnDevice(buf, dtype, shape...)
}

// Gradients on the GPU are averaged in buckets there, while the backward pass runs.
func TestDDP(t *testing.T) {
	const title = "DDP, gradients and buckets on the GPU"
	results.follow(t, title)
	o := start(t, "ddp")
	o.succeed(t)
	if len(o.records) != *ranks {
		t.Fatalf("%d records, want one of each of %d ranks", len(o.records), *ranks)
	}
	rec := o.records[0]
	text := fmt.Sprintf("%d steps of %d MiB, right; Reduce takes %.1f ms (median) after a backward pass of %v",
		rec.Count, rec.Bytes>>20, 1000*rec.Seconds, backward)
	t.Log(text)
	results.passed(title, text)
}
