package tcp

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/skerry-ft/skerry/internal/memfd"
	"github.com/skerry-ft/skerry/internal/shmring"
	"github.com/skerry-ft/skerry/internal/step"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
)

// lane is the shared memory of an edge between two processes of one host, beside
// its socket: the frames of collectives take it, and all but the announcement of
// long point-to-point messages. Each side makes one segment, which only it writes.
//
// A record's payload is folded or copied from where it lies, and then released,
// in the order of records. Both segments live until nobody refers to them: the
// link, a record that is held, whoever pushes or pulls.
type lane struct {
	out, in *memfd.Segment
	bell    *os.File    // of the peer's poller
	knock   func()      // rings it
	rung    step.Uint32 // value of the peer's asleep that was answered
	refs    atomic.Int32

	channels [frame.Classes]channel

	on bool // both sides take it in this epoch; guarded by Backend.mu
}

// channel is one class's rings, one per direction. Those of collectives may hold
// records whose op is not posted yet; what waits behind them is of collectives too.
// Point-to-point has rings of its own, where all that comes was asked for.
type channel struct {
	lane *lane
	send shmring.Producer // guarded by Backend.mu; one goroutine at a time writes what it reserved
	recv consumer

	pulls turn // one goroutine pulls

	hold struct {
		sync.Mutex

		order queue[*buf] // records that are not released
		free  spares[buf]
	}

	// Guarded by Backend.mu.
	pushing bool
	fresh   bool   // start is not applied yet
	start   uint64 // first byte of this epoch's records
}

// newLane makes a lane of our segment, the peer's, and the peer's bell, and owns
// all three. An error leaves them to the caller.
func newLane(out, in *memfd.Segment, bell *os.File, h step.Hook) (*lane, error) {
	size := (len(in.Bytes()) - controlBytes) / frame.Classes
	if size < minRingBytes || size > maxRingBytes || size%shmring.Align != 0 || controlBytes+frame.Classes*size != len(in.Bytes()) {
		return nil, fmt.Errorf("%w: %d shared rings of %d bytes, want %d to %d", ErrCorrupt, frame.Classes, size, minRingBytes, maxRingBytes)
	}
	n := &lane{out: out, in: in, bell: bell}
	raw, err := bell.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("peer's bell: %w", err)
	}
	// The lane's references keep the descriptor open, so that it can be used bare.
	if err := raw.Control(func(fd uintptr) { n.knock = func() { ringFD(int(fd)) } }); err != nil {
		return nil, fmt.Errorf("peer's bell: %w", err)
	}
	for class := range n.channels {
		c := &n.channels[class]
		c.lane = n
		c.send.Data, c.recv.Data = ringOf(out, class), ringOf(in, class)
		c.connect(wordsOf(out.Bytes(), class, h), wordsOf(in.Bytes(), class, h), h)
	}
	n.rung.Watch(h)
	n.asleep().Store(^uint32(0)) // odd, until the poller knows the lane
	n.refs.Store(1)
	return n, nil
}

// connect says where the channel's words are, ours and the peer's.
func (c *channel) connect(mine, peer shmring.Words, h step.Hook) {
	c.send.Mine, c.send.Peer, c.recv.Mine, c.recv.Peer = mine, peer, mine, peer
	c.send.HeadBytes, c.recv.HeadBytes = recordHead, recordHead
	c.send.Waiting.Watch(h)
	c.send.WaitTail.Watch(h)
	c.recv.Looked.Watch(h)
	c.pulls.watch(h)
}

// ringOf is a class's ring in a segment.
func ringOf(segment *memfd.Segment, class int) []byte {
	rings := segment.Bytes()[controlBytes:]
	size := len(rings) / frame.Classes
	return rings[class*size : (class+1)*size : (class+1)*size]
}

// asleep tells the peer whether to ring.
func (n *lane) asleep() step.Word32 { return n.channels[0].send.Mine.Asleep }

// pending tells whether there is something that nobody has looked at, or room that
// a push waits for.
func (n *lane) pending() bool {
	for class := range n.channels {
		c := &n.channels[class]
		if c.recv.Pending() || c.send.RoomCame() {
			return true
		}
	}
	return false
}

