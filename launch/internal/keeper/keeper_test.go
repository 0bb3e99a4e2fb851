package keeper

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/launch/internal/sweep"
)

func TestMain(m *testing.M) {
	Init()
	goleak.VerifyTestMain(m)
}

// begin starts a process for a keeper to kill: in a session of its own or not, marked or not.
func begin(t *testing.T, session bool, mark string) *exec.Cmd {
	t.Helper()
	// It ignores what is not SIGKILL, as the worst of data loaders do.
	cmd := exec.Command("/bin/sh", "-c", `trap "" TERM HUP INT; exec sleep 1000`)
	cmd.Env = append(os.Environ(), sweep.Variable+"="+mark)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: session}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // the keeper has, if all is well
		_ = cmd.Wait()
	})
	return cmd
}

// ends waits for a process's end.
func ends(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	testkit.Eventually(t, "the process ends", func() bool {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/stat")
		return err != nil || strings.Contains(string(text), ") Z ")
	})
}

// At the end of the launcher its sessions are killed, and what carries its mark; others are not.
func TestKillsWhatIsLeft(t *testing.T) {
	t.Parallel()
	const mark = "keeper-test-left"
	k, err := Start(mark, "")
	if err != nil {
		t.Fatal(err)
	}
	inSession, over := begin(t, true, ""), begin(t, true, mark+"-other")
	marked, nested := begin(t, false, mark+".0.1"), begin(t, false, "outer,"+mark)
	anothers := begin(t, true, "")
	k.Add(inSession.Process.Pid, sweep.Began(inSession.Process.Pid))
	k.Add(over.Process.Pid, sweep.Began(over.Process.Pid))
	k.Add(anothers.Process.Pid, 1) // the number was free in between
	k.Remove(over.Process.Pid)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := k.Run(ctx); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range []*exec.Cmd{inSession, marked, nested} {
		ends(t, cmd)
	}
	for _, cmd := range []*exec.Cmd{over, anothers} {
		if text, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/stat"); err != nil || strings.Contains(string(text), ") Z ") {
			t.Errorf("a process of others was killed: %s, %v", text, err)
		}
	}
}

// A keeper that dies is started again, and knows what the first one knew.
func TestStartsAgain(t *testing.T) {
	t.Parallel()
	k, err := Start("keeper-test-again", "")
	if err != nil {
		t.Fatal(err)
	}
	victim := begin(t, true, "")
	k.Add(victim.Process.Pid, sweep.Began(victim.Process.Pid))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	first := k.first.pipe
	if err := k.first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "another keeper is there", func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.mu.pipe != nil && k.mu.pipe != first
	})
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	ends(t, victim)
}

// What a keeper is told is checked.
func TestNote(t *testing.T) {
	t.Parallel()
	sessions := make(sweep.Sessions)
	for _, line := range []string{"+0 1", "+1 1", "-1 0", "+x 1", "", "7x", "+7", "+7 x"} {
		if note(sessions, line) == nil {
			t.Errorf("%q was taken", line)
		}
	}
	for _, line := range []string{"+7 1", "+8 2", "-7 0"} {
		if err := note(sessions, line); err != nil {
			t.Error(err)
		}
	}
	if len(sessions) != 1 || sessions[8] != 2 {
		t.Errorf("sessions %v, want 8", sessions)
	}
}
