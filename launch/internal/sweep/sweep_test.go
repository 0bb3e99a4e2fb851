package sweep

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"testing"
)

// A session is meant as long as its number is its own: once it is empty, the number may come
// to be another's, whose processes are not to be touched.
func TestSessionsOfOthers(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("when a process began is known on Linux alone")
	}
	cmd := exec.Command("/bin/sh", "-c", "while :; do sleep 1000; done")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	ours, others := Sessions{pid: Began(pid)}, Sessions{pid: Began(os.Getpid()) - 1}
	for name, c := range map[string]struct {
		of   Sessions
		want bool // it is ours
	}{"ours": {ours, true}, "another's": {others, false}} {
		pids, err := Find(Target{Sessions: c.of})
		if err != nil || slices.Contains(pids, pid) != c.want {
			t.Errorf("%s: found %v, %v", name, pids, err)
		}
		empty, err := Empty(c.of)
		if err != nil || slices.Contains(empty, pid) == c.want {
			t.Errorf("%s: empty are %v, %v", name, empty, err)
		}
	}
	if err := syscall.Kill(-pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // it was killed
	if began := Began(pid); began != 0 {
		t.Errorf("what is gone began at %d", began)
	}
}

// A mark is meant by itself, among those of other launchers, and by what it begins with.
func TestAmong(t *testing.T) {
	t.Parallel()
	for marks, want := range map[string]bool{
		"A": true, "A.0.1": true, "B,A.2": true, "A.0,B": true, "AB": false, "B.A": false, "": false, ",": false,
	} {
		if got := (Target{Mark: "A"}).among(marks); got != want {
			t.Errorf("%q: %t, want %t", marks, got, want)
		}
	}
	if (Target{}).among("A") {
		t.Error("no mark is every mark")
	}
}
