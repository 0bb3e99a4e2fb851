package docs

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/creack/pty"

	"github.com/skerry-ft/skerry/internal/portlease"
	"github.com/skerry-ft/skerry/internal/testkit"
)

// writeReadme has TestStoryOfFiveKills run the demo at its full length, and write what it sees into
// README.md.
var writeReadme = flag.Bool("docs.readme", false, "write the story of five kills into README.md")

// What a demo says of the replica that it kills, and of one that is back.
var (
	killed = regexp.MustCompile(`SIGKILL to (replica-\d+) `)
	death  = regexp.MustCompile(`(?m)^.* died: .*$`)
	told   = regexp.MustCompile(`(replica-\d+) died: (link cut, seen by replica-\d|its connection broke|it fell silent)`)
	cost   = regexp.MustCompile(`(?m)^\d+ changes · training again after \d.* \(median\), .* at most · \d.* lost · \d+ steps? done anew$`)
	victim = regexp.MustCompile(`replica-\d+`)
	took   = regexp.MustCompile(`^(\d+(\.\d+)? m?s|-)$`)
)

// TestStoryOfFiveKills: what the lighthouse tells of a run with five kills is what the demo did:
// each death has its culprit, its cause and its cost, in the order of the kills. README shows
// such a run, and shows it as it looks today.
func TestStoryOfFiveKills(t *testing.T) {
	testkit.Long(t)
	if testing.Short() {
		t.Skip("it trains through five kills")
	}
	t.Parallel()
	r := runDemo(t, *writeReadme)
	deaths := death.FindAllString(r.history, -1)
	if len(deaths) < 5 || len(deaths) > len(r.victims) {
		t.Fatalf("%d deaths, want those of %q:\n%s", len(deaths), r.victims, r.history)
	}
	for i, d := range deaths {
		m := told.FindStringSubmatch(d)
		if m == nil || m[1] != r.victims[i] {
			t.Errorf("death %d is %q, want that of %s, and its cause", i+1, d, r.victims[i])
		}
		columns := regexp.MustCompile(`\s{2,}`).Split(d, -1) // TIME JOB QUORUM MEMBERS KNOWN FORMED RESUMED LOST WHAT
		if len(columns) != 9 || columns[3] != "4→3" || slices.ContainsFunc(columns[4:8], func(c string) bool { return !took.MatchString(c) }) || columns[5] == "-" || columns[6] == "-" {
			t.Errorf("death %d is %q: want 4→3, and when it was known, a quorum was formed and training resumed", i+1, d)
		}
	}
	if !cost.MatchString(r.history) {
		t.Errorf("history ends without what it all cost:\n%s", r.history)
	}
	last := r.victims[4]
	if !regexp.MustCompile(last + ` died: .* · 3 members again after \d`).MatchString(r.why) {
		t.Errorf("why does not tell of %s's death:\n%s", last, r.why)
	}
	if !regexp.MustCompile(`replica ` + last + `:\w+ of job default is lost: .*replica-\d`).MatchString(r.whyDead) {
		t.Errorf("why %s does not say by what its last incarnation was lost:\n%s", last, r.whyDead)
	}
	for _, want := range []string{"job default  ", " · goodput ", "  members 4 ", last + ":", "  lost  "} {
		if !strings.Contains(r.frame, want) {
			t.Errorf("status --watch does not show %q:\n%s", want, r.frame)
		}
	}
	parts := map[string]string{"history": r.history, "why": r.why, "why-dead": r.whyDead, "watch": r.frame, "end": r.end}
	if *writeReadme {
		rewrite(t, parts, last, r.address)
		return
	}
	page := readReadme(t)
	for name, text := range parts {
		from, to := marks(t, page, name)
		if problem := compare(strings.Split(page[from:to], "\n"), text, true); problem != "" && name != "end" {
			t.Errorf("README's %s has the heading %q, which there is no more: make readme\n%s", name, problem, text)
		}
	}
}

// demoRun is what a demo's run looked like from outside.
type demoRun struct {
	address                    string   // of its lighthouse
	victims                    []string // in the order of their deaths
	history, why, whyDead, end string
	frame                      string // the last of status --watch
}

