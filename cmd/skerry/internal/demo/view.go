package demo

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/internal/printable"
)

const (
	// redrawEvery is how often a terminal's picture is redrawn.
	redrawEvery = 100 * time.Millisecond
	// plainEvery is how many steps lie between two lines of progress elsewhere.
	plainEvery = 50
	// barCells is the width of a progress bar.
	barCells = 30
)

// view shows a demo's progress: a line for whatever is worth one, once, and below the
// lines, on a terminal, a picture. It is owned by the demo's goroutine.
type view struct {
	w        io.Writer
	fd       int // of the terminal, -1: it is none
	drawn    int // lines of the picture on the screen
	quorums  map[int64]bool
	discards map[[2]int64]bool
	told     int64 // steps
}

func newView(w io.Writer) *view {
	v := &view{w: w, fd: -1, quorums: make(map[int64]bool), discards: make(map[[2]int64]bool)}
	if f, ok := w.(*os.File); ok && cli.IsTerminal(f) {
		v.fd = int(f.Fd())
	}
	return v
}

// note shows one line that stays.
func (v *view) note(format string, args ...any) {
	v.wipe()
	fmt.Fprintln(v.w, printable.Line(fmt.Sprintf(format, args...)))
}

// event shows what r, as it was before, tells.
func (v *view) event(r *replica, e event) {
	switch e.Kind {
	case eventQuorum:
		if !v.quorums[e.QuorumID] {
			v.quorums[e.QuorumID] = true
			v.note("quorum %d: %s", e.QuorumID, strings.Join(shortNames(e.Members), " "))
		}
	case eventDiscarded:
		if key := [2]int64{e.Step, e.QuorumID}; !v.discards[key] {
			v.discards[key] = true
			v.note("step %d discarded", e.Step)
		}
	case eventHealed:
		if e.Step == 0 { // no heal, and not counted as one
			v.note("%s copied the initial weights", r.name)
			return
		}
		v.note("%s healed to step %d in %.0f ms", r.name, e.Step, e.TookMs)
	case eventDiffered:
		v.note("%s", e.Text)
	case eventCommitted:
		if v.fd < 0 && e.Step >= v.told+plainEvery { // bars show it
			v.told = e.Step
			v.note("step %d: loss %.4f", e.Step, e.Loss)
		}
	case eventFinal:
		v.note("%s done: step %d sha256 %.16s…", r.name, e.Step, e.Hash)
	}
}

// shortNames cuts the UUIDs off.
func shortNames(ids []string) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i], _, _ = strings.Cut(id, ":")
	}
	return out
}

// draw shows where everybody is.
func (v *view) draw(d *demo) {
	if v.fd < 0 {
		return
	}
	picture := v.picture(d)
	v.wipe()
	fmt.Fprint(v.w, strings.Join(picture, "\n")+"\n")
	v.drawn = len(picture)
}

// wipe takes the picture off the screen: cursor up, erase to the end.
func (v *view) wipe() {
	if v.drawn > 0 {
		fmt.Fprintf(v.w, "\x1b[%dA\x1b[J", v.drawn)
		v.drawn = 0
	}
}

func (v *view) picture(d *demo) []string {
	l := d.ledger
	lines := []string{
		fmt.Sprintf("step %d of %d   kills %d   heals %d   discarded %d   http://%s/",
			l.steps(), d.cfg.Steps, len(l.outages), l.heals, len(l.discarded), d.address),
		fmt.Sprintf("quorum %d: %s", l.quorum, strings.Join(shortNames(l.members[l.quorum]), " ")),
	}
	for _, r := range d.replicas {
		full := int(min(r.step, d.cfg.Steps) * barCells / d.cfg.Steps)
		bar := strings.Repeat("█", full) + strings.Repeat("░", barCells-full)
		lines = append(lines, fmt.Sprintf("%-11s%s %6d  loss %.4f  %s", r.name, bar, r.step, r.loss, r.phase))
	}
	width := v.width()
	for i, line := range printable.Lines(lines) {
		lines[i] = line
		if cells := []rune(line); len(cells) > width {
			lines[i] = string(cells[:width]) // a line that wraps would not be wiped whole
		}
	}
	return lines
}

// width is that of the terminal.
func (v *view) width() int {
	size, err := unix.IoctlGetWinsize(v.fd, unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 {
		return 80
	}
	return int(size.Col)
}
