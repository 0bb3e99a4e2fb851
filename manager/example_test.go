package manager_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"time"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/tensor"
)

// A training loop that survives the loss of other replicas. It needs a
// lighthouse, as go run ./cmd/lighthouse starts one; this example has none, and
// shows what a trainer is told then.
func Example() {
	params, grads := make([]float32, 4), make([]float32, 4)
	m, err := manager.New(manager.Config{
		ReplicaID:   "replica-0",
		Lighthouse:  []string{nobody()},
		StepTimeout: 300 * time.Millisecond, // so that this example ends soon
		Backend:     tcp.New(tcp.Options{}),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	err = m.Register("model", func() checkpoint.State {
		return checkpoint.State{Tensors: map[string]tensor.Tensor{"params": tensor.Of(params)}}
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go m.Run(ctx)

	train := func() error {
		for m.Step() < 100 {
			if err := m.StartQuorum(ctx); err != nil {
				return err
			}
			// forward and backward pass: fill grads
			_ = m.Group().AllReduce(ctx, tensor.Of(grads), tensor.Avg) // errors are reported to m
			ok, err := m.ShouldCommit(ctx)
			if err != nil {
				return err
			}
			for i := range params {
				if ok {
					params[i] -= 0.1 * grads[i]
				}
			}
		}
		return nil
	}
	fmt.Println("lighthouse unreachable:", train() != nil)
	// Output: lighthouse unreachable: true
}

// nobody is an address at which nobody listens.
func nobody() string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// Run works beside the training loop; without it no step begins.
func ExampleManager_Run() {
	m, err := manager.New(manager.Config{
		ReplicaID:   "replica-0",
		Lighthouse:  []string{"127.0.0.1:29510"},
		StepTimeout: 300 * time.Millisecond, // so that this example ends soon
		Backend:     tcp.New(tcp.Options{}),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	err = m.StartQuorum(context.Background()) // and `go m.Run(ctx)` is forgotten
	fmt.Println(errors.Is(err, manager.ErrNotRunning))
	// Output: true
}
