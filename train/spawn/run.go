package spawn

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// MaxWorkers bounds Run: each worker is a process.
const MaxWorkers = 1024

// Run runs the registered function name in n workers, ranks 0 to n-1, and
// blocks until all have ended. The first failure, or the end of ctx, ends all
// others: SIGTERM, and SIGKILL after Options.Grace. It returns the first
// failure (*ExitError, with rank and last lines of standard error), or
// context.Cause(ctx), or nil.
func Run(ctx context.Context, n int, name string, o Options) error {
	if n < 1 || n > MaxWorkers {
		return fmt.Errorf("spawn: %d workers, want 1 to %d", n, MaxWorkers)
	}
	procs := make([]*Process, 0, n)
	defer func() {
		for _, p := range procs {
			p.Kill()
		}
	}()
	ended := make(chan *Process, n)
	for rank := range n {
		p, err := Start(Worker{Name: name, Rank: rank, WorldSize: n}, o)
		if err != nil {
			return err
		}
		procs = append(procs, p)
		go func() { // ends with the worker, which the deferred kills see to
			<-p.Done()
			ended <- p
		}()
	}
	for range n {
		select {
		case p := <-ended:
			if p.err != nil {
				terminate(procs, o.Grace)
				return p.err
			}
		case <-ctx.Done():
			terminate(procs, o.Grace)
			return context.Cause(ctx)
		}
	}
	return nil
}

// terminate asks the workers to end and waits for them at most grace.
func terminate(procs []*Process, grace time.Duration) {
	if grace <= 0 {
		grace = DefaultGrace
	}
	for _, p := range procs {
		_ = p.Signal(syscall.SIGTERM) // already gone is as good
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	for _, p := range procs {
		_ = p.Wait(ctx) // Run's deferred kills end those that are left
	}
}
