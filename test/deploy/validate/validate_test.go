package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const deploy = "../../../deploy"

// TestDeploy: each file of deploy/ is read by a validator, which finds nothing wrong.
func TestDeploy(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run(t.Context(), &out, []string{deploy}); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
	for _, v := range validators {
		if !strings.Contains(out.String(), " "+v.name+": ") {
			t.Errorf("%s has no file to read", v.name)
		}
	}
}

// TestOrphan: a file that no validator reads is an error.
func TestOrphan(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "helm.toml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), new(bytes.Buffer), []string{dir}); err == nil || !strings.Contains(err.Error(), "helm.toml: no validator") {
		t.Errorf("error %v, want one that names the file", err)
	}
}

// refusals are mistakes: what is written in the place of what, and what the error must name.
var refusals = map[string]struct{ file, old, new, want string }{
	"Service: unknown field":        {"kubernetes/lighthouse/lighthouse.yaml", "publishNotReadyAddresses:", "publishNotReadyAddress:", "spec.publishNotReadyAddress"},
	"Service: port":                 {"kubernetes/lighthouse/lighthouse.yaml", "port: 29510}", "port: 129510}", "spec.ports[0].port"},
	"StatefulSet: unknown field":    {"kubernetes/lighthouse/lighthouse.yaml", "readOnlyRootFilesystem:", "readonlyRootFilesystem:", "readonlyRootFilesystem"},
	"StatefulSet: quantity":         {"kubernetes/lighthouse/lighthouse.yaml", "memory: 256Mi", "memory: 256MiB", "quantities must match"},
	"StatefulSet: port":             {"kubernetes/lighthouse/lighthouse.yaml", "containerPort: 29511", "containerPort: 0", "containers[0].ports[1].containerPort"},
	"StatefulSet: name of a port":   {"kubernetes/lighthouse/lighthouse.yaml", "name: gossip-udp, containerPort", "name: gossip-over-udp-port, containerPort", "containers[0].ports[3].name"},
	"StatefulSet: mount":            {"kubernetes/lighthouse/lighthouse.yaml", "{name: skerry, mountPath", "{name: certs, mountPath", "volumeMounts[1].name"},
	"StatefulSet: selector":         {"kubernetes/lighthouse/lighthouse.yaml", "      labels: {app: skerry-lighthouse}", "      labels: {app: lighthouse}", "spec.template.metadata.labels"},
	"StatefulSet: policy":           {"kubernetes/lighthouse/lighthouse.yaml", "podManagementPolicy: Parallel", "podManagementPolicy: Parallell", "spec.podManagementPolicy"},
	"PodDisruptionBudget: two":      {"kubernetes/lighthouse/lighthouse.yaml", "  maxUnavailable: 1", "  maxUnavailable: 1\n  minAvailable: 2", "minAvailable and maxUnavailable"},
	"Job: unknown field":            {"kubernetes/job/job.yaml", "backoffLimitPerIndex:", "backOffLimitPerIndex:", "spec.backOffLimitPerIndex"},
	"Job: restart policy":           {"kubernetes/job/job.yaml", "restartPolicy: Never", "restartPolicy: Always", "spec.template.spec.restartPolicy"},
	"Job: container of a rule":      {"kubernetes/job/job.yaml", "containerName: trainer", "containerName: trainr", "containerName"},
	"Job: quantity":                 {"kubernetes/job/job.yaml", `cpu: "1"`, `cpu: one`, "quantities must match"},
	"JobSet: unknown field":         {"kubernetes/jobset/jobset.yaml", "maxRestarts:", "maxRestart:", "maxRestart"},
	"JobSet: operator":              {"kubernetes/jobset/jobset.yaml", "operator: All", "operator: Every", "successPolicy.operator"},
	"JobSet: field of its pod":      {"kubernetes/jobset/jobset.yaml", "automountServiceAccountToken:", "automountServiceToken:", "automountServiceToken"},
	"JobSet: port of its pod":       {"kubernetes/jobset/jobset.yaml", "containerPort: 29520", "containerPort: 70000", "containerPort"},
	"JobSet: name":                  {"kubernetes/jobset/jobset.yaml", "name: replica\n", "name: Replica\n", "digits-Replica-3"},
	"NetworkPolicy: protocol":       {"kubernetes/network-policy/policies.yaml", "{port: 29510, protocol: TCP}", "{port: 29510, protocol: HTTP}", "spec.ingress[0].ports[0].protocol"},
	"NetworkPolicy: unknown field":  {"kubernetes/network-policy/policies.yaml", "policyTypes:", "policyType:", "spec.policyType"},
	"ServiceMonitor: unknown field": {"kubernetes/monitoring/monitors.yaml", "honorLabels:", "honourLabels:", "honourLabels"},
	"ServiceMonitor: scheme":        {"kubernetes/monitoring/monitors.yaml", "scheme: https", "scheme: tls", "spec.endpoints[0]: scheme"},
	"ServiceMonitor: key":           {"kubernetes/monitoring/monitors.yaml", "        keySecret: {name: skerry-operator, key: operator.key}\n---", "---", "spec.endpoints[0]"},
	"kustomization: unknown field":  {"kubernetes/lighthouse/kustomization.yaml", "resources:", "resource:", `unknown field "resource"`},
	"kustomization: no such file":   {"kubernetes/job/kustomization.yaml", "job.yaml", "jobs.yaml", "job/jobs.yaml"},
	"compose: unknown key":          {"compose/compose.yaml", "stop_grace_period: 120s", "stop_grace: 120s", "stop_grace"},
	"compose: port":                 {"compose/compose.yaml", "127.0.0.1:3000:3000", "127.0.0.1:3000:300000", "300000"},
	"compose: duration":             {"compose/compose.yaml", "interval: 5s", "interval: 5 seconds", "interval"},
	"compose: no such service":      {"compose/compose.yaml", "server1: {condition", "server9: {condition", "server9"},
	"compose: no such volume":       {"compose/compose.yaml", "volumes: [data1:/data]", "volumes: [data9:/data]", "data9"},
	"Nomad: unknown attribute":      {"nomad/skerry.nomad.hcl", "kill_timeout =", "kill_timout =", "kill_timout"},
	"Nomad: unknown block":          {"nomad/skerry.nomad.hcl", "volume_mount {", "volumemount {", "volumemount"},
	"Nomad: option of docker":       {"nomad/skerry.nomad.hcl", "network_mode = \"host\"\n        args", "network = \"host\"\n        args", "\"network\""},
	"Nomad: port":                   {"nomad/skerry.nomad.hcl", "static = 29511", "static = 129511", "static = 129511"},
	"Nomad: label of a port":        {"nomad/skerry.nomad.hcl", `port     = "rpc"`, `port     = "http"`, `port "http"`},
	"Nomad: duration":               {"nomad/skerry.nomad.hcl", `interval = "5s"`, `interval = "5"`, "missing unit"},
	"Nomad: volume":                 {"nomad/skerry.nomad.hcl", `volume      = "data"`, `volume      = "disk"`, "volume_mount"},
	"Nomad: restarts":               {"nomad/skerry.nomad.hcl", `interval = "1h"`, `interval = "1m"`, "100 attempts"},
	"Dockerfile: instruction":       {"images/Dockerfile", "WORKDIR /src", "WORKFOLDER /src", "WORKFOLDER"},
	"Dockerfile: stage":             {"images/Dockerfile", "--from=build /tree/trainer", "--from=builder /tree/trainer", "--from=builder"},
	"Dockerfile: port":              {"images/Dockerfile", "29512/udp", "29512/upd", "upd"},
	"Dockerfile: flag":              {"images/Dockerfile.python", "COPY dist", "COPY --form=x dist", "form"},
	"dashboard: unknown field":      {"grafana/skerry.json", `"fieldConfig"`, `"fieldConfigs"`, "fieldConfigs"},
	"dashboard: kind of panel":      {"grafana/skerry.json", `"type": "stat"`, `"type": "stats"`, `"stats"`},
	"data source: unknown field":    {"grafana/provisioning/datasources/prometheus.yaml", "isDefault:", "default:", "default"},
	"provider: no path":             {"grafana/provisioning/dashboards/skerry.yaml", "{path: /etc/skerry}", "{}", "options.path"},
	"alert: expression":             {"prometheus/rules.yml", "sum(skerry_lighthouse_leader) < 1", "sum(skerry_lighthouse_leader < 1", "parse"},
	"Prometheus: unknown field":     {"prometheus/prometheus.yml", "scrape_interval:", "scrape_intervall:", "scrape_intervall"},
	"unit: unknown key":             {"systemd/skerry-lighthouse.service", "RestartSec=", "RestartSecs=", "RestartSecs"},
	"unit: value":                   {"systemd/skerry-replica@.service", "KillMode=mixed", "KillMode=both", "kill mode"},
	"sbatch: quotes":                {"slurm/skerry.sbatch", `"${words[@]}" &`, `${words[@]} &`, "SC2068"},
}

