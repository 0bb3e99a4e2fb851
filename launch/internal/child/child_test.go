package child

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lines collects what a process writes.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) add(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(line))
}

// shell starts a script of sh.
func shell(t *testing.T, script string) (p *Process, out, errs *lines) {
	t.Helper()
	out, errs = &lines{}, &lines{}
	p, err := Start(Spec{Command: []string{"/bin/sh", "-c", script}, Env: os.Environ(), Dir: t.TempDir(), Stdout: out.add, Stderr: errs.add})
	if err != nil {
		t.Fatal(err)
	}
	return p, out, errs
}

// How a process ended is told as shells tell it, and what it wrote last is not lost.
func TestStatusAndOutput(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]struct {
		shell int
		text  string
		ok    bool
	}{
		"echo out; echo err >&2":               {0, "exit status 0", true},
		"echo out; echo err >&2; exit 3":       {3, "exit status 3", false},
		"echo out; echo err >&2; kill $$":      {143, "killed by SIGTERM", false},
		"echo out; printf err >&2; kill -9 $$": {137, "killed by SIGKILL", false},
	} {
		p, out, errs := shell(t, script)
		s := p.Status()
		p.Drain(time.Minute)
		if s.Shell() != want.shell || s.String() != want.text || s.OK() != want.ok {
			t.Errorf("%s: %v, %d, %t, want %+v", script, s, s.Shell(), s.OK(), want)
		}
		if !slices.Equal(out.all, []string{"out"}) || !slices.Equal(errs.all, []string{"err"}) {
			t.Errorf("%s: wrote %q and %q", script, out.all, errs.all)
		}
	}
}

// The process has a session of its own, nothing to read, and the signal that ends it with us.
func TestSession(t *testing.T) {
	t.Parallel()
	p, out, _ := shell(t, `cat; echo read all; exec sleep 1000`)
	testkit.Eventually(t, "the process has nothing to read", func() bool {
		out.mu.Lock()
		defer out.mu.Unlock()
		return slices.Equal(out.all, []string{"read all"})
	})
	sid, err := unix.Getsid(p.PID())
	if err != nil || sid != p.PID() {
		t.Errorf("session %d, %v, want the process's own, %d", sid, err, p.PID())
	}
	p.Signal(syscall.SIGTERM)
	if s := p.Status(); s.Signal != syscall.SIGTERM {
		t.Errorf("ended with %v, want SIGTERM", s)
	}
	p.Drain(time.Minute)
	p.Signal(syscall.SIGTERM) // of one that is gone
}

// What a process leaves behind may hold its output open: that is not waited for.
func TestDrainIsBounded(t *testing.T) {
	t.Parallel()
	p, out, _ := shell(t, `sleep 1000 & echo $!`)
	testkit.Eventually(t, "it has said what it leaves behind", func() bool {
		out.mu.Lock()
		defer out.mu.Unlock()
		return len(out.all) == 1
	})
	p.Drain(50 * time.Millisecond)
	var left int
	if _, err := fmt.Sscan(out.all[0], &left); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(left, syscall.SIGKILL); err != nil {
		t.Errorf("what was left behind, process %d, is gone: %v", left, err)
	}
}

// What takes the output may never return: that is not waited for, either.
func TestDrainWithABlockedSink(t *testing.T) {
	t.Parallel()
	blocked, free := make(chan struct{}), make(chan struct{})
	p, err := Start(Spec{Command: []string{"/bin/sh", "-c", "echo; echo"}, Env: os.Environ(), Stderr: func([]byte) {}, Stdout: func([]byte) {
		select {
		case blocked <- struct{}{}:
		case <-free:
		}
		<-free
	}})
	if err != nil {
		t.Fatal(err)
	}
	<-blocked
	p.Drain(time.Millisecond)
	close(free) // the goroutine ends
}

// A process that something else has waited for has ended badly, as far as is known.
func TestUnknownStatus(t *testing.T) {
	t.Parallel()
	if s := statusOf(nil); s.OK() || s.Shell() != 1 || s.String() == "" {
		t.Errorf("%v, %d", s, s.Shell())
	}
}

// A program that there is not is an error that names it.
func TestNoSuchProgram(t *testing.T) {
	t.Parallel()
	_, err := Start(Spec{Command: []string{"/no/such/program"}})
	if err == nil || !strings.Contains(err.Error(), "/no/such/program") {
		t.Errorf("%v", err)
	}
}
