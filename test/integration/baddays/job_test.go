package baddays

import (
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/portlease"
	"github.com/skerry-ft/skerry/internal/testkit"
)

const servers = 3 // of a job

// job is three lighthouse servers and trainers, on loopback.
type job struct {
	t         *testing.T
	bin       string // folder of the programs
	data      []string
	addrs     []string
	flags     func(i int) []string // more, of server i
	env       []string             // of trainers
	serverEnv []string             // of servers
	walls     []*testkit.Wall      // of the servers, then of the trainers; nil: the machine's
	servers   []*testkit.Program
	members   []*testkit.Program
}

func newJob(t *testing.T, bin string) *job {
	t.Helper()
	j := &job{t: t, bin: bin, addrs: portlease.ForTest(t, servers), servers: make([]*testkit.Program, servers), flags: func(int) []string { return nil }}
	for i := range servers {
		j.data = append(j.data, filepath.Join(t.TempDir(), fmt.Sprint("server", i)))
	}
	return j
}

// withWalls gives each process a wall clock: servers, and that many trainers.
func (j *job) withWalls(trainers int) *job {
	for range servers + trainers {
		j.walls = append(j.walls, testkit.NewWall(j.t))
	}
	return j
}

func (j *job) wallEnv(i int) []string {
	if i >= len(j.walls) {
		return nil
	}
	return []string{j.walls[i].Env()}
}

// guarded makes certificates and a token, and gives them to all.
func (j *job) guarded(dir string) *job {
	j.sign(dir)
	file := func(name string) string { return filepath.Join(dir, name) }
	j.flags = func(i int) []string {
		return []string{"--tls-ca", file("ca.pem"), "--token-file", file("token"), "--gossip-key-file", file("gossip.key"),
			"--tls-cert", file(fmt.Sprint("server", i, ".pem")), "--tls-key", file(fmt.Sprint("server", i, ".key"))}
	}
	j.env = []string{"SKERRY_TLS_CA=" + file("ca.pem"), "SKERRY_TLS_CERT=" + file("digits.pem"), "SKERRY_TLS_KEY=" + file("digits.key"),
		"SKERRY_TOKEN_FILE=" + file("token")}
	return j
}

// sign makes a certificate for each server, and one for the trainers. flags are more
// of lighthouse ca's.
func (j *job) sign(dir string, flags ...string) {
	j.t.Helper()
	for i := range servers {
		j.ca(dir, append(flags, "--role", "lighthouse", dir, fmt.Sprint("server", i), "127.0.0.1")...)
	}
	j.ca(dir, append(flags, "--role", "replica", dir, "digits", "127.0.0.1")...)
}

// ca signs a certificate, by the clock of server 0.
func (j *job) ca(dir string, args ...string) {
	j.t.Helper()
	cmd := exec.CommandContext(j.t.Context(), filepath.Join(j.bin, "lighthouse"), append([]string{"ca"}, args...)...)
	cmd.Env = append(cmd.Environ(), j.wallEnv(0)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		j.t.Fatalf("lighthouse ca in %s: %v\n%s", dir, err, out)
	}
}

// steps is said of each fiftieth step, once it is committed.
const steps = ": loss "

// goesOn waits until a trainer has committed some more steps than it has by now.
func goesOn(p *testkit.Program) { p.Says(steps, p.Len()) }

func (j *job) startServers() {
	j.t.Helper()
	for i := range servers {
		j.startServer(i)
	}
}

func (j *job) startServer(i int) {
	j.t.Helper()
	args := append([]string{filepath.Join(j.bin, "lighthouse"), "--bind", j.addrs[i], "--data-dir", j.data[i],
		"--bootstrap-expect", fmt.Sprint(servers), "--join", strings.Join(j.addrs, ","),
		"--raft-address", "127.0.0.1:0", "--gossip-address", "127.0.0.1:0",
		"--raft-timing", "slow", "--heartbeat-timeout", "20s", "--suspect-after", "10s", "--grace", "20s", "--join-timeout", "1s"}, j.flags(i)...) // a busy machine is none of the bad days here
	j.servers[i] = testkit.Start(j.t, fmt.Sprint("server ", i), append(j.wallEnv(i), j.serverEnv...), args...)
}

// startTrainer starts trainer i, or starts it again.
func (j *job) startTrainer(i int, args ...string) *testkit.Program {
	j.t.Helper()
	args = append([]string{filepath.Join(j.bin, "trainer"), "-index", fmt.Sprint(i), "-replicas", "4", "-verbose",
		"-lighthouse", strings.Join(j.addrs, ","), "-steps", "1000000", "-step-time", "25ms"}, args...)
	return testkit.Start(j.t, fmt.Sprint("trainer ", i), append(j.wallEnv(servers+i), j.env...), args...)
}

