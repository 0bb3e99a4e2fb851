package baby

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/skerry-ft/skerry/internal/memfd"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// Ops keep the round that they were submitted in, however late the child takes
// them: a later round that overtook them would break a healthy group.
func TestRoundsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	b, g := alone(t, Options{})
	pid := stopChild(t, b)
	var works []*pg.Work
	const first = 5
	for round := int64(first); round < first+3; round++ {
		b.SetRound(round)
		works = append(works, g.Submit(&pg.Op{Kind: pg.KindBarrier}))
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for i, w := range works {
		if err := w.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, want := w.Op().Round, int64(first+i); got != want {
			t.Errorf("op %d has round %d, want %d", i, got, want)
		}
	}
}

// The child may release a record while nobody sleeps: what is about to sleep sees it.
func TestRoomIsNotMissed(t *testing.T) {
	t.Parallel()
	segment, err := memfd.Create("test", channelBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer segment.Close()
	c := new(child)
	if err := connect(segment, parentSide, &c.mu.ops, new(taker)); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, maxRecordBytes)
	for c.roomLocked() {
		c.mu.ops.put(recordOp, 0, body)
	}
	if c.roomCame() {
		t.Error("room came before anything was taken")
	}
	theirs := new(taker)
	if err := connect(segment, childSide, new(giver), theirs); err != nil {
		t.Fatal(err)
	}
	var rec record
	if ok, err := theirs.take(&rec); !ok || err != nil {
		t.Fatal("nothing to take", err)
	}
	if !c.roomCame() {
		t.Error("room came, and nobody would see it")
	}
	if c.roomLocked(); c.roomCame() {
		t.Error("room came, and was seen")
	}
}

// An op that ends without a word from the child, as by an abort, wakes who sleeps in
// Help.
func TestCompleteWakesTheHelper(t *testing.T) {
	t.Parallel()
	segment, err := memfd.Create("test", channelBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer segment.Close()
	ours := sideAt(segment.Bytes(), parentSide)
	c := new(child)
	c.mu.helper = ours.helper
	for _, helping := range []bool{true, false} {
		c.listener.helping.Store(helping)
		ours.helper.Store(1)
		op := &pg.Op{Kind: pg.KindBarrier}
		c.complete(&pending{op: op, work: pg.NewWork(op)}, 0, pg.ErrAborted)
		if woken := ours.helper.Load() == 0; woken != helping {
			t.Errorf("somebody helps: %v; woken: %v", helping, woken)
		}
	}
}

// A child has no reason to pass descriptors: they are not collected.
func TestNoDescriptorsFromTheChild(t *testing.T) {
	t.Parallel()
	var pipes [2]*pipe
	ours, theirs, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range []*os.File{ours, theirs} {
		if pipes[i], err = newPipe(f); err != nil {
			t.Fatal(err)
		}
		f.Close()
		defer pipes[i].wait()
		defer pipes[i].close()
	}
	pipes[0].noFiles = true
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	pipes[1].send(message(msgPong), null)
	if _, err := pipes[0].receive(); !errors.Is(err, errFiles) {
		t.Errorf("receive: %v, want %v", err, errFiles)
	}
	if n := len(pipes[0].files); n != 0 {
		t.Errorf("%d descriptors are kept", n)
	}
}

// The interfaces that a Baby is opened with are those of its child.
func TestInterfacesReachTheChild(t *testing.T) {
	t.Parallel()
	b := newBaby(t, Options{Open: pg.Options{Interfaces: []string{"=nosuchif0"}}})
	if err := b.Warm(t.Context()); err == nil || !strings.Contains(err.Error(), "nosuchif0") {
		t.Errorf("a child on an interface that does not exist: %v, want it named", err)
	}
}

func TestFreeAfterClose(t *testing.T) {
	t.Parallel()
	b := newBaby(t, Options{})
	x, err := b.Alloc(tensor.Float32, 10)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.Free(x); err != nil {
		t.Errorf("free after close: %v", err)
	}
}
