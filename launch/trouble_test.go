package launch_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/skerry-ft/skerry/launch"
)

// paused is a terminal that was stopped: it takes nothing until it goes on.
type paused struct{ goesOn chan struct{} }

func (p paused) Write(b []byte) (int, error) {
	<-p.goesOn
	return len(b), nil
}

// A reader of our output that is stopped holds up neither the ranks nor the end of the job.
func TestOutputThatIsNotRead(t *testing.T) {
	t.Parallel()
	p := paused{make(chan struct{})}
	t.Cleanup(func() { close(p.goesOn) })
	// More than all queues on the way to it have room for.
	j := start(t, `head -c 4000000 /dev/zero | tr '\0' x | fold -w 1000; echo > written`, func(c *launch.Config) { c.Stdout = p })
	report, err := j.ends(t)
	if err != nil {
		t.Fatal(err)
	}
	want(t, report, "done 0")
	if _, err := os.Stat(filepath.Join(j.dir, "written")); err != nil {
		t.Errorf("the rank was held up: %v", err)
	}
	j.log.says(t, "lines of ranks are lost", 1)
}

// A start that fails while others have worked is a crash: what is wrong may pass.
func TestStartThatFailsForAWhile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program, hidden := filepath.Join(dir, "program"), filepath.Join(dir, "hidden")
	if err := os.WriteFile(hidden, []byte("#!/bin/sh\necho begun\n"+waitFor("over")), 0o700); err != nil {
		t.Fatal(err)
	}
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	move(hidden, program)
	j := start(t, "", func(c *launch.Config) { c.Command, c.MaxRestarts = []string{program}, 1000 })
	j.out.says(t, "replica-0 | begun", 1)
	move(program, hidden)
	if err := j.Scale(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	j.log.says(t, "replica crashed, and starts again", 1)
	move(hidden, program)
	j.out.says(t, "replica-1 | begun", 1)
	j.file(t, "over")
	report, err := j.ends(t)
	if err != nil || report.Replicas[0].Outcome != launch.Done || report.Replicas[1].Outcome != launch.Done || report.Replicas[1].Restarts == 0 {
		t.Errorf("%v, %+v", err, report)
	}
}

// A cleaner of temporary files that took the run's folder, or logs that cannot be written, end
// no training.
func TestFoldersThatAreGone(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	j := start(t, `
		run=$(dirname "$(dirname "$TORCHELASTIC_ERROR_FILE")")
		case $TORCHELASTIC_RESTART_COUNT-$run in 0-*/skerry-run-*) rm -r "$run" ;; esac # that folder, and no other
		if [ $TORCHELASTIC_RESTART_COUNT = 1 ]; then echo '{"message": "told"}' > "$TORCHELASTIC_ERROR_FILE"; fi
		[ $TORCHELASTIC_RESTART_COUNT = 2 ]`, func(c *launch.Config) { c.MaxRestarts, c.LogDir, c.Tee = 2, file, true })
	report, err := j.ends(t)
	if err != nil {
		t.Fatal(err)
	}
	want(t, report, "done 2")
	if f := report.Replicas[0].Failures[1]; f.Message != "told" || f.Log != "" {
		t.Errorf("%+v", f)
	}
	j.log.says(t, "no folder for logs", 3)
}
