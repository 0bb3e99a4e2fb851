package demo

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// fakeScreen is what a view writes to: as much of one as a view needs.
type fakeScreen struct {
	columns, rows int
	screen        [][]rune // as far as it has scrolled, too
	x, y          int
}

var escape = regexp.MustCompile(`^\x1b\[(\d*)([AJ])`)

func (v *fakeScreen) Write(p []byte) (int, error) {
	for text := string(p); text != ""; {
		if m := escape.FindStringSubmatch(text); m != nil {
			n, _ := strconv.Atoi(m[1])
			if m[2] == "A" {
				v.y = max(v.y-n, v.top())
			} else {
				v.screen = v.screen[:v.y+1]
				v.screen[v.y] = v.screen[v.y][:min(v.x, len(v.screen[v.y]))]
			}
			text = text[len(m[0]):]
			continue
		}
		r := []rune(text)[0]
		text = text[len(string(r)):]
		v.put(r)
	}
	return len(p), nil
}

// top is the first row of the screen: what is above has scrolled off.
func (v *fakeScreen) top() int { return max(len(v.screen)-v.rows, 0) }

func (v *fakeScreen) put(r rune) {
	switch {
	case r == '\r':
		v.x = 0
		return
	case r == '\n', v.x == v.columns:
		v.x, v.y = 0, v.y+1
	}
	for len(v.screen) <= v.y {
		v.screen = append(v.screen, nil)
	}
	if r == '\n' {
		return
	}
	line := v.screen[v.y]
	for len(line) <= v.x {
		line = append(line, ' ')
	}
	line[v.x] = r
	v.screen[v.y] = line
	v.x++
}

func (v *fakeScreen) lines() (out []string) {
	for _, line := range v.screen {
		out = append(out, string(line))
	}
	return out
}

// TestPictureIsWhole: on screens that are too small, with bytes that are typed, and with lines above that stay, there is one
// picture, and whole.
func TestPictureIsWhole(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ columns, rows, replicas int }{{80, 24, 4}, {80, 24, 30}, {40, 12, 30}, {10, 2, 3}} {
		t.Run(fmt.Sprintf("%d replicas on %dx%d", c.replicas, c.columns, c.rows), func(t *testing.T) {
			t.Parallel()
			screen := &fakeScreen{columns: c.columns, rows: c.rows, screen: make([][]rune, 1)}
			v := newView(screen)
			v.size = func() (int, int) { return c.columns, c.rows }
			d := newDemo(config{Replicas: c.replicas, Steps: 100}, v)
			d.ledger.members[1] = []string{"replica-10:u", "replica-2:u"}
			d.ledger.quorum = 1
			for n := range 5 {
				d.replicas[0].step = int64(n)
				v.draw(d)
				for _, r := range "xy"[:n%3] { // typed, and shown by the terminal
					screen.put(r)
				}
			}
			v.note("a line that stays")
			v.draw(d)
			want := clip(v.picture(d), c.columns, c.rows)
			got := screen.lines()
			i := slices.Index(got, "a line tha"+"t stays"[:min(7, c.columns-10)])
			if i < 0 {
				t.Fatalf("screen %q, without the line that stays", got)
			}
			after := got[len(got)-1-len(want) : len(got)-1]
			if !slices.Equal(after, want) || got[len(got)-1] != "" {
				t.Errorf("screen ends in %q, want %q", after, want)
			}
			if n := strings.Count(strings.Join(got, "\n"), "step 0 of"); c.columns > 20 && n != 1 {
				t.Errorf("%d pictures on %q", n, got)
			}
			if len(want) > c.rows-1 || c.replicas == 30 && !strings.HasPrefix(want[len(want)-1], "… and ") {
				t.Errorf("picture %q is too high for %d rows", want, c.rows)
			}
		})
	}
}

// TestNarrowerTerminal: a picture whose lines wrap, as the terminal is narrower than when it was drawn, is taken off
// whole.
func TestNarrowerTerminal(t *testing.T) {
	t.Parallel()
	columns := 60
	var out strings.Builder
	v := newView(&out)
	v.size = func() (int, int) { return columns, 24 }
	d := newDemo(config{Replicas: 2, Steps: 100}, v)
	v.draw(d)
	columns = 20
	out.Reset()
	v.wipe()
	rows := 0
	for _, line := range clip(v.picture(d), 60, 24) {
		rows += (len([]rune(line)) + columns - 1) / columns
	}
	if want := fmt.Sprintf("\r\x1b[%dA\x1b[J", rows); out.String() != want {
		t.Errorf("wiped by %q, want %q", out.String(), want)
	}
}

func TestNamesSortNaturally(t *testing.T) {
	t.Parallel()
	if got := shortNames([]string{"replica-10:u", "replica-1:u", "replica-2:u"}); fmt.Sprint(got) != "[replica-1 replica-2 replica-10]" {
		t.Errorf("%q", got)
	}
}
