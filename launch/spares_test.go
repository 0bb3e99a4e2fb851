package launch_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/launch"
)

// spares runs ranks that know what spares are.
func spares(t *testing.T, change func(c *launch.Config)) *job {
	t.Helper()
	return start(t, "", func(c *launch.Config) {
		c.Command, c.Spares, c.MaxRestarts = []string{os.Args[0], "as", "spare"}, 1, 10
		change(c)
	})
}

// started waits for the n-th line of the log with an event of a replica or spare, from 0, and
// returns the process ids of its ranks.
func (j *job) started(t *testing.T, event, of string, n int) (pids []int) {
	t.Helper()
	line := regexp.MustCompile(fmt.Sprintf(`.*"replica_id":%q.*"pids":\[([0-9,]+)\].*"message":%q`, of, event))
	testkit.Eventually(t, fmt.Sprintf("%s: %s, %d", of, event, n), func() bool {
		all := line.FindAllStringSubmatch(strings.Join(j.log.lines(), ""), -1)
		if len(all) <= n {
			return false
		}
		pids = nil
		for word := range strings.SplitSeq(all[n][1], ",") {
			pid, _ := strconv.Atoi(word) // digits
			pids = append(pids, pid)
		}
		return true
	})
	return pids
}

// kill kills a process.
func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// A replica that dies is repaired by the processes of the spare, which run already: no process is
// started before they train. Its lines, its log and its crashes are the replica's from then on,
// and another spare is made ready.
func TestSpareTakesThePlace(t *testing.T) {
	t.Parallel()
	logs := t.TempDir()
	j := spares(t, func(c *launch.Config) { c.Replicas, c.Ranks, c.LogDir, c.Tee = 2, 2, logs, true })
	j.log.says(t, "spare ready", 1)
	warm := j.started(t, "spare started", "spare-0", 0)
	kill(t, j.started(t, "replica started", "replica-1", 0)[0])
	for rank, pid := range warm {
		j.out.says(t, fmt.Sprintf("replica-1:%d | replica 1 of 2 rank %d start 1 devices  pid %d\n", rank, rank, pid), 1)
	}
	if got := j.started(t, "spare became a replica", "replica-1", 0); !slices.Equal(got, warm) {
		t.Errorf("processes %v became a replica, want the spare's, %v", got, warm)
	}
	if n := strings.Count(strings.Join(j.log.lines(), ""), "replica started"); n != 2 {
		t.Errorf("%d starts of replicas, want 2", n)
	}
	next := j.started(t, "spare started", "spare-0", 1)
	kill(t, warm[1])
	j.out.says(t, fmt.Sprintf("replica-1:0 | replica 1 of 2 rank 0 start 2 devices  pid %d\n", next[0]), 1)
	j.file(t, "over")
	report, err := j.ends(t)
	if err != nil {
		t.Fatal(err)
	}
	want(t, report, "done 0", "done 2")
	dead, s := report.Replicas[1], report.Spares[0]
	if dead.Moved != 2 || s.Moved != 2 || s.Outcome == launch.GivenUp || dead.Failures[1].PID != warm[1] || dead.Failures[1].Attempt != 1 {
		t.Errorf("%+v, %+v", dead, s)
	}
	path := filepath.Join(logs, "default", "replica-1", "attempt-1", "rank-1.log")
	if text, err := os.ReadFile(path); err != nil || dead.Failures[1].Log != path || !strings.HasPrefix(string(text), "replica 1 of 2 rank 1") {
		t.Errorf("the log is %q: %q, %v", dead.Failures[1].Log, text, err)
	}
}

// A spare that dies while it waits is started again, and a replica that dies while none is ready
// is, too. A spare that was not needed ends well with the job.
func TestNoSpareIsReady(t *testing.T) {
	t.Parallel()
	j := spares(t, func(c *launch.Config) {
		// The second start of the spare does not come as far as to wait before it may.
		c.Command = slices.Concat([]string{"/bin/sh", "-c", `if [ "$REPLICA_GROUP_ID-$TORCHELASTIC_RESTART_COUNT" = -1 ]; then ` + waitFor("may") + ` fi; exec "$0" "$@"`}, c.Command)
	})
	j.log.says(t, "spare ready", 1)
	kill(t, j.started(t, "spare started", "spare-0", 0)[0])
	j.log.says(t, "spare crashed, and starts again", 1)
	j.started(t, "spare started", "spare-0", 1)
	kill(t, j.started(t, "replica started", "replica-0", 0)[0])
	j.out.says(t, fmt.Sprintf("replica-0 | replica 0 of 1 rank 0 start 1 devices  pid %d\n", j.started(t, "replica started", "replica-0", 1)[0]), 1)
	j.file(t, "may")
	j.log.says(t, "spare ready", 2)
	j.file(t, "over")
	report, err := j.ends(t)
	if err != nil {
		t.Fatal(err)
	}
	want(t, report, "done 1")
	if s := report.Spares[0]; s.Outcome != launch.Done || s.Restarts != 1 || s.Moved != 0 || s.Failures[0].Signal != syscall.SIGKILL || report.Replicas[0].Moved != 0 {
		t.Errorf("%+v", report)
	}
	j.out.says(t, "spare-0 | not needed\n", 1)
}

