package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

// slurm is stand-ins for Slurm's commands, in a folder for PATH. They are given what the
// script gives Slurm's, and keep in $SLURM_FAKE which process is which task of the array. The id
// of the array means all of its tasks. A step does not begin while there is a file hold.
var slurm = map[string]string{
	"srun": "while [ \"$1\" != -- ]; do shift; done; shift; t=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID\n" +
		"echo > $SLURM_FAKE/asked.$t; while [ -e $SLURM_FAKE/hold ]; do sleep 0.05; done; echo $$ > $SLURM_FAKE/task.$t; exec \"$@\"\n",
	"scancel":  "[ \"$1\" = --signal=TERM ] || exit; case $2 in *_*) t=$2;; *) t=$2'_*';; esac; kill -TERM $(cat $SLURM_FAKE/task.$t)\n",
	"scontrol": "[ \"$1\" = requeue ] || exit; case $2 in *_*) echo > $SLURM_FAKE/queue.$2;; *) for i in 0 1; do echo > $SLURM_FAKE/queue.$2_$i; done;; esac\n",
}

// slurmFake is a folder with the stand-ins, and how a task of the array 70 is started. As with
// Slurm, a task of an array has the array's id for its own.
func slurmFake(t *testing.T, lighthouse string) (at string, sbatch func(index int, command ...string) *testkit.Program) {
	t.Helper()
	bash := tool(t, "bash")
	at = t.TempDir()
	for name, text := range slurm {
		if err := os.WriteFile(filepath.Join(at, name), []byte("#!/bin/sh\n"+text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return at, func(index int, command ...string) *testkit.Program {
		env := []string{"PATH=" + at + ":" + os.Getenv("PATH"), "SLURM_FAKE=" + at, "SKERRY_LIGHTHOUSE=" + lighthouse, "SLURM_ARRAY_JOB_ID=70",
			fmt.Sprint("SLURM_JOB_ID=", 70+index), fmt.Sprint("SLURM_ARRAY_TASK_ID=", index), "SLURM_ARRAY_TASK_COUNT=2"}
		return testkit.Start(t, fmt.Sprint("task ", index), env, append([]string{bash, filepath.Join(dir, "slurm/skerry.sbatch")}, command...)...)
	}
}

// queued tells whether a task is queued again, and forgets it.
func queued(at string, index int) bool {
	return os.Remove(filepath.Join(at, fmt.Sprint("queue.70_", index))) == nil
}

// drained wants that a task has ended by a drain and is queued again, and only this one.
func drained(t *testing.T, at string, p *testkit.Program, index int) {
	t.Helper()
	p.Says(fmt.Sprintf("replica %d was drained; job 70_%d is queued again", index, index), 0)
	if status := p.Exits(); status != 0 {
		t.Errorf("task %d: status %d\n%s", index, status, p)
	}
	if !queued(at, index) || queued(at, 1-index) {
		t.Errorf("task %d is to be queued again, and no other", index)
	}
}

// TestSlurmEarly: the signal is not lost on a step that has not begun.
func TestSlurmEarly(t *testing.T) {
	t.Parallel()
	at, sbatch := slurmFake(t, "none:1")
	hold := filepath.Join(at, "hold")
	if err := os.WriteFile(hold, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := sbatch(0, "sh", "-c", "trap 'exit 75' TERM; for i in $(seq 1200); do sleep 0.05; done")
	testkit.Eventually(t, "srun was asked", func() bool {
		_, err := os.Stat(filepath.Join(at, "asked.70_0"))
		return err == nil
	})
	p.Signal(syscall.SIGTERM)
	if err := os.Remove(hold); err != nil {
		t.Fatal(err)
	}
	drained(t, at, p, 0)
}

// TestSlurmDone: a step whose work is done when the signal comes is not queued again.
func TestSlurmDone(t *testing.T) {
	t.Parallel()
	at, sbatch := slurmFake(t, "none:1")
	p := sbatch(0, "sh", "-c", "trap 'exit 0' TERM; echo ready; for i in $(seq 1200); do sleep 0.05; done")
	p.Says("ready", 0)
	p.Signal(syscall.SIGTERM)
	if status := p.Exits(); status != 0 || queued(at, 0) {
		t.Errorf("status %d, want 0, and nothing in the queue\n%s", status, p)
	}
}

// TestSlurm runs the script as Slurm would, with real trainers: they train; one that is killed
// is started again; the signal ahead of the limit drains a task, and no other; and what was queued again goes
// on from the checkpoint.
func TestSlurm(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a trainer, and trains")
	}
	t.Parallel()
	script := read(t, "slurm/skerry.sbatch")
	for _, want := range []string{"--signal=B:TERM@120", "--requeue", "--array=0-3", "--open-mode=append"} {
		if !strings.Contains(script, "\n#SBATCH "+want+"\n") {
			t.Errorf("skerry.sbatch has no %s", want)
		}
	}
	house := lighthousetest.Start(t, nil)
	trainer := testkit.Build(t, t.TempDir(), "examples/digits/trainer")
	at, task := slurmFake(t, house.Addr)
	sbatch := func(index int, more ...string) *testkit.Program {
		return task(index, append([]string{trainer, "--index={index}", "--replicas={replicas}", "--drained-status=75", "--step-time=10ms", "--steps=100000",
			"--checkpoint-dir=" + filepath.Join(at, "checkpoints"), "--checkpoint-every=20"}, more...)...)
	}
	all := []*testkit.Program{sbatch(0), sbatch(1)}
	for _, p := range all {
		p.Says("step 100: ", 0)
	}
	pid := func(index int) (n int) {
		b, err := os.ReadFile(filepath.Join(at, fmt.Sprint("task.70_", index)))
		if _, scanned := fmt.Sscan(string(b), &n); err != nil || scanned != nil {
			t.Fatal(err, scanned)
		}
		return n
	}
	t.Cleanup(func() { // the scripts are killed, their trainers are not told
		for i := range all {
			_ = syscall.Kill(pid(i), syscall.SIGKILL) // it may have ended
		}
	})
	if err := syscall.Kill(pid(1), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	from := all[1].Says("replica 1 ended with status 137; restart 1", 0)
	all[1].Says("take part", from)
	all[0].Signal(syscall.SIGTERM)
	drained(t, at, all[0], 0)
	if syscall.Kill(pid(1), 0) != nil || strings.Contains(all[1].String(), "was drained") {
		t.Errorf("the signal to task 0 ended task 1\n%s", all[1])
	}
	all[1].Signal(syscall.SIGTERM)
	drained(t, at, all[1], 1)
	for i := range all {
		all[i] = sbatch(i, "--steps=1")
	}
	for i, p := range all {
		p.Says("goes on from checkpoint ", 0)
		if status := p.Exits(); status != 0 {
			t.Errorf("task %d, through: status %d\n%s", i, status, p)
		}
	}
}

func TestShellcheck(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), tool(t, "shellcheck"), filepath.Join(dir, "slurm/skerry.sbatch")).CombinedOutput()
	if err != nil {
		t.Errorf("shellcheck: %v\n%s", err, out)
	}
}
