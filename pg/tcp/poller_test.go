package tcp

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/pg"
)

// rests ends only if the poller, once there is nothing to do, looks no more.
func (b *Backend) rests() {
	b.poller.mu.Lock()
	b.poller.watch(nil)
	b.poller.leave()
}

// soleLane is the lane of a backend with one edge.
func (b *Backend) soleLane(t *testing.T) *lane {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for l := range b.mu.links {
		if l.lane != nil {
			return l.lane
		}
	}
	t.Fatal("no lane")
	return nil
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
	eventually(t, "the ring is full", n.channels[0].send.waiting.Load)
	w.backends[0].Abort(pg.Epoch{Cluster: "test", QuorumID: 1}, errors.New("no"))
	if wait(t, work) == nil {
		t.Error("all-reduce of one rank succeeded")
	}
	w.configure(2)
	y := tensors(pattern(1, 8))
	late := w.backends[1].Submit(&pg.Op{Kind: pg.KindAllReduce, In: y, Out: y}) // frees what was left
	eventually(t, "there is room", func() bool { return n.channels[0].send.peer.tail.Load() == n.channels[0].send.next })
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
	n.channels[0].recv.peer.head.Add(recordAlign) // the peer is in this process
	b.bell.ring()
	eventually(t, "the poller has looked", func() bool { return !n.channels[0].recv.pending() })
	b.rests()
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

// TestHelloLaneAligned: a start within a record is refused: reading there would
// run past the end of the ring.
func TestHelloLaneAligned(t *testing.T) {
	t.Parallel()
	h := hello{replicaID: "x", worldSize: 2, socks: 1, lane: true, window: [classes]int{minWindowBytes, minWindowBytes}}
	for start, ok := range map[uint64]bool{0: true, recordAlign: true, 1: false, recordAlign - 1: false, ^uint64(0): false} {
		for class := range classes {
			h.rings = [classes]uint64{}
			h.rings[class] = start
			_, err := decodeHello(h.encode())
			if ok && err != nil || !ok && !errors.Is(err, ErrCorrupt) {
				t.Errorf("ring %d from %d: %v, want accepted: %v", class, start, err, ok)
			}
		}
	}
}
