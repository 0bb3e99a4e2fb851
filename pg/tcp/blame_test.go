package tcp

import (
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
)

// muteForTest has l's writer find the socket's end, as after a reset.
func (l *link) muteForTest(t *testing.T) {
	t.Helper()
	eventually(t, "nobody sends", func() bool {
		l.b.mu.Lock()
		defer l.b.mu.Unlock()
		if l.busy {
			return false
		}
		l.busy = true
		return true
	})
	l.cannotWrite(syscall.EPIPE)
}

// A survivor that fails after a death tells its peers who died, and leaves. A
// peer that finds it gone while writing, before it has read that, must not accuse
// it: the culprit is who died.
func TestWriterAccusesNobody(t *testing.T) {
	t.Parallel()
	const survivor, dead = 0, 2
	w := newWorld(t, 3, Options{Transport: TransportTCP})
	w.configure(1)
	b := w.backends[1]
	b.linkTo(w.ids[survivor]).muteForTest(t)
	if err := b.Err(); err != nil {
		t.Fatalf("after a failed write: %v, want the reader to judge", err)
	}
	work := b.Submit(&pg.Op{Kind: pg.KindBarrier})
	w.backends[survivor].Abort(w.config(1, w.everybody(), survivor).Epoch(),
		&pg.OpError{Peer: dead, PeerID: w.ids[dead], Err: pg.ErrPeerLost})
	if e := opError(t, wait(t, work)); e.Peer != dead || e.PeerID != w.ids[dead] {
		t.Errorf("the barrier blames rank %d (%s), want %d: %v", e.Peer, e.PeerID, dead, e)
	}
	w.configure(2)
	w.reduceOK(w.everybody(), 1000)
}

// The same when nothing more comes: the peer's end names the peer.
func TestReaderAccusesAfterTheWriter(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, Options{Transport: TransportTCP})
	w.configure(1)
	b := w.backends[1]
	b.linkTo(w.ids[0]).muteForTest(t)
	work := b.Submit(&pg.Op{Kind: pg.KindBarrier})
	w.backends[0].linkTo(w.ids[1]).shut() // as the system does for who is killed
	if e := opError(t, wait(t, work)); e.Peer != 0 {
		t.Errorf("the barrier blames rank %d, want 0: %v", e.Peer, e)
	}
	w.configure(2)
	w.reduceOK(w.everybody(), 1000)
}

// connected is the accepted end of a connection, and the other one.
func connected(t *testing.T) (conn, peer *net.TCPConn) {
	t.Helper()
	ln, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if peer, err = net.DialTCP("tcp", nil, ln.Addr().(*net.TCPAddr)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { peer.Close() })
	if conn, err = ln.AcceptTCP(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn, peer
}

// A link that leaves while the peer is slow to read, and still sends, takes back
// nothing of what it has said: closed over the peer's bytes, the socket would.
func TestLeaveTakesNothingBack(t *testing.T) {
	t.Parallel()
	const frames, bytes = 12, 4 << 10
	conn, peer := connected(t)
	if err := peer.SetReadBuffer(8 << 10); err != nil {
		t.Fatal(err)
	}
	b := New(Options{})
	defer b.Close()
	l, err := b.newLink(conn, true)
	if err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	for range frames {
		l.control.push(b.controlFrame(frame.TypeAbort, frame.Epoch{}, make([]byte, bytes)))
	}
	b.startLocked(l)
	l.leaving, l.leaveBy = true, time.Now().Add(testTimeout) // as leave does, but for the time
	b.mu.Unlock()
	b.kick(l)
	eventually(t, "all is written", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return l.control.empty() && !l.busy
	})
	var beat frame.Header
	beat.Type, beat.Call.Root = frame.TypeBeat, -1
	var raw [frame.HeaderBytes]byte
	beat.Encode(raw[:])
	if _, err := peer.Write(raw[:]); err != nil {
		t.Fatal(err)
	}
	if err := peer.SetReadDeadline(time.Now().Add(testTimeout)); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(peer)
	if want := frames * (frame.HeaderBytes + bytes); len(got) != want || err != nil {
		t.Error(fmt.Errorf("the peer read %d bytes, want %d: %w", len(got), want, err))
	}
	peer.Close()
	eventually(t, "the link is gone", func() bool { return b.Stats().Links == 0 })
}
