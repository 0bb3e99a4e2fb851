package main

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"

	"github.com/skerry-ft/skerry/dist"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/ddp"
	"github.com/skerry-ft/skerry/train/metrics"
	"github.com/skerry-ft/skerry/train/sampler"
)

// What training learns: targets are a linear function of features, which it finds.
const (
	samples  = 96
	features = 4
	epochs   = 30
	batch    = 8
	rate     = 0.3
)

// dataset is the same on all ranks; each reads its own part of it.
func dataset() (x [][features]float32, y []float32) {
	r := rand.New(rand.NewPCG(1234, 0))
	truth := [features]float32{1, -2, 0.5, 3}
	for range samples {
		var row [features]float32
		var sum float32
		for i := range row {
			row[i] = r.Float32()*2 - 1
			sum += row[i] * truth[i]
		}
		x, y = append(x, row), append(y, sum)
	}
	return x, y
}

// training is stochastic gradient descent on a dataset that is dealt out to the ranks: each
// computes gradients of its own samples, and all apply their average.
func training(ctx context.Context, w *dist.World, out io.Writer) error {
	x, y := dataset()
	mine, err := sampler.NewDistributed(sampler.Config{Samples: samples, Ranks: w.Size(), Rank: w.Rank(), Seed: 1})
	if err != nil {
		return err
	}
	weights, grads := make([]float32, features), make([]float32, features)
	for i := range weights {
		weights[i] = float32(w.Rank()) // differs, until rank 0's are everybody's
	}
	if err := ddp.Broadcast(ctx, w.Group, tensor.Of(weights)); err != nil {
		return err
	}
	reducer, err := ddp.New(ddp.Over(w.Group), []ddp.Param{{Name: "weights", Grad: tensor.Of(grads)}}, ddp.Options{})
	if err != nil {
		return err
	}
	for epoch := range int64(epochs) {
		var loss float64
		steps, inBatch := 0, 0
		clear(grads)
		for row := range mine.Epoch(epoch) {
			loss += gradient(weights, x[row], y[row], grads)
			if inBatch++; inBatch < batch {
				continue
			}
			reducer.Ready(0)
			if err := reducer.Reduce(ctx); err != nil {
				return err
			}
			for i, g := range grads {
				weights[i] -= rate * g
			}
			clear(grads)
			steps, inBatch = steps+1, 0
		}
		if loss, err = metrics.SyncNumber(ctx, w.Group, loss/float64(steps*batch), tensor.Avg); err != nil {
			return err
		}
		if w.Rank() == 0 && epoch%10 == 9 {
			if _, err := fmt.Fprintf(out, "epoch %d: loss %.4f\n", epoch, loss); err != nil {
				return err
			}
		}
	}
	_, err = fmt.Fprintf(out, "rank %d: weights %.2f, checksum %08x\n", w.Rank(), weights, crc32.ChecksumIEEE(tensor.Of(weights).Bytes()))
	return err
}

// gradient adds what a sample says of the mean squared error of its batch, and returns its
// own squared error.
func gradient(weights []float32, x [features]float32, y float32, grads []float32) float64 {
	miss := -y
	for i, v := range x {
		miss += weights[i] * v
	}
	for i, v := range x {
		grads[i] += 2 * miss * v / batch
	}
	return float64(miss) * float64(miss)
}
