package lighthouse_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/lighthouse"
)

// Who closes a server before it runs leaves nothing behind:
// another one may have its data dir.
func TestRunOfAClosedServerLeavesNothing(t *testing.T) {
	t.Parallel()
	cfg := lighthouse.DefaultConfig()
	cfg.Listen, cfg.DataDir = "127.0.0.1:0", t.TempDir()
	closed, err := lighthouse.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	run := func(s *lighthouse.Server) error {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		select {
		case err := <-done:
			return err
		case <-time.After(10 * time.Second):
			t.Fatal("a run has not ended 10s after its context: who was closed has kept the data dir")
			return nil
		}
	}
	if err := run(closed); !errors.Is(err, net.ErrClosed) {
		t.Errorf("run of a closed server: %v", err)
	}
	next, err := lighthouse.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := run(next); err != nil {
		t.Error(err)
	}
}
