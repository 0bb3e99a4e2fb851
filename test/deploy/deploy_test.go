package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const dir = "../../deploy"

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// tool skips the test on a machine without it.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not here: %v", name, err)
	}
	return path
}

// TestSystemdUnits: systemd finds nothing wrong with the units.
func TestSystemdUnits(t *testing.T) {
	t.Parallel()
	// The socket is verified with its service, which it starts.
	for _, u := range []struct {
		file, as string
		with     string   // another unit that it names
		wants    []string // lines
	}{
		{"skerry-lighthouse.service", "skerry-lighthouse.service", "", nil},
		{"skerry-replica@.service", "skerry-replica@0.service", "", []string{"KillSignal=SIGTERM", "Restart=on-failure", "TimeoutStopSec=120"}},
		{"skerry-torchft-proxy.service", "skerry-torchft-proxy.service", "skerry-torchft-proxy.socket", []string{"Requires=skerry-torchft-proxy.socket"}},
		{"skerry-torchft-proxy.socket", "skerry-torchft-proxy.socket", "skerry-torchft-proxy.service", []string{"Accept=no"}},
	} {
		t.Run(u.file, func(t *testing.T) {
			t.Parallel()
			for _, want := range u.wants {
				if !strings.Contains(read(t, "systemd/"+u.file), "\n"+want+"\n") {
					t.Errorf("the unit has no %s", want)
				}
			}
			analyze, at := tool(t, "systemd-analyze"), t.TempDir()
			self, err := os.Executable() // the tool looks whether the program is there
			if err != nil {
				t.Fatal(err)
			}
			program := regexp.MustCompile(`/usr/local/bin/\w+`)
			args := []string{"verify", "--man=no"}
			for file, as := range map[string]string{u.file: u.as, u.with: u.with} {
				if file == "" {
					continue
				}
				text := program.ReplaceAllString(read(t, "systemd/"+file), self)
				if err := os.WriteFile(filepath.Join(at, as), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				args = append(args, filepath.Join(at, as))
			}
			out, err := exec.CommandContext(t.Context(), analyze, args...).CombinedOutput()
			if err != nil || strings.Contains(string(out), "skerry-") {
				t.Errorf("systemd-analyze verify: %v\n%s", err, out)
			}
		})
	}
}

func TestKubernetesManifests(t *testing.T) {
	t.Parallel()
	kubectl := tool(t, "kubectl")
	out, err := exec.CommandContext(t.Context(), kubectl, "kustomize", filepath.Join(dir, "kubernetes")).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl kustomize: %v\n%s", err, out)
	}
	for _, want := range []string{"kind: StatefulSet", "kind: Service", "kind: PodDisruptionBudget", "replicas: 3"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the manifests do not have %q", want)
		}
	}
}

// TestTrainerFlagsExist: the trainer takes every flag that the files give it.
func TestTrainerFlagsExist(t *testing.T) {
	t.Parallel()
	help, err := exec.CommandContext(t.Context(), "go", "run", "github.com/skerry-ft/skerry/examples/digits/trainer", "-help").CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	flag := regexp.MustCompile(`(?m)(?:^|[\s"\[])(--[a-z][a-z-]+)[= ]`)
	known := map[string]bool{"--array": true} // sbatch's
	for _, m := range flag.FindAllStringSubmatch(string(help)+" ", -1) {
		known[m[1]] = true
	}
	for file, least := range map[string]int{
		"systemd/skerry-replica@.service": 3, "kubernetes/jobset/jobset.yaml": 5, "kubernetes/job/job.yaml": 5,
		"compose/compose.yaml": 16, "nomad/skerry.nomad.hcl": 4, "slurm/skerry.sbatch": 4,
	} {
		n := 0
		for _, line := range strings.Split(read(t, file), "\n") {
			if !regexp.MustCompile(`--index|--replicas|-steps=|-checkpoint-dir|-drained-status[= ]\d`).MatchString(line) {
				continue
			}
			for _, m := range flag.FindAllStringSubmatch(line+" ", -1) {
				n++
				if !known[m[1]] {
					t.Errorf("%s: the trainer does not know %s", file, m[1])
				}
			}
		}
		if n < least {
			t.Errorf("%s: %d flags of the trainer found, want %d", file, n, least)
		}
	}
}

// TestFlagsExist: every flag that the files give is one that the lighthouse
// takes.
func TestFlagsExist(t *testing.T) {
	t.Parallel()
	help, err := exec.CommandContext(t.Context(), "go", "run", "github.com/skerry-ft/skerry/cmd/lighthouse", "--help").CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	flag := regexp.MustCompile(`(?m)(?:^|[\s"])(--[a-z][a-z-]+)`)
	known := make(map[string]bool)
	for _, m := range flag.FindAllStringSubmatch(string(help), -1) {
		known[m[1]] = true
	}
	for _, file := range []string{"systemd/skerry-lighthouse.service", "kubernetes/lighthouse/lighthouse.yaml", "compose/compose.yaml", "compose/guarded.yaml", "nomad/skerry.nomad.hcl"} {
		text, _, _ := strings.Cut(read(t, file), "\n  group \"replica\"") // Nomad's trainers have flags of their own
		if at := strings.Index(text, "\nservices:"); at >= 0 {            // docker's flags, and those of the health check, stand before
			text = regexp.MustCompile(`(?m)^  replica.*$`).ReplaceAllString(text[at:], "")
			text, _, _ = strings.Cut(text, "\n  prometheus:")
		}
		found := flag.FindAllStringSubmatch(text, -1)
		if len(found) < 6 {
			t.Errorf("%s: %d flags, want more", file, len(found))
		}
		for _, m := range found {
			if !known[m[1]] {
				t.Errorf("%s: lighthouse does not know %s", file, m[1])
			}
		}
	}
}

// TestSecurityPageNamesTests: every test that docs/SECURITY.md points at is
// there.
func TestSecurityPageNamesTests(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	there := make(map[string]bool)
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err = filepath.WalkDir("../..", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		for _, m := range declared.FindAllStringSubmatch(string(b), -1) {
			there[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w+)`").FindAllStringSubmatch(string(page), -1)
	if len(named) < 30 {
		t.Errorf("the page names %d tests, want more", len(named))
	}
	for _, m := range named {
		if !there[m[1]] {
			t.Errorf("docs/SECURITY.md names %s, which is not there", m[1])
		}
	}
}
