package shmring

import (
	"encoding/binary"
	"fmt"

	"github.com/skerry-ft/skerry/internal/step"
)

const (
	// Align is what the sizes of records and rings are multiples of.
	Align = 64
	// Skip is how no record's head may begin, as a little-endian uint32: it stands
	// where a record did not fit before the ring's end.
	Skip = 0x6b53
)

// Bytes returns the size of a record with a head of so many bytes and a payload of n.
func Bytes(head, n int) int { return (head + n + Align - 1) &^ (Align - 1) }

// Producer writes records into Data.
type Producer struct {
	Data       []byte
	Mine, Peer Words
	HeadBytes  int    // of a record
	Next       uint64 // reserved, in bytes since the ring was made
	Freed      uint64 // Peer.Tail, when it was last loaded

	Waiting  step.Bool // for room; Mine.Blocked says so to the peer
	WaitTail step.Uint64
}

// Room tells whether there is room for a record with n bytes of payload. If not, the
// peer is told that its next Release is waited for.
func (p *Producer) Room(n int) (bool, error) {
	size := uint64(len(p.Data))
	skip, need := p.place(n)
	for try := 0; p.Next-p.Freed+skip+need > size; try++ {
		tail := p.Peer.Tail.Load()
		if tail > p.Next || p.Next-tail > size {
			return false, fmt.Errorf("ring of %d bytes was freed to %d of %d", size, tail, p.Next)
		}
		p.Freed = tail
		if p.Next-tail+skip+need <= size {
			break
		}
		if try > 0 {
			return false, nil
		}
		// Look again after the peer can have seen that we wait.
		p.WaitTail.Store(tail)
		p.Waiting.Store(true)
		p.Mine.Blocked.Store(1)
	}
	p.Rest()
	return true, nil
}

// place returns what a record with n bytes of payload leaves unused before the ring's
// end, and what it takes.
func (p *Producer) place(n int) (skip, need uint64) {
	size := uint64(len(p.Data))
	need = uint64(Bytes(p.HeadBytes, n))
	if pos := p.Next % size; pos+need > size {
		skip = size - pos
	}
	return skip, need
}

// Reserve returns the memory of a record with n bytes of payload, or nil if there is
// no room, see Room.
func (p *Producer) Reserve(n int) ([]byte, error) {
	if ok, err := p.Room(n); !ok {
		return nil, err
	}
	return p.Claim(n), nil
}

// Claim is Reserve for a record that Room has told there is room for, or for a larger
// one.
func (p *Producer) Claim(n int) []byte {
	skip, need := p.place(n)
	pos := p.Next % uint64(len(p.Data))
	if skip > 0 {
		binary.LittleEndian.PutUint32(p.Data[pos:], Skip)
		pos = 0
	}
	p.Next += skip + need
	return p.Data[pos : pos+need : pos+need]
}

// Publish shows the peer all that was reserved up to a Next. Its records are complete.
func (p *Producer) Publish(upTo uint64) { p.Mine.Head.Store(upTo) }

// Rest is called when there is room, or nothing to write: the producer does not wait
// for room any more.
func (p *Producer) Rest() {
	if p.Waiting.Load() {
		p.Waiting.Store(false)
		p.Mine.Blocked.Store(0)
	}
}

// RoomCame tells whether a producer that has found no room should look again.
func (p *Producer) RoomCame() bool {
	return p.Waiting.Load() && p.Peer.Tail.Load() != p.WaitTail.Load()
}

// Consumer reads the records in Data.
type Consumer struct {
	Data       []byte
	Mine, Peer Words
	HeadBytes  int    // of a record
	Read       uint64 // taken, in bytes since the ring was made

	ahead  bool
	Looked step.Uint64 // Peer.Head when the ring was last looked at
}

// Begin goes on at a place that the peer has named, and may not have reached yet. The
// caller holds no record of what is skipped.
func (c *Consumer) Begin(at uint64) {
	c.Read, c.ahead = at, true
	c.Release(at)
}

// Waits tells whether there is something that was not taken.
func (c *Consumer) Waits() bool { return c.Peer.Head.Load() != c.Read }

// Pending tells whether there is something since the last Look or Peek.
func (c *Consumer) Pending() bool { return c.Peer.Head.Load() != c.Looked.Load() }

// Look notes that what there is was seen.
func (c *Consumer) Look() { c.Looked.Store(c.Peer.Head.Load()) }

// Peek copies the head of the next record, and returns how large its payload can be at
// most; false if there is none.
func (c *Consumer) Peek(head []byte) (most int, ok bool, err error) {
	published := c.Peer.Head.Load()
	c.Looked.Store(published)
	size := uint64(len(c.Data))
	for {
		left := published - c.Read
		if left == 0 || c.ahead && int64(left) < 0 {
			return 0, false, nil
		}
		if left > size || left%Align != 0 {
			return 0, false, fmt.Errorf("ring of %d bytes has %d to read", size, int64(left))
		}
		pos := c.Read % size
		room := min(left, size-pos)
		n := copy(head, c.Data[pos:pos+room])
		if binary.LittleEndian.Uint32(head) == Skip && left >= size-pos {
			c.Read += size - pos
			continue
		}
		if n < len(head) || room < uint64(c.HeadBytes) {
			return 0, false, fmt.Errorf("ring ends in a record's head, %d bytes before its end", room)
		}
		return int(room) - c.HeadBytes, true, nil
	}
}

// Take moves past the record at which Peek has looked, and which has n bytes of
// payload. It stays as it is until end is released.
func (c *Consumer) Take(n int) (payload []byte, end uint64) {
	pos := c.Read%uint64(len(c.Data)) + uint64(c.HeadBytes)
	c.Read += uint64(Bytes(c.HeadBytes, n))
	return c.Data[pos : pos+uint64(n) : pos+uint64(n)], c.Read
}

// Release lets the peer overwrite all records up to an end. If it is Blocked, the
// caller wakes it.
func (c *Consumer) Release(end uint64) { c.Mine.Tail.Store(end) }

// PeerBlocked tells whether the peer is to be woken after a Release.
func (c *Consumer) PeerBlocked() bool { return c.Peer.Blocked.Load() != 0 }
