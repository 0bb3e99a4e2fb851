package interop

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/portlease"
	"github.com/skerry-ft/skerry/internal/testkit"
)

// settleLimit bounds every wait for a process, on a loaded machine.
const settleLimit = 60 * time.Second

// builds are the programs that all tests share.
var builds struct {
	sync.Mutex

	folder string
	paths  map[string]string // by name
}

// binary builds cmd/NAME, once for all tests, and returns its path.
func binary(t *testing.T, name string) string {
	t.Helper()
	builds.Lock()
	defer builds.Unlock()
	if path, ok := builds.paths[name]; ok {
		return path
	}
	if builds.folder == "" {
		folder, err := os.MkdirTemp("", "skerry-interop-") //nolint:usetesting // it outlives the test
		if err != nil {
			t.Fatal(err)
		}
		builds.folder, builds.paths = folder, make(map[string]string)
	}
	builds.paths[name] = testkit.Build(t, builds.folder, "cmd/"+name)
	return builds.paths[name]
}

// process is a real lighthouse server, or a proxy, that can be killed and started
// again.
type process struct {
	t     *testing.T
	flags []string // with its program
	pass  *os.File // a socket that it is passed as systemd does; nil: none
	addr  string
	cmd   *exec.Cmd
	noise *tail
}

// run starts a server on that address with these flags.
func run(t *testing.T, addr string, flags ...string) *process {
	t.Helper()
	return runProgram(t, addr, append([]string{"lighthouse", "--bind", addr}, flags...)...)
}

// runProgram starts a program of ours.
func runProgram(t *testing.T, addr string, command ...string) *process {
	t.Helper()
	return launch(&process{t: t, addr: addr, flags: command, noise: &tail{}})
}

// launch starts p, and kills it when the test ends.
func launch(p *process) *process {
	t := p.t
	t.Helper()
	p.start()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("the end of the log of %s:\n%s", p.addr, p.noise)
		}
	})
	return p
}

func (p *process) start() {
	p.t.Helper()
	command := append([]string{binary(p.t, p.flags[0])}, p.flags[1:]...)
	if p.pass != nil {
		// The shell's process is the program's, so that it knows its id.
		command = append([]string{"sh", "-c", `LISTEN_FDS=1 LISTEN_PID=$$ exec "$@"`, "sh"}, command...)
	}
	p.cmd = exec.CommandContext(context.WithoutCancel(p.t.Context()), command[0], command[1:]...)
	if p.pass != nil {
		p.cmd.ExtraFiles = []*os.File{p.pass}
	}
	p.cmd.Stderr = p.noise
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
}

// kill is SIGKILL. The second one does nothing.
func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGKILL) // gone is as good
	_ = p.cmd.Wait()                          // says that it was killed
	p.cmd = nil
}

// healthy waits until the server answers that it serves.
func (p *process) healthy() {
	p.t.Helper()
	client := http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		answer, err := client.Get("http://" + p.addr + "/healthz")
		if err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Since(began) > settleLimit {
			p.t.Fatalf("lighthouse %s is not healthy: %v", p.addr, err)
		}
	}
}

// freeAddr is a loopback address that nobody else is given.
func freeAddr(t *testing.T) string {
	t.Helper()
	return portlease.ForTest(t, 1)[0]
}

// steady drives replicas through torchft's own managers, step by step, as its
// Python does: quorum, should_commit, and again.
type steady struct {
	t     *testing.T
	p     *python
	names []string
	steps []int
	last  int64
	tried int // attempts that came to nothing

	// between runs once, when the first replica has asked and before the others do.
	between func()
}

// step takes one step with all replicas. A step whose quorum fails is done
// again, as a trainer that is restarted would: at most settleLimit long.
func (s *steady) step() {
	s.t.Helper()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		why := s.attempt()
		if why == "" {
			return
		}
		s.tried++
		if time.Since(began) > settleLimit {
			s.t.Fatalf("no step: %s", why)
		}
	}
}

// attempt asks once for every replica and says why there was no step.
func (s *steady) attempt() string {
	s.t.Helper()
	var calls []<-chan reply
	for i, name := range s.names {
		calls = append(calls, s.p.begin("manager_quorum", args{
			"name": name, "group_rank": 0, "step": s.steps[i], "metadata": "m", "timeout": 10}))
		if between := s.between; i == 0 && between != nil {
			s.between = nil
			between()
		}
	}
	var why []string
	var ids []int64
	for _, call := range calls {
		got, err := planOf(call)
		switch {
		case err != nil:
			why = append(why, err.Error())
		case got.QuorumID < s.last:
			s.t.Fatalf("quorum id %d after %d", got.QuorumID, s.last)
		default:
			ids = append(ids, got.QuorumID)
		}
	}
	if len(why) > 0 {
		return strings.Join(why, "; ")
	}
	for i := range s.steps {
		if ids[i] != ids[0] {
			return "not all in one quorum yet"
		}
		s.steps[i]++
	}
	s.last = ids[0]
	return ""
}