// TestRefuses: each mistake is refused, by the validator of its file, and by name.
func TestRefuses(t *testing.T) {
	t.Parallel()
	for name, r := range refusals {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at, of := claimant(t, r.file)
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(deploy)); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(filepath.Join(dir, madeSecrets)); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, r.file)
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			wrong := strings.Replace(string(text), r.old, r.new, 1)
			if wrong == string(text) {
				t.Fatalf("%s has no %q", r.file, r.old)
			}
			if err := os.WriteFile(file, []byte(wrong), 0o600); err != nil {
				t.Fatal(err)
			}
			trees, err := assign(dir)
			if err != nil {
				t.Fatal(err)
			}
			err = of.check(t.Context(), trees[at])
			if errors.Is(err, errNoTool) {
				t.Skip(err)
			}
			named := filepath.Base(r.file)
			if named == "kustomization.yaml" { // kustomize names the folder
				named = filepath.Base(filepath.Dir(r.file))
			}
			if err == nil || !strings.Contains(err.Error(), r.want) || !strings.Contains(err.Error(), named) {
				t.Errorf("error %v, want one that names %s and %s", err, r.file, r.want)
			}
		})
	}
}

func claimant(t *testing.T, file string) (int, validator) {
	t.Helper()
	for i, v := range validators {
		if v.claim(file) {
			return i, v
		}
	}
	t.Fatalf("no validator claims %s", file)
	return 0, validator{}
}

