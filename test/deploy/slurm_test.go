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
// script gives Slurm's, and keep in $SLURM_FAKE which process is the task of a job.
var slurm = map[string]string{
	"srun":     "while [ \"$1\" != -- ]; do shift; done; shift; echo $$ > $SLURM_FAKE/task.$SLURM_JOB_ID; exec \"$@\"\n",
	"scancel":  "[ \"$1\" = --signal=TERM ] && kill -TERM $(cat $SLURM_FAKE/task.$2)\n",
	"scontrol": "[ \"$1\" = requeue ] && echo again > $SLURM_FAKE/queue.$2\n",
}

// TestSlurm runs the script as Slurm would, with real trainers: they train; one that is killed
// is started again; the signal ahead of the limit drains all; and what was queued again goes
// on from the checkpoint.
func TestSlurm(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a trainer, and trains")
	}
	t.Parallel()
	bash := tool(t, "bash")
	script := read(t, "slurm/skerry.sbatch")
	for _, want := range []string{"--signal=B:TERM@120", "--requeue", "--array=0-3", "--open-mode=append"} {
		if !strings.Contains(script, "\n#SBATCH "+want+"\n") {
			t.Errorf("skerry.sbatch has no %s", want)
		}
	}
	at := t.TempDir()
	for name, text := range slurm {
		if err := os.WriteFile(filepath.Join(at, name), []byte("#!/bin/sh\n"+text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	house := lighthousetest.Start(t, nil)
	trainer := testkit.Build(t, t.TempDir(), "examples/digits/trainer")
	sbatch := func(index int, more ...string) *testkit.Program {
		env := []string{"PATH=" + at + ":" + os.Getenv("PATH"), "SLURM_FAKE=" + at, "SKERRY_LIGHTHOUSE=" + house.Addr,
			fmt.Sprint("SLURM_JOB_ID=", 70+index), fmt.Sprint("SLURM_ARRAY_TASK_ID=", index), "SLURM_ARRAY_TASK_COUNT=2"}
		return testkit.Start(t, fmt.Sprint("task ", index), env, append([]string{bash, filepath.Join(dir, "slurm/skerry.sbatch"), trainer,
			"--index={index}", "--replicas={replicas}", "--drained-status=75", "--step-time=10ms", "--steps=100000",
			"--checkpoint-dir=" + filepath.Join(at, "checkpoints"), "--checkpoint-every=20"}, more...)...)
	}
	all := []*testkit.Program{sbatch(0), sbatch(1)}
	for _, p := range all {
		p.Says("step 100: ", 0)
	}
	pid := func(index int) (n int) {
		b, err := os.ReadFile(filepath.Join(at, fmt.Sprint("task.", 70+index)))
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
	for i, p := range all {
		p.Signal(syscall.SIGTERM)
		if status := p.Exits(); status != 0 || !strings.Contains(p.String(), fmt.Sprintf("replica %d was drained; job %d is queued again", i, 70+i)) {
			t.Errorf("task %d: status %d\n%s", i, status, p)
		}
		if err := os.Remove(filepath.Join(at, fmt.Sprint("queue.", 70+i))); err != nil {
			t.Error(err)
		}
	}
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
