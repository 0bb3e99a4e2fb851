package interop

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/portlease"
	"github.com/skerry-ft/skerry/internal/testkit"
)

// settleLimit bounds every wait for a process, on a loaded machine.
const settleLimit = 60 * time.Second

// builds are the programs that all tests share.
var builds testkit.Builds

// process is a real lighthouse server, or a proxy, that can be killed and started
// again.
type process struct {
	*testkit.Program

	t     *testing.T
	flags []string // with its program
	pass  *os.File // a socket that it is passed as systemd does; nil: none
	addr  string
}

// run starts a server on that address with these flags.
func run(t *testing.T, addr string, flags ...string) *process {
	t.Helper()
	return launch(&process{t: t, addr: addr, flags: append([]string{"lighthouse", "--bind", addr}, flags...)})
}

// launch starts p, which ends with the test.
func launch(p *process) *process {
	p.t.Helper()
	p.start()
	return p
}

func (p *process) start() {
	p.t.Helper()
	command := append([]string{builds.Path(p.t, "cmd/"+p.flags[0])}, p.flags[1:]...)
	if p.pass == nil {
		p.Program = testkit.Start(p.t, p.addr, nil, command...)
		return
	}
	// The shell's process is the program's, so that it knows its id.
	cmd := exec.Command("sh", append([]string{"-c", `LISTEN_FDS=1 LISTEN_PID=$$ exec "$@"`, "sh"}, command...)...)
	cmd.ExtraFiles = []*os.File{p.pass}
	p.Program = testkit.StartCmd(p.t, p.addr, cmd)
}

// healthy waits until the server answers that it serves.
func (p *process) healthy() {
	p.t.Helper()
	client := http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	testkit.EventuallyNil(p.t, "lighthouse "+p.addr+" is healthy", func() error {
		answer, err := client.Get("http://" + p.addr + "/healthz")
		if err != nil {
			return err
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return errors.New(answer.Status)
		}
		return nil
	})
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
