package main

import (
	"context"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/store"
)

// The command serves a store to whoever has no Go, until it is ended.
func TestStoreCommandServes(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	run, stop := context.WithCancel(ctx)
	addr, ended := startServing(run, t, nil, "store", "--listen", "127.0.0.1:0")
	c, err := store.Dial(ctx, addr, store.ClientConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Set(ctx, "k", []byte("v")); err != nil {
		t.Error(err)
	}
	if got, err := c.Get(ctx, "k"); err != nil || string(got) != "v" {
		t.Errorf("got %q, %v", got, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}
