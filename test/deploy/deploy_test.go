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

func TestSystemdUnit(t *testing.T) {
	t.Parallel()
	analyze := tool(t, "systemd-analyze")
	self, err := os.Executable() // the tool looks whether the program is there
	if err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(t.TempDir(), "skerry-lighthouse.service")
	text := strings.Replace(read(t, "systemd/skerry-lighthouse.service"), "/usr/local/bin/lighthouse", self, 1)
	if err := os.WriteFile(unit, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", unit).CombinedOutput()
	if err != nil || strings.Contains(string(out), "skerry-lighthouse.service:") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
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

// TestReplicaUnit: systemd finds nothing wrong with the unit of replicas.
func TestReplicaUnit(t *testing.T) {
	t.Parallel()
	text := read(t, "systemd/skerry-replica@.service")
	for _, want := range []string{"KillSignal=SIGTERM", "Restart=on-failure", "TimeoutStopSec=120"} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("the unit has no %s", want)
		}
	}
	analyze := tool(t, "systemd-analyze")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(t.TempDir(), "skerry-replica@0.service")
	if err := os.WriteFile(unit, []byte(strings.Replace(text, "/usr/local/bin/trainer", self, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := run(t, "", analyze, "verify", "--man=no", unit); strings.Contains(out, "skerry-replica@0.service:") {
		t.Errorf("systemd-analyze verify: %s", out)
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
	for _, file := range []string{"systemd/skerry-lighthouse.service", "kubernetes/lighthouse/lighthouse.yaml", "compose/compose.yaml"} {
		text := read(t, file)
		if at := strings.Index(text, "\nservices:"); at >= 0 { // docker's flags, and those of the health check, stand before
			text = regexp.MustCompile(`(?m)^  replica.*$`).ReplaceAllString(text[at:], "")
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
