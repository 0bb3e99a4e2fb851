package tcp

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/internal/shmring"
	"github.com/skerry-ft/skerry/pg"
)

// rests ends only if the poller, once there is nothing to do, looks no more.
func (b *Backend) rests() {
	b.poller.mu.Lock()
	b.poller.watch(nil)
	b.poller.leave()
}

// soleLink is the link of a backend with one edge, which has a lane.
func (b *Backend) soleLink(t *testing.T) *link {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for l := range b.mu.links {
		if l.lane != nil {
			return l
		}
	}
	t.Fatal("no lane")
	return nil
}

func (b *Backend) soleLane(t *testing.T) *lane {
	t.Helper()
	return b.soleLink(t).lane
}

// TestPollerRestsAfterAbort: an op that ends while a ring is full leaves nobody
// behind who looks for room, though there comes some that nothing is sent into.
func TestPollerRestsAfterAbort(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, Options{Transport: TransportShared, RingBytes: minRingBytes})
	w.configure(1)
	n := w.backends[0].soleLane(t)
	x := tensors(pattern(0, 4<<20))
	work := w.backends[0].Submit(&pg.Op{Kind: pg.KindAllReduce, In: x, Out: x})
	eventually(t, "the ring is full", n.channels[0].send.Waiting.Load)
	w.backends[0].Abort(pg.Epoch{Cluster: "test", QuorumID: 1}, errors.New("no"))
	if wait(t, work) == nil {
		t.Error("all-reduce of one rank succeeded")
	}
	w.configure(2)
	y := tensors(pattern(1, 8))
	late := w.backends[1].Submit(&pg.Op{Kind: pg.KindAllReduce, In: y, Out: y}) // frees what was left
	eventually(t, "there is room", func() bool { return n.channels[0].send.Peer.Tail.Load() == n.channels[0].send.Next })
	w.backends[0].rests()
	z := tensors(pattern(0, 8))
	if err := wait(t, w.backends[0].Submit(&pg.Op{Kind: pg.KindAllReduce, In: z, Out: z})); err != nil {
		t.Error(err)
	}
	if err := wait(t, late); err != nil {
		t.Error(err)
	}
}

// TestPollerRestsBetweenEpochs: records that nobody may take yet, and that a
// stranger claims to have written, keep nobody looking.
func TestPollerRestsBetweenEpochs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, Options{Transport: TransportShared})
	w.configure(1)
	b := w.backends[0]
	n := b.soleLane(t)
	b.mu.Lock()
	n.on = false
	b.mu.Unlock()
	head := n.channels[0].recv.Peer.Head
	head.Store(head.Load() + shmring.Align) // the peer is in this process
	b.bell.ring()
	eventually(t, "the poller has looked", func() bool { return !n.channels[0].recv.Pending() })
	b.rests()
}

// TestHelperArmsNobody: a ring that is dropped because somebody helps is of a value
// of asleep that the helper does not leave behind. Else the op after it, if another
// goroutine took what was rung for, waits for a ring that never comes.
func TestHelperArmsNobody(t *testing.T) {
	t.Parallel()
	t.Run("pending none", func(t *testing.T) { t.Parallel(); helperArmsNobody(t, 0) })
	t.Run("pending one", func(t *testing.T) { t.Parallel(); helperArmsNobody(t, 1) })
}

// helperArmsNobody leaves so many ops pending when the helper is over.
func helperArmsNobody(t *testing.T, behind int) {
	w := newWorld(t, 2, Options{Transport: TransportShared})
	w.configure(1)
	barrier := func(rank int) *pg.Work { return w.backends[rank].Submit(&pg.Op{Kind: pg.KindBarrier}) }
	b := w.backends[1]
	ours := []*pg.Work{barrier(1)}
	for range behind {
		ours = append(ours, barrier(1))
	}
	p := b.poller
	if !p.helping.CompareAndSwap(false, true) {
		t.Fatal("somebody helps")
	}
	p.mu.Lock()
	helped := sync.OnceFunc(p.helpedLocked)
	defer helped()
	p.watch(func() bool { return false }) // ends: nothing comes
	theirs := barrier(0)
	eventually(t, "the ring is taken, if there was one", b.bell.silent)
	b.pull(b.soleLink(t)) // as who begins an op does, or hears of a link's end
	if err := errors.Join(wait(t, ours[0]), wait(t, theirs)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the next op has begun", func() bool { return behind == 0 || b.idlesInOp() })
	helped()
	if behind == 0 {
		ours = append(ours, barrier(1))
	}
	theirs = barrier(0)
	if err := errors.Join(waitDone(t, ours[1]), wait(t, theirs)); err != nil {
		t.Fatal(err)
	}
}

// idlesInOp tells whether an op is under way, and no goroutine at it.
func (b *Backend) idlesInOp() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.mu.group.active
	return t != nil && t.open && t.touch == 0
}

// silent tells whether no ring is left that the poller has not taken, and gives
// the poller time to do so.
func (e *bell) silent() bool {
	for range 100 {
		runtime.Gosched()
	}
	left := 0
	err := e.raw.Control(func(fd uintptr) { left, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	return err == nil && left == 0
}

// waitDone waits as a ballot does: it helps nobody.
func waitDone(t *testing.T, w *pg.Work) error {
	t.Helper()
	select {
	case <-w.Done():
		return w.Err()
	case <-time.After(testTimeout):
		t.Fatal("an op waits for a ring that does not come")
		return nil
	}
}

// TestOwnBellIsOurs: what a peer does to the bell that it was given does not make
// ours block.
func TestOwnBellIsOurs(t *testing.T) {
	t.Parallel()
	e, err := newBell()
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	raw, err := e.pass.SyscallConn() // what is passed is this description
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) {
		for err == nil {
			_, err = unix.Write(int(fd), make([]byte, 4096))
		}
		if err := unix.SetNonblock(int(fd), false); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	rung := make(chan struct{})
	go func() {
		e.ring()
		close(rung)
	}()
	select {
	case <-rung:
	case <-time.After(testTimeout):
		t.Error("our own ring blocks")
	}
}

// TestBellBlocksNobody: a peer that fills its bell and makes its own descriptor
// block does not hold up who rings.
func TestBellBlocksNobody(t *testing.T) {
	t.Parallel()
	e, err := newBell()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := e.pass.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	fd := -1
	if err := raw.Control(func(x uintptr) { fd, err = unix.FcntlInt(x, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		t.Fatal(err)
	}
	own, err := ownBell(os.NewFile(uintptr(fd), "passed"))
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(x uintptr) {
		for err == nil {
			_, err = unix.Write(int(x), make([]byte, 4096))
		}
		if err = unix.SetNonblock(int(x), false); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	raw, err = own.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(x uintptr) { ringFD(int(x)) }); err != nil { // hangs, if it blocks
		t.Error(err)
	}
	if err := e.wait(); err != nil {
		t.Errorf("a full bell does not ring: %v", err)
	}
	if err := errors.Join(e.close(), own.Close()); err != nil {
		t.Error(err)
	}
}
