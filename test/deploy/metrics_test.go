package deploy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
)

// rules is what a rules file of Prometheus says.
type rules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Record, Expr string
			Labels, Annotations map[string]string
		}
	}
}

func readRules(t *testing.T) (r rules) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(read(t, "prometheus/rules.yml")), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// dashboard is what of Grafana's format has queries.
type dashboard struct {
	Panels []struct {
		Title   string
		Targets []struct{ Expr string }
	}
	Annotations struct{ List []struct{ Name, Expr string } }
	Templating  struct {
		List []struct{ Name, Definition string }
	}
}

// variableQuery is how Grafana asks for the values of a label.
var variableQuery = regexp.MustCompile(`^label_values\((.*), *(\w+)\)$`)

// queries are all that deploy/ asks Prometheus, by where they stand; Grafana's variables are
// as if all were chosen.
func queries(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, g := range readRules(t).Groups {
		for _, r := range g.Rules {
			all["rules.yml: "+r.Alert+r.Record] = r.Expr
		}
	}
	var d dashboard
	if err := json.Unmarshal([]byte(read(t, "grafana/skerry.json")), &d); err != nil {
		t.Fatal(err)
	}
	for _, p := range d.Panels {
		for i, target := range p.Targets {
			all[fmt.Sprintf("skerry.json: %s, %d", p.Title, i)] = target.Expr
		}
	}
	for _, a := range d.Annotations.List {
		all["skerry.json: annotation "+a.Name] = a.Expr
	}
	for _, v := range d.Templating.List {
		if v.Name == "datasource" {
			continue
		}
		parts := variableQuery.FindStringSubmatch(v.Definition)
		if parts == nil {
			t.Fatalf("variable %s: %q is not label_values(series, label)", v.Name, v.Definition)
		}
		all["skerry.json: variable "+v.Name] = parts[1]
	}
	for where, query := range all {
		all[where] = strings.NewReplacer("$job", ".*", "$replica", ".*").Replace(query)
	}
	return all
}

// get makes a request, and returns the body of an answer that is well.
func get(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: testkit.Patience}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it is read to its end
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s, %v\n%s", url, resp.Status, err, body)
	}
	return string(body)
}

// sample is a series and its value.
type sample struct {
	of    labels
	value float64
}

var (
	sampleLine  = regexp.MustCompile(`^([a-zA-Z_:][\w:]*)(\{.*\})? (\S+)$`)
	sampleLabel = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
)

// scrape reads a target as Prometheus does, with honor_labels: the target's labels are added
// where a series has none of that name.
func scrape(t *testing.T, url string, target labels) (all []sample) {
	t.Helper()
	for lines := bufio.NewScanner(strings.NewReader(get(t, url))); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		parts := sampleLine.FindStringSubmatch(lines.Text())
		if parts == nil {
			t.Fatalf("%s: no sample: %q", url, lines.Text())
		}
		value, err := strconv.ParseFloat(parts[3], 64)
		if err != nil {
			t.Fatal(err)
		}
		of := labels{"": parts[1]}
		for name, value := range target {
			of[name] = value
		}
		for _, l := range sampleLabel.FindAllStringSubmatch(parts[2], -1) {
			of[l[1]] = l[2]
		}
		all = append(all, sample{of, value})
	}
	up := labels{"": "up"}
	for name, value := range target {
		up[name] = value
	}
	return append(all, sample{up, 1})
}

// scrapeAll reads the servers, and the replicas that these name.
func (c *cluster) scrapeAll(t *testing.T) (all []sample) {
	t.Helper()
	for _, s := range c.Servers {
		all = append(all, scrape(t, s.URL("/metrics"), labels{"job": "skerry-lighthouse", "instance": s.Addr})...)
	}
	var found []struct {
		Targets []string
		Labels  map[string]string
	}
	if err := json.Unmarshal([]byte(get(t, c.Servers[c.Followers()[0]].URL("/metrics/targets"))), &found); err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		url := f.Labels["__scheme__"] + "://" + f.Targets[0] + "/metrics"
		all = append(all, scrape(t, url, labels{"job": "skerry-replica", "instance": f.Labels["instance"]})...)
	}
	return all
}

