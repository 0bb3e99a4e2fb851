package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"

	"github.com/skerry-ft/skerry/cmd/skerry/internal/chaos/plan"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/chaos/report"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
	"github.com/skerry-ft/skerry/manager"
)

// asks is what asks a lighthouse about a test's job.
func asks(t *testing.T, house *lighthousetest.Server) *config {
	t.Helper()
	c := &config{job: job(t)}
	var cmd cobra.Command
	c.Add(&cmd)
	if err := cmd.Flags().Set("lighthouse", house.Addr); err != nil {
		t.Fatal(err)
	}
	return c
}

// training waits until all replicas train.
func training(t *testing.T, house *lighthousetest.Server, replicas int) {
	t.Helper()
	c := asks(t, house)
	testkit.Eventually(t, fmt.Sprintf("%d replicas train", replicas), func() bool {
		_, j, err := c.look(t.Context())
		n := 0
		for _, r := range j.Replicas {
			if trains(r) {
				n++
			}
		}
		return err == nil && n == replicas && j.MaxStep > 5
	})
}

// TestRank kills ranks above 0 of replicas of two: the launcher starts them again as a whole,
// and the job goes on meanwhile. The processes of other jobs are left alone.
func TestRank(t *testing.T) {
	t.Parallel()
	house := lighthousetest.Start(t, nil)
	launch(t, house.Addr, 3, 2, true)
	training(t, house, 3)
	status, stdout, stderr := chaos(t, t.Context(), "--lighthouse", house.Addr, "--faults", "rank", "--every", "1s", "--duration", "4s", "-o", "json")
	var r report.Report
	if err := json.Unmarshal([]byte(stdout), &r); status != 0 || err != nil || len(r.Faults) == 0 {
		t.Fatalf("status %d, %v, %s%s", status, err, stdout, stderr)
	}
	for _, f := range r.Faults {
		if f.Kind != "rank" || f.Rank != 1 || f.ResumedMs == 0 || f.WholeMs == 0 || !strings.Contains(f.How, "SIGKILL to process ") {
			t.Errorf("%+v, want a kill of rank 1 that the job got over", f)
		}
	}
}

// TestStall: replicas that nothing starts again, of which both are needed: the job commits no
// more, which is told, with an exit status of 1.
func TestStall(t *testing.T) {
	t.Parallel()
	house := lighthousetest.Start(t, lighthousetest.AtLeast(2))
	launch(t, house.Addr, 2, 1, false)
	training(t, house, 2)
	args := []string{"--lighthouse", house.Addr, "--every", "1s", "--duration", "30s", "--stall-after", "2s", "--faults", "kill"}
	if status, stdout, stderr := chaos(t, t.Context(), args...); status != 1 || stdout != "" ||
		!strings.Contains(stderr, "cannot do kill: 2 replicas train, and min_replicas is 2 (start more, or --below-min)") {
		t.Errorf("status %d, %s%s, want that it is refused", status, stdout, stderr)
	}
	status, stdout, stderr := chaos(t, t.Context(), append(args, "--below-min")...)
	for _, want := range []string{"\n1 stall · ended by the stall\n", "fault 1: kill r"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in %s", want, stdout)
		}
	}
	if status != 1 || !strings.Contains(stderr, "committed no step for 2s after fault 1, kill r") || !strings.Contains(stderr, "see skerry why --job TestStall") {
		t.Errorf("status %d, %s", status, stderr)
	}
}

// TestGuarded: without the operators' token nothing is done, whatever could be done without
// asking; with it, a dry run says what would be done, and does nothing.
func TestGuarded(t *testing.T) {
	t.Parallel()
	creds := guardtest.New(t)
	house := lighthousetest.Start(t, func(c *lighthouse.Config) { c.Guard.Token, c.OpenJoins = creds.Token, true })
	launch(t, house.Addr, 2, 1, true)
	training(t, house, 2)
	args := []string{"--lighthouse", house.Addr, "--every", "1s", "--duration", "8s", "--dry-run", "-o", "json"}
	if status, stdout, stderr := chaos(t, t.Context(), args...); status != 1 || stdout != "" || !strings.Contains(stderr, "the operators' token is named by --token-file") {
		t.Errorf("status %d, %s%s, want that a token is wanted", status, stdout, stderr)
	}
	status, stdout, stderr := chaos(t, t.Context(), append(args, "--token-file", filepath.Join(creds.Dir, "token"))...)
	var all foresight
	if err := json.Unmarshal([]byte(stdout), &all); status != 0 || err != nil || len(all.Faults) != 7 || all.Total != 7 {
		t.Fatalf("status %d, %v, %d faults: %s%s", status, err, len(all.Faults), stdout, stderr)
	}
	for i, f := range all.Faults {
		if f.Number != i+1 || !slices.Contains(unasked, plan.Kind(f.Kind)) || !strings.HasPrefix(f.Victim, "r") {
			t.Errorf("%+v", f)
		}
	}
	if events := eventsOf(t, house); slices.ContainsFunc(events, func(e api.Event) bool { return e.Kind == "lost" }) {
		t.Errorf("a dry run cost a replica: %+v", events)
	}
}

