package spawn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/internal/deathsig"
)

// Options say how workers run. The zero value inherits the environment,
// throws standard output away and keeps the last lines of standard error.
type Options struct {
	// Args is handed to every worker; at most MaxArgsBytes.
	Args []byte
	// Env is added to this process's environment, "NAME=value".
	Env []string
	// Stdin, Stdout and Stderr of the worker. Stderr is copied besides being
	// kept for TailStderr. A Stdin that is no *os.File is copied, and the worker
	// counts as running until a Read of it has returned: let it be one that ends.
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// Sys changes how the system starts the worker, as one with a namespace of its own. Nil changes nothing.
	Sys func(*syscall.SysProcAttr)
	// Grace is how long Run lets the others go on after SIGTERM once one has
	// failed, before it kills them; 0 means DefaultGrace.
	Grace time.Duration
	// Files are inherited by the worker as descriptors FirstFileFD and up. They
	// stay the caller's, who may close them once the worker has started.
	Files []*os.File
}

// FirstFileFD is the descriptor of Options.Files[0] in the worker.
const FirstFileFD = pipeFD + 1

// DefaultGrace is how long Run waits between SIGTERM and SIGKILL.
const DefaultGrace = 5 * time.Second

// drainAfterExit bounds how long output is read after a worker has ended: a
// grandchild that inherited the descriptor must not hold it open for ever.
const drainAfterExit = 2 * time.Second

// ExitError tells how a worker ended when it did not end well.
type ExitError struct {
	Name   string
	Rank   int
	PID    int
	Code   int            // exit status, or -1 after a signal
	Signal syscall.Signal // 0 if it exited by itself
	Stderr string         // the last lines
	Err    error          // what the operating system said
}

func (e *ExitError) Error() string {
	how := fmt.Sprintf("exit status %d", e.Code)
	if e.Signal != 0 {
		how = "killed by " + unix.SignalName(e.Signal) // String gives "killed by killed"
	}
	msg := fmt.Sprintf("spawn: %s rank %d (pid %d): %s", e.Name, e.Rank, e.PID, how)
	if e.Stderr != "" {
		msg += ": " + e.Stderr
	}
	return msg
}

// Unwrap gives the operating system's error.
func (e *ExitError) Unwrap() error { return e.Err }

// Process is one worker.
type Process struct {
	cmd  *exec.Cmd
	tail *tail
	done chan struct{}
	err  error // of the ended process; written before done is closed
}

// Start re-executes this binary as a worker that runs the registered function
// name, and returns once it has started. The worker ends when its function
// returns, when it is killed, or with this process.
func Start(w Worker, o Options) (*Process, error) {
	if !registry.initialised.Load() {
		return nil, errors.New("spawn: call spawn.Init() at the top of main or TestMain before starting workers")
	}
	if _, err := lookup(w.Name); err != nil {
		return nil, err
	}
	if w.Args == nil {
		w.Args = o.Args
	}
	if len(w.Args) > MaxArgsBytes {
		return nil, fmt.Errorf("spawn: args have %d bytes, want at most %d", len(w.Args), MaxArgsBytes)
	}
	p := &Process{tail: newTail(), done: make(chan struct{})}
	started := make(chan error, 1)
	// The parent death signal is tied to the thread that forked, so this
	// goroutine keeps its thread until the child has been reaped.
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		p.run(w, o, started)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("spawn: start %s rank %d: %w", w.Name, w.Rank, err)
	}
	return p, nil
}

func (p *Process) run(w Worker, o Options, started chan<- error) {
	ours, err := p.prepare(o)
	if err == nil {
		if err = p.cmd.Start(); err != nil {
			ours.Close()
		}
		p.cmd.ExtraFiles[0].Close()
	}
	if err != nil {
		close(p.done)
		started <- err
		return
	}
	// A worker that dies before it has read its request is reported by Wait.
	var asked sync.WaitGroup
	asked.Go(func() { _ = json.NewEncoder(ours).Encode(w) })
	started <- nil
	p.err = p.exitError(w, p.cmd.Wait())
	ours.Close() // ends the request, should it not have been read
	asked.Wait()
	close(p.done)
}

// prepare builds the command and returns our end of the pipe.
func (p *Process) prepare(o Options) (*os.File, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this binary: %w", err)
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(append(os.Environ(), o.Env...), fmt.Sprintf("%s=%d", envPipe, pipeFD))
	cmd.Stdin, cmd.Stdout = o.Stdin, o.Stdout
	cmd.Stderr = p.tail
	if o.Stderr != nil {
		cmd.Stderr = io.MultiWriter(p.tail, o.Stderr)
	}
	cmd.ExtraFiles = append([]*os.File{theirs}, o.Files...)
	cmd.SysProcAttr = deathsig.Attr()
	if o.Sys != nil {
		o.Sys(cmd.SysProcAttr)
	}
	cmd.WaitDelay = drainAfterExit
	p.cmd = cmd
	return ours, nil
}

func (p *Process) exitError(w Worker, err error) error {
	if err == nil || errors.Is(err, exec.ErrWaitDelay) {
		return nil
	}
	state := p.cmd.ProcessState
	e := &ExitError{Name: w.Name, Rank: w.Rank, PID: p.PID(), Code: state.ExitCode(), Stderr: p.TailStderr(), Err: err}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		e.Signal = status.Signal()
	}
	return e
}

// PID is the worker's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the worker has ended and been reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait blocks until the worker has ended or ctx ends. It returns nil after
// exit status 0, *ExitError after any other end, and context.Cause(ctx) if ctx
// ended first; the worker then goes on.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Signal sends s to the worker; after its end it returns os.ErrProcessDone.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Kill sends SIGKILL and waits until the worker has been reaped.
func (p *Process) Kill() {
	_ = p.Signal(syscall.SIGKILL) // already gone is as good
	<-p.done
}

// TailStderr is the last lines that the worker wrote to standard error.
func (p *Process) TailStderr() string { return strings.TrimSpace(p.tail.String()) }
