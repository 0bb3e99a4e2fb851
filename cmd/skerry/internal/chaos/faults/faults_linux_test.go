package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/internal/procs"
	"github.com/skerry-ft/skerry/internal/testkit"
)

// asAsker in the environment makes this test binary a process that has a process stopped for
// an hour, and waits: its id is the value.
const asAsker = "FAULTS_TEST_ASKER"

func TestMain(m *testing.M) {
	if status, keeper := Keep(); keeper {
		os.Exit(status)
	}
	if text := os.Getenv(asAsker); text != "" {
		ask(text)
		return
	}
	goleak.VerifyTestMain(m)
}

func ask(text string) {
	var pid int
	_, err := fmt.Sscan(text, &pid)
	h, oerr := procs.Open(pid)
	if err = errors.Join(err, oerr); err == nil {
		_, err = Stop(h, time.Hour)
	}
	never := make(chan os.Signal, 1)
	signal.Notify(never, syscall.SIGUSR1)
	fmt.Println("asked:", err)
	<-never // it is killed
}

// sleeper is a process that does nothing.
func sleeper(t *testing.T) *procs.Handle {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h, err := procs.Open(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // that is how
		h.Close()
	})
	return h
}

// state is what the kernel says that a process does: T is stopped, S asleep.
func state(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	return string(text[bytes.LastIndexByte(text, ')')+2:][:1])
}

func becomes(t *testing.T, pid int, want string) {
	t.Helper()
	testkit.Eventually(t, "the process's state is "+want, func() bool { return state(t, pid) == want })
}

// TestStopEnds: a stop ends when it is told to, and by itself.
func TestStopEnds(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{time.Hour, time.Millisecond} {
		h := sleeper(t)
		s, err := Stop(h, d)
		if err != nil {
			t.Fatal(err)
		}
		if d == time.Hour {
			becomes(t, h.PID, "T")
		} else {
			becomes(t, h.PID, "S")
		}
		if err := s.End(); err != nil {
			t.Error(err)
		}
		becomes(t, h.PID, "S")
	}
}

// TestStopOfTheDead: a process that has ended cannot be stopped, and one that ends while it
// is stopped needs no end.
func TestStopOfTheDead(t *testing.T) {
	t.Parallel()
	h := sleeper(t)
	s, err := Stop(h, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	becomes(t, h.PID, "Z")
	if err := s.End(); err != nil {
		t.Error(err)
	}
	gone := exec.Command("true")
	if err := gone.Start(); err != nil {
		t.Fatal(err)
	}
	dead, err := procs.Open(gone.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer dead.Close()
	if err := gone.Wait(); err != nil {
		t.Fatal(err)
	}
	if s, err := Stop(dead, time.Hour); err == nil || !strings.Contains(err.Error(), "process already finished") {
		t.Errorf("%v, %v, want that it has ended", s, err)
	}
}

// TestKeeperOutlivesAll: the process is continued though the one that had it stopped dies of
// SIGKILL.
func TestKeeperOutlivesAll(t *testing.T) {
	t.Parallel()
	h := sleeper(t)
	asker := testkit.Start(t, "asker", []string{fmt.Sprintf("%s=%d", asAsker, h.PID)}, os.Args[0])
	asker.Says("asked: <nil>", 0)
	becomes(t, h.PID, "T")
	asker.Kill()
	becomes(t, h.PID, "S")
}

// TestFillUpToALimit: so much is taken and no name is seen; it is given back at the end.
func TestFillUpToALimit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, limit := range []int64{1, 10_000, 3 << 20} {
		full, err := Fill(t.Context(), dir, limit)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := full.file.Stat(); err != nil || info.Size() != limit || full.Bytes != limit || full.Whole {
			t.Errorf("limit %d: %+v, %v", limit, full, err)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			t.Errorf("%v, %v in the folder, want nothing", entries, err)
		}
		if err := full.End(); err != nil {
			t.Error(err)
		}
	}
	if _, err := Fill(t.Context(), dir+"/none", 1); err == nil || !strings.Contains(err.Error(), "fill a folder: ") {
		t.Errorf("a folder that is not there: %v", err)
	}
}

// TestFillWhole fills a file system of a few megabytes: nothing more fits, and then it does.
func TestFillWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := unix.Mount("chaos", dir, "tmpfs", 0, "size=5m"); err != nil {
		t.Skip("a file system of its own needs the right to mount: ", err)
	}
	t.Cleanup(func() {
		// A process that another test forks at this moment has its files open until it executes.
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	full, err := Fill(t.Context(), dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	if !full.Whole || full.Bytes < 4<<20 || full.Bytes > 5<<20 {
		t.Errorf("%+v, want all of 5 MiB", full)
	}
	if err := os.WriteFile(dir+"/one", make([]byte, 8<<10), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a file was written: %v", err)
	}
	held, err := unix.Dup(int(full.file.Fd())) // as by a process that is just forked
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(held)
	if err := full.End(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(dir+"/one", make([]byte, 8<<10), 0o600); err != nil {
		t.Error(err)
	}
}

// TestZeros: where nothing can be reserved, zeros take the room.
func TestZeros(t *testing.T) {
	t.Parallel()
	f, err := os.Create(t.TempDir() + "/f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := zeros(t.Context(), f, 10, 3<<20+1); err != nil {
		t.Fatal(err)
	}
	if info, err := f.Stat(); err != nil || info.Size() != 3<<20+11 {
		t.Errorf("%v, %v", info, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := zeros(ctx, f, 4<<20, 1<<40); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that it ends with ctx", err)
	}
	if full, err := Fill(ctx, t.TempDir(), 1<<20); !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v, want that it ends with ctx", full, err)
	}
}
