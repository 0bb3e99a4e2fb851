package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/internal/terminal"
	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/internal/printable"
	"github.com/skerry-ft/skerry/lighthouse/api"
)

// What a terminal is told: to show another screen without a cursor and without wrapping
// lines, and to take that back; to draw from the top, all at once.
const (
	enter = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	leave = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	begin = "\x1b[?2026h\x1b[H"
	end   = "\x1b[J\x1b[?2026l"
)

// Config is what to watch, and where to show it.
type Config struct {
	// Ask reads the lighthouse's status. It ends with ctx.
	Ask func(ctx context.Context) (api.Overview, error)
	// Changes reads how quorums changed, oldest first; nil: there is no telling. It is
	// called when something was told since the last time.
	Changes func(ctx context.Context) ([]api.Event, error)
	// Every is the pause between two answers.
	Every time.Duration
	// Wide shows ids whole.
	Wide bool
	// Below are lines that are drawn below the picture; nil: there are none. Hint says what
	// keys do; empty: that q quits.
	Below func() []string
	Hint  string
	// In has the keys. Out is drawn on if it is a terminal; else it gets a line for
	// each change.
	In  *os.File
	Out io.Writer
}

// answer is one of Ask's.
type answer struct {
	status  api.Overview
	changes []api.Event // nil: as before
	err     error
}

// Run shows what a lighthouse knows until ctx ends or q is pressed, and returns nil then.
// Errors: those of writing to Out.
func Run(ctx context.Context, c Config) error {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	answers := make(chan answer)
	all.Go(func() { // asks, until ctx ends
		told := int64(-1)
		for ctx.Err() == nil {
			a := c.ask(ctx, &told)
			select {
			case answers <- a:
			case <-ctx.Done():
			}
			_ = backoff.Sleep(ctx, c.Every) // ctx's end ends the loop
		}
	})
	if f, ok := c.Out.(*os.File); ok && cli.IsTerminal(f) && os.Getenv("TERM") != "dumb" {
		return c.draw(ctx, f, answers)
	}
	t := teller{w: c.Out, wide: c.Wide}
	for {
		select {
		case <-ctx.Done():
			return nil
		case a := <-answers:
			if err := t.tell(time.Now(), a.status, a.err); err != nil {
				return err
			}
		}
	}
}

// ask asks once. told is how much had been told the last time.
func (c Config) ask(ctx context.Context, told *int64) answer {
	st, err := c.Ask(ctx)
	if err != nil || c.Changes == nil {
		return answer{status: st, err: err}
	}
	var now int64
	for _, j := range st.Jobs {
		now += j.LastSeq
	}
	if now == *told {
		return answer{status: st}
	}
	changes, err := c.Changes(ctx)
	if err != nil {
		return answer{status: st} // a build that tells nothing, or it will be asked again
	}
	*told = now
	return answer{status: st, changes: changes}
}

// redrawEvery is how often ages on the picture grow.
const redrawEvery = time.Second

// draw draws on a terminal until ctx ends or q is pressed.
func (c Config) draw(ctx context.Context, f *os.File, answers <-chan answer) (err error) {
	quit, stop, err := keys(c.In)
	if err != nil {
		return err
	}
	defer stop()
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH, syscall.SIGCONT)
	defer signal.Stop(resized)
	tick := time.NewTicker(redrawEvery)
	defer tick.Stop()
	p := picture{f: f, wide: c.Wide, colour: os.Getenv("NO_COLOR") == "", below: c.Below, hint: cmp.Or(c.Hint, "q quits")}
	if _, err := io.WriteString(f, enter); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	for {
		if err := p.draw(time.Now()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-quit:
			return nil
		case a := <-answers:
			p.seen.take(time.Now(), a.status, a.err)
			p.seen.tell(a.changes)
		case <-resized:
		case <-tick.C:
		}
	}
}

// keys closes quit when q is pressed, until stop is called, which waits for its
// goroutine.
func keys(in *os.File) (quit <-chan struct{}, stop func(), err error) {
	pressed := make(chan struct{})
	if in == nil || !cli.IsTerminal(in) {
		return pressed, func() {}, nil
	}
	awake, wake, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("watch keys: %w", err)
	}
	restore := terminal.Quiet(in)
	var reader sync.WaitGroup
	reader.Go(func() {
		// Without keys Ctrl-C ends the watch.
		_ = terminal.Keys(in, awake, func(key byte) bool {
			if key != 'q' && key != 'Q' {
				return true
			}
			close(pressed)
			return false
		})
	})
	return pressed, func() {
		_ = wake.Close() // nothing was written
		reader.Wait()
		_ = awake.Close() // nothing was written
		restore()
	}, nil
}

// picture is what is on the terminal. It is owned by one goroutine.
type picture struct {
	f      *os.File
	wide   bool
	colour bool
	below  func() []string // nil: there is nothing
	hint   string
	seen   seen
}

// least is how many rows the picture has at least, whatever stands below.
const least = 8

// draw draws the picture anew, in the window's size, by one write, so that it never
// tears.
func (p *picture) draw(now time.Time) error {
	columns, rows := terminal.Size(p.f)
	var b strings.Builder
	b.WriteString(begin)
	var told []line
	if p.below != nil {
		told = append(told, plain(""))
		for _, text := range p.below() {
			told = append(told, plain(printable.Line(text)))
		}
	}
	told = told[max(len(told)-max(rows-1-least, 0), 0):]
	for _, l := range append(p.seen.frame(now, rows-1-len(told), p.wide), told...) {
		b.WriteString(l.fit(columns, p.colour) + "\x1b[K\r\n")
	}
	b.WriteString(line{{p.hint, dim}}.fit(columns, p.colour) + "\x1b[K" + end)
	_, err := io.WriteString(p.f, b.String())
	return err
}

// close brings the screen back, with what was seen last below.
func (p *picture) close() error {
	columns, rows := terminal.Size(p.f)
	var b strings.Builder
	b.WriteString(leave)
	for _, l := range p.seen.frame(time.Now(), rows-1, p.wide) {
		b.WriteString(l.fit(columns, p.colour) + "\n")
	}
	_, err := io.WriteString(p.f, b.String())
	return err
}