// runDemo runs a demo until its fifth victim is back, and looks at it by the commands of an operator. At
// its full length it is what README tells readers to type, and is let end.
func runDemo(t *testing.T, full bool) (r demoRun) {
	t.Helper()
	skerry := builds.Path(t, "cmd/skerry")
	address := portlease.ForTest(t, 1)[0]
	r.address = address
	env := []string{"SKERRY_LIGHTHOUSE=" + address, "NO_COLOR=1", "TERM=xterm"}
	args := []string{skerry, "demo", "--seed", "4", "--stay", "--listen", address}
	if !full {
		args = append(args, "--step-time", "15ms", "--steps", "100000")
	}
	demo := testkit.Start(t, "demo", env, args...)
	at := demo.Says("lighthouse ready", 0)
	w := watch(t, skerry, env)
	for range 5 {
		at = demo.Says("SIGKILL to ", at)
		at = demo.Says(" healed to step ", at)
	}
	demo.Says(": loss ", at) // all train again
	testkit.Eventually(t, "status --watch shows that all train again", func() bool { return strings.Contains(w.frame(), "4 of 4 members take part") })
	ask := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), skerry, args...)
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("skerry %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	r.frame = w.frame()
	r.history, r.why, r.whyDead = ask("history"), ask("why"), ask("why", victims(demo.String())[4])
	r.victims = victims(demo.String()) // a sixth may be among them
	w.quit()
	if full {
		at := demo.Says("\nparity: ", 0)
		text := demo.String()[:demo.Says("\n", at)]
		r.end = text[strings.LastIndex(text, "\n\n")+2:]
	}
	return r
}

// victims are the replicas that a demo has killed, in order.
func victims(said string) (names []string) {
	for _, m := range killed.FindAllStringSubmatch(said, -1) {
		names = append(names, m[1])
	}
	return names
}

// watcher is skerry status --watch, on a terminal of its own.
type watcher struct {
	testkit.Log
	t        *testing.T
	cmd      *exec.Cmd
	terminal *os.File
	reads    sync.WaitGroup
}

// watch starts one. It is ended by quit, or with the test.
func watch(t *testing.T, skerry string, env []string) *watcher {
	t.Helper()
	w := &watcher{t: t, cmd: exec.CommandContext(t.Context(), skerry, "status", "--watch")}
	w.cmd.Env = append(os.Environ(), env...)
	var err error
	if w.terminal, err = pty.StartWithSize(w.cmd, &pty.Winsize{Rows: 24, Cols: 130}); err != nil {
		t.Fatal(err)
	}
	w.reads.Go(func() { _, _ = io.Copy(&w.Log, w.terminal) }) // Linux says EIO when the last process is gone
	t.Cleanup(func() {
		_ = w.cmd.Process.Kill() // it may have ended
		_ = w.cmd.Wait()
		w.reads.Wait()
		if err := w.terminal.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("status --watch showed\n%s", w.frame())
		}
	})
	return w
}

// frame is the last picture that is whole.
func (w *watcher) frame() string {
	text := w.String()
	text = text[:strings.LastIndex(text, "\x1b[J")+1]
	text = text[strings.LastIndex(text, "\x1b[H")+len("\x1b[H"):]
	var lines []string
	for l := range strings.SplitSeq(strings.TrimSuffix(text, "\x1b"), "\n") {
		lines = append(lines, strings.TrimRight(strings.NewReplacer("\x1b[K", "", "\r", "").Replace(l), " "))
	}
	return strings.Join(lines, "\n") + "\n"
}

// quit presses q, upon which it must end in good order.
func (w *watcher) quit() {
	w.t.Helper()
	if _, err := w.terminal.WriteString("q"); err != nil {
		w.t.Error(err)
	}
	if err := w.cmd.Wait(); err != nil {
		w.t.Errorf("status --watch: %v", err)
	}
}

const readmePage = root + "/README.md"

// marks finds where in README's text the block of a name is: its fence, what it shows, the end.
func marks(t *testing.T, page, name string) (from, to int) {
	t.Helper()
	mark := fmt.Sprintf("<!-- made by make readme: %s -->\n", name)
	from = strings.Index(page, mark)
	to = strings.Index(page[max(from, 0):], "<!-- end -->")
	if from < 0 || to < 0 {
		t.Fatalf("README.md has no marks of %q", name)
	}
	return from + len(mark), from + to
}

func readReadme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(readmePage))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// rewrite puts what a demo showed between README's marks. last is the replica that died last; the
// lighthouse's address is told as the one that readers have.
func rewrite(t *testing.T, parts map[string]string, last, address string) {
	t.Helper()
	page := readReadme(t)
	for name, part := range parts {
		from, to := marks(t, page, name)
		lines := strings.SplitAfter(page[from:to], "\n")
		kept := lines[0] // the fence
		if command := lines[1]; strings.HasPrefix(command, "$ ") {
			kept += victim.ReplaceAllString(command, last)
		}
		page = page[:from] + kept + strings.ReplaceAll(strings.Trim(part, "\n"), address, "127.0.0.1:29510") + "\n```\n" + page[to:]
	}
	if err := os.WriteFile(filepath.FromSlash(readmePage), []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
}
