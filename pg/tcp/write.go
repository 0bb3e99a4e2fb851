package tcp

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
)

// frameOut is the frame that is going out.
type frameOut struct {
	head    [frame.HeaderBytes]byte
	payload []byte
	off     int          // bytes of head and payload that are out
	open    bool         // taken, and not all out
	ready   bool         // prepare was called
	inline  bool         // may be written by whoever submits it
	task    *task        // whose memory payload is; holds a touch
	h       frame.Header // for encoding
	slot    *slotCRC     // where the payload's checksum may be known
	copied  *buf         // payload, if it had to be taken from an aborted op
	corrupt *buf         // payload, if a Fault wants it damaged
}

// errLeft is why a link that left is closed.
var errLeft = errors.New("tcp: left")

// kick sends what l has to send, as far as that needs no waiting; the writers
// do the rest. Any goroutine may call it, holding no lock.
func (b *Backend) kick(l *link) {
	var free [MaxStreams]*sock
	n := 0
	b.mu.Lock()
	shared := l.lane != nil && l.lane.on
	for i, k := range l.socks {
		if k.busy || l.gone {
			continue
		}
		if i == 0 && !(shared && l.quietLocked()) || i > 0 && k.wantsLocked() {
			k.busy = true
			free[n] = k
			n++
		}
	}
	b.mu.Unlock()
	for _, k := range free[:n] {
		k.pump(false)
	}
	if shared {
		b.push(l)
	}
}

// quietLocked tells whether a socket beside a lane has nothing to send.
func (l *link) quietLocked() bool {
	return l.control.empty() && !l.leaving && !l.beatDue && l.sendableLocked() == nil &&
		!l.flow[frame.ClassMessage].due(l.window[frame.ClassMessage])
}

// writeLoop is the writer: it takes over what others could not send at once.
func (k *sock) writeLoop() {
	for {
		select {
		case <-k.wake:
			k.pump(true)
		case <-k.dead:
			k.release()
			return
		}
	}
}

// release lets go of the frame that never went out, if the writer should have
// sent it.
func (k *sock) release() {
	select {
	case <-k.wake:
		k.pump(true) // fails on the closed socket, and lets go
	default:
	}
}

// pump sends frames until there are none. The caller has made busy true; it is
// false again when pump returns true or the writer has taken over.
func (k *sock) pump(mayWait bool) {
	for {
		if !k.out.open {
			if !k.next() {
				return
			}
		}
		if !mayWait && (!k.out.inline || k.l.b.opt.Fault != nil) {
			k.handOver()
			return
		}
		if !k.out.ready {
			if err := k.prepare(); err != nil {
				k.abandon(err)
				return
			}
		}
		err := k.flush(mayWait)
		switch {
		case err == nil:
		case errors.Is(err, errAgain):
			k.handOver()
			return
		case interrupted(err):
			if err := k.resume(); err != nil {
				k.abandon(err)
				return
			}
		case errors.Is(err, ErrCorrupt): // no end of the socket, which the reader would find
			k.abandon(fmt.Errorf("write: %w", err))
			return
		default:
			k.cannotWrite(fmt.Errorf("write: %w", err))
			return
		}
	}
}

// handOver lets the writer go on. If the link is gone, the writer may be too.
func (k *sock) handOver() {
	l := k.l
	l.b.mu.Lock()
	gone := l.gone
	if !gone {
		k.wake <- struct{}{} // has room: only who made busy true sends, once
	}
	l.b.mu.Unlock()
	if gone {
		k.abandon(net.ErrClosed)
	}
}

// next finishes the frame before and takes the next one; false if there is
// none, and busy is false then.
func (k *sock) next() bool {
	l := k.l
	b := l.b
	var do todo
	b.mu.Lock()
	k.finishLocked(&do)
	k.out.off, k.out.ready, k.out.inline = 0, false, true
	ok := !l.gone && k.takeLocked()
	k.out.open = ok
	if !ok {
		k.busy = false
		if l.leaving && l.restsLocked() && !l.lingersLocked() {
			b.lostLocked(l, errLeft, &do)
		}
	}
	b.unlock(&do)
	return ok
}

// finishLocked accounts for the frame that has gone out.
func (k *sock) finishLocked(do *todo) {
	o := &k.out
	if t := o.task; t != nil {
		k.l.b.untouchLocked(t, do)
	}
	k.l.b.pool.put(o.copied)
	k.l.b.pool.put(o.corrupt)
	o.task, o.slot, o.copied, o.corrupt, o.payload = nil, nil, nil, nil, nil
}