// TestImagesAreRenamed: with the images that kustomization.yaml has as an example, each
// container of each component is of that registry.
func TestImagesAreRenamed(t *testing.T) {
	t.Parallel()
	trees, err := assign(deploy)
	if err != nil {
		t.Fatal(err)
	}
	at, _ := claimant(t, "kubernetes/kustomization.yaml")
	memory, components, err := inMemory(trees[at])
	if err != nil {
		t.Fatal(err)
	}
	const file = "/kubernetes/kustomization.yaml"
	text, err := memory.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, example, found := strings.Cut(string(text), "\n# images:\n")
	if !found {
		t.Fatal("kustomization.yaml has no example of images")
	}
	if err := memory.WriteFile(file, []byte(before+"\nimages:\n"+strings.ReplaceAll(example, "#   -", "  -"))); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, component := range components {
		all, err := render(memory, component)
		if err != nil {
			t.Fatal(err)
		}
		rendered, err := all.AsYaml()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(rendered)) {
			if _, image, ok := strings.Cut(strings.TrimSpace(line), "image: "); ok {
				n++
				if !strings.HasPrefix(image, "registry.example.org/skerry") {
					t.Errorf("component %s: image %s, want registry.example.org's", component, image)
				}
			}
		}
	}
	if n != len(components)+2 {
		t.Errorf("%d images, want the lighthouse's with each of %q, and two trainers'", n, components)
	}
}
