package baby

import (
	"syscall"
	"testing"

	"github.com/skerry-ft/skerry/pg/pgtest"
)

// Configure takes the spare; a dead spare is replaced; Close ends it.
func TestSpare(t *testing.T) {
	t.Parallel()
	w := pgtest.NewWorld(t, pgtest.StartStore(t))
	b := newBaby(t, Options{Spare: true})
	m := w.Join("solo", b)
	if err := b.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := b.sparePID()
	w.Configure(m)
	if pid, _ := b.Child(); pid != first || pid == 0 {
		t.Errorf("child is %d, want the spare %d", pid, first)
	}
	if err := b.Warm(t.Context()); err != nil { // waits for the refill
		t.Fatal(err)
	}
	dead := b.sparePID()
	if err := syscall.Kill(dead, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	gone := b.mu.spare.gone
	b.mu.Unlock()
	<-gone
	w.Configure(m)
	if pid, ok := b.Child(); !ok || pid == dead {
		t.Errorf("child is %d (%v), want one that is not the dead spare %d", pid, ok, dead)
	}
	if err := w.Groups[0].Barrier(t.Context()); err != nil {
		t.Errorf("barrier: %v", err)
	}
	last, spare := mustChild(t, b), b.sparePID()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{last, spare} {
		if pid != 0 && syscall.Kill(pid, 0) == nil {
			t.Errorf("process %d outlives Close", pid)
		}
	}
}

func (b *Backend) sparePID() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.spare == nil {
		return 0
	}
	return b.mu.spare.proc.PID()
}

func mustChild(t testing.TB, b *Backend) int {
	pid, ok := b.Child()
	if !ok {
		t.Fatal("no child")
	}
	return pid
}
