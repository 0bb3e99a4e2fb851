package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/internal/portlease"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

// asProgram in the environment makes this test binary the program itself.
const asProgram = "TRAINER_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

// patience bounds waits that end long before if all is well.
const patience = 30 * time.Second

// trainer is the program in a process of its own.
type trainer struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  *output
	ends chan error // capacity 1
}

// output collects what a program prints, and says when there is more.
type output struct {
	mu sync.Mutex

	text    bytes.Buffer
	changed chan struct{}
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.changed)
	o.changed = make(chan struct{})
	return o.text.Write(p)
}

func (o *output) read() (string, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String(), o.changed
}

// start runs a trainer. It is killed when the test ends.
func start(t *testing.T, args ...string) *trainer {
	t.Helper()
	tr := &trainer{
		t: t, cmd: exec.Command(os.Args[0], args...),
		out: &output{changed: make(chan struct{})}, ends: make(chan error, 1),
	}
	tr.cmd.Env = append(os.Environ(), asProgram+"=1")
	tr.cmd.Stdout, tr.cmd.Stderr = tr.out, tr.out
	if err := tr.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		tr.ends <- tr.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = tr.cmd.Process.Kill() // it has ended, if the test passed
		<-waited
	})
	return tr
}

// says waits until the trainer has printed text.
func (tr *trainer) says(text string) {
	tr.t.Helper()
	over := time.After(patience)
	for {
		got, changed := tr.out.read()
		if strings.Contains(got, text) {
			return
		}
		select {
		case <-changed:
		case <-over:
			tr.t.Fatalf("did not print %q within %v, but:\n%s", text, patience, got)
		}
	}
}

// exits waits for the end and returns the status and what was printed.
func (tr *trainer) exits() (int, string) {
	tr.t.Helper()
	select {
	case err := <-tr.ends:
		text, _ := tr.out.read()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return exit.ExitCode(), text
		} else if err != nil {
			tr.t.Fatal(err)
		}
		return 0, text
	case <-time.After(patience):
		text, _ := tr.out.read()
		tr.t.Fatalf("no end within %v:\n%s", patience, text)
		return 0, ""
	}
}

func (tr *trainer) signal(s syscall.Signal) {
	tr.t.Helper()
	if err := tr.cmd.Process.Signal(s); err != nil {
		tr.t.Fatal(err)
	}
}

func TestBadFlags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ flags, want string }{
		{"-index=2", "-index = 2, want 0 to 1 with -replicas 2"},
		{"-index=-1", "-index = -1, want 0 to 1"},
		{"-replicas=0", "-replicas = 0, want 1 or more"},
		{"-steps=0", "-steps = 0, want 1 or more"},
		{"-steps=many", `invalid value "many" for flag -steps`},
		{"-step-time=-1s", "-step-time = -1s, want 0 or more"},
		{"-step-timeout=0", "-step-timeout = 0s, want more than 0"},
		{"-linger=-1s", "-linger = -1s, want 0 or more"},
		{"-lighthouse=here", `Lighthouse = "here", want host:port`},
		{"-nonsense", "flag provided but not defined: -nonsense"},
		{"extra", `unexpected argument "extra"`},
	} {
		var stdout, stderr bytes.Buffer
		status := run(nil, []string{c.flags}, &stdout, &stderr)
		if text := stderr.String(); status != 1 || stdout.Len() > 0 || strings.Count(text, "\n") != 1 || !strings.Contains(text, c.want) {
			t.Errorf("trainer %s: status %d, %q %q, want one line with %q", c.flags, status, &stdout, text, c.want)
		}
	}
	var help, stderr bytes.Buffer
	if status := run(nil, []string{"-help"}, &help, &stderr); status != 0 || !strings.Contains(help.String(), "-linger") || stderr.Len() > 0 {
		t.Errorf("-help: status %d, %q %q", status, &help, &stderr)
	}
}

// Nobody listens: the trainer tries for its time, and says what to do.
func TestLighthouseUnreachable(t *testing.T) {
	t.Parallel()
	addr := portlease.ForTest(t, 1)[0]
	var stdout, stderr bytes.Buffer
	status := run(nil, []string{"-lighthouse", addr, "-step-timeout=1s"}, &stdout, &stderr)
	text := stderr.String()
	if status != 1 || strings.Count(text, "\n") != 1 || !strings.Contains(text, "lighthouse unreachable: tried "+addr) {
		t.Errorf("status %d, %q, want one line", status, text)
	}
	if !strings.Contains(stdout.String(), "looks for the lighthouse at "+addr) {
		t.Errorf("said %q meanwhile", &stdout)
	}
}

// Two trainers by one index: the second one is told, and the first goes on as
// if nothing had been.
func TestIndexTaken(t *testing.T) {
	t.Parallel()
	house := lighthousetest.Start(t, nil)
	flags := []string{"-lighthouse", house.Addr, "-replicas=1", "-steps=150", "-step-time=20ms", "-linger=0"}
	first := start(t, flags...)
	first.says("step 50: ")
	status, text := start(t, flags...).exits()
	if status != 1 || !strings.Contains(text, "\ntrainer: ") || !strings.Contains(text, "name in use") {
		t.Errorf("the second one: status %d\n%s", status, text)
	}
	status, text = first.exits()
	if status != 0 || !strings.Contains(text, "step 150: test accuracy") || strings.Contains(text, "discarded") {
		t.Errorf("the first one: status %d\n%s", status, text)
	}
}

// SIGTERM drains: nobody loses a step by it, and the status is 0. Ctrl-C does
// the same, to the last one too.
func TestSignalsDrain(t *testing.T) {
	t.Parallel()
	house := lighthousetest.Start(t, nil)
	var all []*trainer
	for i := range 3 {
		all = append(all, start(t, "-lighthouse", house.Addr, "-replicas=3", fmt.Sprint("-index=", i), "-steps=100000", "-step-time=20ms"))
	}
	for _, tr := range all {
		tr.says("step 50: ")
	}
	all[0].signal(syscall.SIGTERM)
	status, text := all[0].exits()
	if status != 0 || !strings.Contains(text, "draining: ") || strings.Contains(text, "discarded") {
		t.Errorf("the drained one: status %d\n%s", status, text)
	}
	for _, tr := range all[1:] {
		tr.says("2 of 2 members take part")
		if text, _ := tr.out.read(); strings.Contains(text, "discarded") {
			t.Errorf("another one lost a step by the drain:\n%s", text)
		}
		tr.signal(syscall.SIGINT)
	}
	for _, tr := range all[1:] {
		if status, text := tr.exits(); status != 0 {
			t.Errorf("after Ctrl-C: status %d\n%s", status, text)
		}
	}
}

// A second signal ends a trainer that waits for others to take over.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	house := lighthousetest.Start(t, nil)
	tr := start(t, "-lighthouse", house.Addr, "-replicas=1", "-steps=100000", "-step-time=20ms")
	tr.says("step 50: ")
	tr.signal(syscall.SIGINT)
	tr.says("draining: ")
	tr.signal(syscall.SIGINT)
	if status, text := tr.exits(); status != 1 || !strings.Contains(text, "trainer: ended before others could take over") {
		t.Errorf("status %d\n%s", status, text)
	}
}
