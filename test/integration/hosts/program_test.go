package hosts

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait; reaching it is a failure.
const patience = 90 * time.Second

// program is a process on a host, with all that it writes.
type program struct {
	t    *testing.T
	cmd  *exec.Cmd
	ends chan error // capacity 1

	mu sync.Mutex

	out  bytes.Buffer
	more chan struct{} // closed at the next output
}

func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.more)
	p.more = make(chan struct{})
	return p.out.Write(b)
}

// said is what the program has written, and what is closed when it writes more.
func (p *program) said() (string, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String(), p.more
}

// start runs a program on a host. It is killed with the test.
func (f *fabric) start(t *testing.T, host int, env []string, name string, args ...string) *program {
	t.Helper()
	p := &program{
		t: t, cmd: exec.Command("ip", append([]string{"netns", "exec", f.name(host), name}, args...)...),
		ends: make(chan error, 1), more: make(chan struct{}),
	}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		p.ends <- p.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended by itself
		<-waited
		if text, _ := p.said(); t.Failed() {
			t.Logf("host %d: %s %s:\n%s", host, filepath.Base(name), strings.Join(args, " "), text)
		}
	})
	return p
}

// says waits until the program has written text behind from, which counts bytes,
// and returns where that ends.
func (p *program) says(text string, from int) int {
	p.t.Helper()
	over := time.After(patience)
	for {
		got, more := p.said()
		if at := strings.Index(got[from:], text); at >= 0 {
			return from + at + len(text)
		}
		select {
		case <-more:
		case <-over:
			p.t.Fatalf("did not write %q within %v", text, patience)
		}
	}
}

// exits waits for the end of the program and returns its status.
func (p *program) exits() int {
	p.t.Helper()
	select {
	case err := <-p.ends:
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return exit.ExitCode()
		} else if err != nil {
			p.t.Fatal(err)
		}
		return 0
	case <-time.After(patience):
		p.t.Fatalf("did not end within %v", patience)
		return 0
	}
}

func (p *program) terminate() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
}

// build compiles a command of this module.
func build(t *testing.T, dir, pkg string) string {
	t.Helper()
	out := filepath.Join(dir, filepath.Base(pkg))
	if text, err := exec.CommandContext(t.Context(), "go", "build", "-o", out, "github.com/skerry-ft/skerry/"+pkg).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, text)
	}
	return out
}
