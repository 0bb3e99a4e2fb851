package demo

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/internal/terminal"
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
	size     func() (columns, rows int) // of the terminal; nil: it is none
	drawn    []int                      // the picture on the screen: each line's length
	quorums  map[int64]bool
	discards map[[2]int64]bool
	told     int64 // steps
}

func newView(w io.Writer) *view {
	v := &view{w: w, quorums: make(map[int64]bool), discards: make(map[[2]int64]bool)}
	if f, ok := w.(*os.File); ok && cli.IsTerminal(f) {
		v.size = func() (columns, rows int) { return terminal.Size(f) }
	}
	return v
}

// quiet keeps what is typed from the picture, where there is one, until the function that it returns is
// called. Ctrl-C works as ever.
func (v *view) quiet() func() {
	if v.size == nil {
		return func() {}
	}
	return terminal.Quiet(os.Stdin)
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
		if v.size == nil && e.Step >= v.told+plainEvery { // bars show it
			v.told = e.Step
			v.note("step %d: loss %.4f", e.Step, e.Loss)
		}
	case eventFinal:
		v.note("%s done: step %d sha256 %.16s…", r.name, e.Step, e.Hash)
	}
}

// shortNames cuts the UUIDs off, and has replica-2 before replica-10.
func shortNames(ids []string) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i], _, _ = strings.Cut(id, ":")
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) })
	return out
}

// draw shows where everybody is.
func (v *view) draw(d *demo) {
	if v.size == nil {
		return
	}
	columns, rows := v.size()
	picture := clip(v.picture(d), columns, rows)
	v.wipe()
	fmt.Fprint(v.w, strings.Join(picture, "\n")+"\n")
	for _, line := range picture {
		v.drawn = append(v.drawn, utf8.RuneCountInString(line))
	}
}

// wipe takes the picture off the screen: to the first column, cursor up, erase to the end. A terminal that has
// become narrower since has lines that go over several rows.
func (v *view) wipe() {
	if len(v.drawn) == 0 {
		return
	}
	columns, _ := v.size()
	up := 0
	for _, length := range v.drawn {
		up += max((length+columns-1)/columns, 1)
	}
	fmt.Fprintf(v.w, "\r\x1b[%dA\x1b[J", up)
	v.drawn = v.drawn[:0]
}

// clip makes a picture fit: lines that wrap, or are above the screen's top, would not be wiped.
func clip(picture []string, columns, rows int) []string {
	if most := max(rows-1, 1); len(picture) > most {
		more := len(picture) - most + 1
		picture = append(picture[:most-1], fmt.Sprintf("… and %d more", more))
	}
	for i, line := range picture {
		if cells := []rune(line); len(cells) > columns {
			picture[i] = string(cells[:columns])
		}
	}
	return picture
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
	return printable.Lines(lines)
}
