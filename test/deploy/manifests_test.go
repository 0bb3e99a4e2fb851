package deploy

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// longestDrain is the trainer's --step-timeout: a drain takes a step at most. A grace must be
// longer.
const longestDrain = time.Minute

// documents are those of a YAML file. A key that is there twice is an error.
func documents(t *testing.T, file string) (all []map[string]any) {
	t.Helper()
	for d := yaml.NewDecoder(strings.NewReader(read(t, file))); ; {
		var doc map[string]any
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, doc)
	}
}

// at is what lies in a document by a path of keys, with numbers for the places in lists.
func at(t *testing.T, doc any, path string) any {
	t.Helper()
	for _, key := range strings.Split(path, "/") {
		switch d := doc.(type) {
		case map[string]any:
			doc = d[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(d) {
				t.Fatalf("%s: no place %s", path, key)
			}
			doc = d[i]
		default:
			t.Fatalf("%s: nothing has %s", path, key)
		}
	}
	return doc
}

// TestTrainerManifests: a drain has its time, comes again, and does not count; images, ports
// and secrets are those of the other files.
func TestTrainerManifests(t *testing.T) {
	t.Parallel()
	for file, job := range map[string]string{"kubernetes/jobset/jobset.yaml": "spec/replicatedJobs/0/template/spec", "kubernetes/job/job.yaml": "spec"} {
		spec := at(t, documents(t, file)[0], job)
		pod := at(t, spec, "template/spec")
		if grace, _ := at(t, pod, "terminationGracePeriodSeconds").(int); time.Duration(grace)*time.Second <= longestDrain {
			t.Errorf("%s: a grace of %d s, want more than %v", file, grace, longestDrain)
		}
		args, _ := at(t, pod, "containers/0/args").([]any)
		status := at(t, spec, "podFailurePolicy/rules/0/onExitCodes/values/0")
		if n, _ := status.(int); !slices.Contains(args, any("--drained-status="+strconv.Itoa(n))) {
			t.Errorf("%s: args %v, want --drained-status=%v, which podFailurePolicy ignores", file, args, status)
		}
		for path, want := range map[string]any{
			"restartPolicy": "Never", "containers/0/image": "skerry-trainer:latest", "containers/0/ports/0/containerPort": 29520, "containers/0/env/2/value": "[$(POD_IP)]:29520",
			"containers/0/securityContext/readOnlyRootFilesystem": true, "securityContext/runAsUser": 65532,
		} {
			if got := at(t, pod, path); got != want {
				t.Errorf("%s: %s is %v, want %v", file, path, got, want)
			}
		}
	}
	lighthouse := documents(t, "kubernetes/lighthouse/lighthouse.yaml")[2]
	if image := at(t, lighthouse, "spec/template/spec/containers/0/image"); image != "skerry:latest" {
		t.Errorf("the lighthouse's image is %v, want skerry:latest", image)
	}
	policies := documents(t, "kubernetes/network-policy/policies.yaml")
	for i, path := range []string{"spec/ingress/0/ports/0/port", "spec/ingress/1/ports/0/port", "spec/ingress/1/ports/2/port"} {
		if port := at(t, policies[0], path); port != 29510+i {
			t.Errorf("%s is %v, want %d", path, port, 29510+i)
		}
	}
}

// TestKubernetesComponents: each can be taken.
func TestKubernetesComponents(t *testing.T) {
	t.Parallel()
	kubectl, tree := tool(t, "kubectl"), filepath.Join(t.TempDir(), "kubernetes")
	if err := os.CopyFS(tree, os.DirFS(filepath.Join(dir, "kubernetes"))); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(tree, "kustomization.yaml")
	for component, kinds := range map[string][]string{
		"jobset": {"JobSet"}, "job": {"Job"}, "network-policy": {"NetworkPolicy"}, "monitoring": {"ServiceMonitor", "PodMonitor"},
	} {
		text := strings.Replace(read(t, "kubernetes/kustomization.yaml"), "components: []", "components: ["+component+"]", 1)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out := run(t, tree, kubectl, "kustomize", ".")
		for _, kind := range append(kinds, "StatefulSet") {
			if !strings.Contains(out, "\nkind: "+kind+"\n") {
				t.Errorf("%s: no %s", component, kind)
			}
		}
	}
}

// TestCompose: what it mounts is there, it builds the targets that there are, and graces are
// long enough.
func TestCompose(t *testing.T) {
	t.Parallel()
	var c struct {
		Services map[string]struct {
			Build struct{ Dockerfile, Target string }
			Grace string   `yaml:"stop_grace_period"`
			Mount []string `yaml:"volumes"`
		}
		Volumes map[string]any
	}
	if err := yaml.Unmarshal([]byte(read(t, "compose/compose.yaml")), &c); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"server1", "server2", "server3", "replica0", "replica1", "replica2", "replica3", "prometheus", "grafana"} {
		if _, ok := c.Services[want]; !ok {
			t.Errorf("no service %s", want)
		}
	}
	for name, s := range c.Services {
		if s.Build.Target != "" && !strings.Contains(read(t, "images/Dockerfile"), " AS "+s.Build.Target+"\n") {
			t.Errorf("%s: no target %s", name, s.Build.Target)
		}
		for _, m := range s.Mount {
			from, _, _ := strings.Cut(m, ":")
			if _, err := os.Stat(filepath.Join(dir, "compose", from)); strings.HasPrefix(from, ".") && err != nil {
				t.Errorf("%s: %v", name, err)
			} else if _, ok := c.Volumes[from]; !strings.HasPrefix(from, ".") && !ok {
				t.Errorf("%s: no volume %s", name, from)
			}
		}
		grace, err := time.ParseDuration(s.Grace)
		if strings.HasPrefix(name, "replica") && (err != nil || grace <= longestDrain) {
			t.Errorf("%s: stop_grace_period %q, want more than %v", name, s.Grace, longestDrain)
		}
	}
}

