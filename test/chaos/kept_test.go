package chaos

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// repeat is the command that makes a random run again: all of this package's flags that
// were given, but for where the report is kept.
func repeat(flags *flag.FlagSet, name string, seed uint64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "go test ./test/chaos -count 1 -timeout 0 -run '%s$' -chaos.seed %d", name, seed)
	flags.Visit(func(f *flag.Flag) {
		if strings.HasPrefix(f.Name, "chaos.") && f.Name != "chaos.seed" && f.Name != "chaos.report" {
			fmt.Fprintf(&b, " -%s=%v", f.Name, f.Value)
		}
	})
	return b.String()
}

// keptIfWrong is a folder that goes with the test, unless it fails.
func keptIfWrong(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", ownPrefix+"report-") //nolint:usetesting // it is kept if the test fails
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the report and all logs are kept in %s", dir)
		} else if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// tailLines is how much of each log is printed.
const tailLines = 60

// logTails is the end of each of a world's logs that says something: of a process that was
// started more than once, of the newest. See launch for their names.
func logTails(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err.Error()
	}
	newest := map[string]int{}
	start := func(name string) (process string, n int) {
		process, number, _ := strings.Cut(name, ".")
		n, _ = strconv.Atoi(number) // the world's own log has none
		return process, n
	}
	for _, e := range entries {
		process, n := start(e.Name())
		newest[process] = max(newest[process], n)
	}
	var b strings.Builder
	for _, e := range entries {
		if process, n := start(e.Name()); n < newest[process] {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if lines := strings.Split(strings.TrimSpace(string(text)), "\n"); err != nil || lines[0] != "" {
			last := strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
			fmt.Fprintf(&b, "--- %s, %d lines, the last are:\n%v\n", e.Name(), len(lines), cmp.Or(last, fmt.Sprint(err)))
		}
	}
	return b.String()
}

func TestLogTails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	many := strings.Repeat("early\n", 10) + strings.Repeat("late\n", tailLines)
	for name, text := range map[string]string{"log": many, "chaos-counter-1.9": "old", "chaos-counter-1.10": "new", "chaos-counter-2.1": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := "--- chaos-counter-1.10, 1 lines, the last are:\nnew\n--- log, 70 lines, the last are:\n" + strings.Repeat("late\n", tailLines)
	if got := logTails(t, dir); got != want {
		t.Errorf("the tails are:\n%s\nwant:\n%s", got, want)
	}
}

func TestRepeat(t *testing.T) {
	t.Parallel()
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	for _, name := range []string{"test.v", "chaos.clocks", "chaos.earlier", "chaos.verbose"} {
		flags.Bool(name, false, "")
	}
	for _, name := range []string{"chaos.seed", "chaos.leg", "chaos.faults"} {
		flags.Int(name, 1, "")
	}
	flags.String("chaos.report", "", "")
	if err := flags.Parse(strings.Fields("-test.v -chaos.report here -chaos.seed 3 -chaos.leg 30 -chaos.earlier -chaos.clocks")); err != nil {
		t.Fatal(err)
	}
	want := "go test ./test/chaos -count 1 -timeout 0 -run 'TestRandom$' -chaos.seed 7 -chaos.clocks=true -chaos.earlier=true -chaos.leg=30"
	if got := repeat(flags, "TestRandom", 7); got != want {
		t.Errorf("the command is %s\nwant           %s", got, want)
	}
}

func TestNextWorld(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what              string
		had, empty        int
		elapsed, duration time.Duration
		want              int
	}{
		{"at the begin", 0, 0, 0, 0, 200},
		{"the rest", 150, 0, time.Hour, 0, 100},
		{"all faults", 250, 0, 0, 0, 0},
		{"a duration, and more than the faults", 900, 0, time.Hour, 8 * time.Hour, 200},
		{"a duration that is over", 10, 0, 8 * time.Hour, 8 * time.Hour, 0},
		{"a duration, and no world comes about", 3, mostEmpty, time.Minute, 8 * time.Hour, 0},
	} {
		r := &record{Faults: c.had, empty: c.empty}
		if got := r.next(c.elapsed, c.duration, 250, 200); got != c.want {
			t.Errorf("%s: %d faults, want %d", c.what, got, c.want)
		}
	}
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		leg  legRecord
		want string
	}{
		{legRecord{}, "parity, replay, counts, history, nothing left: ok"},
		{legRecord{Unchecked: true}, "parity, replay, counts, nothing left: ok; history: not checked to its end"},
		{legRecord{Unchecked: true, Wrong: []string{"x"}}, "WRONG: x"},
	} {
		if got := c.leg.verdict(); got != c.want {
			t.Errorf("the verdict is %q, want %q", got, c.want)
		}
	}
}
