package manager

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/internal/netaddr"
	"github.com/skerry-ft/skerry/pg/pgtest"
)

// scraped asks for a manager's metrics over its port, as Prometheus does; by the name of a
// series with its labels.
func scraped(t *testing.T, c *http.Client, address string) map[string]float64 {
	t.Helper()
	code, body := asked(t, c, address+"/metrics", "")
	if code != http.StatusOK {
		t.Fatalf("scrape: %d %s", code, body)
	}
	all := make(map[string]float64)
	for lines := bufio.NewScanner(strings.NewReader(body)); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		i := strings.LastIndex(line, " ")
		value, err := strconv.ParseFloat(line[i+1:], 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all[line[:i]] = value
	}
	return all
}

// asked makes a GET request under the name host; "": that of the address.
func asked(t *testing.T, c *http.Client, address, host string) (code int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(limited(t), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it is read to its end
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// scraper is an HTTP client on a trainer's host.
func (tr *trainer) scraper() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) { return tr.host.Dial(ctx, address) }}}
}

// Metrics are there without any configuration, on the port that the lighthouse knows; a
// registry of the caller's has the same.
func TestMetrics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		registry := prometheus.NewRegistry()
		w.tune = func(c *Config) { c.Registry = registry }
		a, b := w.trainer("a").start(5), w.trainer("b").start(5)
		w.reaches(5, a, b)
		got := scraped(t, a.scraper(), a.m.Address())
		const of = `{job="default",replica="a"}`
		for name, want := range map[string]float64{"step": 5, "commits_total": 5, "joins_total": 1, "participants": 2,
			"participating": 1, "discards_total": 0, "healing": 0, "lighthouse_connected": 1, "quorums_fallen_total": 0,
			"configure_seconds_count": 1, "quorum_seconds_count": 1, "reform_seconds_count": 0} {
			if v, ok := got["skerry_manager_"+name+of]; !ok || v != want {
				t.Errorf("%s = %v (%t), want %v", name, v, ok, want)
			}
		}
		if v := got[`skerry_manager_step_seconds_count{job="default",outcome="committed",replica="a"}`]; v != 5 {
			t.Errorf("%v steps measured, want 5", v)
		}
		if v := got["skerry_manager_allreduce_wait_seconds_count"+of]; v < 5 {
			t.Errorf("%v waits for collectives measured, want 5 at least", v)
		}
		if _, ok := got["go_goroutines"]; !ok {
			t.Error("nothing of the process")
		}
		families, err := registry.Gather()
		if err != nil || len(families) < 30 || len(families[0].GetMetric()) != 2 {
			t.Errorf("the registry has %d families (%v), want 30 at least, with two replicas", len(families), err)
		}
		a.stop()
		b.stop()
		if families, _ := registry.Gather(); len(families) != 0 {
			t.Errorf("%d metrics left after Close", len(families))
		}
	})
}

// A death and a heal are told in seconds and bytes.
func TestMetricsOfADeath(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, c := w.trainer("a").start(1000), w.trainer("b").start(1000), w.trainer("c").start(1000)
		w.reaches(5, a, b, c)
		c.kill()
		w.reaches(a.m.Step()+5, a, b)
		back := w.trainer("c").start(1000)
		w.reaches(back.m.Step()+20, back)
		got := scraped(t, a.scraper(), a.m.Address())
		const ofA, ofC = `{job="default",replica="a"}`, `{job="default",replica="c"}`
		for _, name := range []string{"quorums_fallen_total", "peers_lost_total", "reform_seconds_count"} {
			if got["skerry_manager_"+name+ofA] < 1 {
				t.Errorf("%s of a survivor is %v, want 1 at least", name, got["skerry_manager_"+name+ofA])
			}
		}
		got = scraped(t, back.scraper(), back.m.Address())
		for _, name := range []string{"heals_total", "heal_seconds_count", "heal_bytes_total"} {
			if got["skerry_manager_"+name+ofC] < 1 {
				t.Errorf("%s of who healed is %v, want 1 at least", name, got["skerry_manager_"+name+ofC])
			}
		}
		if got[`skerry_manager_goodput_seconds_total{job="default",kind="useful",replica="c"}`] < 0 {
			t.Error("time ran back")
		}
	})
}

