package testkit

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

// asProgram makes this test binary a program: its value is what it says.
const asProgram = "SKERRY_TESTKIT_SAYS"

// asAsked makes this test binary say what is asked of it.
const asAsked = "SKERRY_TESTKIT_ASKED"

func TestMain(m *testing.M) {
	if os.Getenv(asAsked) != "" {
		sayWhatIsAsked()
		os.Exit(0)
	}
	if says, ok := os.LookupEnv(asProgram); ok {
		fmt.Println("first")
		if says != "" {
			fmt.Println(says)
			os.Exit(1)
		}
		<-time.After(Patience) // with nothing at all to wait for, the runtime would call it a deadlock
	}
	goleak.VerifyTestMain(m)
}

// failing records the end of a test instead of ending it.
type failing struct {
	testing.TB

	said string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	panic(f)
}

// A wait ends with its condition, and after Patience with the last error.
func TestEventually(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		Eventually(t, "a second has gone by", func() bool { return time.Since(began) >= time.Second })
		for within, wait := range map[time.Duration]func(t testing.TB){
			Patience: func(t testing.TB) {
				EventuallyNil(t, "pigs fly", func() error { return errors.New("they walk") })
			},
			time.Minute: func(t testing.TB) {
				EventuallyWithin(t, time.Minute, "pigs fly", func() bool { return false })
			},
		} {
			f := &failing{TB: t}
			began = time.Now()
			func() {
				defer func() {
					if got := recover(); got != any(f) {
						t.Errorf("it ended with %v", got)
					}
				}()
				wait(f)
			}()
			if want := fmt.Sprintf("not within %v: pigs fly: ", within); !strings.HasPrefix(f.said, want) || time.Since(began) != within {
				t.Errorf("%q after %v, want %q, and why not, after %v", f.said, time.Since(began), want, within)
			}
			if within == Patience && !strings.HasSuffix(f.said, "they walk") {
				t.Errorf("%q, want the last error", f.said)
			}
		}
	})
}

// A reader that waits for more is woken by the next write.
func TestLog(t *testing.T) {
	var l Log
	text, more := l.Said()
	if text != "" {
		t.Errorf("an empty log has %q", text)
	}
	go fmt.Fprint(&l, "one") //nolint:errcheck // it returns none
	<-more
	fmt.Fprint(&l, " two")
	if l.String() != "one two" || l.Len() != len("one two") {
		t.Errorf("%q of %d bytes, want %q", l.String(), l.Len(), "one two")
	}
}

// What a program writes, how it ends, and that it can be ended.
func TestProgram(t *testing.T) {
	p := Start(t, "brief", []string{asProgram + "=it is over"}, os.Args[0])
	p.EndsIn("it is over")
	if at := p.Says("first", 0); at != len("first") {
		t.Errorf("its first word ends at %d, want %d", at, len("first"))
	}
	p = Start(t, "long", []string{asProgram + "="}, os.Args[0])
	p.Says("first", 0)
	p.Signal(syscall.SIGTERM)
	if status := p.Exits(); status != -1 {
		t.Errorf("status %d after SIGTERM, want -1", status)
	}
}

// A program that is spoken to answers, logs beside it, and ends with its input.
func TestTalk(t *testing.T) {
	p, in, out := Talk(t, "echo", []string{asProgram + "=begun"}, "sh", "-c", "echo $"+asProgram+" >&2; cat")
	p.Says("begun", 0)
	lines := bufio.NewReader(out)
	for _, want := range []string{"one\n", "two\n"} {
		if _, err := io.WriteString(in, want); err != nil {
			t.Fatal(err)
		}
		if got, err := lines.ReadString('\n'); got != want || err != nil {
			t.Errorf("answer %q, %v, want %q", got, err, want)
		}
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(lines); len(rest) > 0 || err != nil {
		t.Errorf("%q, %v behind its last answer, want the end", rest, err)
	}
	if err := p.Err(); err != nil || strings.Contains(p.String(), "one") {
		t.Errorf("it ended with %v, and logged %q, want standard error alone", err, p)
	}
}

// A command is started as it is: with a file that is passed to it.
func TestStartCmd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "passed")
	if err := os.WriteFile(file, []byte("on\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	passed, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer passed.Close() //nolint:errcheck // read only
	cmd := exec.Command("sh", "-c", "cat <&3; echo beside >&2")
	cmd.ExtraFiles = []*os.File{passed}
	p := StartCmd(t, "echo", cmd)
	if status := p.Exits(); status != 0 || p.String() != "on\nbeside\n" {
		t.Errorf("status %d, %q, want 0 and both outputs", status, p)
	}
}

// A command is built once for the same flags, and gone when all is over.
func TestBuilds(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a program")
	}
	var b Builds
	if err := b.Remove(); err != nil {
		t.Errorf("remove nothing: %v", err)
	}
	const small = "internal/wire/gen"
	first := b.Path(t, small)
	stripped := b.Path(t, small, "-ldflags=-s -w")
	was, err := os.Stat(first)
	if err != nil {
		t.Fatal(err)
	}
	if again := b.Path(t, small); again != first || stripped == first {
		t.Errorf("built as %s, then %s, and with flags %s, want the flags to tell", first, again, stripped)
	}
	if is, err := os.Stat(first); err != nil || !is.ModTime().Equal(was.ModTime()) {
		t.Errorf("%v, built again at %v, want once", err, is.ModTime())
	}
	if err := b.Remove(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{first, stripped} {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s after all is over: %v", path, err)
		}
	}
}

// A flag of this package's tests.
var _ = flag.Int("testkit.own", 0, "asks for all, as each flag of a package's own does")

// All is asked for by the environment, by a name after -run, and by a flag of the package's own.
func TestAll(t *testing.T) {
	for _, c := range []struct {
		env  string
		args []string
		all  bool
	}{
		{"", nil, false},
		{"some", []string{"-test.count=1"}, false},
		{"", []string{"-test.run="}, false},
		{"all", nil, true},
		{"", []string{"-test.run=TestSaysWhatItDoes"}, true},
		{"", []string{"-testkit.own=3"}, true},
	} {
		t.Run(fmt.Sprint(c.env, c.args), func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], c.args...)
			cmd.Env = append(os.Environ(), envAll+"="+c.env, asAsked+"=1")
			out, err := cmd.CombinedOutput()
			want := "2 of 3, long true\n"
			if c.all {
				want = "3 of 3, long false\n"
			}
			if err != nil || string(out) != want {
				t.Errorf("it says %q (%v), want %q", out, err, want)
			}
		})
	}
	if got := Some([]int{1, 2, 3}, 4); len(got) != 3 {
		t.Errorf("%d rows of 3", len(got))
	}
}

// sayWhatIsAsked prints what this process makes of its flags and environment.
func sayWhatIsAsked() {
	flag.Parse()
	s := &skipped{}
	Long(s)
	fmt.Printf("%d of 3, long %t\n", len(Some([]int{1, 2, 3}, 2)), s.is)
}

// skipped notes that it was skipped.
type skipped struct {
	testing.TB

	is bool
}

func (s *skipped) Helper() {}

func (s *skipped) Skip(...any) { s.is = true }