func eventsOf(t *testing.T, house *lighthousetest.Server) []api.Event {
	t.Helper()
	events, err := asks(t, house).Events(t.Context(), job(t))
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// TestKillThroughManager: replicas whose processes are not to be hit from here are killed
// through their managers. They are goroutines of this process, which chaos leaves alone.
func TestKillThroughManager(t *testing.T) {
	t.Parallel()
	house := lighthousetest.Start(t, nil)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	t.Cleanup(func() {
		stop()
		all.Wait()
	})
	killed := make(chan string, 3)
	for _, name := range []string{"a", "b", "c"} {
		ctx, end := context.WithCancel(ctx)
		all.Go(func() {
			defer end()
			_ = trainAs(ctx, manager.Config{ // its ctx ends
				Lighthouse: []string{house.Addr}, Job: job(t), ReplicaID: name, GroupWorldSize: 1,
				OnKill: func(reason string) {
					killed <- name + ": " + reason
					end()
				},
			})
		})
	}
	training(t, house, 3)
	args := []string{"--lighthouse", house.Addr, "--every", "1s", "--duration", "1900ms", "--stall-after", "5s"}
	if status, _, stderr := chaos(t, ctx, append(args, "--faults", "kill,stop")...); status != 1 ||
		!strings.Contains(stderr, "cannot do stop: no replica that trains has its process on this host (run skerry chaos where they are") ||
		!strings.Contains(stderr, "; these can be done: --faults kill") {
		t.Errorf("status %d, %s", status, stderr)
	}
	status, stdout, stderr := chaos(t, ctx, append(args, "-o", "json", "--seed", "9")...) // without --faults: what can be done
	var r report.Report
	if err := json.Unmarshal([]byte(stdout), &r); status != 0 || err != nil || len(r.Faults) != 1 || r.NotWhole != 1 {
		t.Fatalf("status %d, %v, %s%s", status, err, stdout, stderr)
	}
	f := r.Faults[0]
	if got := <-killed; got != f.Victim[:1]+": skerry chaos --seed 9" || f.How != "killed through its manager" || f.ResumedMs == 0 {
		t.Errorf("%q was killed, by %+v", got, f)
	}
}

// TestNothingToBreak: a job that is not there, or does not train, is told apart.
func TestNothingToBreak(t *testing.T) {
	t.Parallel()
	house := lighthousetest.Start(t, lighthousetest.AtLeast(2))
	if status, _, stderr := chaos(t, t.Context(), "--lighthouse", house.Addr); status != 4 || !strings.Contains(stderr, "no job is called") {
		t.Errorf("status %d, %s", status, stderr)
	}
	launch(t, house.Addr, 1, 1, true)
	var stderr string
	testkit.Eventually(t, "the job is there", func() bool {
		var status int
		status, _, stderr = chaos(t, t.Context(), "--lighthouse", house.Addr)
		return status == 1
	})
	if !strings.Contains(stderr, "does not train now, it is ") || !strings.Contains(stderr, "see skerry why --job ") {
		t.Error(stderr)
	}
}

// TestInterrupted: Ctrl-C ends what lasts, and the report comes all the same.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	house := lighthousetest.Start(t, lighthousetest.Patient)
	launch(t, house.Addr, 2, 1, true)
	training(t, house, 2)
	ctx, stop := context.WithCancel(t.Context())
	said := &stopAt{text: "SIGSTOP to process", stop: stop}
	cmd := Command()
	cmd.SetArgs([]string{"--job", job(t), "--lighthouse", house.Addr, "--faults", "stop", "--every", "1s", "--duration", "1h", "--hold", "5m", "--svg", ""})
	cmd.SetOut(said)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(ctx)
	if err == nil || ctx.Err() == nil || !strings.Contains(said.String(), " · interrupted\n") {
		t.Errorf("%v, %s", err, said)
	}
	training(t, house, 2) // which they could not if one were stopped
}

// stopAt stops at a text that is written. It is owned by one goroutine.
type stopAt struct {
	strings.Builder

	text string
	stop context.CancelFunc
}

func (s *stopAt) Write(p []byte) (int, error) {
	n, err := s.Builder.Write(p)
	if strings.Contains(s.String(), s.text) {
		s.stop()
	}
	return n, err
}
