package gpu

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/nccl"
	"github.com/skerry-ft/skerry/nccl/twin"
	"github.com/skerry-ft/skerry/store"
	"github.com/skerry-ft/skerry/tensor"
)

// stateBytes is how large the state of a heal is.
func (r *rank) stateBytes() int {
	if r.Full {
		return 1 << 30
	}
	return 8 << 20
}

// healed heals a state that lies on the GPU: rank 0 has it, the others take it over.
func (r *rank) healed(ctx context.Context) (err error) {
	t, held, err := r.twin()
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, t.Close())
		for _, b := range held {
			err = errors.Join(err, b.Close())
		}
	}()
	transport, err := checkpoint.NewHTTP(checkpoint.HTTPConfig{})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	runs, ctx := errgroup.WithContext(ctx)
	runs.Go(func() error { return transport.Run(ctx) })
	runs.Go(func() error {
		defer stop()
		if r.Rank == 0 {
			return r.give(ctx, transport, t)
		}
		return r.takeOver(ctx, transport, t, held)
	})
	return runs.Wait()
}

// metadataKey is where rank 0 says where it serves, and version what it serves.
const (
	metadataKey = "metadata"
	version     = "gpu/1/1"
)

func (r *rank) board(ctx context.Context) (store.Store, error) {
	return store.Open(ctx, r.Address+"/heal/"+r.Cluster, store.ClientConfig{})
}

func (r *rank) give(ctx context.Context, transport *checkpoint.HTTP, t *twin.Twin) error {
	began := time.Now()
	state := t.State()
	if err := t.Err(); err != nil {
		return err
	}
	r.say(record{What: "to host", Bytes: int64(r.stateBytes()), Seconds: time.Since(began).Seconds()})
	if err := transport.Serve(version, func() (checkpoint.State, error) { return state, nil }); err != nil {
		return err
	}
	s, err := r.board(ctx)
	if err != nil {
		return err
	}
	if err := s.Set(ctx, metadataKey, []byte(transport.Metadata())); err != nil {
		return errors.Join(err, s.Close())
	}
	return errors.Join(r.meet(ctx, "healed"), s.Close())
}

func (r *rank) takeOver(ctx context.Context, transport *checkpoint.HTTP, t *twin.Twin, held []*nccl.Buffer) error {
	s, err := r.board(ctx)
	if err != nil {
		return err
	}
	metadata, err := s.Get(ctx, metadataKey)
	if err = errors.Join(err, s.Close()); err != nil {
		return err
	}
	began := time.Now()
	own := t.State()
	mirror, err := checkpoint.NewMirror(own, checkpoint.MirrorOptions{})
	if err != nil {
		return err
	}
	if _, err := transport.Fetch(ctx, version, []string{string(metadata)}, mirror); err != nil {
		return err
	}
	if err := mirror.Install(version); err != nil {
		return err
	}
	loading := time.Now()
	if err := t.Load(own); err != nil {
		return err
	}
	r.say(record{What: "to device", Bytes: int64(r.stateBytes()), Seconds: time.Since(loading).Seconds()})
	r.say(record{What: "heal", Bytes: int64(r.stateBytes()), Seconds: time.Since(began).Seconds()})
	for i, b := range held {
		got := tensor.New(tensor.Float32, b.NumBytes()/4)
		if err := b.CopyToHost(got.Bytes(), 0); err != nil {
			return err
		}
		for j, v := range tensor.Slice[float32](got) {
			if want := grain(i+j, 0); v != want {
				return fmt.Errorf("tensor %d: element %d is %v after the heal, want %v", i, j, v, want)
			}
		}
	}
	return r.meet(ctx, "healed")
}

// twin makes a state of three tensors: of values at rank 0, of nothing elsewhere.
func (r *rank) twin() (*twin.Twin, []*nccl.Buffer, error) {
	const parts = 3
	tensors, held := map[string]tensor.Tensor{}, []*nccl.Buffer{}
	for i := range parts {
		n := r.stateBytes() / 4 / parts
		x, buf, err := r.tensor(tensor.Float32, n)
		if err != nil {
			return nil, nil, err
		}
		values := make([]float32, n)
		for j := range values {
			if r.Rank == 0 {
				values[j] = grain(i+j, 0)
			}
		}
		if err := buf.CopyFromHost(0, tensor.Of(values).Bytes()); err != nil {
			return nil, nil, err
		}
		tensors[fmt.Sprintf("part.%d", i)], held = x, append(held, buf)
	}
	t, err := twin.New(r.dev, tensors, twin.Options{})
	return t, held, err
}

// A state on the GPU is healed through page-locked memory.
func TestHeal(t *testing.T) {
	const title = "heal of a state on the GPU, through page-locked memory"
	results.follow(t, title)
	o := start(t, "heal")
	o.succeed(t)
	text := ""
	for _, rec := range o.records {
		if rec.Rank < 2 {
			text += fmt.Sprintf("%s %d MiB in %.0f ms (%.2f GB/s); ", rec.What, rec.Bytes>>20, 1000*rec.Seconds, float64(rec.Bytes)/rec.Seconds/1e9)
		}
	}
	t.Log(text)
	results.passed(title, text)
}
