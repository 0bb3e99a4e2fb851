package baby

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

// crashEnv makes the patient backend of a child die with those last words.
const crashEnv = "SKERRY_BABY_TEST_CRASH"

// allEnded waits for works a while beyond their deadline.
func allEnded(t *testing.T, pending []*pg.Work, limit time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit+pgtest.PromptBound)
	defer cancel()
	for i, work := range pending {
		if err := work.Wait(ctx); errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
			t.Fatalf("op %d has not ended %v after its deadline", i, pgtest.PromptBound)
		}
	}
}

// brokenBy waits until the group of b is broken, and tells why.
func brokenBy(t *testing.T, b pg.Backend) error {
	t.Helper()
	deadline := time.Now().Add(pgtest.PromptBound)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for b.Err() == nil {
		if time.Now().After(deadline) {
			t.Fatalf("group is not broken after %v", pgtest.PromptBound)
		}
		<-tick.C
	}
	return b.Err()
}

// stopChild stops the child of b, and returns once the kernel says it stands.
func stopChild(t *testing.T, b *Backend) int {
	t.Helper()
	pid, _ := b.Child()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(pgtest.PromptBound)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		_, state, _ := strings.Cut(string(stat), ") ")
		if strings.HasPrefix(state, "T") {
			return pid
		}
		if time.Now().After(deadline) {
			t.Fatalf("child %d is %q, not stopped after %v", pid, state[:1], pgtest.PromptBound)
		}
		<-tick.C
	}
}

// alone makes a configured group of one rank.
func alone(t testing.TB, o Options) (*Backend, *pg.Group) {
	t.Helper()
	w := pgtest.NewWorld(t, pgtest.StartStore(t))
	b := newBaby(t, o)
	w.Configure(w.Join("solo", b))
	return b, w.Groups[0]
}

// A stopped child is found by its silence, long before any deadline.
func TestSilence(t *testing.T) {
	t.Parallel()
	b, g := alone(t, Options{Silence: 500 * time.Millisecond})
	pid := stopChild(t, b)
	err := g.AllReduceAsync(tensor.New(tensor.Float32, 10), tensor.Sum).Wait(t.Context())
	if e, ok := errors.AsType[*ChildError](err); !ok || !strings.Contains(e.Why, "silent") || e.PID != pid {
		t.Errorf("op of a stopped child: %v, want a ChildError of %d that says silent", err, pid)
	}
}

// The deadline holds outside when the child cannot keep it.
func TestDeadlineOutside(t *testing.T) {
	t.Parallel()
	b, g := alone(t, Options{Silence: time.Minute})
	stopChild(t, b)
	x := tensor.New(tensor.Float32, 10)
	work := g.Submit(&pg.Op{
		Kind: pg.KindAllReduce, In: []tensor.Tensor{x}, Out: []tensor.Tensor{x}, Deadline: time.Now().Add(100 * time.Millisecond),
	})
	err := work.Wait(t.Context())
	if e, ok := errors.AsType[*ChildError](err); !ok || !strings.Contains(e.Why, "deadline") || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("op of a stopped child: %v, want DeadlineExceeded, and a ChildError that says deadline", err)
	}
	if n := b.Active(); n != 0 {
		t.Errorf("%d ops active, want none", n)
	}
}

// An abort ends the ops of a child that cannot obey.
func TestAbortStopped(t *testing.T) {
	t.Parallel()
	b, g := alone(t, Options{Silence: time.Minute})
	stopChild(t, b)
	work := g.AllReduceAsync(tensor.New(tensor.Float32, 10), tensor.Sum)
	cause := errors.New("told to stop")
	g.Abort(cause)
	if err := work.Wait(t.Context()); !errors.Is(err, cause) {
		t.Errorf("op of a stopped child: %v, want %v", err, cause)
	}
	if err := g.Barrier(t.Context()); !errors.Is(err, pg.ErrAborted) || !errors.Is(err, cause) {
		t.Errorf("op after it: %v, want ErrAborted and %v", err, cause)
	}
}

// SIGINT and SIGTERM, which reach whole process groups, leave the child alone.
func TestTrainersSignals(t *testing.T) {
	t.Parallel()
	b, g := alone(t, Options{})
	pid, _ := b.Child()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		if err := syscall.Kill(pid, sig); err != nil {
			t.Fatal(err)
		}
		if err := g.Barrier(t.Context()); err != nil {
			t.Errorf("barrier after %v: %v", sig, err)
		}
	}
	if now, ok := b.Child(); !ok || now != pid {
		t.Errorf("child is %d (%v), want %d", now, ok, pid)
	}
}

// What a child prints before it dies is in the error.
func TestLastWords(t *testing.T) {
	t.Parallel()
	b, err := New(Options{Backend: "mute"})
	if err == nil || b != nil {
		t.Errorf("backend that is not registered: %v, want an error", err)
	}
	c := newBaby(t, Options{Env: []string{crashEnv + "=panic: out of patience"}})
	w := pgtest.NewWorld(t, pgtest.StartStore(t))
	m := []pgtest.Member{{ID: "solo", Backend: c}}
	w.Next()
	err = c.Configure(t.Context(), w.Config(m, 0))
	e, ok := errors.AsType[*ChildError](err)
	if !ok || e.Code != 1 || !strings.Contains(e.Stderr, "out of patience") {
		t.Errorf("configure with a child that dies: %v, want exit status 1 and its last words", err)
	}
	if slices.Contains(os.Environ(), crashEnv) {
		t.Error("the child's environment is ours")
	}
}