// Scrapes are guarded as the lighthouse's are: with a CA a certificate of the job, a
// lighthouse or an operator; on loopback no name of another site.
func TestMetricsAreGuarded(t *testing.T) {
	t.Parallel()
	c := guardtest.New(t)
	m := guardedManager(t, c.PartyOptions(t, guard.Party{Role: guard.Replica, Job: "vision"}, "replica"))
	port := strings.TrimPrefix(m.Address(), "https://")
	as := func(p guard.Party, name string) *http.Client {
		g := guardtest.Open(t, c.PartyOptions(t, p, name))
		return &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
			DialTLSContext: g.TLS.DialOver(new(net.Dialer).DialContext, guard.Party{Role: guard.Replica, Job: "vision"}, patience)}}
	}
	operator := as(guard.Party{Role: guard.Operator}, "operator")
	for _, tc := range []struct {
		name, path, host string
		c                *http.Client
		want             int
	}{
		{"an operator", "/metrics", "", operator, http.StatusOK},
		{"a lighthouse", "/metrics", "", as(guard.Party{Role: guard.Lighthouse}, "lighthouse"), http.StatusOK},
		{"a replica of the job", "/metrics", "", as(guard.Party{Role: guard.Replica, Job: "vision"}, "sibling"), http.StatusOK},
		{"a replica of another job", "/metrics", "", as(guard.Party{Role: guard.Replica, Job: "other"}, "other"), http.StatusForbidden},
		{"a page of another site", "/metrics", "evil.example:" + port, operator, http.StatusMisdirectedRequest},
		{"localhost", "/metrics", "localhost", operator, http.StatusOK},
		{"another path", "/", "", operator, http.StatusNotFound},
	} {
		if code, body := asked(t, tc.c, m.Address()+tc.path, tc.host); code != tc.want {
			t.Errorf("%s: %d %s, want %d", tc.name, code, body, tc.want)
		}
	}
	caOnly := guardtest.Open(t, guard.Options{TLSCA: filepath.Join(c.Dir, "ca.pem")})
	for name, client := range map[string]*http.Client{
		"no certificate": {Transport: &http.Transport{DisableKeepAlives: true,
			DialTLSContext: caOnly.TLS.DialOver(new(net.Dialer).DialContext, guard.Party{Role: guard.Replica}, patience)}},
	} {
		req, err := http.NewRequestWithContext(limited(t), http.MethodGet, m.Address()+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := client.Do(req); err == nil {
			resp.Body.Close() //nolint:errcheck // it should not be there
			t.Errorf("%s: %d, want an error of the handshake", name, resp.StatusCode)
		}
	}
	plain := "http://" + netaddr.HostPort(m.Address()) + "/metrics"
	if code, body := asked(t, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, plain, ""); code != http.StatusBadRequest ||
		!strings.Contains(body, "https://") {
		t.Errorf("without TLS: %d %s, want 400 and what to do", code, body)
	}
}

// guardedManager runs a manager that finds no lighthouse.
func guardedManager(t *testing.T, g Guard) *Manager {
	t.Helper()
	m, err := New(Config{
		Job: "vision", ReplicaID: "a", Lighthouse: []string{"127.0.0.1:1"}, Listen: "127.0.0.1:0",
		Backend: pgtest.NewMemory().Backend(), Guard: g,
	})
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan struct{})
	go func() {
		defer close(ran)
		_ = m.Run(context.Background()) // nil after Close
	}()
	t.Cleanup(func() {
		_ = m.Close() // nothing is lost with it
		<-ran
	})
	return m
}
