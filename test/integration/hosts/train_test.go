package hosts

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/skerry-ft/skerry/internal/testkit"
)

// steps of a run, and what a replica prints at the end of them.
const (
	steps = "400"
	done  = "step " + steps + ": test accuracy"
)

// job is how the programs of one run are started.
type job struct {
	f                   *fabric
	lighthouse, trainer string               // programs
	server              func(i int) []string // more flags of lighthouse i
	env                 []string             // of the trainers
}

// TestThreeHosts: a lighthouse on each of three hosts, and a trainer on each, are
// started as docs/OPERATIONS.md has it, and train; a cable is pulled, and the
// others go on; it comes back, and so does the replica behind it. At the end all
// have the same parameters.
func TestThreeHosts(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the programs")
	}
	bin := t.TempDir()
	lighthouse, trainer := testkit.Build(t, bin, "cmd/lighthouse"), testkit.Build(t, bin, "examples/digits/trainer")
	for name, run := range map[string]func(*testing.T){
		"open":      func(t *testing.T) { openJob(newFabric(t, 3, false), lighthouse, trainer).run(t) },
		"guarded":   func(t *testing.T) { openJob(newFabric(t, 3, false), lighthouse, trainer).guarded(t).run(t) },
		"IPv6 only": func(t *testing.T) { openJob(newFabric(t, 3, true), lighthouse, trainer).run(t) },
		"astray":    func(t *testing.T) { astray(t, newFabric(t, 2, false), lighthouse, trainer) },
		"refused":   func(t *testing.T) { refused(t, newFabric(t, 2, false), lighthouse, trainer) },
	} {
		t.Run(name, func(t *testing.T) {
			if name == "open" || name == "IPv6 only" {
				testkit.Long(t)
			}
			t.Parallel()
			run(t)
		})
	}
}

// openJob is one that the network guards.
func openJob(f *fabric, lighthouse, trainer string) job {
	return job{
		f: f, lighthouse: lighthouse, trainer: trainer, env: []string{"SKERRY_OPEN=1"},
		server: func(int) []string { return []string{"--open"} },
	}
}

// guarded makes certificates, token and gossip key, and gives them to all.
func (j job) guarded(t *testing.T) job {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "skerry")
	file := func(name string) string { return filepath.Join(dir, name) }
	ca := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), j.lighthouse, append([]string{"ca"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("lighthouse ca: %v\n%s", err, out)
		}
	}
	for i := range j.f.hosts {
		ca("--role", "lighthouse", dir, fmt.Sprint("server", i), j.f.address(i), "skerry")
	}
	ca("--role", "replica", "--job", "digits", dir, "digits", "skerry")
	j.server = func(i int) []string {
		return []string{"--gossip-key-file", file("gossip.key"), "--tls-ca", file("ca.pem"), "--token-file", file("token"),
			"--tls-cert", file(fmt.Sprint("server", i, ".pem")), "--tls-key", file(fmt.Sprint("server", i, ".key"))}
	}
	j.env = []string{"SKERRY_TLS_CA=" + file("ca.pem"), "SKERRY_TLS_CERT=" + file("digits.pem"), "SKERRY_TLS_KEY=" + file("digits.key"),
		"SKERRY_TOKEN_FILE=" + file("token"), "SKERRY_TLS_SERVER_NAME=skerry", "SKERRY_JOB=digits"}
	return j
}

