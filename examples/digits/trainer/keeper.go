package main

import (
	"context"
	"errors"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/checkpoint/durable"
	"github.com/skerry-ft/skerry/checkpoint/durable/localdir"
	"github.com/skerry-ft/skerry/manager"
)

// keepOptions are the flags about checkpoints.
type keepOptions struct {
	dir   string // "": none are kept
	every int64
}

// keeper has what becomes of checkpoints. Without a folder it does nothing.
type keeper struct {
	dir         *localdir.Store
	checkpoints *durable.Checkpointer // nil: none
	found       *durable.Found        // what training goes on from; nil: it begins
}

// openKeeper opens the folder, and finds the newest checkpoint in it.
func openKeeper(o keepOptions, tell *teller, log zerolog.Logger) (*keeper, error) {
	k := &keeper{}
	if o.dir == "" {
		return k, nil
	}
	var err error
	if k.dir, err = localdir.New(localdir.Config{Path: o.dir}); err != nil {
		return nil, err
	}
	k.checkpoints, err = durable.New(durable.Config{Store: k.dir, Every: o.every, OnEvent: tell.checkpoint, Log: log})
	if err == nil {
		k.found, err = k.checkpoints.Find(context.Background())
	}
	switch {
	case errors.Is(err, durable.ErrNone):
		tell.line("no checkpoint in %s yet", o.dir)
	case err != nil:
		k.close()
		return nil, err
	default:
		tell.line("goes on from %v", k.found)
	}
	return k, nil
}

// close releases the folder.
func (k *keeper) close() {
	if k.dir != nil {
		_ = k.dir.Close() // what it wrote is written
	}
}

// start is what the Manager is told of it.
func (k *keeper) start() manager.Start {
	if k.found == nil {
		return manager.Start{}
	}
	return manager.Start{Position: k.found.Position, Batches: k.found.Batches}
}

// load fills the trainer's state.
func (k *keeper) load(ctx context.Context) error {
	if k.found == nil {
		return nil
	}
	return k.checkpoints.Load(ctx, k.found)
}

// run writes until ctx ends.
func (k *keeper) run(ctx context.Context) error {
	if k.checkpoints == nil {
		return nil
	}
	return k.checkpoints.Run(ctx)
}

// flush waits for the write under way.
func (k *keeper) flush(ctx context.Context) {
	if k.checkpoints != nil {
		_ = k.checkpoints.Flush(ctx) // its error was told as an event
	}
}

// checkpoint tells what became of a checkpoint.
func (t *teller) checkpoint(e durable.Event) {
	if _, ok := e.(durable.PruneFailed); !t.done.Load() || ok {
		t.line("%v", e)
	}
}