// rest is called when nothing is to be sent: nobody waits for room.
func (n *lane) rest() {
	for class := range n.channels {
		n.channels[class].send.Rest()
	}
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
	v := n.channels[0].send.Peer.Asleep.Load()
	if old := n.rung.Load(); v%2 == 0 || old == v || !n.rung.CompareAndSwap(old, v) {
		return
	}
	n.knock()
}

// turn lets one goroutine at a time do what any may ask for, and do it once more
// when another asked meanwhile. A goroutine that finds it taken leaves it to
// the one that has it: that one looks whether it was asked after it has let go.
type turn struct {
	step.Mutex

	again step.Bool
}

func (t *turn) watch(h step.Hook) {
	t.Watch(h)
	t.again.Watch(h)
}

// ask is called before take, once.
func (t *turn) ask() { t.again.Store(true) }

func (t *turn) asked() bool { return t.again.Load() }

// take tells whether it is the caller's to do now; it calls Unlock then, and take
// again.
func (t *turn) take() bool {
	if !t.asked() || !t.TryLock() {
		return false
	}
	t.again.Store(false)
	return true
}

// record is the next one, held until it is put back into the pool.
func (c *channel) record(length int) *buf {
	c.hold.Lock()
	defer c.hold.Unlock()
	x := c.hold.free.take()
	x.channel, x.freed = c, false
	c.lane.ref()
	x.b, x.end = c.recv.Take(length)
	c.hold.order.push(x)
	return x
}

// release gives x, and what was released after it, back to the peer.
func (c *channel) release(x *buf) {
	c.hold.Lock()
	x.freed, x.b = true, nil
	for q := &c.hold.order; !q.empty() && (*q.first()).freed; {
		first := q.pop()
		c.recv.Release(first.end)
		c.hold.free = append(c.hold.free, first)
	}
	c.hold.Unlock()
	c.roomMade()
	c.lane.unref()
}

// roomMade is called when tail has risen: a peer that waits for room is told.
func (c *channel) roomMade() {
	if c.recv.PeerBlocked() {
		c.lane.ringBell()
	}
}

// begin skips what is left of earlier epochs. Nothing of them is held any more.
func (c *channel) begin() {
	c.hold.Lock()
	c.recv.Begin(c.start)
	c.hold.Unlock()
	c.fresh = false
	c.roomMade()
}

// push sends what l's lane has to send, as far as there is room. Any goroutine
// may call it, holding no lock.
func (b *Backend) push(l *link) {
	for class := range frame.Classes {
		b.pushClass(l, class)
	}
}

func (b *Backend) pushClass(l *link, class int) {
	b.mu.Lock()
	n := l.lane
	if n == nil || !n.on || n.channels[class].pushing {
		if n != nil && !n.on {
			n.rest() // else the poller would try for ever
		}
		b.mu.Unlock()
		return
	}
	c := &n.channels[class]
	c.pushing = true
	n.ref()
	for {
		var do todo
		x, ok := l.takeRecordLocked(n, class, &do)
		if !ok {
			c.pushing = false
			b.unlock(&do)
			break
		}
		b.mu.Unlock()
		b.writeRecord(c, &x)
		b.mu.Lock()
		b.untouchLocked(x.task, &do)
		b.unlock(&do)
		b.mu.Lock()
	}
	n.unref()
}

// recordOut is a record that is being written.
type recordOut struct {
	task    *task
	head    frame.Header
	memory  []byte
	payload []byte
	slot    *slotCRC
	end     uint64
}

// takeRecordLocked takes the next piece for l's lane and reserves its memory.
func (l *link) takeRecordLocked(n *lane, class int, do *todo) (recordOut, bool) {
	c := &n.channels[class]
	t, s := l.recordLocked(n, class)
	if s == nil {
		c.send.Rest()
		return recordOut{}, false
	}
	memory, err := c.send.Reserve(s.size())
	if err != nil {
		l.b.lostLocked(l, fmt.Errorf("%w: shared memory: %w", ErrCorrupt, err), do)
		return recordOut{}, false
	}
	if memory == nil {
		return recordOut{}, false
	}
	x := recordOut{task: t, memory: memory, end: c.send.Next}
	x.payload, x.slot = l.cutLocked(t, s, class, &x.head)
	return x, true
}

