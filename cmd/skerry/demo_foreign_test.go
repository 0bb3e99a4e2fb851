package main

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/train/spawn"
)

// startDemo runs a demo in a process of its own, and returns what it says, and where its lighthouse is.
func startDemo(t *testing.T, args string) (p *spawn.Process, said *testkit.Log, address string) {
	t.Helper()
	said = &testkit.Log{}
	p, err := spawn.Start(spawn.Worker{Name: demoWorker, WorldSize: 1, Args: []byte("demo " + args)}, spawn.Options{Stdout: said})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	says(t, said, "step 50: ")
	page := regexp.MustCompile(`dashboard at http://(\S+)/`).FindStringSubmatch(said.String())
	if page == nil {
		t.Fatalf("no dashboard in %s", said)
	}
	return p, said, page[1]
}

func says(t *testing.T, said *testkit.Log, what ...string) {
	t.Helper()
	for _, want := range what {
		testkit.Eventually(t, "the demo says "+want, func() bool { return strings.Contains(said.String(), want) })
	}
}

// TestDemoSurvivesOthers: a kill from elsewhere, one by the tool, and a drain are told, counted and got over; nobody is
// started again whom an operator wants away.
func TestDemoSurvivesOthers(t *testing.T) {
	t.Parallel()
	p, said, address := startDemo(t, "--replicas=4 --steps=500 --kill-every=0 --step-time=20ms")
	if err := syscall.Kill(slices.Max(children(t, p.PID())), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	says(t, said, "ended, and not by this demo: ", " healed to step ")
	for _, args := range []string{"kill replica-0", "drain replica-1", "evict replica-2"} {
		if status, _, stderr := skerry(append(strings.Fields(args), "--lighthouse="+address)...); status != 0 {
			t.Fatalf("%s: %s", args, stderr)
		}
	}
	says(t, said, "replica-0 ended, and not by this demo", "replica-1 is gone: ", "replica-2 is gone: ")
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	if err := p.Wait(ctx); err != nil {
		t.Errorf("the demo ended with %v: %s", err, said)
	}
	says(t, said, "\n2 of the kills came from elsewhere\n", "drained", "evicted", "\nparity: true\n")
}

// TestDemoInterrupted: what was done so far is told, and no parity of what was not compared.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	p, said, _ := startDemo(t, "--replicas=2 --steps=100000 --kill-every=0 --step-time=5ms")
	if err := p.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := p.Wait(ctx); err == nil || !strings.Contains(err.Error(), "130") {
		t.Errorf("it ended with %v, want exit status 130", err)
	}
	if text := said.String(); !regexp.MustCompile(`\n\d+ steps in .* goodput`).MatchString(text) || strings.Contains(text, "parity") {
		t.Errorf("said %s, want what was done, without parity", text)
	}
}

// TestDemoStays: the dashboard is there when training is over, until Ctrl-C, which is no error then.
// Who ends first may serve the other's last steps by some of its own (Manager.Finish).
func TestDemoStays(t *testing.T) {
	t.Parallel()
	p, said, address := startDemo(t, "--replicas=2 --steps=60 --kill-every=0 --step-time=5ms --stay")
	says(t, said, "parity: true", "the dashboard stays at http://"+address+"/")
	if status, stdout, stderr := skerry("status", "--lighthouse="+address); status != 0 || !regexp.MustCompile(`job default: [a-z]+, step 6[0-9] of 60,`).MatchString(stdout) {
		t.Errorf("status %d, %s %s", status, stdout, stderr)
	}
	if err := p.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := p.Wait(ctx); err != nil {
		t.Errorf("it ended with %v", err)
	}
}
