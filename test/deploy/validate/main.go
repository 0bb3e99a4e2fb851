// Command validate checks files of deployment by the types and the rules of the programs that
// read them: an unknown field, a port out of range, a quantity that is none are errors here,
// before a cluster has them.
//
//	validate [FOLDER]     of the form of deploy/, which it is by default
//
// A file that no validator reads is an error, too. Where a tool of the host is missing
// (systemd-analyze, shellcheck, promtool), its files are left out, and the output says so.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "validate: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, args []string) error {
	folder := "../../../deploy"
	switch len(args) {
	case 0:
	case 1:
		folder = args[0]
	default:
		return fmt.Errorf("arguments %q, want one folder", args)
	}
	trees, err := assign(folder)
	for i, v := range validators {
		if len(trees[i].names) == 0 {
			continue
		}
		problem := v.check(ctx, trees[i])
		said := "ok"
		switch {
		case errors.Is(problem, errNoTool):
			said = "left out: " + problem.Error()
		case problem != nil:
			said = "refused"
			err = errors.Join(err, fmt.Errorf("%s: %w", v.name, problem))
		}
		for _, name := range trees[i].names {
			fmt.Fprintf(out, "%-50s %s: %s\n", name, v.name, said)
		}
	}
	return err
}
