package testkit

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Program is a process, with all that it writes. Its methods are called by the test's
// goroutine; each wait ends with what is waited for, with the process, or after
// Patience.
type Program struct {
	Log
	Name string // in what the test says

	t    testing.TB
	cmd  *exec.Cmd
	ends chan struct{} // closed when the process has ended
	err  error         // of Wait, once it has ended
}

// Start runs a program, with env beside this process's own environment. args are its
// path and arguments. It is killed with the test, and its output is logged if the
// test fails.
func Start(t testing.TB, name string, env []string, args ...string) *Program {
	t.Helper()
	return StartCmd(t, name, command(env, args))
}

// Talk is Start for a program that is spoken to: in is its standard input, out its
// standard output, and the log has its standard error alone. Reads of out end when the
// process has ended, or with the test.
func Talk(t testing.TB, name string, env []string, args ...string) (p *Program, in io.WriteCloser, out *os.File) {
	t.Helper()
	cmd := command(env, args)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, said, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Close() }) // the test may have closed it
	cmd.Stdout = said
	p = StartCmd(t, name, cmd)
	if err := said.Close(); err != nil {
		t.Fatal(err)
	}
	return p, in, out
}

func command(env, args []string) *exec.Cmd {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	return cmd
}

// StartCmd is Start for a program that needs more than arguments and environment:
// cmd, not yet started. Of its output the log has what cmd writes nowhere else.
func StartCmd(t testing.TB, name string, cmd *exec.Cmd) *Program {
	t.Helper()
	p := &Program{Name: name, t: t, cmd: cmd, ends: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = &p.Log
	}
	if cmd.Stderr == nil {
		cmd.Stderr = &p.Log
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ends)
		p.err = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended by itself
		<-p.ends
		if t.Failed() {
			t.Logf("%s: %s\n%s", name, strings.Join(cmd.Args, " "), p)
		}
	})
	return p
}

// Path returns the path of what was started.
func (p *Program) Path() string { return p.cmd.Path }

// PID returns the process's id.
func (p *Program) PID() int { return p.cmd.Process.Pid }

// Ended returns a channel that is closed when the process has ended.
func (p *Program) Ended() <-chan struct{} { return p.ends }

// Err returns how the process ended, as exec.Cmd.Wait does. It waits for the end.
func (p *Program) Err() error {
	p.t.Helper()
	select {
	case <-p.ends:
	case <-time.After(Patience):
		p.t.Fatalf("%s did not end within %v", p.Name, Patience)
	}
	return p.err
}

// Says waits until the program has written text behind from, which counts bytes,
// and returns where that ends.
func (p *Program) Says(text string, from int) int {
	p.t.Helper()
	over := time.After(Patience)
	for {
		got, more := p.Said()
		if at := strings.Index(got[from:], text); at >= 0 {
			return from + at + len(text)
		}
		select {
		case <-more:
		case <-p.ends:
			if got := p.String(); !strings.Contains(got[from:], text) {
				p.t.Fatalf("%s ended (%v) and did not write %q:\n%s", p.Name, p.err, text, got[from:])
			}
		case <-over:
			p.t.Fatalf("%s did not write %q within %v", p.Name, text, Patience)
		}
	}
}

// Exits waits for the end of the program and returns its status, -1 for a signal.
func (p *Program) Exits() int {
	p.t.Helper()
	err := p.Err()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	} else if err != nil {
		p.t.Fatal(err)
	}
	return 0
}

// EndsIn checks that the program ends with status 1 and one line, with all of want in it.
func (p *Program) EndsIn(want ...string) {
	p.t.Helper()
	status := p.Exits()
	text := p.String()
	last := text[strings.LastIndexByte(strings.TrimRight(text, "\n"), '\n')+1:]
	if status != 1 {
		p.t.Errorf("%s ended with status %d, want 1:\n%s", p.Name, status, text)
	}
	for _, w := range want {
		if !strings.Contains(last, w) {
			p.t.Errorf("%s ended with %q, want %q in it", p.Name, last, w)
		}
	}
}

// Signal sends s to the process.
func (p *Program) Signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("send %v to %s: %v", s, p.Name, err)
	}
}

// Kill ends the process at once and waits for it.
func (p *Program) Kill() {
	p.t.Helper()
	p.Signal(syscall.SIGKILL)
	<-p.ends
}
