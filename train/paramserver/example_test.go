package paramserver_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/paramserver"
)

// A server gives its parameters to whoever opens a session.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	params := []float32{1, 2, 3}
	s, err := paramserver.NewServer(paramserver.ServerConfig{
		Backend: func() (pg.Backend, error) { return tcp.New(tcp.Options{}), nil },
		Forward: func(ctx context.Context, _ paramserver.Session, g *pg.Group) error {
			return g.Broadcast(ctx, tensor.Of(params), 0)
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			fmt.Println(err)
		}
	}()

	c, err := paramserver.Dial(ctx, paramserver.ClientConfig{Address: s.Addr(), Backend: tcp.New(tcp.Options{})})
	if err != nil {
		fmt.Println(err)
		return
	}
	got := make([]float32, 3)
	err = c.Broadcast(ctx, tensor.Of(got), 0)
	fmt.Println(got, errors.Join(err, c.Close()))
	// Output: [1 2 3] <nil>
}