func (j job) run(t *testing.T) {
	f, data := j.f, t.TempDir()
	var trainers []*testkit.Program
	for i := range f.hosts {
		f.start(t, i, nil, j.lighthouse, append([]string{"--bind", ":29510", "--data-dir", filepath.Join(data, fmt.Sprint(i)),
			"--bootstrap-expect", "3", "--join", f.servers(), "--advertise", f.server(i)}, j.server(i)...)...)
	}
	for i := range f.hosts {
		trainers = append(trainers, f.start(t, i, j.env, j.trainer, "-index", fmt.Sprint(i), "-replicas", "3",
			"-lighthouse", f.servers(), "-steps", steps, "-step-time", "20ms", "-linger", "80s"))
	}
	const pulled = 2
	all := make([]int, f.hosts) // how far each trainer's words are read
	for i, p := range trainers {
		all[i] = p.Says("3 of 3 members take part", 0)
		all[i] = p.Says("\nstep ", all[i])
	}
	f.cable(pulled, "down")
	for i, p := range trainers {
		if i != pulled {
			all[i] = p.Says("2 of 2 members take part", all[i])
			all[i] = p.Says("\nstep ", all[i])
		}
	}
	f.cable(pulled, "up")
	hash := ""
	for i, p := range trainers {
		all[i] = p.Says("3 of 3 members take part", all[i])
	}
	for i, p := range trainers {
		end := p.Says(done, all[i])
		text := p.String()
		line, _, _ := strings.Cut(text[end:], "\n")
		if hash == "" {
			hash = line
		}
		if line != hash || !strings.Contains(line, "sha256 ") {
			t.Errorf("host %d ends with %q, host 0 with %q", i, line, hash)
		}
	}
	for _, p := range trainers {
		p.Signal(syscall.SIGTERM)
	}
	for i, p := range trainers {
		if status := p.Exits(); status != 0 {
			t.Errorf("the trainer of host %d ended with status %d", i, status)
		}
	}
}

// astray: a replica that reaches the lighthouse over loopback is on loopback, and ends
// when it meets one of another host.
func astray(t *testing.T, f *fabric, lighthouse, trainer string) {
	f.start(t, 0, nil, lighthouse, "--bind", ":29510", "--open")
	far := f.start(t, 1, nil, trainer, "-open", "-index", "1", "-lighthouse", f.server(0), "-steps", "100000")
	far.Says("1 of 1 members take part", 0)
	near := f.start(t, 0, nil, trainer, "-index", "0", "-lighthouse", "127.0.0.1:29510")
	status := near.Exits()
	text := near.String()
	if status != 1 || !strings.Contains(text, "which is loopback: give Lighthouse the address that other hosts know") {
		t.Errorf("status %d, %s", status, text)
	}
	far.Says("\nstep ", 0) // the other one goes on
}

// refused: what would be open to strangers, or out of the others' reach, ends at
// once, in one line that says what to set.
func refused(t *testing.T, f *fabric, lighthouse, trainer string) {
	for _, c := range []struct {
		name string
		env  []string
		args []string
		want []string
	}{
		{lighthouse, nil, []string{"--bind", ":29510"}, []string{"other hosts reach :29510", "--token-file", "--open"}},
		{lighthouse, nil, []string{"--advertise", f.server(0)}, []string{"--bind = 127.0.0.1:29510 is loopback", "set --bind :29510"}},
		{trainer, nil, []string{"-lighthouse", f.server(1)}, []string{f.address(0) + ":0", "SKERRY_TOKEN_FILE", "SKERRY_OPEN=1"}},
		{trainer, []string{"SKERRY_LISTEN=127.0.0.1"}, []string{"-open", "-lighthouse", f.server(1)},
			[]string{"127.0.0.1:0 is loopback", f.server(1), "SKERRY_LISTEN", f.address(0) + ":0"}},
		{trainer, nil, []string{"-lighthouse", "nohost.invalid:1"}, []string{"nohost.invalid"}},
	} {
		p := f.start(t, 0, c.env, c.name, c.args...)
		status := p.Exits()
		text := p.String()
		want := 1
		if c.name == lighthouse {
			want = 2 // its flags say what cannot be
		}
		if status != want || strings.Count(text, "\n") != 1 {
			t.Errorf("%s %q: status %d, want %d and one line:\n%s", filepath.Base(c.name), c.args, status, want, text)
		}
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s %q: %s, want %q", filepath.Base(c.name), c.args, text, want)
			}
		}
	}
}
