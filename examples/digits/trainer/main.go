// Command trainer trains one replica of package digits until it has had all its
// steps. Start it several times, beside a lighthouse, with different indices;
// kill and restart whichever you like.
//
//	go run ./cmd/lighthouse
//	go run ./examples/digits/trainer -index 0 -replicas 2
//	go run ./examples/digits/trainer -index 1 -replicas 2
//
// A replica that is through takes part, without learning more, for the time
// that -linger says, so that one that is behind can still heal.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/skerry-ft/skerry/examples/digits"
	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/pg/tcp"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "trainer: %v\n", err)
		os.Exit(1)
	}
}

// every is how many steps lie between two lines of progress.
const every = 50

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("trainer", flag.ContinueOnError)
	cfg := digits.Config{}
	lighthouse := flags.String("lighthouse", "127.0.0.1:29510", "address of the lighthouse")
	flags.Uint64Var(&cfg.Seed, "seed", 1, "of data and model, the same on all replicas")
	flags.Int64Var(&cfg.Steps, "steps", 600, "steps to train")
	flags.IntVar(&cfg.Shard.Index, "index", 0, "of this replica, 0 to replicas-1")
	flags.IntVar(&cfg.Shard.Count, "replicas", 2, "number of shards of the data")
	flags.DurationVar(&cfg.StepTime, "step-time", 50*time.Millisecond, "how long a step takes at least")
	linger := flags.Duration("linger", 5*time.Second, "how long to stay for others at the end")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := cfg.Validate(); err != nil {
		return err
	}
	cfg.OnStep = func(r digits.Report) {
		if r.Committed && r.Step%every == 0 && r.Step < cfg.Steps {
			fmt.Printf("step %d: loss %.4f\n", r.Step, r.Loss)
		}
	}
	return train(ctx, cfg, *lighthouse, *linger)
}

func train(ctx context.Context, cfg digits.Config, lighthouse string, linger time.Duration) error {
	log := zerolog.New(zerolog.ConsoleWriter{Out: os.Stderr}).Level(zerolog.WarnLevel).With().Timestamp().Logger()
	m, err := manager.New(manager.Config{
		ReplicaID:  fmt.Sprintf("replica-%d", cfg.Shard.Index),
		Lighthouse: []string{lighthouse},
		Backend:    tcp.New(tcp.Options{Logger: log}),
		Log:        log,
	})
	if err != nil {
		return err
	}
	t, err := digits.NewTrainer(cfg, m)
	if err != nil {
		return errors.Join(err, m.Close())
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return m.Run(ctx) })
	g.Go(func() error {
		defer m.Close() // its error is Run's
		if err := t.Run(ctx); err != nil {
			return err
		}
		fmt.Printf("step %d: test accuracy %.4f, sha256 %s\n", t.Step(), t.Accuracy(), t.Hash())
		late, cancel := context.WithTimeout(ctx, linger)
		defer cancel()
		return t.Linger(late)
	})
	return g.Wait()
}
