package baddays

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait; reaching it is a failure.
const patience = 90 * time.Second

// program is a process, with all that it writes.
type program struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	ends chan struct{} // closed when it has ended
	err  error         // of Wait, once it has ended

	mu sync.Mutex

	out  bytes.Buffer
	more chan struct{} // closed at the next output
}

// Write takes what the process writes.
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

// start runs a program, called name in what the test says. It is killed with the test.
func start(t *testing.T, name string, env []string, args ...string) *program {
	t.Helper()
	p := &program{
		t: t, name: name, cmd: exec.Command(args[0], args[1:]...), ends: make(chan struct{}), more: make(chan struct{}),
	}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = p, p
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
		if text, _ := p.said(); t.Failed() {
			t.Logf("%s: %s\n%s", name, strings.Join(args, " "), text)
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
		case <-p.ends:
			if got, _ := p.said(); !strings.Contains(got[from:], text) {
				p.t.Fatalf("%s ended (%v) and did not write %q:\n%s", p.name, p.err, text, got[from:])
			}
		case <-over:
			p.t.Fatalf("%s did not write %q within %v", p.name, text, patience)
		}
	}
}

// heard is how much the program has written.
func (p *program) heard() int {
	text, _ := p.said()
	return len(text)
}

// goesOn waits until a trainer has committed some more steps than it has by now.
func (p *program) goesOn() {
	p.t.Helper()
	p.says("\nstep ", p.heard())
}

// exits waits for the end of the program and returns its status.
func (p *program) exits() int {
	p.t.Helper()
	select {
	case <-p.ends:
	case <-time.After(patience):
		p.t.Fatalf("%s did not end within %v", p.name, patience)
	}
	if exit, ok := errors.AsType[*exec.ExitError](p.err); ok {
		return exit.ExitCode()
	} else if p.err != nil {
		p.t.Fatal(p.err)
	}
	return 0
}

// endsIn checks that the program ends with status 1 and one line, with all of want in it.
func (p *program) endsIn(want ...string) {
	p.t.Helper()
	status := p.exits()
	text, _ := p.said()
	last := text[strings.LastIndexByte(strings.TrimRight(text, "\n"), '\n')+1:]
	if status != 1 {
		p.t.Errorf("%s ended with status %d, want 1:\n%s", p.name, status, text)
	}
	for _, w := range want {
		if !strings.Contains(last, w) {
			p.t.Errorf("%s ended with %q, want %q in it", p.name, last, w)
		}
	}
}

func (p *program) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("send %v to %s: %v", s, p.name, err)
	}
}

// kill ends the program at once and waits for it.
func (p *program) kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	<-p.ends
}

// builds are programs that all tests of this package share.
var builds struct {
	sync.Mutex

	done map[string]string // folder by flags
}

// build compiles the programs, once, and returns their folder. flags are go build's.
func build(t *testing.T, flags ...string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the programs: run without -short")
	}
	builds.Lock()
	defer builds.Unlock()
	key := strings.Join(flags, " ")
	if dir, ok := builds.done[key]; ok {
		return dir
	}
	dir, err := os.MkdirTemp("", "skerry-baddays-") //nolint:usetesting // it outlives the test
	if err != nil {
		t.Fatal(err)
	}
	removeAtEnd(dir)
	args := append(append([]string{"build", "-o", dir + "/"}, flags...),
		"github.com/skerry-ft/skerry/cmd/lighthouse", "github.com/skerry-ft/skerry/examples/digits/trainer")
	if text, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, text)
	}
	if builds.done == nil {
		builds.done = make(map[string]string)
	}
	builds.done[key] = dir
	return dir
}
