package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/train/spawn"
)

// demoWorker runs the whole demo in a process of its own.
const demoWorker = "test-demo"

func runAsWorker(_ context.Context, w spawn.Worker) error {
	if status := run(strings.Fields(string(w.Args)), os.Stdout, os.Stderr); status != 0 {
		return fmt.Errorf("exit status %d", status)
	}
	return nil
}

// patience bounds waits that end long before if all is well.
const patience = 30 * time.Second

// stat is what /proc says of a process: its parent, and false once it is gone.
// A zombie is gone.
func stat(pid int) (parent int, alive bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name before may hold anything
	fields := strings.Fields(rest)
	parent, err = strconv.Atoi(fields[1])
	return parent, err == nil && fields[0] != "Z" && fields[0] != "X"
}

// children lists the processes whose parent is pid.
func children(t *testing.T, pid int) (out []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		child, err := strconv.Atoi(e.Name())
		if err != nil {
			continue // no process
		}
		if parent, alive := stat(child); alive && parent == pid {
			out = append(out, child)
		}
	}
	return out
}

// isFork says that pid may not have begun its program yet. One that is stopped there has yet to ask
// the kernel to end it with its parent.
func isFork(pid int) bool {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	return err != nil || len(threads) == 1
}

// TestDemoLeavesNothingBehind ends a demo in the middle, in every way: its
// workers end too, even those that are stopped and hear nothing.
func TestDemoLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		signal  syscall.Signal
		stopped bool // the workers
		want    string
	}{
		{syscall.SIGINT, false, "exit status 130"},
		{syscall.SIGTERM, false, "exit status 130"},
		{syscall.SIGKILL, false, "killed"},
		{syscall.SIGINT, true, "exit status 130"},
		{syscall.SIGKILL, true, "killed"},
	} {
		t.Run(fmt.Sprintf("%v, stopped %v", c.signal, c.stopped), func(t *testing.T) {
			t.Parallel()
			args := []byte("demo --replicas=3 --steps=100000 --kill-every=0 --step-time=20ms")
			p, err := spawn.Start(spawn.Worker{Name: demoWorker, WorldSize: 1, Args: args}, spawn.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Kill()
			var pids []int
			testkit.Eventually(t, "a lighthouse and three trainers", func() bool {
				pids = children(t, p.PID())
				return len(pids) == 4 && !slices.ContainsFunc(pids, isFork)
			})
			for _, pid := range pids {
				if c.stopped {
					if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := p.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := p.Wait(ctx); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the demo ended with %v, want %s", err, c.want)
			}
			for _, pid := range pids {
				testkit.Eventually(t, fmt.Sprintf("the end of process %d", pid), func() bool {
					_, alive := stat(pid)
					return !alive
				})
			}
		})
	}
}

// TestDemoPortTaken: the lighthouse's error reaches the user as one line.
func TestDemoPortTaken(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	status, _, stderr := skerry("demo", "--listen="+taken.Addr().String())
	if status == 0 || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "skerry: lighthouse: ") {
		t.Errorf("status %d, %q, want one line from the lighthouse", status, stderr)
	}
}
