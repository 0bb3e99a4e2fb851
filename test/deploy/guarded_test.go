package deploy

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/skerry-ft/skerry/internal/portlease"
	"github.com/skerry-ft/skerry/internal/testkit"
)

// composed is a compose file.
type composed struct {
	Services map[string]struct {
		Command, Secrets []string
		Environment      map[string]string
		Healthcheck      struct{ Test []string }
	}
	Secrets map[string]struct{ File string }
}

func readCompose(t *testing.T, file string) (c composed) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(read(t, file)), &c); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return c
}

// mounted is where a container finds its secrets.
var mounted = regexp.MustCompile(`/run/secrets/([\w.]+)`)

// TestGuardedCompose: laid over compose.yaml, guarded.yaml leaves nothing open; a server is told
// what it is told there, and each service has the secrets that it names.
func TestGuardedCompose(t *testing.T) {
	t.Parallel()
	open, guarded := readCompose(t, "compose/compose.yaml"), readCompose(t, "compose/guarded.yaml")
	for name, s := range open.Services {
		over := guarded.Services[name]
		if slices.Contains(s.Command, "--open") {
			want := slices.DeleteFunc(slices.Clone(s.Command), func(word string) bool { return word == "--open" })
			if want = append(want, "--gossip-key-file=/run/secrets/gossip.key"); !slices.Equal(over.Command, want) {
				t.Errorf("%s: command %q, want %q", name, over.Command, want)
			}
		}
		if s.Environment["SKERRY_OPEN"] != "" && over.Environment["SKERRY_OPEN"] != "0" {
			t.Errorf("%s: SKERRY_OPEN = %q, want 0", name, over.Environment["SKERRY_OPEN"])
		}
		wants := []string{"SKERRY_TLS_CA", "SKERRY_TLS_CERT", "SKERRY_TLS_KEY", "SKERRY_TOKEN_FILE", "SKERRY_TLS_SERVER_NAME"}
		for _, v := range wants {
			if ours := strings.HasPrefix(name, "server") || strings.HasPrefix(name, "replica"); ours && over.Environment[v] == "" {
				t.Errorf("%s: no %s", name, v)
			}
		}
		words := append(slices.Collect(maps.Values(over.Environment)), over.Command...)
		for _, m := range mounted.FindAllStringSubmatch(strings.Join(words, " "), -1) {
			if !slices.Contains(over.Secrets, m[1]) || guarded.Secrets[m[1]].File != "secrets/"+m[1] {
				t.Errorf("%s: %s is not mounted, or not of secrets/%s", name, m[0], m[1])
			}
		}
	}
	for name := range guarded.Services {
		if _, ok := open.Services[name]; !ok {
			t.Errorf("compose.yaml has no service %s", name)
		}
	}
	scraped := read(t, "prometheus/guarded.yml")
	for _, m := range mounted.FindAllStringSubmatch(scraped, -1) {
		if !slices.Contains(guarded.Services["prometheus"].Secrets, m[1]) {
			t.Errorf("prometheus: %s is not mounted", m[0])
		}
	}
	if strings.Contains(scraped, "http://") {
		t.Error("prometheus: http://, want https:// alone")
	}
}