// TestNomad checks the form, and the times: its parser is no dependency of this module.
func TestNomad(t *testing.T) {
	t.Parallel()
	text := read(t, "nomad/skerry.nomad.hcl")
	if open, closed := strings.Count(text, "{"), strings.Count(text, "}"); open != closed {
		t.Errorf("%d braces are opened and %d closed", open, closed)
	}
	graces := regexp.MustCompile(`kill_timeout = "(\w+)"`).FindAllStringSubmatch(text, -1)
	if len(graces) != 2 {
		t.Fatalf("%d graces, want 2", len(graces))
	}
	if grace, err := time.ParseDuration(graces[1][1]); err != nil || grace <= longestDrain {
		t.Errorf("the trainers' kill_timeout is %s, want more than %v", graces[1][1], longestDrain)
	}
}

// TestImageBuilds: the image is built of the Go that go.mod has, and its go build makes what
// its stages copy. TestStatic has that they want no loader.
func TestImageBuilds(t *testing.T) {
	if !*releases {
		t.Skip("it builds the programs; -deploy.release")
	}
	t.Parallel()
	text := read(t, "images/Dockerfile")
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if want := regexp.MustCompile(`(?m)^go (\S+)$`).FindSubmatch(mod)[1]; !strings.Contains(text, "FROM golang:"+string(want)+" AS build\n") {
		t.Errorf("the image is not built of golang:%s, which go.mod has", want)
	}
	line := regexp.MustCompile(`(?m)^RUN (go build .*)$`).FindStringSubmatch(text)
	if line == nil {
		t.Fatal("no RUN go build")
	}
	out := t.TempDir() + "/"
	cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.Replace(line[1], "/out/", out, 1))
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", line[1], err, b)
	}
	for _, name := range []string{"skerry", "lighthouse", "trainer"} { // what scripts/images packs
		if _, err := os.Stat(filepath.Join(out, name)); err != nil {
			t.Errorf("what an image has is not built: %v", err)
		}
	}
}
