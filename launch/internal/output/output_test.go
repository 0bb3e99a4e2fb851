package output

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// split runs Split over what write writes, and returns the lines.
func split(t *testing.T, write func(w *os.File)) []string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		Split(r, func(line []byte) { lines = append(lines, string(line)) })
	}()
	write(w)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	<-done
	_ = r.Close() // nothing was written to it
	return lines
}

// Lines are whole, however they arrive, and nothing is lost at the end.
func TestSplit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"a\nb\n":                 {"a", "b"},
		"a\n\nb":                 {"a", "", "b"},
		"a\r\nb\r\n":             {"a", "b"},
		"\r 10%\r 20%\r100%\n":   {" 10%", " 20%", "100%"},
		"no end":                 {"no end"},
		"":                       nil,
		"\n":                     {""},
		"x\r\ny\rz\r\n\r\nend\n": {"x", "y", "z", "", "end"},
	} {
		whole := split(t, func(w *os.File) { _, _ = w.WriteString(text) })
		if !slices.Equal(whole, want) {
			t.Errorf("%q: %q, want %q", text, whole, want)
		}
		var s splitter
		var bits []string
		emit := func(line []byte) { bits = append(bits, string(line)) }
		for i := range len(text) {
			s.take([]byte{text[i]}, emit)
		}
		s.flush(emit)
		if !slices.Equal(bits, want) {
			t.Errorf("%q, a byte at a time: %q, want %q", text, bits, want)
		}
	}
}

// A line without an end does not grow for ever, and is not lost.
func TestSplitBoundsLines(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 3*MaxLineBytes+5)
	lines := split(t, func(w *os.File) { _, _ = w.WriteString(text) })
	if len(lines) != 4 || strings.Join(lines, "") != text {
		t.Errorf("%d lines, want 4 with all of it", len(lines))
	}
}

// A question without a line feed is shown while its writer waits for the answer.
func TestSplitShowsTheBeginningOfALine(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	shown, done := make(chan string, 2), make(chan struct{})
	go func() {
		defer close(done)
		Split(r, func(line []byte) { shown <- string(line) })
	}()
	if _, err := w.WriteString("go on? "); err != nil {
		t.Fatal(err)
	}
	if got := <-shown; got != "go on? " { // w is open: only time has passed
		t.Errorf("%q", got)
	}
	_, _ = w.WriteString("yes\n")
	_ = w.Close() // a pipe of ours
	if got := <-shown; got != "yes" {
		t.Errorf("%q, want the rest of the line", got)
	}
	<-done
	_ = r.Close() // nothing was written to it
}

// The last lines are kept, and no more.
func TestTail(t *testing.T) {
	t.Parallel()
	var tail Tail
	for i := range 30 {
		tail.Add(bytes.Repeat([]byte{byte('a' + i%26)}, 2*tailBytes))
	}
	lines := tail.Lines()
	if len(lines) != tailLines || len(lines[0]) != tailBytes || lines[0][0] != 'k' || lines[tailLines-1][0] != 'd' {
		t.Errorf("%d lines, the first %.5s… of %d bytes", len(lines), lines[0], len(lines[0]))
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("closed") }

// Prefixes name the replica, and the rank where there are several.
func TestWriter(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := NewWriter(&b)
	w.Line(Rank{Replica: "replica-0", Rank: 1}.Prefix(false), []byte("hello"))
	w.Line(Rank{Replica: "replica-0", Alone: true}.Prefix(false), nil)
	w.Line(Rank{Replica: "replica-7", Index: 7, Alone: true}.Prefix(true), []byte("x"))
	if lost := w.Close(time.Minute); lost > 0 {
		t.Errorf("%d lines are lost", lost)
	}
	const want = "replica-0:1 | hello\nreplica-0 | \n\x1b[33mreplica-7 |\x1b[0m x\n"
	if b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
	w = NewWriter(broken{})
	w.Line("", []byte("lost")) // and nothing more
	w.Close(time.Minute)
}

// A log has the lines; one that cannot be written says so once, at its end.
func TestFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "job", "replica-0", "rank-0.log")
	f, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	line := []byte("abc")
	f.Line(line[:1])
	f.Line(line)
	if err := f.Close(time.Minute); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "a\nabc\n" {
		t.Errorf("%q, %v", text, err)
	}
	full, err := OpenFile("/dev/full")
	if err != nil {
		t.Skipf("no full disk to be had: %v", err)
	}
	full.Line(line)
	full.Line(line)
	if err := full.Close(time.Minute); err == nil {
		t.Error("a full disk was not told")
	}
}
