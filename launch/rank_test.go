package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/launch/internal/keeper"
	"github.com/skerry-ft/skerry/launch/internal/sweep"
)

// A command that is not there never can be run; what the host lacks for the moment may be there
// later.
func TestPermanent(t *testing.T) {
	t.Parallel()
	for _, err := range []error{syscall.ENOENT, syscall.EACCES, syscall.ENOEXEC, syscall.ENOTDIR, exec.ErrNotFound, os.ErrPermission} {
		if !permanent(fmt.Errorf("start: %w", &os.PathError{Op: "fork/exec", Path: "x", Err: err})) {
			t.Errorf("%v may pass", err)
		}
	}
	for _, err := range []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.ETXTBSY, syscall.EIO, errors.New("other")} {
		if permanent(fmt.Errorf("start: %w", &os.PathError{Op: "fork/exec", Path: "x", Err: err})) {
			t.Errorf("%v is for ever", err)
		}
	}
}

// When all ranks have ended there is none that is held.
func TestHeld(t *testing.T) {
	t.Parallel()
	if one := new(attempt).held(); one != nil {
		t.Errorf("%+v", one)
	}
}

// A session in which nothing is left is forgotten; one in which something runs is not.
func TestForget(t *testing.T) {
	t.Parallel()
	k, err := keeper.Start("launch-test-forget", "")
	if err != nil {
		t.Fatal(err)
	}
	p := &replica{run: &run{keeper: k}, sessions: make(sweep.Sessions)}
	var begun [2]*exec.Cmd
	for i := range begun {
		begun[i] = exec.Command("/bin/sh", "-c", "while :; do sleep 1000; done")
		begun[i].SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := begun[i].Start(); err != nil {
			t.Fatal(err)
		}
		pid := begun[i].Process.Pid
		p.sessions[pid] = sweep.Began(pid)
		k.Add(pid, p.sessions[pid])
	}
	end := func(cmd *exec.Cmd) {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the group; its sleep is an orphan
		_ = cmd.Wait()                                      // it was killed
	}
	end(begun[0])
	testkit.Eventually(t, "the session that is over is forgotten", func() bool {
		p.forget()
		_, there := p.sessions[begun[0].Process.Pid]
		return !there
	})
	if _, there := p.sessions[begun[1].Process.Pid]; !there {
		t.Error("a session in which something runs was forgotten")
	}
	end(begun[1])
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := k.Run(ctx); err != nil {
		t.Error(err)
	}
}
