package runcmd

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/internal/testkit"
)

// screen is a terminal of a test's own, with all that was written to it.
type screen struct {
	master, slave *os.File

	mu   sync.Mutex
	text bytes.Buffer
}

func newScreen(t *testing.T) *screen {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminal can be had: ", err)
	}
	t.Cleanup(func() { _ = master.Close() }) // nothing is lost
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: 120})
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminal can be had: ", err)
	}
	return &screen{master: master, slave: slave}
}

// read takes what is written, until no process has the terminal open any more.
func (s *screen) read() {
	buf := make([]byte, 4096)
	for {
		n, err := s.master.Read(buf)
		s.mu.Lock()
		s.text.Write(buf[:n])
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// On a terminal the job is drawn, with what the launcher tells below; when it is over the screen is
// as it was, and has what was told, and how it ended.
func TestView(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	cmd := exec.Command(os.Args[0], "run", "--job", "looked-at", "--log-dir", t.TempDir(), "--view", "--", "sh", "-c",
		`trap 'exit 0' TERM; while :; do sleep 0.02; done`)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.slave, s.slave, s.slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := s.slave.Close(); err != nil {
		t.Fatal(err)
	}
	var reader sync.WaitGroup
	reader.Go(s.read)
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended, if all is well
		_ = cmd.Wait()
		reader.Wait()
		if t.Failed() {
			t.Logf("the screen:\n%q", s)
		}
	})
	const leave = "\x1b[?1049l"
	testkit.Eventually(t, "the lighthouse and the launcher's lines are drawn", func() bool {
		drawn := s.String()
		return strings.Contains(drawn, "lighthouse 127.0.0.1:") && strings.Contains(drawn, "replica started") && strings.Contains(drawn, "Ctrl-C drains the job")
	})
	if strings.Contains(s.String(), leave) {
		t.Errorf("the picture is gone before the job is over:\n%q", s)
	}
	if _, err := io.WriteString(s.master, "\x03"); err != nil { // Ctrl-C
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	reader.Wait()
	_, after, left := strings.Cut(s.String(), leave)
	if !left || !strings.Contains(after, "replica started") || !strings.Contains(after, "job looked-at: replicas: 1 done") {
		t.Errorf("behind the picture:\n%q", after)
	}
}

// What is held back is bounded, shown newest last, and written once.
func TestBelow(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	b := &below{to: &out}
	fmt.Fprintln(b, "at once")
	b.hold(true)
	for i := range keptLines + 3 {
		fmt.Fprintf(b, "line %d\n", i)
	}
	if last := b.last(); len(last) != viewLines || last[viewLines-1] != fmt.Sprintf("line %d", keptLines+2) {
		t.Errorf("shown: %q", last)
	}
	b.release()
	fmt.Fprintln(b, "at once again")
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != keptLines+3 || lines[0] != "at once" || lines[1] != "… and 3 lines before" || lines[2] != "line 3" || lines[len(lines)-1] != "at once again" {
		t.Errorf("%d lines: %q … %q", len(lines), lines[:3], lines[len(lines)-2:])
	}
}

// A picture wants a terminal that it has for itself.
func TestViewIsRefused(t *testing.T) {
	t.Parallel()
	for want, flags := range map[string][]string{
		"--log-dir DIR":      {"--view"},
		"no --tee":           {"--view", "--tee", "--log-dir", t.TempDir()},
		"wants a terminal":   {"--view", "--log-dir", t.TempDir()},
		"skerry status --wa": {"--view", "--log-dir", t.TempDir()},
	} {
		p := begin(t, append(flags, "--", "true")...)
		if status := p.Exits(); status != 2 || !strings.Contains(p.String(), want) {
			t.Errorf("%v: status %d, want 2 and %q:\n%s", flags, status, want, p)
		}
	}
}
