package runcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/scale"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/launch"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

func TestMain(m *testing.M) {
	launch.Init()
	if len(os.Args) > 1 && os.Args[1] == "run" { // a test has begun this binary again
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		status := execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
		stop()
		os.Exit(status)
	}
	for _, name := range []string{"SKERRY_LIGHTHOUSE", "TORCHFT_LIGHTHOUSE"} {
		_ = os.Unsetenv(name) // the tests say themselves where one is
	}
	goleak.VerifyTestMain(m)
}

// execute is the program with this command alone.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := &cobra.Command{Use: "skerry"}
	root.AddCommand(Command())
	root.SetOut(stdout)
	root.SetErr(stderr)
	cli.Strict(root)
	err := cli.Execute(ctx, root, args)
	if err != nil {
		cli.Say(stderr, "skerry", err)
	}
	return cli.StatusOf(err)
}

// run runs the command in this process.
func run(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = execute(t.Context(), append([]string{"run"}, args...), &out, &errs)
	return status, out.String(), errs.String()
}

// The status is the job's, and what is told at the end names the cause.
func TestStatus(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("echo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   []string
		status int
		stderr []string
	}{
		{[]string{"--replicas=2", "--", "true"}, 0, []string{"replicas: 2 done; restarts: 0"}},
		{[]string{"--max-restarts=1", "sh", "-c", "echo of mine >&2; exit 7"}, 7, []string{
			"last lines of replica-0 rank 0:\n  of mine\n", "1 given up; restarts: 1", "skerry: 0 of the 1 replicas that must be there can run: replica-0 rank 0 (pid ", ": exit status 7\n"}},
		{[]string{"--max-restarts=0", "--", "sh", "-c", "kill -9 $$"}, 137, []string{": killed by SIGKILL"}},
		{[]string{missing}, 127, []string{`COMMAND = "` + missing + `" cannot be run, want a program in PATH`}},
		{[]string{plain}, 126, []string{`COMMAND = "` + plain + `" cannot be run`}},
	} {
		status, _, stderr := run(t, c.args...)
		if status != c.status {
			t.Errorf("%q: status %d, want %d\n%s", c.args, status, c.status, stderr)
		}
		for _, text := range c.stderr {
			if !strings.Contains(stderr, text) {
				t.Errorf("%q: no %q in %s", c.args, text, stderr)
			}
		}
	}
}

// torchrun's spellings are taken, and its flags that mean nothing say what to use.
func TestTorchrunsFlags(t *testing.T) {
	t.Parallel()
	l := lighthousetest.Start(t, nil)
	status, stdout, stderr := run(t, "--nproc_per_node", "2", "--nnodes=2", "--node_rank", "1", "--max_restarts=3", "--rdzv_id=vision", "--rdzv-endpoint", "http://"+l.Addr, "--no_python",
		"sh", "-c", `echo "$REPLICA_GROUP_ID/$NUM_REPLICA_GROUPS $RANK/$WORLD_SIZE $TORCHELASTIC_RUN_ID $TORCHELASTIC_MAX_RESTARTS $SKERRY_LIGHTHOUSE $TORCHFT_LIGHTHOUSE"`)
	lines := slices.Sorted(strings.Lines(stdout))
	var want []string
	for rank := range 2 {
		want = append(want, fmt.Sprintf("replica-1:%d | 1/2 %d/2 vision 3 %s http://%s\n", rank, rank, l.Addr, l.Addr))
	}
	if status != 0 || !slices.Equal(lines, want) {
		t.Errorf("status %d, %q, want %q\n%s", status, lines, want, stderr)
	}
	for _, c := range []struct{ args, want string }{
		{"--rdzv_backend=c10d true", "--rdzv-backend is torchrun's and means nothing here: leave it out: the lighthouse is the rendezvous"},
		{"--run-path true", "--run-path is torchrun's"},
		{"--nnodes=1:4 true", `--nnodes = "1:4", want one number, the hosts that the job has at most`},
		{"--nnodes=x:4 true", `--nnodes = "x:4", want a whole number`},
		{"--nnodes=0 true", "--nnodes = 0, want 1 or more"},
		{"--tee 3 train.py", `COMMAND = "3" behind --tee, which has no value here: want --log-dir DIR --tee -- train.py`},
		{"--nproc_per_node=gpu true", `--nproc-per-replica = "gpu", want a whole number`},
		{"--nnodes=2 true", "--lighthouse = [], want the address of one that all 2 nodes reach"},
		{"--standalone --lighthouse h:1 true", "--standalone with --lighthouse"},
		{"--spares=-1 true", "--spares = -1, want 0 to 1023"},
		{"--replicas=2 --spares=1 --cuda-devices=0,1 true", "want one for each of 3 ranks"},
		{"--replicas=0 true", "--replicas = 0, want 1 or more"},
		{"--refill-steps=0 true", "--refill-steps = 0, want 1 or more"},
		{"--refill=0 true", "--refill = 0, want more"},
		{"--grace=0 true", "--grace = 0, want more"},
		{"--kill-grace=0s true", "--kill-grace = 0, want more"},
		{"--replicas=2 --min-replicas=3 true", "--min-replicas = 3, want 1 to 2"},
		{"--replicas=2 --cuda-devices=0 true", `--cuda-devices = ["0"], want one for each of 2 ranks`},
		{"--job=a/b true", `--job = "a/b", want at most 128 letters`},
		{"--lighthouse=nonsense true", `--lighthouse = "nonsense", want host:port or a URL`},
		{"--module --no-python true", "--module with --no-python: want one of them"},
		{"--replicas=2", "COMMAND is missing, want: skerry run [flags] -- COMMAND"},
	} {
		status, _, stderr := run(t, strings.Fields(c.args)...)
		if status != cli.StatusUsage || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: status %d, %q, want %q", c.args, status, stderr, c.want)
		}
	}
	if status, _, stderr := run(t, "--standalone", "true"); status != 0 {
		t.Errorf("--standalone: status %d, %s", status, stderr)
	}
}

