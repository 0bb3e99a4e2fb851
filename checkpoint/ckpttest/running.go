package ckpttest

import (
	"context"
	"sync"
	"testing"

	"github.com/skerry-ft/skerry/checkpoint"
)

// Running is an HTTP transport that runs until the test ends.
func Running(t testing.TB, cfg checkpoint.HTTPConfig) *checkpoint.HTTP {
	t.Helper()
	tr, err := checkpoint.NewHTTP(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	wg.Go(func() {
		if err := tr.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return tr
}
