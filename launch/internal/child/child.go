// Package child runs one rank: a process in a session of its own, so that a terminal's
// hang-up and Ctrl-C do not reach it, and which the kernel kills when this process dies.
//
// Each Process has three goroutines: one, on a thread of its own, until the process is
// reaped, and one for each of its outputs. Drain waits for all of them, within a limit.
package child

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/internal/deathsig"
	"github.com/skerry-ft/skerry/launch/internal/output"
)

// Spec is what is run.
type Spec struct {
	Command []string // its program, and arguments
	Env     []string // all of it
	Dir     string   // empty: this process's
	// Stdout and Stderr are called for each line, one at a time each, and may not keep it.
	Stdout, Stderr func(line []byte)
}

// unknown is the code of a process whose exit status is not known.
const unknown = -1

// Status is how a process ended.
type Status struct {
	Code   int            // its exit status, -1 after a signal
	Signal syscall.Signal // 0: none
}

// OK says that it ended well.
func (s Status) OK() bool { return s.Code == 0 }

// Shell is the status as shells give it.
func (s Status) Shell() int {
	switch {
	case s.Signal != 0:
		return 128 + int(s.Signal)
	case s.Code == unknown:
		return 1
	}
	return s.Code
}

// String implements fmt.Stringer.
func (s Status) String() string {
	switch {
	case s.Signal != 0:
		return "killed by " + unix.SignalName(s.Signal)
	case s.Code == unknown:
		return "an end of which nothing is known"
	}
	return fmt.Sprintf("exit status %d", s.Code)
}

// Process is a process that was started. It is safe for concurrent use.
type Process struct {
	cmd    *exec.Cmd
	outs   [2]*os.File // the reading ends
	pumps  sync.WaitGroup
	waiter sync.WaitGroup
	exited chan struct{}
	status Status // once exited is closed
}

// Start starts a process. The caller sees to its end, and calls Drain then.
func Start(s Spec) (*Process, error) {
	p := &Process{cmd: exec.Command(s.Command[0], s.Command[1:]...), exited: make(chan struct{})}
	p.cmd.Env, p.cmd.Dir = s.Env, s.Dir
	p.cmd.SysProcAttr = deathsig.Attr()
	p.cmd.SysProcAttr.Setsid = true
	var theirs [2]*os.File
	for i := range theirs {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(p.outs, theirs)
			return nil, fmt.Errorf("pipe for the output: %w", err)
		}
		p.outs[i], theirs[i] = r, w
	}
	p.cmd.Stdout, p.cmd.Stderr = theirs[0], theirs[1]
	started := make(chan error, 1)
	// The parent death signal is tied to the thread that forked, so this goroutine keeps its
	// thread until the child has been reaped.
	p.waiter.Go(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		p.run(started)
	})
	err := <-started
	closeAll(theirs)
	if err != nil {
		closeAll(p.outs)
		p.waiter.Wait()
		return nil, err
	}
	for i, emit := range []func([]byte){s.Stdout, s.Stderr} {
		p.pumps.Go(func() { output.Split(p.outs[i], emit) })
	}
	return p, nil
}

func closeAll(pairs ...[2]*os.File) {
	for _, pair := range pairs {
		for _, f := range pair {
			if f != nil {
				_ = f.Close() // nothing was written to it by us
			}
		}
	}
}

// run starts the process, and reaps it.
func (p *Process) run(started chan<- error) {
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	_ = p.cmd.Wait() // the state says how it ended
	p.status = statusOf(p.cmd.ProcessState)
	close(p.exited)
}

// statusOf is how a process ended. There is no state where something else in this process has
// waited for it: then how it ended cannot be known, and counts as bad.
func statusOf(state *os.ProcessState) Status {
	if state == nil {
		return Status{Code: unknown}
	}
	s := Status{Code: state.ExitCode()}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		s.Signal = status.Signal()
	}
	return s
}

// PID is the process's id, and that of its session.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited is closed when the process has ended and been reaped.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Status is how it ended, once Exited is closed.
func (p *Process) Status() Status {
	<-p.exited
	return p.status
}

// Signal sends a signal to the process, and to it alone; one that has ended gets none.
func (p *Process) Signal(s os.Signal) { _ = p.cmd.Process.Signal(s) } // that it has ended is all that can be wrong

// Drain waits until the process has ended and all that it wrote was taken. What others that
// hold its output write is waited for no longer than limit; nor, after that, is a Stdout or
// Stderr that does not return: it is left alone, and its goroutine ends when it does return.
func (p *Process) Drain(limit time.Duration) {
	<-p.exited
	p.waiter.Wait()
	pumped := make(chan struct{})
	go func() {
		p.pumps.Wait()
		close(pumped)
	}()
	for range 2 { // of others, and of ours
		timer := time.NewTimer(limit)
		select {
		case <-pumped:
		case <-timer.C:
		}
		timer.Stop()
		closeAll(p.outs) // the pumps read no more
	}
}