// What follows the command is its own, and --report has all that is told at the end.
func TestArgumentsAndReport(t *testing.T) {
	t.Parallel()
	report := filepath.Join(t.TempDir(), "report.json")
	status, stdout, stderr := run(t, "--report", report, "--max-restarts=1", "sh", "-c", `echo "$@"; [ $TORCHELASTIC_RESTART_COUNT = 1 ]`, "--replicas", "--help", "--", "-x")
	if status != 0 || stdout != strings.Repeat("replica-0 | --help -- -x\n", 2) {
		t.Errorf("status %d, %q\n%s", status, stdout, stderr)
	}
	text, err := os.ReadFile(report)
	var r launch.Report
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil || len(r.Replicas) != 1 || r.Replicas[0].Restarts != 1 || r.Replicas[0].Failures[0].Status != 1 {
		t.Errorf("%v, %s", err, text)
	}
}

// A program of Python is run by Python.
func TestPython(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	if _, err := (&pythonFlags{}).command([]string{"train.py"}); err == nil || !strings.Contains(err.Error(), "neither python nor python3") {
		t.Errorf("without Python: %v", err)
	}
	if err := os.WriteFile(filepath.Join(bin, "python3"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		flags pythonFlags
		args  string
		want  string
	}{
		{pythonFlags{}, "train.py --lr 1", "python3 train.py --lr 1"},
		{pythonFlags{module: true}, "pkg.train -m", "python3 -m pkg.train -m"},
		{pythonFlags{noPython: true}, "train.py", "train.py"},
		{pythonFlags{}, "./trainer x.py", "./trainer x.py"},
	} {
		got, err := c.flags.command(strings.Fields(c.args))
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%+v %s: %q, %v, want %q", c.flags, c.args, got, err, c.want)
		}
	}
}

// begin runs the command in a process of its own.
func begin(t *testing.T, args ...string) *testkit.Program {
	t.Helper()
	return testkit.Start(t, "skerry run", nil, append([]string{os.Args[0], "run"}, args...)...)
}

// SIGTERM and Ctrl-C drain, and are no failure if all ranks end well; other signals reach
// ranks, and a hang-up does not.
func TestSignals(t *testing.T) {
	t.Parallel()
	const script = `trap 'echo got TERM; exit 0' TERM; trap 'echo got HUP' HUP; trap 'echo got USR2' USR2; echo begun; while :; do sleep 0.02; done`
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		p := begin(t, "--", "sh", "-c", script)
		p.Says("| begun", 0)
		p.Signal(syscall.SIGHUP)
		p.Says("SIGHUP ignored", 0)
		p.Signal(syscall.SIGUSR2)
		p.Says("| got USR2", 0)
		p.Signal(s)
		if status := p.Exits(); status != 0 || !strings.Contains(p.String(), "| got TERM") || strings.Contains(p.String(), "got HUP") {
			t.Errorf("%v: status %d\n%s", s, status, p)
		}
	}
	p := begin(t, "--forward-hup", "--", "sh", "-c", script)
	p.Says("| begun", 0)
	p.Signal(syscall.SIGHUP)
	p.Says("| got HUP", 0)
	p.Signal(syscall.SIGTERM)
	p.Exits()
}