// A program that knows nothing of spares costs the job nothing.
func TestProgramWithoutSpares(t *testing.T) {
	t.Parallel()
	j := start(t, `[ $REPLICA_GROUP_ID ] || exit $((RANK == 1)) # rank 0 waits for nothing
		`+waitFor("over"), func(c *launch.Config) { c.Spares, c.Ranks, c.MaxRestarts = 2, 2, 1 })
	j.log.says(t, "spare given up: the job goes on without", 2)
	j.file(t, "over")
	report, err := j.ends(t)
	if err != nil {
		t.Fatal(err)
	}
	want(t, report, "done 0")
	for _, s := range report.Spares {
		if s.Outcome != launch.GivenUp || s.Moved != 0 {
			t.Errorf("%+v", s)
		}
	}
}

// A spare that does not take its place, for it is stopped, holds nothing up: it is killed, and the
// replica started.
func TestSpareThatHangs(t *testing.T) {
	t.Parallel()
	j := spares(t, func(*launch.Config) {})
	j.log.says(t, "spare ready", 1)
	if err := syscall.Kill(j.started(t, "spare started", "spare-0", 0)[0], syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	kill(t, j.started(t, "replica started", "replica-0", 0)[0])
	j.log.says(t, "spare did not take a place: it is killed", 1)
	j.out.says(t, "replica-0 | replica 0 of 1 rank 0 start 2", 1)
	j.file(t, "over")
	report, err := j.ends(t)
	if err != nil {
		t.Fatal(err)
	}
	want(t, report, "done 1")
}

// Spares that never take a place, however fast they come, are not in the way of the usual start.
func TestSparesThatTakeNoPlace(t *testing.T) {
	t.Parallel()
	j := spares(t, func(c *launch.Config) { c.Command, c.Spares = []string{os.Args[0], "as", "mute"}, 2 })
	j.log.says(t, "spare ready", 2)
	kill(t, j.started(t, "replica started", "replica-0", 0)[0])
	j.log.says(t, "spare did not take a place: it is killed", 1)
	j.started(t, "replica started", "replica-0", 1)
	j.file(t, "over")
	report, err := j.ends(t)
	if err != nil {
		t.Fatal(err)
	}
	want(t, report, "done 1")
	for _, s := range report.Spares {
		if s.Moved != 0 {
			t.Errorf("%+v took no place", s)
		}
	}
}

// Of more replicas that are wanted, a spare becomes one, with the devices that it has; of fewer
// none of the spares goes. When the job is told to stop, spares end by themselves, with 0.
func TestScaleTakesSpares(t *testing.T) {
	t.Parallel()
	j := spares(t, func(c *launch.Config) { c.CUDADevices = []string{"a", "b", "c"} })
	warm := j.started(t, "spare started", "spare-0", 0)
	j.log.says(t, "spare ready", 1)
	if err := j.Scale(t.Context(), 3); err == nil || !strings.Contains(err.Error(), "want 2 at most: there are 3 devices on this host, for 1 spares too") {
		t.Errorf("%v", err)
	}
	if err := j.Scale(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	j.out.says(t, fmt.Sprintf("replica-1 | replica 1 of 2 rank 0 start 0 devices b pid %d\n", warm[0]), 1)
	j.log.says(t, "spare ready", 2)
	if err := j.Scale(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	j.log.says(t, "replica ended", 1)
	if err := j.Scale(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	j.out.says(t, "replica-1 | replica 1 of 2 rank 0 start 1 devices c pid", 1)
	j.log.says(t, "spare ready", 3)
	j.stop()
	report, err := j.ends(t)
	if s := report.Spares[0]; err != nil || s.Outcome != launch.Done || s.Moved != 2 {
		t.Errorf("%v, %+v", err, s)
	}
	j.out.says(t, "spare-0 | not needed\n", 1)
}