// takeLocked chooses what to send next: control frames first, so that nothing
// holds up an abort.
func (k *sock) takeLocked() bool {
	l, o := k.l, &k.out
	if !l.control.empty() && k.index == 0 {
		c := l.control.pop()
		o.h, o.payload = c.head, c.payload
		return true
	}
	if h, ok := l.creditLocked(); ok {
		o.h = h
		return true
	}
	switch {
	case l.leaving:
		return false
	case k.takeDataLocked():
		return true
	case !k.beatDue:
		return false
	}
	k.beatDue = false
	o.h = frame.Header{Type: frame.TypeBeat, Call: frame.Call{Root: -1}}
	return true
}

// takeDataLocked takes a data frame, from the two classes in turn.
func (k *sock) takeDataLocked() bool {
	l := k.l
	if k.index > 0 {
		t, s := l.stripableLocked()
		if t != nil {
			l.stripe.sent++
			k.frameLocked(t, s, frame.ClassCollective)
		}
		return t != nil
	}
	g := l.group
	if g == nil || g.phase != groupReady || !l.helloOK || g.peers[l.rank] != l {
		return false
	}
	for range frame.Classes {
		class := l.turn
		l.turn = (l.turn + 1) % frame.Classes
		var t *task
		if class == frame.ClassCollective {
			if l.lane != nil {
				continue // push sends them
			}
			t = g.active
		} else {
			t = l.sendableLocked()
		}
		if t == nil || !t.open {
			continue
		}
		if l.lane != nil && t.peers[l.rank].out[0].pieces > 1 { // of a message: the pieces take the lane
			if l.flow[class].credit < frame.HeaderBytes {
				continue
			}
			k.tellLocked(t)
			return true
		}
		s := t.outgoing(l.rank)
		if s == nil || l.flow[class].credit < s.size()+frame.HeaderBytes {
			continue
		}
		k.frameLocked(t, s, class)
		return true
	}
	return false
}

// frameLocked makes the next piece of s the frame that goes out.
func (k *sock) frameLocked(t *task, s *stream, class int) {
	l, o := k.l, &k.out
	o.payload, o.slot = l.cutLocked(t, s, class, &o.h)
	// One that several sockets share the work with must not take all of it.
	shared := len(l.socks) > 1 && len(o.payload) >= stripeBytes
	o.inline = (len(o.payload) <= inlineBytes || k.here) && !shared
	l.flow[class].credit -= len(o.payload) + frame.HeaderBytes
	o.task = t
}

// cutLocked takes the next piece of s, which is of t, to be sent under the header h.
// The piece counts as gone: what is begun is finished, even if the group breaks,
// unless the socket fails. The caller has a touch of t.
func (l *link) cutLocked(t *task, s *stream, class int, h *frame.Header) (payload []byte, slot *slotCRC) {
	slot = t.slotOf(s)
	offset := s.done
	payload = s.take()
	*h = frame.Header{
		Type: frame.TypeData, Phase: s.phase, Length: uint32(len(payload)), Epoch: t.group.key,
		Seq: t.seq, Offset: uint64(offset), Total: uint64(s.total), Tag: t.tag, Call: t.call,
	}
	t.touch++
	t.need--
	if class == frame.ClassMessage && s.finished() {
		l.sends = slices.DeleteFunc(l.sends, func(x *task) bool { return x == t })
	}
	return payload, slot
}

// prepare makes the bytes of the frame: checksum, header, faults.
func (k *sock) prepare() error {
	o := &k.out
	o.ready = true
	b := k.l.b
	if o.h.Type == frame.TypeData {
		b.stats.dataFrames.Add(1)
		b.stats.dataBytes.Add(uint64(len(o.payload)))
		if k.index > 0 {
			b.stats.stripedBytes.Add(uint64(len(o.payload)))
		}
		o.h.CRC = o.slot.checksum(o.payload)
	}
	o.h.Encode(o.head[:])
	if b.opt.Fault == nil {
		return nil
	}
	return k.fault()
}

// fault does to the frame what the Fault wants.
func (k *sock) fault() error {
	o, b := &k.out, k.l.b
	b.mu.Lock()
	info := k.info(&o.h)
	b.mu.Unlock()
	a := b.opt.Fault(info)
	if a.Delay > 0 {
		select {
		case <-time.After(a.Delay):
		case <-k.dead:
		case <-b.closing:
		}
	}
	if a.Close {
		return errors.New("closed by a fault")
	}
	if a.Corrupt {
		if len(o.payload) == 0 {
			o.head[40] ^= 1
		} else {
			o.corrupt = b.pool.get(len(o.payload))
			copy(o.corrupt.b, o.payload)
			o.corrupt.b[len(o.payload)/2] ^= 1
			o.payload = o.corrupt.b
		}
	}
	if a.Drop {
		o.off = frame.HeaderBytes + len(o.payload)
	}
	return nil
}

