package tcp

import (
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/skerry-ft/skerry/internal/futex"
	"github.com/skerry-ft/skerry/pg"
)

// TestDeathWatch: when the thread ends that holds a rank's words, as all threads of a
// killed process do, the others hear it though the sockets are open: their ops
// fail and name the rank.
func TestDeathWatch(t *testing.T) {
	t.Parallel()
	const world, victim = 3, 1
	w := newWorld(t, world, Options{Transport: TransportShared})
	w.configure(1)
	w.reduceOK(w.everybody(), 1000)
	dying := w.backends[victim]
	for _, r := range []int{0, 2} { // the dead say nothing; here they would accuse who hangs up on them
		dying.linkTo(w.ids[r]).muteForTest(t)
	}
	var wg sync.WaitGroup
	works := map[int]*pg.Work{}
	for _, r := range []int{0, 2} {
		x := tensors(pattern(r, 1000))
		works[r] = w.backends[r].Submit(&pg.Op{Kind: pg.KindAllReduce, In: x, Out: x})
	}
	wg.Go(func() {
		runtime.LockOSThread() // never unlocked: the thread ends here
		k := newDeathWatch(dying)
		k.enroll()
		k.refresh() // now it holds the words, not the backend's own thread
		for _, lane := range k.lanes {
			lane.n.unref()
		}
	})
	wg.Wait()
	for r, work := range works {
		e := opError(t, wait(t, work))
		if e == nil || e.PeerID != "replica1" || !errors.Is(e, pg.ErrPeerLost) {
			t.Errorf("rank %d: %v, want replica1 lost", r, e)
		}
	}
	w.configure(2)
	w.reduceOK(w.everybody(), 1000)
}

// TestCloseIsNoDeath: whoever closes marks nothing as a dead one would.
func TestCloseIsNoDeath(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, Options{Transport: TransportShared})
	w.configure(1)
	n := w.backends[0].soleLane(t).ref()
	defer n.unref()
	word := futexWord(n.in.Bytes(), deathListWord)
	eventually(t, "the peer holds its word", func() bool { return word.Load()&futex.Waiters != 0 })
	if err := w.backends[1].Close(); err != nil {
		t.Error(err)
	}
	if word.Load()&futex.OwnerDied != 0 {
		t.Error("a closed backend is marked as dead")
	}
}

// TestDeathListOfAStranger: a list that a peer has spoilt ends no process, and keeps
// nobody from closing.
func TestDeathListOfAStranger(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, Options{Transport: TransportShared})
	w.configure(1)
	mine := w.backends[0].soleLane(t).out.Bytes()
	for _, address := range []uintptr{0, 1, 8, ^uintptr(0)} {
		pointer(mine, deathListEntry).Store(address)
		w.backends[0].lanesChanged()
		eventually(t, "the list is made anew", func() bool { return pointer(mine, deathListEntry).Load() != address })
	}
	pointer(mine, deathListEntry).Store(8)
	w.reduceOK(w.everybody(), 1000)
	for _, b := range w.backends {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}
