package lighthouse_test

import (
	"context"
	"fmt"

	"github.com/skerry-ft/skerry/lighthouse"
)

// A server in one's own program: New listens, Run serves until its context
// ends.
func Example() {
	cfg := lighthouse.DefaultConfig()
	cfg.Listen = "127.0.0.1:0"
	cfg.Rules.MinReplicas = 2
	server, err := lighthouse.New(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- server.Run(ctx) }()

	// Here: hand server.Addr().String() to the replicas.

	stop()
	fmt.Println(<-done)
	// Output: <nil>
}