// What skerry scale asks for is done: more are started, and of fewer the highest goes.
func TestScale(t *testing.T) {
	t.Parallel()
	job := fmt.Sprintf("scaled-by-%d", os.Getpid())
	p := begin(t, "--job="+job, "--", "sh", "-c", `trap 'echo got TERM; exit 0' TERM; echo begun; while :; do sleep 0.02; done`)
	p.Says("replica-0 | begun", 0)
	if err := scale.Call(t.Context(), job, 3); err != nil {
		t.Fatal(err)
	}
	p.Says("replica-1 | begun", 0)
	p.Says("replica-2 | begun", 0)
	if err := scale.Call(t.Context(), job, 2); err != nil {
		t.Fatal(err)
	}
	p.Says("replica-2 | got TERM", 0)
	if err := scale.Call(t.Context(), job, 0); err == nil || !strings.Contains(err.Error(), "no job is called") {
		t.Errorf("a number is taken back that no lighthouse keeps: %v", err)
	}
	p.Signal(syscall.SIGTERM)
	if status := p.Exits(); status != 0 || strings.Contains(p.String(), "does not reach") {
		t.Errorf("status %d\n%s", status, p)
	}
	if err := scale.Call(t.Context(), job, 2); !errors.Is(err, scale.ErrNone) {
		t.Errorf("of a job that is over: %v", err)
	}
}

// A second signal kills, and ranks that had to be killed are no good end.
func TestSecondSignalKills(t *testing.T) {
	t.Parallel()
	p := begin(t, "--replicas=2", "--grace=1h", "--", "sh", "-c", `trap 'echo waits' TERM; echo begun; while :; do sleep 0.02; done`)
	p.Says("| begun", p.Says("| begun", 0))
	p.Signal(syscall.SIGTERM)
	p.Says("| waits", p.Says("| waits", 0))
	p.Signal(syscall.SIGTERM)
	if status := p.Exits(); status != 143 || !strings.Contains(p.String(), "skerry: stopped by SIGTERM: 0 of 2 replicas ended well\n") {
		t.Errorf("status %d, want 143\n%s", status, p)
	}
}

// A job outlives what reads its output, such as a tee that was killed.
func TestOutputWithoutReader(t *testing.T) {
	t.Parallel()
	done := filepath.Join(t.TempDir(), "done")
	out, said, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "run", "--", "sh", "-c", `echo begun; read x < "$0.go"; echo lost; echo lost; echo > "$0"`, done)
	cmd.Stdout = said
	if err := syscall.Mkfifo(done+".go", 0o600); err != nil {
		t.Fatal(err)
	}
	p := testkit.StartCmd(t, "skerry run", cmd)
	if err := errors.Join(said.Close(), out.Close(), os.WriteFile(done+".go", []byte("\n"), 0)); err != nil {
		t.Fatal(err)
	}
	if status := p.Exits(); status != 0 {
		t.Errorf("status %d", status)
	}
	if _, err := os.Stat(done); err != nil {
		t.Error(err)
	}
}

// A reader of all that this command writes may be stopped, as a pager is: the job goes on, and
// ends.
func TestOutputThatIsNotRead(t *testing.T) {
	t.Parallel()
	out, said, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Close() }) // nothing was read
	cmd := exec.Command(os.Args[0], "run", "--", "sh", "-c", `head -c 4000000 /dev/zero | tr '\0' x | fold -w 1000`)
	cmd.Stdout, cmd.Stderr = said, said
	p := testkit.StartCmd(t, "skerry run", cmd)
	if err := said.Close(); err != nil {
		t.Fatal(err)
	}
	if status := p.Exits(); status != 0 {
		t.Errorf("status %d", status)
	}
}

// A replica that was given up is none that ended well, and one that a signal has stopped is
// told by the status.
func TestStatusAfterASignal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		outcomes []launch.Outcome
		by       syscall.Signal
		status   int
		text     string
	}{
		{[]launch.Outcome{launch.Done, launch.GivenUp}, syscall.SIGTERM, 0, ""},
		{[]launch.Outcome{launch.Stopped, launch.GivenUp, launch.Done}, syscall.SIGTERM, 143, "stopped by SIGTERM: 1 of 3 replicas ended well"},
		{[]launch.Outcome{launch.Stopped}, syscall.SIGINT, 130, "stopped by SIGINT: 0 of 1"},
		{[]launch.Outcome{launch.Stopped, launch.Done}, 0, 0, ""}, // by Scale
	} {
		var r launch.Report
		for _, o := range c.outcomes {
			r.Replicas = append(r.Replicas, launch.ReplicaReport{Outcome: o})
		}
		o, cmd := &options{}, &cobra.Command{}
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		end := o.spools(cmd)
		err := o.tell(r, nil, c.by)
		end()
		if cli.StatusOf(err) != c.status || err != nil && !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v after %v: status %d, %v, want %d", c.outcomes, c.by, cli.StatusOf(err), err, c.status)
		}
	}
}

// A signal that came before this command heard any is told by the context that it ended.
func TestSignalBefore(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New(syscall.SIGTERM.String() + " signal received")) // as signal.NotifyContext says it
	if s := early(ctx); s != syscall.SIGTERM {
		t.Errorf("%v, want SIGTERM", s)
	}
	ctx, cancel = context.WithCancelCause(t.Context())
	cancel(nil)
	if s := early(ctx); s != syscall.SIGINT {
		t.Errorf("%v, want SIGINT", s)
	}
}
