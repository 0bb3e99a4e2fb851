package launch_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/launch"
)

// outcomes are how replicas ended, by name, with their restarts: "done 0".
func outcomes(r launch.Report) map[string]string {
	out := make(map[string]string)
	for _, one := range r.Replicas {
		out[one.Replica] = fmt.Sprint(one.Outcome, " ", one.Restarts)
	}
	return out
}

// want checks how replicas ended.
func want(t *testing.T, r launch.Report, of ...string) {
	t.Helper()
	all := make(map[string]string)
	for i, one := range of {
		all[fmt.Sprintf("replica-%d", i)] = one
	}
	if got := outcomes(r); !maps.Equal(got, all) {
		t.Errorf("%v, want %v", got, all)
	}
}

// All ranks run with the variables of their place, and the job is done when they are.
func TestAllAreDone(t *testing.T) {
	t.Parallel()
	j := start(t, `echo "$REPLICA_GROUP_ID of $NUM_REPLICA_GROUPS, $RANK of $WORLD_SIZE, $SKERRY_JOB, $OWN"`, func(c *launch.Config) {
		c.Replicas, c.Ranks, c.Job, c.Env = 2, 2, "digits", []string{"OWN=value"}
	})
	report, err := j.ends(t)
	if err != nil {
		t.Fatal(err)
	}
	want(t, report, "done 0", "done 0")
	var lines []string
	for replica := range 2 {
		for rank := range 2 {
			lines = append(lines, fmt.Sprintf("replica-%d:%d | %d of 2, %d of 2, digits, value\n", replica, rank, replica, rank))
		}
	}
	if got := j.out.lines(); !slices.Equal(got, lines) {
		t.Errorf("%q, want %q", got, lines)
	}
}

// A rank that dies ends its replica, whose other ranks may hang; the replica alone starts
// again, and the others do not notice.
func TestOnlyTheReplicaThatDiedStartsAgain(t *testing.T) {
	t.Parallel()
	j := start(t, `
		echo "begun $TORCHELASTIC_RESTART_COUNT"
		if [ $REPLICA_GROUP_ID-$TORCHELASTIC_RESTART_COUNT = 1-0 ]; then
			if [ $RANK = 0 ]; then echo "dies" >&2; kill -9 $$; fi
			trap "" TERM   # hangs, as in a collective
			while :; do sleep 1000; done
		fi
		`+waitFor("over"), func(c *launch.Config) {
		c.Replicas, c.Ranks, c.MaxRestarts, c.KillGrace = 3, 2, 1, time.Millisecond
	})
	j.out.says(t, "begun 1", 2)
	j.file(t, "over")
	report, err := j.ends(t)
	if err != nil {
		t.Fatal(err)
	}
	want(t, report, "done 0", "done 1", "done 0")
	f := report.Replicas[1].Failures[0]
	if f.Rank != 0 || f.Signal != syscall.SIGKILL || f.Status != 137 || !slices.Contains(f.Tail, "dies") || !strings.Contains(f.Error(), "replica-1 rank 0") {
		t.Errorf("the failure is %+v: %v", f, f)
	}
	for _, line := range []string{"replica-0:0 | begun", "replica-0:1 | begun", "replica-2:0 | begun", "replica-2:1 | begun"} {
		if n := strings.Count(strings.Join(j.out.lines(), ""), line); n != 1 {
			t.Errorf("%d lines with %q, want 1", n, line)
		}
	}
}

// When the budget is spent the job ends soon, with the rank that was the cause; what ran is
// stopped.
func TestTooFewAreLeft(t *testing.T) {
	t.Parallel()
	j := start(t, `
		if [ $REPLICA_GROUP_ID = 1 ]; then
			`+waitFor("trapped")+`
			echo "out of memory" >&2; exit 3
		fi
		trap 'echo stopped; exit 0' TERM
		echo > trapped
		while :; do sleep 0.02; done`, func(c *launch.Config) { c.Replicas, c.MaxRestarts, c.MinReplicas = 2, 2, 2 })
	report, err := j.ends(t)
	je, _ := errors.AsType[*launch.JobError](err)
	f, _ := errors.AsType[*launch.Failure](err)
	if je == nil || f == nil || je.Left != 1 || je.Want != 2 || f.Status != 3 || f.Replica != "replica-1" || f.Attempt != 2 || !slices.Equal(f.Tail, []string{"out of memory"}) {
		t.Fatalf("%v, %+v", err, f)
	}
	want(t, report, "done 0", "given up 2")
}