// sum adds up what a query's one selector selects, and counts it.
func sum(all []sample, query string) (total float64, n int) {
	s := selectors(query)[0]
	for _, x := range all {
		if s.matches(x.of) {
			total += x.value
			n++
		}
	}
	return total, n
}

// TestEverySeriesExists: three servers and three replicas train, one is killed and comes
// back; then each series that an alert or the dashboard names is there.
func TestEverySeriesExists(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	a, b, victim := c.train(t, "a"), c.train(t, "b"), c.train(t, "c")
	goesOn(t, a, b, victim)
	victim.kill()
	goesOn(t, a, b)
	goesOn(t, c.train(t, "c"))
	denied(t, c.Servers[c.Leader()].Addr)
	var all []sample
	testkit.Eventually(t, "the death and the heal are told", func() bool {
		all = c.scrapeAll(t)
		lost, _ := sum(all, `skerry_lighthouse_lost_total`)
		reformed, _ := sum(all, `skerry_lighthouse_reform_seconds_count{job="default"}`)
		healed, _ := sum(all, `skerry_manager_heal_bytes_total{replica="c"}`)
		return lost >= 1 && reformed >= 1 && healed > 0
	})
	recorded := make(map[string]bool)
	for _, g := range readRules(t).Groups {
		for _, r := range g.Rules {
			recorded[r.Record] = true
		}
	}
	n := 0
	for where, query := range queries(t) {
		for _, s := range selectors(query) {
			n++
			if recorded[s.name] || slices.ContainsFunc(all, func(x sample) bool { return s.matches(x.of) }) {
				continue
			}
			t.Errorf("%s: no series %v", where, s)
		}
	}
	documented(t, all)
	if n < 80 {
		t.Errorf("%d selectors found, want 80 at least", n)
	}
	for query, want := range map[string]int{
		`skerry_lighthouse_raft_last_index`: 3, `skerry_lighthouse_raft_applied_index`: 3, `skerry_lighthouse_build_info`: 3,
		`skerry_lighthouse_standing{job="default"}`: 1, `skerry_manager_step`: 3, `skerry_manager_build_info`: 3,
	} {
		if total, got := sum(all, query); got != want || total < float64(want) {
			t.Errorf("%s: %d series, together %v, want %d, each 1 at least", query, got, total, want)
		}
	}
}

// denied makes a call without the token.
func denied(t *testing.T, addr string) {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // nothing is lost with it
	_, err = skerrypb.NewLighthouseClient(conn).Evict(t.Context(), &skerrypb.EvictRequest{ReplicaId: "a"})
	if status.Code(err) != codes.Unauthenticated {
		t.Fatalf("evict without the token: %v, want Unauthenticated", err)
	}
}

// TestAlertsSayWhatToDo: each has a severity, what is wrong, what to do, and a test.
func TestAlertsSayWhatToDo(t *testing.T) {
	t.Parallel()
	var tests struct {
		Tests []struct {
			Name string
			Test []struct {
				Alerts []any `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "prometheus/rules_test.yml")), &tests); err != nil {
		t.Fatal(err)
	}
	fires := make(map[string]bool)
	for _, x := range tests.Tests {
		for _, at := range x.Test {
			fires[x.Name] = fires[x.Name] || len(at.Alerts) > 0
		}
	}
	for _, g := range readRules(t).Groups {
		for _, r := range g.Rules {
			if r.Alert == "" {
				continue
			}
			if s := r.Labels["severity"]; s != "page" && s != "ticket" {
				t.Errorf("%s: severity %q, want page or ticket", r.Alert, s)
			}
			if len(r.Annotations["summary"]) < 20 || len(r.Annotations["description"]) < 40 {
				t.Errorf("%s: want a summary, and a description of what to do", r.Alert)
			}
			if !fires[r.Alert] {
				t.Errorf("%s: no test in rules_test.yml in which it fires", r.Alert)
			}
		}
	}
}

// TestRules runs Prometheus' own tests of the rules.
func TestRules(t *testing.T) {
	t.Parallel()
	promtool := tool(t, "promtool")
	for _, args := range [][]string{
		{"check", "config", "prometheus.yml"}, {"check", "rules", "rules.yml"}, {"test", "rules", "rules_test.yml"},
	} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = filepath.Join(dir, "prometheus")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}
