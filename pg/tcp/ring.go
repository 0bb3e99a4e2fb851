package tcp

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/skerry-ft/skerry/internal/step"
)

// A shared segment is one page of control words and, for each class of data, a ring
// of records, frames whose payload lies behind their header. Only the segment's maker writes it:
// its frames, and the words that tell the peer how far it is.
const (
	controlBytes = 4096
	// Each class has a part of the page, each word a cache line of its own.
	classWords  = 1024
	wordHead    = 0   // bytes of records published here
	wordTail    = 64  // bytes of the peer's ring that it may use again
	wordAsleep  = 128 // odd: nobody need be rung; of the first class, for all
	wordBlocked = 192 // not 0: waits for room, ring the bell when there is some

	recordAlign = 64
	recordHead  = 128 // a header, and what aligns the payload

	// minRingBytes holds a full frame wherever in the ring it is to start.
	minRingBytes = 2 * (recordHead + MaxPayload)
	maxRingBytes = 1 << 30
)

// skipMark is where a record would stand that did not fit before the ring's
// end: the next one is at its start. It is no frameMagic.
const skipMark = 0x6b53

// words is the control words of one segment.
type words struct {
	head, tail      step.Word64
	asleep, blocked step.Word32
}

func wordsOf(segment []byte, class int, h step.Hook) words {
	at := func(off int) unsafe.Pointer { return unsafe.Pointer(&segment[class*classWords+off]) }
	return words{
		head: step.At64((*atomic.Uint64)(at(wordHead)), h), tail: step.At64((*atomic.Uint64)(at(wordTail)), h),
		asleep: step.At32((*atomic.Uint32)(at(wordAsleep)), h), blocked: step.At32((*atomic.Uint32)(at(wordBlocked)), h),
	}
}

// recordBytes is what a frame with n bytes of payload takes.
func recordBytes(n int) int { return recordHead + (n+recordAlign-1)&^(recordAlign-1) }

// producer writes records. One goroutine at a time; next is guarded by
// Backend.mu.
type producer struct {
	data []byte
	mine words
	peer words
	next uint64 // published, or being written

	waiting  step.Bool // for room
	waitTail step.Uint64
}

// reserve gives the memory for a record with n bytes of payload; none if there
// is no room. An error means that the peer's words make no sense.
func (p *producer) reserve(n int) ([]byte, error) {
	size := uint64(len(p.data))
	need := uint64(recordBytes(n))
	pos, skip := p.next%size, uint64(0)
	if pos+need > size {
		skip = size - pos
	}
	for try := 0; ; try++ {
		tail := p.peer.tail.Load()
		if tail > p.next || p.next-tail > size {
			return nil, fmt.Errorf("%w: shared ring freed to %d of %d", ErrCorrupt, tail, p.next)
		}
		if p.next-tail+skip+need <= size {
			break
		}
		if try > 0 {
			return nil, nil
		}
		// Look again after the peer can have seen that we wait.
		p.waitTail.Store(tail)
		p.waiting.Store(true)
		p.mine.blocked.Store(1)
	}
	p.rest()
	if skip > 0 {
		binary.LittleEndian.PutUint32(p.data[pos:], skipMark)
		pos = 0
	}
	p.next += skip + need
	return p.data[pos : pos+need : pos+need], nil
}

// rest is called when there is room, or nothing to send: nobody waits any more.
func (p *producer) rest() {
	if p.waiting.Load() {
		p.waiting.Store(false)
		p.mine.blocked.Store(0)
	}
}

// publish shows the peer everything that was reserved. The record is complete.
func (p *producer) publish(upTo uint64) { p.mine.head.Store(upTo) }

// roomCame tells whether a push that found no room should look again.
func (p *producer) roomCame() bool {
	return p.waiting.Load() && p.peer.tail.Load() != p.waitTail.Load()
}

// consumer reads records. One goroutine at a time pulls; any may release.
type consumer struct {
	data   []byte
	mine   words
	peer   words
	read   uint64
	raw    [headerBytes]byte
	looked step.Uint64 // head when the ring was last looked at
}

// pending tells whether there is something that nobody has looked at.
func (c *consumer) pending() bool { return c.peer.head.Load() != c.looked.Load() }

// look notes that somebody has seen what there is.
func (c *consumer) look() { c.looked.Store(c.peer.head.Load()) }

// peek decodes the header of the next record, if there is one. What the peer
// wrote is copied first, and every bound is checked on the copy.
func (c *consumer) peek(h *header) (ok bool, err error) {
	head := c.peer.head.Load()
	c.looked.Store(head)
	size := uint64(len(c.data))
	for {
		left := int64(head - c.read)
		if left <= 0 { // before the start of this epoch's records: see lane.start
			return false, nil
		}
		if uint64(left) > size || left%recordAlign != 0 {
			return false, fmt.Errorf("%w: shared ring has %d bytes, size %d", ErrCorrupt, left, size)
		}
		pos := c.read % size
		raw := c.raw[:]
		if uint64(left) < recordHead || pos+recordHead > size {
			if binary.LittleEndian.Uint32(c.data[pos:]) == skipMark && uint64(left) >= size-pos {
				c.read += size - pos
				continue
			}
			return false, fmt.Errorf("%w: shared ring ends in a record", ErrCorrupt)
		}
		copy(raw, c.data[pos:])
		if binary.LittleEndian.Uint32(raw) == skipMark && uint64(left) >= size-pos {
			c.read += size - pos
			continue
		}
		if err := h.decode(raw); err != nil {
			return false, err
		}
		need := uint64(recordBytes(int(h.length)))
		if need > uint64(left) || pos+need > size {
			return false, fmt.Errorf("%w: shared record of %d bytes, %d are there", ErrCorrupt, need, left)
		}
		return true, nil
	}
}

// take moves past the record that peek saw. The payload is the peer's memory,
// which stays as it is until end was released.
func (c *consumer) take(length int) (payload []byte, end uint64) {
	pos := c.read%uint64(len(c.data)) + recordHead
	c.read += uint64(recordBytes(length))
	return c.data[pos : pos+uint64(length) : pos+uint64(length)], c.read
}
