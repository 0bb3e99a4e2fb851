package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/skerry-ft/skerry/cmd/skerry/internal/chaos/report"
	"github.com/skerry-ft/skerry/internal/procs"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/train/spawn"
)

// TestChaos breaks a demo in every way that it can be broken: the job commits a step after
// each fault, the lighthouse names what was killed, and nothing stays behind.
func TestChaos(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	demo, said, address := startDemo(t, "--replicas=4 --lighthouses=3 --steps=100000 --kill-every=0 --step-time=20ms")
	faults := "kill,stop,lighthouse,disk"
	if mayTrace(t, children(t, demo.PID())) {
		faults += ",link"
		chaosPage(t, address)
	}
	dir := t.TempDir()
	svg := filepath.Join(t.TempDir(), "run.svg")
	status, stdout, stderr := skerry("chaos", "--lighthouse", address, "--faults", faults, "--disk-path", dir, "--disk-mib", "1",
		"--every", "1s", "--duration", "13s", "--hold", "1500ms", "--seed", "5", "--svg", svg, "-o", "json")
	var r report.Report
	if err := json.Unmarshal([]byte(stdout), &r); status != 0 || err != nil {
		t.Fatalf("status %d, %v, %s%s\n%s", status, err, stdout, stderr, said)
	}
	kinds := make(map[string]int)
	for _, f := range r.Faults {
		kinds[f.Kind]++
		if f.ResumedMs == 0 {
			t.Errorf("after fault %+v no step was seen", f)
		}
		if f.Kind == "kill" && (f.Told == nil || !f.Told.Named) {
			t.Errorf("the lighthouse told %+v of a kill of %s", f.Told, f.Victim)
		}
	}
	// A busy machine recovers more slowly, so there are fewer faults: of six the draw has three kinds.
	if len(r.Faults) >= 6 && (len(kinds) < 3 || kinds["kill"] == 0) {
		t.Errorf("%d faults are of kinds %v", len(r.Faults), kinds)
	}
	if len(r.Faults) == 0 || r.Stalls+r.NoEffect > 0 || r.Ended != report.EndedDuration || r.Steps < 50 || r.Goodput <= 0 || r.Goodput > 1 {
		t.Errorf("kinds %v, %s", kinds, stdout)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v are left in the folder", entries, err)
	}
	wellFormed(t, svg)
	if err := demo.Signal(syscall.SIGINT); err != nil {
		t.Error(err)
	}
	<-demo.Done()
	if strings.Contains(said.String(), "parameters differ") {
		t.Errorf("the demo said %s", said)
	}
}

// mayTrace tells whether links of processes can be cut here.
func mayTrace(t *testing.T, pids []int) bool {
	t.Helper()
	h, err := procs.Open(pids[0])
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	return h.MayTrace() == nil
}

// chaosPage makes a dry run of each command of docs/CHAOS.md, on the demo's job.
func chaosPage(t *testing.T, address string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/CHAOS.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, m := range regexp.MustCompile("(?m)^skerry (chaos [^#>\n]+)").FindAllStringSubmatch(string(page), -1) {
		n++
		args := append(strings.Fields(m[1]), "--lighthouse", address, "--dry-run")
		args = slices.DeleteFunc(args, func(s string) bool { return s == "--job" || s == "vision" })
		if status, stdout, stderr := skerry(args...); status != 0 || stdout == "" {
			t.Errorf("%s: status %d, %s%s", m[1], status, stdout, stderr)
		}
	}
	if n < 3 {
		t.Errorf("the page has %d commands", n)
	}
}

func wellFormed(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for d := xml.NewDecoder(f); err == nil; {
		_, err = d.Token()
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("%s: %v", path, err)
	}
}

// TestChaosKilled: a replica that is stopped goes on though skerry chaos is killed.
func TestChaosKilled(t *testing.T) {
	t.Parallel()
	demo, _, address := startDemo(t, "--replicas=3 --steps=100000 --kill-every=0 --step-time=20ms")
	said := &testkit.Log{}
	args := fmt.Sprintf("chaos --lighthouse=%s --faults=stop --every=1s --hold=10m --duration=1h --overlap --svg=", address)
	p, err := spawn.Start(spawn.Worker{Name: demoWorker, WorldSize: 1, Args: []byte(args)}, spawn.Options{Stdout: said})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	stops := regexp.MustCompile(`SIGSTOP to process (\d+)`)
	stopped := func() (pids []int) {
		for _, m := range stops.FindAllStringSubmatch(said.String(), -1) {
			pid, err := strconv.Atoi(m[1])
			if err != nil {
				t.Fatal(err)
			}
			if slices.Contains(children(t, demo.PID()), pid) && state(pid) == "T" {
				pids = append(pids, pid)
			}
		}
		return pids
	}
	var pids []int
	testkit.Eventually(t, "a replica is stopped", func() bool {
		pids = stopped()
		return len(pids) > 0
	})
	p.Kill()
	testkit.Eventually(t, "no replica is stopped", func() bool {
		return !slices.ContainsFunc(pids, func(pid int) bool { return state(pid) == "T" })
	})
}

// state is what the kernel says that a process does: T is stopped; empty: it is gone.
func state(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, found := strings.Cut(string(text), ") ")
	if err != nil || !found {
		return ""
	}
	return rest[:1]
}
