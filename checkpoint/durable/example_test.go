package durable_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/durable"
	"github.com/skerry-ft/skerry/checkpoint/durable/localdir"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/tensor"
)

// run trains up to a step, from what is in a directory. The progress of a real trainer is
// its *manager.Manager, whose Config.Start says what was found.
func run(ctx context.Context, path, replica string, steps int64) error {
	dir, err := localdir.New(localdir.Config{Path: path})
	if err != nil {
		return err
	}
	defer dir.Close()
	c, err := durable.New(durable.Config{Store: dir, Every: 10, OnEvent: func(e durable.Event) {
		switch e := e.(type) {
		case durable.Saved:
			fmt.Printf("step %d is written\n", e.Position.Step)
		case durable.SaveFailed, durable.SaveSkipped, durable.PruneFailed:
			fmt.Println(e)
		}
	}})
	if err != nil {
		return err
	}
	weights := make([]float32, 4)
	save := func() checkpoint.State {
		return checkpoint.State{Tensors: map[string]tensor.Tensor{"weights": tensor.Of(weights)}}
	}
	if err := c.Register("model", save, nil); err != nil {
		return err
	}
	p := &progress{replica: replica, numParticipants: 1}
	found, err := c.Restore(ctx)
	switch {
	case err == nil:
		p.at = found.Position
		fmt.Printf("goes on from step %d with %v\n", found.Position.Step, weights)
	case errors.Is(err, durable.ErrNone):
		fmt.Println("begins")
	default: // errors.Is(err, durable.ErrDamaged), a *safetensors.MismatchError, or what the directory says
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	for err = nil; err == nil && p.at.Step < steps; {
		weights[0]++ // the optimizer
		p.at = quorum.Position{Step: p.at.Step + 1, QuorumID: 1}
		err = errors.Join(c.AfterStep(ctx, p), c.Flush(ctx)) // a real loop flushes at its end only
	}
	cancel()
	return errors.Join(err, <-ended)
}

// A run dies at step 25, and another one goes on from step 20.
func Example() {
	path, err := os.MkdirTemp("", "durable")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(path)
	for life, steps := range []int64{25, 32} {
		if err := run(context.Background(), path, fmt.Sprintf("a:%d", life), steps); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// begins
	// step 10 is written
	// step 20 is written
	// goes on from step 20 with [20 0 0 0]
	// step 30 is written
}

// What a loop can do about each error, and what an event says.
func ExampleCheckpointer_Restore() {
	path, err := os.MkdirTemp("", "durable")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(path)
	dir, err := localdir.New(localdir.Config{Path: path})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dir.Close()
	c, err := durable.New(durable.Config{Store: dir, Every: 100, OnEvent: func(e durable.Event) {
		if s, ok := e.(durable.SaveSkipped); ok {
			fmt.Printf("step %d is still being written: take a larger Every\n", s.Writing.Step)
		}
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	switch _, err := c.Restore(context.Background()); {
	case errors.Is(err, durable.ErrNone):
		fmt.Println("begin at step 0")
	case errors.Is(err, durable.ErrDamaged):
		fmt.Println("let a person look:", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	fmt.Println(c.Run(ctx), errors.Is(c.Flush(context.Background()), durable.ErrStopped))
	// Output:
	// begin at step 0
	// <nil> true
}
