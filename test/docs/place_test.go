package docs

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/skerry-ft/skerry/internal/portlease"
	"github.com/skerry-ft/skerry/internal/testkit"
)

// place is where a page's commands are run: a folder, addresses of this host, and the terminals
// in which they are typed.
//
// Addresses: each of a page's servers has one of loopback of its own, 127.a.b.n, where a and b
// are made of a leased port, and that port. So its ports of raft and gossip, which follow the
// first, are free as well. Folders: those of the system lie within the place's.
type place struct {
	t       *testing.T
	dir     string
	port    string
	network string // of its addresses, "127.a.b."
	env     []string
	away    *strings.Replacer
	running []*testkit.Program
}

func newPlace(t *testing.T) *place {
	t.Helper()
	bin := ""
	for _, p := range programs {
		bin = filepath.Dir(builds.Path(t, p))
	}
	_, port, err := net.SplitHostPort(portlease.ForTest(t, 1)[0])
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	p := &place{t: t, dir: t.TempDir(), port: port, network: fmt.Sprintf("127.%d.%d.", 1+n>>8, n&255)}
	for _, d := range []string{"etc", "var", "tmp", "home"} {
		if err := os.Mkdir(filepath.Join(p.dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p.env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + filepath.Join(p.dir, "home"), "SKERRY_LIGHTHOUSE=" + p.server(1)}
	p.away = strings.NewReplacer(
		"go run ./cmd/", "", "go run ./examples/digits/", "", "go run ./examples/", "",
		"https://lighthouse-0:29510", "https://"+p.server(1),
		"server1:29510", p.server(1), "server2:29510", p.server(2), "server3:29510", p.server(3), "10.0.0.1", p.network+"1", "10.0.0.2", p.network+"2", "10.0.0.3", p.network+"3",
		"127.0.0.1:29510", p.server(1), "127.0.0.1:29520", p.server(2), "127.0.0.1:29530", p.server(3), "127.0.0.1:29540", p.server(4), "HOST:29510", p.server(1), " :29510", " "+p.server(1),
		"/etc/skerry", p.dir+"/etc", "/var/lib/", p.dir+"/var/", "/tmp/", p.dir+"/tmp/",
	)
	return p
}

// server is the address of a page's server n.
func (p *place) server(n int) string { return fmt.Sprintf("%s%d:%s", p.network, n, p.port) }

// start types a command into a terminal: what was exported there before is exported. If it keeps
// on running, keeps is true, and what it exports is its own.
func (p *place) start(terminal, command string, keeps bool) *testkit.Program {
	p.t.Helper()
	exported := filepath.Join(p.dir, "terminal-"+terminal)
	if f, err := os.OpenFile(exported, os.O_CREATE, 0o600); err != nil {
		p.t.Fatal(err)
	} else if err := f.Close(); err != nil {
		p.t.Fatal(err)
	}
	typed := p.away.Replace(command)
	p.t.Logf("%s$ %s", terminal, typed)
	script := fmt.Sprintf(". %q\n%s\n", exported, typed)
	if !keeps {
		script += fmt.Sprintf("status=$?\nexport -p > %q\nexit $status", exported)
	}
	cmd := exec.Command("bash", "-c", script)
	cmd.Dir, cmd.Env = p.dir, append(os.Environ(), p.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // as a terminal's jobs are: a signal reaches all of a line
	prog := testkit.StartCmd(p.t, command, cmd)
	p.t.Cleanup(func() { p.signal(prog, syscall.SIGKILL) })
	p.running = append(p.running, prog)
	return prog
}

// signal sends s to all processes of a command, unless they have ended.
func (p *place) signal(prog *testkit.Program, s syscall.Signal) {
	select {
	case <-prog.Ended():
	default:
		_ = syscall.Kill(-prog.PID(), s) // it may end at this moment
	}
}

// stop ends all that runs, at once.
func (p *place) stop() {
	p.t.Helper()
	for _, prog := range p.running {
		p.signal(prog, syscall.SIGKILL)
		_ = prog.Err() // a signal's
	}
	p.running = nil
}
