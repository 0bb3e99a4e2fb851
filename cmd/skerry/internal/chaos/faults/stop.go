package faults

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/skerry-ft/skerry/internal/procs"
)

// keeperArg is the first argument of a keeper, the second one a duration.
const keeperArg = "chaos-keeper"

// keeperFD is the descriptor of the process, in a keeper.
const keeperFD = 3

// stopped is what a keeper says when the process is.
const stopped = "stopped"

// Keep makes this process a keeper if it was started as one, until its work is done, and
// returns the status with which to exit. It comes first in main.
func Keep() (status int, keeper bool) {
	if len(os.Args) != 3 || os.Args[1] != keeperArg {
		return 0, false
	}
	return keep(os.Args[2], os.Stdin, os.Stdout), true
}

// keep stops a process, and continues it after a while or at the end of in.
func keep(text string, in io.Reader, out io.Writer) int {
	// The terminal's Ctrl-C and hang-up are for others: the keeper ends when all is in order.
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	d, err := time.ParseDuration(text)
	if err != nil {
		fmt.Fprintln(out, err)
		return 1
	}
	h := procs.Inherited(keeperFD)
	if err := h.Signal(syscall.SIGSTOP); err != nil {
		fmt.Fprintln(out, err)
		return 1
	}
	fmt.Fprintln(out, stopped)
	told := make(chan struct{})
	go func() {
		defer close(told)
		_, _ = io.Copy(io.Discard, in) // its end is what matters
	}()
	select {
	case <-told:
	case <-time.After(d):
	}
	if err := h.Signal(syscall.SIGCONT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return 1
	}
	return 0
}

// Stopped is a process that is stopped.
type Stopped struct {
	process *procs.Handle
	keeper  *exec.Cmd
	tell    io.Closer
}

// Stop stops a process for a while. End must be called, and waits for no more than the
// keeper's last signal. The handle stays the caller's until then.
func Stop(h *procs.Handle, d time.Duration) (*Stopped, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this binary: %w", err)
	}
	cmd := exec.Command(self, keeperArg, d.String())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // the terminal's signals miss it
	cmd.ExtraFiles = []*os.File{h.File()}
	tell, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the keeper of process %d: %w", h.PID, err)
	}
	s := &Stopped{process: h, keeper: cmd, tell: tell}
	line, err := bufio.NewReader(out).ReadString('\n')
	if said := strings.TrimSpace(line); said != stopped {
		_ = s.End() // there is nothing to continue
		if err != nil && said == "" {
			return nil, fmt.Errorf("the keeper of process %d said nothing: %w", h.PID, err)
		}
		return nil, fmt.Errorf("stop process %d: %s", h.PID, said)
	}
	return s, nil
}

// End continues the process, if its time was not over, and reaps the keeper. A process that
// has ended meanwhile is no error.
func (s *Stopped) End() error {
	_ = s.tell.Close()  // the keeper may have ended
	_ = s.keeper.Wait() // however that ended, the process is continued here, too
	err := s.process.Signal(syscall.SIGCONT)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("process %d is still stopped: %w; kill -CONT %d continues it", s.process.PID, err, s.process.PID)
	}
	return nil
}
