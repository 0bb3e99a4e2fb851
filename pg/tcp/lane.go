package tcp

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/skerry-ft/skerry/internal/memfd"
	"github.com/skerry-ft/skerry/pg"
)

// lane is the shared memory of an edge between two processes of one host, beside
// its socket: the frames of collectives take it, all else the socket. Each side
// makes one segment, which only it writes.
//
// A record's payload is folded or copied from where it lies, and then released,
// in the order of records. Both segments live until nobody refers to them: the
// link, a record that is held, whoever pushes or pulls.
type lane struct {
	out, in *memfd.Segment
	bell    *os.File // of the peer's poller
	bellFD  int
	rung    atomic.Uint32 // value of the peer's asleep that was answered
	refs    atomic.Int32

	send producer
	recv consumer

	pullMu sync.Mutex // one goroutine pulls
	again  atomic.Bool

	hold struct {
		sync.Mutex

		order []*buf // records that are not released, oldest first
		head  int
		free  []*buf
	}

	// Guarded by Backend.mu.
	pushing bool
	on      bool   // both sides take it in this epoch
	fresh   bool   // start is not applied yet
	start   uint64 // first byte of this epoch's records
}

// newLane makes a lane of our segment, the peer's, and the peer's bell, and owns
// all three. An error leaves them to the caller.
func newLane(out, in *memfd.Segment, bell *os.File) (*lane, error) {
	size := len(in.Bytes()) - controlBytes
	if size < minRingBytes || size > maxRingBytes || size%recordAlign != 0 {
		return nil, fmt.Errorf("%w: shared ring of %d bytes, want %d to %d", ErrCorrupt, size, minRingBytes, maxRingBytes)
	}
	n := &lane{out: out, in: in, bell: bell, bellFD: -1}
	raw, err := bell.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("peer's bell: %w", err)
	}
	// The lane's references keep the descriptor open, so that it can be used bare.
	if err := raw.Control(func(fd uintptr) { n.bellFD = int(fd) }); err != nil {
		return nil, fmt.Errorf("peer's bell: %w", err)
	}
	mine, peer := wordsOf(out.Bytes()), wordsOf(in.Bytes())
	n.send = producer{data: out.Bytes()[controlBytes:], mine: mine, peer: peer}
	n.recv = consumer{data: in.Bytes()[controlBytes:], mine: mine, peer: peer}
	mine.asleep.Store(^uint32(0)) // odd, until the poller knows the lane
	n.refs.Store(1)
	return n, nil
}

func (n *lane) ref() *lane {
	n.refs.Add(1)
	return n
}

// unref lets go of n. The caller holds no lock.
func (n *lane) unref() {
	if n.refs.Add(-1) > 0 {
		return
	}
	// Errors would be those of descriptors that are closed already.
	_ = errors.Join(n.out.Close(), n.in.Close(), n.bell.Close())
}

// ringBell wakes the peer's poller if it sleeps: once each time.
func (n *lane) ringBell() {
	v := n.send.peer.asleep.Load()
	if old := n.rung.Load(); v%2 == 0 || old == v || !n.rung.CompareAndSwap(old, v) {
		return
	}
	ringFD(n.bellFD)
}

// record is the next one, held until it is put back into the pool.
func (n *lane) record(length int) *buf {
	n.hold.Lock()
	defer n.hold.Unlock()
	var x *buf
	if last := len(n.hold.free) - 1; last >= 0 {
		x = n.hold.free[last]
		n.hold.free = n.hold.free[:last]
	} else {
		x = new(buf)
	}
	x.lane, x.freed = n.ref(), false
	x.b, x.end = n.recv.take(length)
	if q := &n.hold; q.head > 0 && len(q.order) == cap(q.order) {
		left := copy(q.order, q.order[q.head:])
		clear(q.order[left:])
		q.order, q.head = q.order[:left], 0
	}
	n.hold.order = append(n.hold.order, x)
	return x
}

// release gives x, and what was released after it, back to the peer.
func (n *lane) release(x *buf) {
	n.hold.Lock()
	x.freed, x.b = true, nil
	q := &n.hold
	for q.head < len(q.order) && q.order[q.head].freed {
		n.recv.mine.tail.Store(q.order[q.head].end)
		q.free = append(q.free, q.order[q.head])
		q.order[q.head] = nil
		q.head++
	}
	if q.head == len(q.order) {
		q.order, q.head = q.order[:0], 0
	}
	n.hold.Unlock()
	if n.recv.peer.blocked.Load() != 0 {
		n.ringBell()
	}
	n.unref()
}

// begin skips what is left of earlier epochs. Nothing of them is held any more.
func (n *lane) begin() {
	n.hold.Lock()
	n.recv.read = n.start
	n.recv.mine.tail.Store(n.start)
	n.hold.Unlock()
	n.fresh = false
	if n.recv.peer.blocked.Load() != 0 {
		n.ringBell()
	}
}

// push sends what l's lane has to send, as far as there is room. Any goroutine
// may call it, holding no lock.
func (b *Backend) push(l *link) {
	b.mu.Lock()
	n := l.lane
	if n == nil || !n.on || n.pushing {
		if n != nil && !n.on {
			n.send.rest() // else the poller would try for ever
		}
		b.mu.Unlock()
		return
	}
	n.pushing = true
	n.ref()
	for {
		var do todo
		x, ok := l.takeRecordLocked(n, &do)
		if !ok {
			n.pushing = false
			b.mu.Unlock()
			b.do(&do)
			break
		}
		b.mu.Unlock()
		b.writeRecord(n, &x)
		b.mu.Lock()
		b.untouchLocked(x.task, &do)
		b.mu.Unlock()
		b.do(&do)
		b.mu.Lock()
	}
	n.unref()
}