// recordLocked is the stream that has the next piece for l's lane, or nil.
func (l *link) recordLocked(n *lane, class int) (*task, *stream) {
	g := l.group
	if g == nil || g.phase != groupReady || !l.helloOK || l.lane != n || g.peers[l.rank] != l {
		return nil, nil
	}
	if class == frame.ClassMessage {
		return l.askedLocked()
	}
	t := g.active
	if t == nil || !t.open {
		return nil, nil
	}
	return t, t.outgoing(l.rank)
}

// writeRecord fills the memory and publishes it. The payload's checksum is
// there only where the digest needs it: memory is not a wire.
func (b *Backend) writeRecord(c *channel, x *recordOut) {
	copy(x.memory[recordHead:], x.payload)
	if x.slot != nil {
		x.head.CRC = x.slot.checksum(x.payload)
	}
	x.head.Encode(x.memory[:frame.HeaderBytes])
	b.crossed.Add(1)
	c.send.Publish(x.end)
	b.stats.dataFrames.Add(1)
	b.stats.sharedBytes.Add(uint64(len(x.payload)))
	c.lane.ringBell()
}

// pull takes what has come on l's lane and has an op. Any goroutine may call it,
// holding no lock. Who finds another one at it leaves it to that one.
func (b *Backend) pull(l *link) {
	n := b.laneOf(l)
	if n == nil {
		return
	}
	for class := range n.channels {
		c := &n.channels[class]
		c.pulls.ask()
		for c.pulls.take() {
			for b.pullOne(l, n, class) {
			}
			c.pulls.Unlock()
		}
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
	again := false
	for class := range n.channels {
		c := &n.channels[class]
		c.pulls.Lock()
		for b.pullOne(l, n, class) {
		}
		c.pulls.Unlock()
		again = again || c.pulls.asked()
	}
	if again {
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
		for class := range n.channels { // else the poller would look for ever
			n.channels[class].recv.Look()
		}
		return nil
	}
	return n.ref()
}

// pullOne takes one record; false if there is none that has a place. The caller
// has the channel's turn to pull.
func (b *Backend) pullOne(l *link, n *lane, class int) bool {
	var do todo
	b.mu.Lock()
	x, s, h, ok := l.pullLocked(n, class, &do)
	b.unlock(&do)
	b.crossed.Load()
	switch {
	case x == nil:
	case s.task == nil: // an announcement, or refused
		x.channel.release(x)
	case s.buf == x: // folded where it is
		l.settle(h.CRC, &s)
	default:
		copy(s.dst, x.b)
		x.channel.release(x)
		l.arrived(&h, &s)
	}
	return ok
}

func (l *link) pullLocked(n *lane, class int, do *todo) (x *buf, s slot, h frame.Header, ok bool) {
	b, c := l.b, &n.channels[class]
	c.recv.Look()
	g := b.mu.group
	if g == nil || l.lane != n || l.group != g || !l.helloOK || g.phase != groupReady || g.peers[l.rank] != l {
		return nil, s, h, false
	}
	t := g.active
	if class == frame.ClassCollective && (t == nil || !t.open) {
		return nil, s, h, false // whoever opens it pulls
	}
	if c.fresh {
		c.begin()
	}
	ok, err := c.recv.peek(&h)
	if err == nil && ok && (h.Type != frame.TypeData || h.Epoch != g.key || frame.ClassOf(h.Call.Kind) != class) {
		err = fmt.Errorf("%w: shared record of %v %v of quorum %d", ErrCorrupt, h.Type, h.Call.Kind, h.Epoch.Quorum)
	}
	if err != nil {
		b.lostLocked(l, err, do)
		return nil, s, h, false
	}
	if !ok || class == frame.ClassCollective && h.Seq > t.seq {
		return nil, s, h, false
	}
	x = c.record(int(h.Length))
	switch {
	case class == frame.ClassMessage:
		s, err = l.placeAskedLocked(&h)
	case h.Seq == t.seq:
		s, err = l.placeInLocked(t, &h, x, do)
	case h.Total > 0: // else an announcement of an op that is over here
		err = fmt.Errorf("%w: frame of %v, which is complete here", pg.ErrMismatch, h.Call)
	}
	if err != nil {
		b.breakLocked(g, l.mismatchCause(&h, err), do)
		return x, slot{}, h, false
	}
	return x, s, h, true
}
