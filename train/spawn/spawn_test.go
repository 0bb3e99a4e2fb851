package spawn_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/train/spawn"
)

func TestMain(m *testing.M) {
	spawn.Register("echo", echo)
	spawn.Register("fail", fail)
	spawn.Register("block", block)
	spawn.Register("parent", parent)
	spawn.Init()
	goleak.VerifyTestMain(m)
}

func echo(_ context.Context, w spawn.Worker) error {
	fmt.Printf("%d/%d %s\n", w.Rank, w.WorldSize, w.Args)
	return nil
}

// fail lets rank 1 fail, and all others wait for their end.
func fail(ctx context.Context, w spawn.Worker) error {
	if w.Rank == 1 {
		return errors.New("rank one had enough")
	}
	<-ctx.Done()
	return nil
}

func block(ctx context.Context, _ spawn.Worker) error {
	fmt.Println("ready")
	<-ctx.Done()
	return nil
}

// parent starts a worker of its own, tells its pid, and blocks.
func parent(ctx context.Context, _ spawn.Worker) error {
	r, w := io.Pipe()
	p, err := spawn.Start(spawn.Worker{Name: "block", WorldSize: 1}, spawn.Options{Stdout: w})
	if err != nil {
		return err
	}
	if _, err := bufio.NewReader(r).ReadString('\n'); err != nil {
		return err
	}
	fmt.Println(p.PID())
	<-ctx.Done()
	return nil
}

// lines collects concurrent output.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func TestRunGivesEachWorkerItsRankAndArgs(t *testing.T) {
	var out lines
	err := spawn.Run(t.Context(), 3, "echo", spawn.Options{Args: []byte("hello"), Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	for rank := range 3 {
		want := fmt.Sprintf("%d/3 hello\n", rank)
		if !strings.Contains(out.buf.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, out.buf.String())
		}
	}
}

func TestFirstFailureEndsAllAndNamesItself(t *testing.T) {
	err := spawn.Run(t.Context(), 3, "fail", spawn.Options{})
	var exit *spawn.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("got %v, want an ExitError", err)
	}
	if exit.Rank != 1 || exit.Code != 1 || !strings.Contains(exit.Stderr, "rank one had enough") {
		t.Errorf("got rank %d, code %d, stderr %q", exit.Rank, exit.Code, exit.Stderr)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	r, w := io.Pipe()
	defer w.Close()
	go func() {
		_, _ = bufio.NewReader(r).ReadString('\n')
		cancel(why)
	}()
	err := spawn.Run(ctx, 1, "block", spawn.Options{Stdout: w})
	if !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
}

func TestKilledWorkerNamesItsSignal(t *testing.T) {
	p, err := spawn.Start(spawn.Worker{Name: "block"}, spawn.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p.Kill()
	var exit *spawn.ExitError
	if err := p.Wait(t.Context()); !errors.As(err, &exit) || exit.Signal != syscall.SIGKILL {
		t.Errorf("got %v, want killed by SIGKILL", err)
	}
}

// A stopped worker cannot watch a pipe: the kernel has to end it.
func TestStoppedWorkerDiesWithItsParent(t *testing.T) {
	r, w := io.Pipe()
	p, err := spawn.Start(spawn.Worker{Name: "parent"}, spawn.Options{Stdout: w})
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	grandchild, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(grandchild, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p.Kill()
	w.Close()
	defer func() {
		if t.Failed() {
			_ = syscall.Kill(grandchild, syscall.SIGKILL) // it may have ended by now
		}
	}()
	testkit.Eventually(t, fmt.Sprintf("process %d ends with its parent", grandchild), func() bool { return gone(grandchild) })
}

// gone tells whether pid has ended; an orphan may stay a zombie where the
// machine's first process does not reap.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X")
}

func TestStartRefusesBadRequests(t *testing.T) {
	for name, f := range map[string]func() error{
		`no function "nobody"`: func() error {
			_, err := spawn.Start(spawn.Worker{Name: "nobody"}, spawn.Options{})
			return err
		},
		"want at most 1048576": func() error {
			_, err := spawn.Start(spawn.Worker{Name: "echo", Args: make([]byte, spawn.MaxArgsBytes+1)}, spawn.Options{})
			return err
		},
		"0 workers, want 1 to": func() error { return spawn.Run(t.Context(), 0, "echo", spawn.Options{}) },
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want an error with %q", err, name)
		}
	}
}