// flush writes the frame to its end.
func (k *sock) flush(mayWait bool) error {
	o := &k.out
	size := frame.HeaderBytes + len(o.payload)
	for o.off < size {
		var head, payload []byte
		if o.off < frame.HeaderBytes {
			head, payload = o.head[o.off:], o.payload
		} else {
			payload = o.payload[o.off-frame.HeaderBytes:]
		}
		n, err := k.conn.write(head, payload, mayWait)
		if err != nil {
			return err
		}
		o.off += n
	}
	k.sent.Store(k.l.b.now())
	o.open = false
	return nil
}

// resume is called when a write was interrupted. If the frame's op has failed,
// the rest is copied, so that the op can complete while the frame is finished:
// half a frame would cost the socket.
func (k *sock) resume() error {
	leaving, by, failed := k.prospects()
	if leaving {
		if !time.Now().Before(by) {
			return errLeft
		}
		return k.conn.tcp.SetWriteDeadline(by)
	}
	if err := k.conn.tcp.SetWriteDeadline(time.Time{}); err != nil {
		return err
	}
	// The interrupt may have come between our look and the clearing, and so may the
	// deadline of who has the link leave; look again, now that later ones would be seen.
	leaving, by, orphaned := k.prospects()
	if failed || orphaned {
		k.detach()
	}
	if leaving {
		return k.conn.tcp.SetWriteDeadline(by)
	}
	return nil
}

// prospects tells whether the link leaves, and until when it may send, and whether
// the frame's op is not to be kept waiting for it.
func (k *sock) prospects() (leaving bool, by time.Time, orphaned bool) {
	l, t := k.l, k.out.task
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	return l.leaving, l.leaveBy, t != nil && t.group.phase == groupBroken
}

// detach copies what is left of the payload and lets go of the op.
func (k *sock) detach() {
	b, o := k.l.b, &k.out
	done := max(o.off-frame.HeaderBytes, 0)
	o.copied = b.pool.get(len(o.payload))
	copy(o.copied.b[done:], o.payload[done:])
	o.payload = o.copied.b
	var do todo
	b.mu.Lock()
	t := o.task
	o.task, o.slot = nil, nil
	b.untouchLocked(t, &do)
	b.unlock(&do)
}

// cannotWrite is the end of sending on a socket that may have something to say
// yet: a peer that fails after another one's death tells us so and leaves, and our
// write finds its end before our reader finds its words. The reader, which comes
// to the same end behind them, judges; the clock does, if it should not.
func (k *sock) cannotWrite(err error) {
	l := k.l
	b, o := l.b, &k.out
	var do todo
	b.mu.Lock()
	over := l.gone || l.leaving || l.left
	if !over {
		k.mute = true // busy stays true: nobody sends any more
		if t := o.task; t != nil && t.group.phase != groupBroken {
			t.need++ // it has not gone
			t.peers[l.rank].unsent = true
		}
		o.open = false
		k.finishLocked(&do)
	}
	b.unlock(&do)
	if over {
		k.abandon(err)
	}
}

// restsLocked tells whether nobody sends on any socket of l.
func (l *link) restsLocked() bool {
	return !slices.ContainsFunc(l.socks, func(k *sock) bool { return k.busy && !k.mute })
}

// lingersLocked tells whether a link that leaves has to wait for the peer: closed
// over bytes that nobody reads, it would take back with a reset what the peer has
// not acknowledged, an abort and its culprit among it.
func (l *link) lingersLocked() bool {
	waits := slices.ContainsFunc(l.socks, func(k *sock) bool { return k.conn.unacknowledged() > 0 })
	if l.gone || !waits || !time.Now().Before(l.leaveBy) {
		return false
	}
	// The peer reads to the end and closes; our reader sees that, or the time. The
	// first socket ends first, so that the peer has what it said before it sees the
	// others' end.
	return l.conn.tcp.CloseWrite() == nil && l.conn.tcp.SetReadDeadline(l.leaveBy) == nil
}

// abandon is the end of sending: the socket failed.
func (k *sock) abandon(err error) {
	l := k.l
	b, o := l.b, &k.out
	var do todo
	b.mu.Lock()
	if t := o.task; t != nil {
		o.task = nil
		if g := t.group; g.phase != groupBroken && !l.left {
			t.need++ // it has not gone; broken first, so that the op fails
			b.lostLocked(l, err, &do)
		}
		b.untouchLocked(t, &do)
	}
	b.lostLocked(l, err, &do)
	o.open = false
	k.finishLocked(&do)
	b.unlock(&do)
}
