package runcmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/changes"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/watch"
	"github.com/skerry-ft/skerry/launch"
	"github.com/skerry-ft/skerry/lighthouse/api"
)

const (
	viewEvery = time.Second // between two looks at the lighthouse
	viewLines = 6           // the launcher's own, below the picture
	keptLines = 1_000       // of them, for when the picture is gone
)

// errNoLighthouse is shown until Run has found or started one.
var errNoLighthouse = errors.New("the job's lighthouse is being started")

// checkView refuses --view where the picture would not be alone on a terminal.
func (o *options) checkView(cmd *cobra.Command) error {
	switch {
	case !o.view:
		return nil
	case o.cfg.LogDir == "" || o.cfg.Tee:
		return cli.Usagef("--view draws where the lines of ranks would be: want --log-dir DIR with it, and no --tee")
	case !cli.IsTerminal(cmd.OutOrStdout()) || os.Getenv("TERM") == "dumb":
		return cli.Usagef("--view wants a terminal at standard output: without one, skerry status --watch tells each change by a line")
	}
	return nil
}

// show draws the job as its lighthouse knows it, with what this command tells below, until the
// function that it returns is called, or q is pressed; then what was told is written as ever.
func (o *options) show(cmd *cobra.Command, l *launch.Launcher) (end func()) {
	if !o.view {
		return func() {}
	}
	// Not of the command's context: how a job drains is worth a look, too.
	ctx, cancel := context.WithCancel(context.WithoutCancel(cmd.Context()))
	o.below.hold(cli.IsTerminal(cmd.ErrOrStderr()))
	drawn := make(chan struct{})
	go func() {
		defer close(drawn)
		defer o.below.release()
		seen := changes.Latest{}
		in, _ := cmd.InOrStdin().(*os.File) // else there are no keys
		err := watch.Run(ctx, watch.Config{
			Ask: func(ctx context.Context) (st api.Overview, err error) {
				at := l.Lighthouse()
				if at == nil {
					return st, errNoLighthouse
				}
				return overviewOf(ctx, o.asks.At(at, 0), o.cfg.Job)
			},
			Changes: func(ctx context.Context) ([]api.Event, error) {
				fresh, err := o.asks.At(l.Lighthouse(), 0).Events(ctx, o.cfg.Job)
				return seen.Add(fresh), err
			},
			Below: o.below.last, Hint: "q leaves this picture, Ctrl-C drains the job",
			Every: viewEvery, In: in, Out: cmd.OutOrStdout(),
		})
		if err != nil {
			o.cfg.Log.Warn().Err(err).Msg("no picture any more: the job goes on")
		}
	}()
	return func() {
		cancel()
		select {
		case <-drawn:
		case <-time.After(closeLimit): // the terminal takes nothing, and holds up no exit status
		}
	}
}

// below is where this command tells what it does: a terminal, or, while a picture is drawn on it,
// lines that are shown below and written when it is gone. It is safe for concurrent use.
type below struct {
	to io.Writer

	mu      sync.Mutex
	shown   bool // a picture is drawn
	held    bool // it is drawn where this is written to
	lines   []string
	skipped int // older ones, which are not kept
}

// hold keeps what is written to be shown below a picture, and holds it back if both are on a terminal.
func (b *below) hold(back bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shown, b.held = true, back
}

// Write takes whole lines.
func (b *below) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shown {
		for line := range bytes.Lines(p) {
			b.lines = append(b.lines, string(bytes.TrimRight(line, "\n")))
		}
		if more := len(b.lines) - keptLines; more > 0 {
			b.lines, b.skipped = b.lines[more:], b.skipped+more
		}
	}
	if b.held {
		return len(p), nil
	}
	return b.to.Write(p)
}

// last are the newest lines.
func (b *below) last() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.lines[max(len(b.lines)-viewLines, 0):]...)
}

// release writes what was held back, and from now on everything at once.
func (b *below) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held && b.skipped > 0 {
		fmt.Fprintf(b.to, "… and %s before\n", cli.Plural(b.skipped, "line")) //nolint:errcheck // of a terminal that is gone there is nothing to tell
	}
	if b.held {
		for _, line := range b.lines {
			fmt.Fprintln(b.to, line) //nolint:errcheck // as above
		}
	}
	b.shown, b.held, b.lines, b.skipped = false, false, nil, 0
}