// recordOut is a record that is being written.
type recordOut struct {
	task    *task
	head    header
	memory  []byte
	payload []byte
	slot    *slotCRC
	end     uint64
}

// takeRecordLocked takes the next piece for l's lane and reserves its memory.
func (l *link) takeRecordLocked(n *lane, do *todo) (recordOut, bool) {
	t, s := l.recordLocked(n)
	if s == nil {
		n.send.rest()
		return recordOut{}, false
	}
	memory, err := n.send.reserve(s.size())
	if err != nil {
		l.b.lostLocked(l, err, do)
		return recordOut{}, false
	}
	if memory == nil {
		return recordOut{}, false
	}
	x := recordOut{task: t, memory: memory, slot: t.slotOf(s), end: n.send.next}
	offset := s.done
	x.payload = s.take()
	x.head = header{
		typ: frameData, phase: s.phase, length: uint32(len(x.payload)), epoch: t.group.key,
		seq: t.seq, offset: uint64(offset), total: uint64(s.total), call: t.call,
	}
	t.touch++
	t.need--
	return x, true
}

// recordLocked is the stream that has the next piece for l's lane, or nil.
func (l *link) recordLocked(n *lane) (*task, *stream) {
	g := l.group
	if g == nil || g.phase != groupReady || !l.helloOK || l.lane != n || g.peers[l.rank] != l {
		return nil, nil
	}
	t := g.active
	if t == nil || !t.open {
		return nil, nil
	}
	s, ok := t.outgoing(l.rank)
	if !ok {
		return nil, nil
	}
	return t, s
}

// writeRecord fills the memory and publishes it. The payload's checksum is
// there only where the digest needs it: memory is not a wire.
func (b *Backend) writeRecord(n *lane, x *recordOut) {
	copy(x.memory[recordHead:], x.payload)
	if x.slot != nil {
		x.head.crc = x.slot.checksum(x.payload)
	}
	x.head.encode(x.memory[:headerBytes])
	b.crossed.Add(1)
	n.send.publish(x.end)
	b.stats.dataFrames.Add(1)
	b.stats.sharedBytes.Add(uint64(len(x.payload)))
	n.ringBell()
}

// pull takes what has come on l's lane and has an op. Any goroutine may call it,
// holding no lock. Who finds another one at it leaves it to that one.
func (b *Backend) pull(l *link) {
	n := b.laneOf(l)
	if n == nil {
		return
	}
	n.again.Store(true)
	for n.again.Load() && n.pullMu.TryLock() {
		n.again.Store(false)
		for b.pullOne(l, n) {
		}
		n.pullMu.Unlock()
	}
	n.unref()
}

// pullAll takes, on this goroutine or after another one, all that the peer had
// published before it said on the socket what we are about to act upon.
func (b *Backend) pullAll(l *link) {
	n := b.laneOf(l)
	if n == nil {
		return
	}
	n.pullMu.Lock()
	for b.pullOne(l, n) {
	}
	n.pullMu.Unlock()
	if n.again.Load() {
		b.pull(l)
	}
	n.unref()
}

// laneOf is l's lane, with a reference, or nil if both sides do not take it yet.
func (b *Backend) laneOf(l *link) *lane {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := l.lane
	switch {
	case n == nil:
		return nil
	case !n.on:
		n.recv.looked.Store(n.recv.peer.head.Load()) // else the poller would look for ever
		return nil
	}
	return n.ref()
}

// pullOne takes one record; false if there is none whose op is open. The caller
// holds pullMu.
func (b *Backend) pullOne(l *link, n *lane) bool {
	var do todo
	b.mu.Lock()
	x, s, h, ok := l.pullLocked(n, &do)
	b.mu.Unlock()
	b.crossed.Load()
	b.do(&do)
	switch {
	case x == nil:
	case s.task == nil: // an announcement, or refused
		n.release(x)
	case s.buf == x: // folded where it is
		l.settle(h.crc, &s)
	default:
		copy(s.dst, x.b)
		n.release(x)
		l.settle(h.crc, &s)
	}
	return ok
}

func (l *link) pullLocked(n *lane, do *todo) (x *buf, s slot, h header, ok bool) {
	b := l.b
	n.recv.looked.Store(n.recv.peer.head.Load())
	g := b.mu.group
	if g == nil || l.lane != n || l.group != g || !l.helloOK || g.phase != groupReady || g.peers[l.rank] != l {
		return nil, s, h, false
	}
	t := g.active
	if t == nil || !t.open {
		return nil, s, h, false // whoever opens it pulls
	}
	if n.fresh {
		n.begin()
	}
	ok, err := n.recv.peek(&h)
	if err == nil && ok && (h.typ != frameData || h.epoch != g.key || h.call.kind.PointToPoint()) {
		err = fmt.Errorf("%w: shared record of %v %v of quorum %d", ErrCorrupt, h.typ, h.call.kind, h.epoch.quorum)
	}
	if err != nil {
		b.lostLocked(l, err, do)
		return nil, s, h, false
	}
	if !ok || h.seq > t.seq {
		return nil, s, h, false
	}
	x = n.record(int(h.length))
	if h.seq < t.seq {
		err = fmt.Errorf("%w: frame of %v, which is complete here", pg.ErrMismatch, h.call)
		if h.total == 0 {
			err = nil // an announcement of an op that is over here
		}
	} else {
		s, err = l.placeInLocked(t, &h, x, do)
	}
	if err != nil {
		b.breakLocked(g, l.mismatchCause(&h, err), do)
		return x, slot{}, h, false
	}
	return x, s, h, true
}
