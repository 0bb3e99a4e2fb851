package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

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

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// stat is what /proc says of a process: its parent and state, or false once it
// is gone. A zombie is gone.
func stat(pid string) (parent string, alive bool) {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return "", false
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name before may hold anything
	fields := strings.Fields(rest)
	return fields[1], fields[0] != "Z" && fields[0] != "X"
}

// children lists the processes whose parent is pid.
func children(t *testing.T, pid int) (out []string) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if parent, alive := stat(e.Name()); alive && parent == fmt.Sprint(pid) {
			out = append(out, e.Name())
		}
	}
	return out
}

// TestDemoLeavesNothingBehind ends a demo in the middle, in every way.
func TestDemoLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			args := []byte("demo --replicas=3 --steps=100000 --kill-every=0 --step-time=20ms")
			p, err := spawn.Start(spawn.Worker{Name: demoWorker, WorldSize: 1, Args: args}, spawn.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Kill()
			var pids []string
			eventually(t, "a lighthouse and three trainers", func() bool {
				pids = children(t, p.PID())
				return len(pids) == 4
			})
			if err := p.Signal(sig); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := p.Wait(ctx); err == nil || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the demo ended with %v, want a failure", err)
			}
			for _, pid := range pids {
				eventually(t, "the end of process "+pid, func() bool {
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