// With enough that are left, a replica that is given up does not end the job.
func TestGoesOnWithout(t *testing.T) {
	t.Parallel()
	j := start(t, `if [ $REPLICA_GROUP_ID = 1 ]; then exit 3; fi`+"\n"+waitFor("over"), func(c *launch.Config) { c.Replicas = 2 })
	j.log.says(t, "replica given up", 1)
	j.file(t, "over")
	report, err := j.ends(t)
	if err != nil {
		t.Fatal(err)
	}
	want(t, report, "done 0", "given up 0")
}

// A replica that was given up is started again when it is wanted, as one that has cost nothing.
func TestScaleRevives(t *testing.T) {
	t.Parallel()
	j := start(t, `if [ $REPLICA_GROUP_ID = 1 ] && [ ! -e mended ]; then exit 3; fi; echo "begun $REPLICA_GROUP_ID"`+"\n"+waitFor("over"), func(c *launch.Config) { c.Replicas = 2 })
	j.log.says(t, "replica given up", 1)
	j.file(t, "mended")
	if err := j.Scale(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	j.out.says(t, "begun 1", 1)
	j.file(t, "over")
	report, err := j.ends(t)
	if err != nil {
		t.Fatal(err)
	}
	want(t, report, "done 0", "done 0")
}

// What cannot work is said before anything is started, or ends the job at once.
func TestCommandThatCannotRun(t *testing.T) {
	t.Parallel()
	for _, command := range [][]string{nil, {"no-such-program-of-skerry"}, {"/etc/passwd"}} {
		_, err := launch.New(launch.Config{Command: command})
		if err == nil || !strings.Contains(err.Error(), "Command = ") || !strings.Contains(err.Error(), ", want a program") {
			t.Errorf("%q: %v", command, err)
		}
	}
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/no/such/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	j := start(t, "", func(c *launch.Config) { c.Command, c.MaxRestarts = []string{script}, 1000 })
	_, err := j.ends(t)
	if _, ok := errors.AsType[*launch.CommandError](err); !ok {
		t.Errorf("%v, want a command that cannot be run", err)
	}
}

// All problems of a configuration are said at once.
func TestValidate(t *testing.T) {
	t.Parallel()
	c := launch.Config{
		Command: []string{"sh"}, Replicas: 2, Ranks: 2, Nodes: 2, Node: 2, MaxRestarts: -1, MinReplicas: 3, Grace: -1, Job: "\x00",
		CUDADevices: []string{"0", "1", "2"},
	}
	err := c.Validate()
	for _, want := range []string{"Node = 2, want 0 to 1", "MaxRestarts = -1, want 0 to", "MinReplicas = 3, want 1 to 2", "Grace = -1ns, want 0 or more", `Job = "\x00", want at most 128 letters`, "Lighthouse = [], want", "CUDADevices = "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	if err := (launch.Config{Command: []string{"sh"}}).Validate(); err != nil {
		t.Errorf("the zero configuration: %v", err)
	}
}

// The end of ctx drains: SIGTERM to the ranks, which end well, and nothing failed.
func TestStopDrains(t *testing.T) {
	t.Parallel()
	j := start(t, `trap 'echo drained; exit 0' TERM; echo begun; while :; do sleep 0.02; done`, func(c *launch.Config) { c.Replicas, c.Ranks = 2, 2 })
	j.out.says(t, "begun", 4)
	j.stop()
	report, err := j.ends(t)
	if err != nil || strings.Count(strings.Join(j.out.lines(), ""), "drained") != 4 {
		t.Errorf("%v, %q", err, j.out.lines())
	}
	want(t, report, "done 0", "done 0")
}

// Ranks that do not end when they are told to are killed after the grace, or by Kill.
func TestStopKills(t *testing.T) {
	t.Parallel()
	const deaf = `trap "" TERM; echo begun; while :; do sleep 1000; done`
	j := start(t, deaf, func(c *launch.Config) { c.Grace = time.Millisecond })
	j.out.says(t, "begun", 1)
	j.stop()
	report, err := j.ends(t)
	want(t, report, "stopped 0")
	if err != nil || report.Replicas[0].Failures[0].Status != 137 {
		t.Errorf("%v, %+v", err, report)
	}
	j = start(t, deaf, nil)
	j.out.says(t, "begun", 1)
	j.stop()
	j.Kill()
	report, err = j.ends(t)
	want(t, report, "stopped 0")
	if err != nil {
		t.Error(err)
	}
}

// Signals reach all ranks, and nothing else.
func TestSignal(t *testing.T) {
	t.Parallel()
	j := start(t, `trap 'echo got it; exit 0' USR1; echo begun; while :; do sleep 0.02; done`, func(c *launch.Config) { c.Replicas = 2 })
	j.out.says(t, "begun", 2)
	j.Signal(syscall.SIGUSR1)
	report, err := j.ends(t)
	if err != nil {
		t.Error(err)
	}
	want(t, report, "done 0", "done 0")
	j.Signal(syscall.SIGUSR1) // of a job that is over
}

// A rank that says that it runs is reached, though its start has not returned: the signal comes
// from the writer of its first line.
func TestSignalAtTheStart(t *testing.T) {
	t.Parallel()
	for range 10 {
		var l *launch.Launcher
		early := &atFirst{do: func() { l.Signal(syscall.SIGUSR1) }}
		l, err := launch.New(launch.Config{
			Command: []string{"sh", "-c", `trap 'exit 0' USR1; echo begun; while :; do sleep 0.02; done`}, Replicas: 1, Stdout: early,
		})
		if err != nil {
			t.Fatal(err)
		}
		report, err := l.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want(t, report, "done 0")
	}
}

// atFirst calls do at the first write.
type atFirst struct {
	once sync.Once
	do   func()
}

func (a *atFirst) Write(line []byte) (int, error) {
	a.once.Do(a.do)
	return len(line), nil
}

// Scale starts what is missing and drains the highest; a replica that was drained is started
// again when it is wanted again, with its number.
func TestScale(t *testing.T) {
	t.Parallel()
	j := start(t, `trap 'echo "drained $REPLICA_GROUP_ID"; exit 0' TERM
		echo "begun $REPLICA_GROUP_ID of $NUM_REPLICA_GROUPS, start $TORCHELASTIC_RESTART_COUNT"
		`+waitFor("over"), nil)
	ctx := t.Context()
	j.out.says(t, "begun 0 of 1, start 0", 1)
	for _, step := range []struct {
		to   int
		says string
	}{{3, "begun 2 of 3, start 0"}, {1, "drained 2"}, {3, "begun 2 of 3, start 1"}} {
		if err := j.Scale(ctx, step.to); err != nil {
			t.Fatal(err)
		}
		j.out.says(t, step.says, 1)
	}
	for _, n := range []int{0, -1, 1025} {
		if err := j.Scale(ctx, n); err == nil {
			t.Errorf("%d replicas were taken", n)
		}
	}
	j.out.says(t, "begun 1 of 3, start 1", 1)
	j.file(t, "over")
	report, err := j.ends(t)
	if err != nil {
		t.Fatal(err)
	}
	want(t, report, "done 0", "done 0", "done 0")
	if err := j.Scale(ctx, 2); !errors.Is(err, launch.ErrOver) {
		t.Errorf("after the end: %v", err)
	}
}

// board is a lighthouse's answer to how many replicas are wanted, which waits for news.
type board struct {
	mu   sync.Mutex
	now  launch.Wanted
	news chan struct{} // closed when now is another
}

func (b *board) set(w launch.Wanted) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.now = w; b.news != nil {
		close(b.news)
	}
	b.news = make(chan struct{})
}

func (b *board) wanted(ctx context.Context, q launch.Query) (launch.Wanted, error) {
	b.mu.Lock()
	w, news := b.now, b.news
	b.mu.Unlock()
	if w.AtMs == q.SeenMs {
		select {
		case <-news:
			return b.wanted(ctx, q)
		case <-ctx.Done():
			return w, context.Cause(ctx)
		}
	}
	return w, nil
}

// A launcher has its share of what the lighthouse wants. Without one it waits, gets one again, and
// ends when the job has finished.
func TestWanted(t *testing.T) {
	t.Parallel()
	b := &board{news: make(chan struct{})}
	asked := make(chan launch.Query, 1)
	j := start(t, `trap 'echo "drained $REPLICA_GROUP_ID"; exit 0' TERM
		echo "begun $REPLICA_GROUP_ID of $NUM_REPLICA_GROUPS"
		`+waitFor("over"), func(c *launch.Config) {
		c.Nodes, c.Node, c.Replicas, c.MinReplicas, c.Lighthouse = 2, 1, 1, 1, []string{"127.0.0.1:1"}
		c.Wanted = func(ctx context.Context, q launch.Query) (launch.Wanted, error) {
			select {
			case asked <- q:
				return launch.Wanted{}, errors.New("no job is called default") // asked once more
			default:
			}
			return b.wanted(ctx, q)
		}
	})
	j.out.says(t, "begun 1 of 2", 1)
	for _, step := range []struct {
		w    launch.Wanted
		says string
	}{
		{launch.Wanted{Replicas: 5, AtMs: 1}, "begun 3 of 5"},
		{launch.Wanted{Replicas: 1, AtMs: 2}, "drained 1"},
		{launch.Wanted{Replicas: 2, AtMs: 3}, "begun 1 of 2"},
	} {
		b.set(step.w)
		j.out.says(t, step.says, 1+strings.Count(step.says, "begun 1"))
	}
	b.set(launch.Wanted{Replicas: 10_000, AtMs: 4})
	j.log.says(t, "wanted replicas cannot be had on this host", 1)
	b.set(launch.Wanted{Replicas: 1, AtMs: 5})
	j.out.says(t, "drained 1", 2)
	b.set(launch.Wanted{Finished: true})
	report, err := j.ends(t)
	if err != nil || !maps.Equal(outcomes(report), map[string]string{"replica-1": "done 0", "replica-3": "done 0"}) {
		t.Errorf("%v, %v", outcomes(report), err)
	}
	if q := <-asked; !slices.Equal(q.Lighthouse, []string{"127.0.0.1:1"}) || q.SeenMs != 0 || q.Hold <= 0 {
		t.Errorf("asked %+v", q)
	}
}

// That a run of before has finished ends nothing, and one without a share ends when it is stopped.
func TestWaitsForAShare(t *testing.T) {
	t.Parallel()
	b := &board{news: make(chan struct{})}
	j := start(t, `trap 'echo drained; exit 0' TERM; echo begun; while :; do sleep 0.02; done`, func(c *launch.Config) {
		c.Nodes, c.Node, c.Lighthouse, c.Wanted = 3, 2, []string{"127.0.0.1:1"}, b.wanted
	})
	j.out.says(t, "begun", 1)
	b.set(launch.Wanted{Replicas: 1, AtMs: 1})
	j.log.says(t, "replica ended", 1)
	b.set(launch.Wanted{Replicas: 3, AtMs: 2, Finished: true})
	j.out.says(t, "begun", 2)
	b.set(launch.Wanted{Replicas: 2, AtMs: 3})
	j.log.says(t, "replica ended", 2)
	j.stop()
	if _, err := j.ends(t); err != nil {
		t.Error(err)
	}
}

// Each start has a store of its own: a rank that starts again meets no keys of before.
func TestStoreOfEachStart(t *testing.T) {
	t.Parallel()
	j := start(t, "", func(c *launch.Config) {
		c.Command, c.MaxRestarts = []string{os.Args[0], "as", "store", "key"}, 1
	})
	report, err := j.ends(t)
	if err != nil {
		t.Fatal(err)
	}
	want(t, report, "done 1")
	text := strings.Join(j.out.lines(), "")
	for _, line := range []string{"replica-0 | attempt 0 counts 1\n", "replica-0 | attempt 1 counts 1\n"} {
		if !strings.Contains(text, line) {
			t.Errorf("no %q in %s", line, text)
		}
	}
}

// Each rank has a log of each start; a second run keeps the first one's. What torch's @record
// writes is in the report.
func TestLogs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 2 {
		j := start(t, `
			echo "rank $RANK start $TORCHELASTIC_RESTART_COUNT"; printf "no end" >&2
			if [ $RANK-$TORCHELASTIC_RESTART_COUNT = 1-0 ]; then
				echo '{"message": {"message": "ValueError: of mine", "extraInfo": {}}}' > $TORCHELASTIC_ERROR_FILE
				exit 1
			fi`, func(c *launch.Config) { c.Ranks, c.MaxRestarts, c.LogDir, c.Job = 2, 1, dir, ".." })
		report, err := j.ends(t)
		if err != nil {
			t.Fatal(err)
		}
		if f := report.Replicas[0].Failures[0]; f.Message != "ValueError: of mine" || filepath.Base(f.Log) != "rank-1.log" {
			t.Errorf("%+v", f)
		}
		if lines := j.out.lines(); len(lines) > 0 {
			t.Errorf("%q beside the logs, without Tee", lines)
		}
	}
	for attempt := range 4 {
		path := filepath.Join(dir, "job..", "replica-0", fmt.Sprintf("attempt-%d", attempt), "rank-1.log")
		text, err := os.ReadFile(path)
		if want := fmt.Sprintf("rank 1 start %d\n", attempt%2); err != nil || !strings.Contains(string(text), want) || !strings.Contains(string(text), "no end\n") {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
	j := start(t, `echo here and there`, func(c *launch.Config) { c.LogDir, c.Tee = dir, true })
	if _, err := j.ends(t); err != nil || !slices.Equal(j.out.lines(), []string{"replica-0 | here and there\n"}) {
		t.Errorf("with Tee: %q, %v", j.out.lines(), err)
	}
}