// TestGuardedComposeRuns: the commands of guarded.yaml, with secrets that make-secrets makes,
// found a cluster on loopback; the health check passes, two trainers train, and who has no
// certificate is refused.
func TestGuardedComposeRuns(t *testing.T) {
	if !*releases {
		t.Skip("it builds the programs; -deploy.release")
	}
	t.Parallel()
	bin, at := t.TempDir(), t.TempDir()
	for _, p := range []string{"cmd/skerry", "cmd/lighthouse", "examples/digits/trainer"} {
		testkit.Build(t, bin, p)
	}
	run(t, at, "cp", filepath.Join(absolute(t, dir), "compose/make-secrets"), at)
	if err := os.Mkdir(filepath.Join(at, "checkpoints"), 0o700); err != nil {
		t.Fatal(err)
	}
	made := exec.CommandContext(t.Context(), filepath.Join(at, "make-secrets"))
	made.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "OWNER="+strconv.Itoa(os.Getuid()))
	if out, err := made.CombinedOutput(); err != nil {
		t.Fatalf("make-secrets: %v\n%s", err, out)
	}
	g := &guardedRun{bin: bin, at: at, open: readCompose(t, "compose/compose.yaml"), guarded: readCompose(t, "compose/guarded.yaml"), ports: portlease.ForTest(t, 9)}
	for name := range g.guarded.Secrets {
		if _, err := os.Stat(filepath.Join(at, "secrets", name)); err != nil {
			t.Errorf("make-secrets does not make it: %v", err)
		}
	}
	for i := range 3 {
		server := "server" + strconv.Itoa(i+1)
		start(t, g.command(server, "lighthouse", append(g.words(g.guarded.Services[server].Command),
			"--raft-address="+g.ports[3+i], "--gossip-address="+g.ports[6+i])...))
	}
	check := g.open.Services["server1"].Healthcheck.Test
	testkit.Eventually(t, "a leader", func() bool {
		return g.command("server1", "skerry", g.words(check[2:])...).Run() == nil
	})
	stranger := exec.CommandContext(t.Context(), filepath.Join(bin, "skerry"), "status", "--lighthouse", g.ports[0], "--timeout", "3s")
	if out, err := stranger.CombinedOutput(); err == nil {
		t.Errorf("without a certificate skerry status is answered:\n%s", out)
	}
	var ends []func() error
	for i := range 2 {
		replica := "replica" + strconv.Itoa(i)
		words := append(g.words(g.open.Services[replica].Command), "--replicas=2", "--steps=5", "--linger=1s")
		ends = append(ends, start(t, g.command(replica, "trainer", words...)))
	}
	for i, wait := range ends {
		if err := wait(); err != nil {
			t.Errorf("replica%d: %v", i, err)
		}
	}
}

// guardedRun runs the services on this host.
type guardedRun struct {
	bin, at       string
	open, guarded composed
	ports         []string // of the servers, their raft and their gossip
}

// words are a command's, with this host's paths and addresses.
func (g *guardedRun) words(all []string) []string {
	var out []string
	for _, w := range all {
		w = strings.ReplaceAll(w, "/run/secrets", filepath.Join(g.at, "secrets"))
		w = strings.ReplaceAll(w, "/checkpoints", filepath.Join(g.at, "checkpoints"))
		for i := range 3 {
			w = strings.ReplaceAll(w, fmt.Sprintf("server%d:29510", i+1), g.ports[i])
		}
		out = append(out, strings.ReplaceAll(w, "127.0.0.1:29510", g.ports[0]))
	}
	return out
}

// command is a service's, with its environment of both files.
func (g *guardedRun) command(service, program string, words ...string) *exec.Cmd {
	advertised := ""
	for i, w := range words {
		if address, ok := strings.CutPrefix(w, "--advertise="); ok {
			advertised = address
		}
		if w == "--data-dir=/data/lighthouse" {
			words[i] = "--data-dir=" + filepath.Join(g.at, service)
		}
	}
	if i := slices.Index(words, "--bind=:29510"); i >= 0 {
		words[i] = "--bind=" + advertised
	}
	cmd := exec.Command(filepath.Join(g.bin, program), words...)
	for _, c := range []composed{g.open, g.guarded} {
		for name, value := range c.Services[service].Environment {
			cmd.Env = append(cmd.Env, name+"="+g.words([]string{value})[0])
		}
	}
	return cmd
}

// start starts a command, which the test's end ends. What it gives waits for it.
func start(t *testing.T, cmd *exec.Cmd) (wait func() error) {
	t.Helper()
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	over, end := context.WithCancelCause(context.Background())
	go func() { end(fmt.Errorf("%w", cmd.Wait())) }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-over.Done()
		if t.Failed() {
			t.Logf("%s %q:\n%s", filepath.Base(cmd.Path), cmd.Args[1:], said.String())
		}
	})
	return func() error {
		<-over.Done()
		if cmd.ProcessState.Success() {
			return nil
		}
		return context.Cause(over)
	}
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}
