package main

import (
	"context"
	"io"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/skerry-ft/skerry/internal/backoff"
)

// parentLook is how often a program that dies with its parent looks for it.
const parentLook = 50 * time.Millisecond

// ends say by what a program ends that serves another one, besides a signal.
type ends struct {
	parent, input bool
}

func (e *ends) add(f *pflag.FlagSet) {
	f.BoolVar(&e.parent, "die-with-parent", false, "end when the process that started this one has ended")
	f.BoolVar(&e.input, "end-with-stdin", false, "end when standard input is closed")
}

// watch returns a context that ends, with a line in log, when what is watched has
// ended. stop ends it, and waits.
func (e *ends) watch(ctx context.Context, in io.Reader, log zerolog.Logger) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	end := func(why string) {
		log.Info().Msg(why)
		cancel()
	}
	var all sync.WaitGroup
	if e.parent {
		parent := os.Getppid()
		all.Go(func() {
			for os.Getppid() == parent {
				if backoff.Sleep(ctx, parentLook) != nil {
					return
				}
			}
			end("ended with the parent process")
		})
	}
	if e.input {
		// A read of standard input cannot be ended: it ends with the process.
		go func() {
			_, _ = io.Copy(io.Discard, in) // whatever ends it
			if ctx.Err() == nil {
				end("ended with standard input")
			}
		}()
	}
	return ctx, func() {
		cancel()
		all.Wait()
	}
}
