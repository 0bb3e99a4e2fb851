package baby

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/skerry-ft/skerry/internal/memfd"
	"github.com/skerry-ft/skerry/internal/step"
)

// Parent and child share one segment: a page of control words, the ring of ops
// and the ring of results. Both may write all of it, so what is read there is
// read once, and believed only within bounds: each side keeps its own place in
// both rings to itself.
const (
	controlBytes = 4096
	// Each word has a cache line of its own; one set of words per ring.
	wordHead    = 0   // bytes published
	wordTail    = 64  // bytes taken
	wordAsleep  = 128 // 1: the taker sleeps on it
	wordHelper  = 160 // 1: who helps the taker sleeps on it
	wordBlocked = 192 // 1: the giver waits for room
	wordsBytes  = 256

	// ringBytes holds some three hundred ops of one tensor.
	ringBytes = 64 << 10
	// maxRecordBytes bounds a record; what is larger takes the socket.
	maxRecordBytes = 8 << 10

	recordHead  = 16 // uint32 length, uint8 type, 3 of nothing, uint64 socket messages before
	recordAlign = 16

	channelBytes = controlBytes + 2*ringBytes
)

// The types of records.
const (
	recordOp     uint8 = iota + 1 // an op, see op.go
	recordOpSent                  // an op that came over the socket
	recordDone                    // the result of an op that succeeded
)

var errRing = errors.New("shared ring is corrupt")

// half is one ring.
type half struct {
	data       []byte
	head, tail step.Word64

	asleep, helper, blocked step.Word32
}

// size is how many bytes of records the ring holds: a power of two.
func (h *half) size() uint64 { return uint64(len(h.data)) }

// wake wakes who takes.
func (h *half) wake() {
	wake(h.asleep)
	wake(h.helper)
}

// halves are the ring of ops and that of results of a shared segment.
func halves(s *memfd.Segment) (ops, results half, err error) {
	b := s.Bytes()
	if len(b) != channelBytes {
		return ops, results, fmt.Errorf("baby: shared ring of %d bytes, want %d", len(b), channelBytes)
	}
	at64 := func(off int) step.Word64 { return step.At64((*atomic.Uint64)(unsafe.Pointer(&b[off])), nil) }
	at32 := func(off int) step.Word32 { return step.At32((*atomic.Uint32)(unsafe.Pointer(&b[off])), nil) }
	for i, h := range []*half{&ops, &results} {
		words, data := i*wordsBytes, controlBytes+i*ringBytes
		*h = half{
			data: b[data : data+ringBytes : data+ringBytes],
			head: at64(words + wordHead), tail: at64(words + wordTail),
			asleep: at32(words + wordAsleep), helper: at32(words + wordHelper), blocked: at32(words + wordBlocked),
		}
	}
	return ops, results, nil
}

// recordBytes is what a record with a body of n bytes takes.
func recordBytes(n int) uint64 {
	return uint64(recordHead + (n+recordAlign-1)&^(recordAlign-1))
}

// A giver puts records into a ring. One goroutine at a time.
type giver struct {
	half
	next uint64 // published
	seen uint64 // taken, as far as we have seen
	raw  [recordHead]byte
}

// room tells whether there is room for a body of n bytes. If not, the taker
// wakes our side's reader once there may be. An error means that the taker's
// word makes no sense.
func (g *giver) room(n int) (bool, error) {
	need := recordBytes(n)
	if g.next-g.seen+need <= g.size() {
		return true, nil
	}
	for try := range 2 {
		tail := g.tail.Load()
		if tail < g.seen || tail > g.next {
			return false, fmt.Errorf("%w: %d bytes taken, %d were given", errRing, tail, g.next)
		}
		g.seen = tail
		if g.next-tail+need <= g.size() {
			if try > 0 {
				g.blocked.Store(0)
			}
			return true, nil
		}
		// Look again, now that the taker can know; and say it once: a second time
		// could undo the taker's answer to the first.
		if try == 0 {
			g.blocked.Store(1)
		}
	}
	return false, nil
}