// train starts n trainers and waits until they are in one quorum.
func (j *job) train(n int) {
	j.t.Helper()
	for i := range n {
		j.members = append(j.members, j.startTrainer(i))
	}
	j.together(make([]int, n))
}

// together waits until all trainers have said, behind from, that they are in one quorum,
// and until all have gone on.
func (j *job) together(from []int) {
	j.t.Helper()
	n := len(j.members)
	for i, p := range j.members {
		p.Says(fmt.Sprintf(" %d of %d members take part", n, n), from[i])
	}
	from = j.heard()
	for i, p := range j.members {
		p.Says(steps, from[i])
	}
}

// heard is how much each trainer has written.
func (j *job) heard() []int {
	from := make([]int, len(j.members))
	for i, p := range j.members {
		from[i] = p.Len()
	}
	return from
}

// replace kills trainer i and starts it anew; all are together again.
func (j *job) replace(i int) {
	j.t.Helper()
	j.members[i].Kill()
	j.replaceEnded(i)
}

// replaceEnded starts trainer i, which has ended, anew; all are together again.
func (j *job) replaceEnded(i int) {
	j.t.Helper()
	from := j.heard()
	from[i] = 0
	j.members[i] = j.startTrainer(i)
	j.together(from)
}

var quorumLine = regexp.MustCompile(`(?m)^quorum (\d+): `)

// idsRise checks what each trainer said of quorums.
func (j *job) idsRise(all ...*testkit.Program) {
	j.t.Helper()
	for _, p := range all {
		text := p.String()
		last := int64(0)
		for _, m := range quorumLine.FindAllStringSubmatch(text, -1) {
			id, err := strconv.ParseInt(m[1], 10, 64)
			if err != nil || id < last {
				j.t.Errorf("%s: quorum %s came after %d, %v", p.Name, m[1], last, err)
			}
			last = id
		}
		if last == 0 {
			j.t.Errorf("%s was in no quorum", p.Name)
		}
	}
}

var gained = regexp.MustCompile(`leadership gained.* term=(\d+)`)

// leaderAfter is the server that leads in the newest term of which one that runs has told. It
// waits until there is one, of a term above that.
func (j *job) leaderAfter(term int) (server, itsTerm int) {
	j.t.Helper()
	for over := time.Now().Add(patience); time.Now().Before(over); time.Sleep(20 * time.Millisecond) {
		server, itsTerm = -1, term
		for i, p := range j.servers {
			text := p.String()
			for _, m := range gained.FindAllStringSubmatch(text, -1) {
				if n, err := strconv.Atoi(m[1]); err == nil && n > itsTerm {
					server, itsTerm = i, n
				}
			}
		}
		if server >= 0 {
			return server, itsTerm
		}
	}
	j.t.Fatalf("no server leads in a term above %d within %v", term, patience)
	return -1, 0
}

// undisturbed tries act until no trainer loses a step, a session or a quorum by it: a
// machine that is busy with other things costs one now and then.
func (j *job) undisturbed(what string, act func()) {
	j.t.Helper()
	const tries = 8
	why := ""
	for range tries {
		from := j.heard()
		act()
		for _, p := range j.members {
			goesOn(p)
		}
		why = ""
		for i, p := range j.members {
			text := p.String()
			text = text[from[i]:]
			for _, bad := range []string{"discarded", "take part", "lost"} {
				if at := strings.Index(text, bad); at >= 0 {
					why = fmt.Sprintf("%s: %s", p.Name, text[max(at-200, 0):min(at+200, len(text))])
				}
			}
		}
		if why == "" {
			return
		}
	}
	j.t.Errorf("disturbed by %s, %d times; the last time %s", what, tries, why)
}

// serves waits until server i answers that it leads, or who does.
func (j *job) serves(i int) {
	j.t.Helper()
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	var err error
	for over := time.Now().Add(patience); time.Now().Before(over); time.Sleep(50 * time.Millisecond) {
		var resp *http.Response
		if resp, err = client.Get("http://" + j.addrs[i] + "/healthz"); err != nil {
			continue
		}
		_ = resp.Body.Close() // the status is all
		if resp.StatusCode == http.StatusOK {
			return
		}
		err = errors.New(resp.Status)
	}
	j.t.Fatalf("server %d does not serve within %v: %v", i, patience, err)
}
