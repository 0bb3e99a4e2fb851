package main

import (
	"context"
	"fmt"
	"io"

	"github.com/skerry-ft/skerry/dist"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// basic sums up a tensor of ones: each rank has the number of ranks in every place.
func basic(ctx context.Context, w *dist.World, out io.Writer) error {
	ones, err := tensor.Of([]float32{1, 1, 1, 1}).Reshape(2, 2)
	if err != nil {
		return err
	}
	if err := w.AllReduce(ctx, ones, tensor.Sum); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "rank %d: %v %v\n", w.Rank(), ones, tensor.Slice[float32](ones))
	return err
}

// blocking sends a number from rank 0 to rank 1. Send and Recv return when the tensor may
// be used again.
func blocking(ctx context.Context, w *dist.World, out io.Writer) error {
	x := []float32{0}
	var err error
	if w.Rank() == 0 {
		x[0]++
		err = w.Send(ctx, tensor.Of(x), pg.Envelope{Peer: 1})
	} else {
		_, err = w.Recv(ctx, tensor.Of(x), pg.Envelope{Peer: 0})
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "rank %d has %v\n", w.Rank(), x[0])
	return err
}

// started is blocking by Works: the tensor belongs to the group from the call to the end
// of Wait.
func started(ctx context.Context, w *dist.World, out io.Writer) error {
	x := []float32{0}
	var work *pg.Work
	if w.Rank() == 0 {
		x[0]++
		work = w.SendAsync(tensor.Of(x), pg.Envelope{Peer: 1})
	} else {
		work = w.RecvAsync(tensor.Of(x), pg.Envelope{Peer: 0})
	}
	// What needs no x goes here.
	if err := w.Wait(ctx, work); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "rank %d has %v\n", w.Rank(), x[0])
	return err
}

// ring sums up a vector over all ranks by sends and receives, as Baidu's ring does: it is
// cut into a part for each rank; in W-1 steps each part goes round once and is summed up on
// its way, and in W-1 more its sum goes round. Each rank sends 2(W-1)/W of the vector,
// however many ranks there are. w.AllReduce does the same in one call.
func ring(ctx context.Context, w *dist.World, out io.Writer) error {
	const part = 3
	rank, size := w.Rank(), w.Size()
	x := make([]float32, part*size)
	for i := range x {
		x[i] = float32(rank*len(x) + i)
	}
	at := func(i int) []float32 {
		i = (i%size + size) % size
		return x[i*part : (i+1)*part]
	}
	to, from := pg.Envelope{Peer: (rank + 1) % size}, pg.Envelope{Peer: (rank + size - 1) % size}
	came := make([]float32, part)
	for step := range size - 1 {
		send, recv := at(rank-step), at(rank-step-1)
		err := w.BatchSendRecv(ctx, []*pg.Op{pg.SendOp(tensor.Of(send), to), pg.RecvOp(tensor.Of(came), from)})
		if err != nil {
			return err
		}
		for i := range recv {
			recv[i] += came[i]
		}
	}
	for step := range size - 1 {
		send, recv := at(rank+1-step), at(rank-step)
		err := w.BatchSendRecv(ctx, []*pg.Op{pg.SendOp(tensor.Of(send), to), pg.RecvOp(tensor.Of(recv), from)})
		if err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "rank %d: %v\n", rank, x)
	return err
}