// put publishes a record, for which there is room. The caller wakes the taker.
func (g *giver) put(typ uint8, after uint64, body []byte) {
	binary.LittleEndian.PutUint32(g.raw[:], uint32(len(body)))
	g.raw[4] = typ
	binary.LittleEndian.PutUint64(g.raw[8:], after)
	g.write(g.next, g.raw[:])
	g.write(g.next+recordHead, body)
	g.next += recordBytes(len(body))
	g.head.Store(g.next)
}

// write copies b to a place in the ring, round its end if need be.
func (h *half) write(at uint64, b []byte) {
	n := copy(h.data[at&(h.size()-1):], b)
	copy(h.data, b[n:])
}

// copyOut is write's reverse.
func (h *half) copyOut(b []byte, at uint64) {
	n := copy(b, h.data[at&(h.size()-1):])
	copy(b[n:], h.data)
}

// A taker takes records out of a ring. One goroutine at a time.
type taker struct {
	half
	giver *half // where the other side's taker sleeps, if it waits for room
	read  uint64
	buf   [maxRecordBytes]byte

	hurries bool // tests: sleeps without looking first
}

// record is a copy of one: after is how many messages of the socket come first,
// body is valid until the next one is taken.
type record struct {
	typ   uint8
	after uint64
	body  []byte
}

// waits tells whether there is something to take.
func (t *taker) waits() bool { return t.head.Load() != t.read }

// take copies the next record out; false if there is none. A giver that waits
// for room is told.
func (t *taker) take(r *record) (bool, error) {
	there := t.head.Load() - t.read
	if there == 0 {
		return false, nil
	}
	if there > t.size() || there%recordAlign != 0 {
		return false, fmt.Errorf("%w: %d bytes are there, want at most %d", errRing, there, t.size())
	}
	var head [recordHead]byte
	t.copyOut(head[:], t.read)
	n := binary.LittleEndian.Uint32(head[:])
	if n > maxRecordBytes || recordBytes(int(n)) > there {
		return false, fmt.Errorf("%w: record of %d bytes, want at most %d of the %d there", errRing, n, maxRecordBytes, there)
	}
	r.typ, r.after, r.body = head[4], binary.LittleEndian.Uint64(head[8:]), t.buf[:n]
	t.copyOut(r.body, t.read+recordHead)
	t.read += recordBytes(int(n))
	t.tail.Store(t.read)
	if t.giver != nil && t.blocked.Load() != 0 && t.blocked.Swap(0) != 0 {
		t.giver.wake()
	}
	return true, nil
}

// How long a taker looks before it sleeps. It offers its processor to others at
// each look, so that the one that it waits for runs in that time: what it takes
// is what nobody else wants. On a busy host a wake-up costs both sides 20 to 50 µs.
const (
	lookTime = 100 * time.Microsecond
	// helpLookTime is for a goroutine that has nothing else to do than to wait for
	// its op: it covers ops of up to a MiB or so.
	helpLookTime = 400 * time.Microsecond
)

// rest waits until there is something to take, somebody calls wake on asleep,
// or a while has passed. The caller looks again, and why it was woken.
func (t *taker) rest(over *step.Bool) {
	if t.look(over.Load) {
		return
	}
	t.asleep.Store(1)
	if !over.Load() && !t.waits() {
		sleep(t.asleep, maxSleep)
	}
	t.asleep.Store(0)
}

// look tells whether there is something to take, or comes within a moment, or
// enough tells that the moment is over.
func (t *taker) look(enough func() bool) bool {
	for start := time.Now(); !t.hurries && time.Since(start) < lookTime && !enough(); {
		if t.glance() {
			return true
		}
	}
	return false
}

// glance looks a few times, and lets others run.
func (t *taker) glance() bool {
	const looks = 8
	if t.hurries {
		return false
	}
	for range looks {
		if t.waits() {
			return true
		}
	}
	yield()
	return false
}
