package baby

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/skerry-ft/skerry/internal/futex"
	"github.com/skerry-ft/skerry/internal/memfd"
	"github.com/skerry-ft/skerry/internal/shmring"
	"github.com/skerry-ft/skerry/internal/step"
)

// Parent and child share one segment: a page of control words, the ring of ops
// and the ring of results. Both may write all of it, so each side keeps its own place
// in both rings to itself, and copies a record before it reads it.
const (
	controlBytes = 4096
	wordHelper   = 160 // beside shmring's own words of a side

	// ringBytes holds some two hundred and fifty ops of one tensor.
	ringBytes = 64 << 10
	// maxRecordBytes bounds a record's body; what is larger takes the socket.
	maxRecordBytes = 8 << 10

	recordHead = 16 // uint32 length, uint8 type, 3 of nothing, uint64 socket messages before

	channelBytes = controlBytes + 2*ringBytes
)

// The types of records.
const (
	recordOp     uint8 = iota + 1 // an op, see op.go
	recordOpSent                  // an op that came over the socket
	recordDone                    // the result of an op that succeeded
)

var errRing = errors.New("shared ring is corrupt")

// side is the words of parent or child. It sleeps on Asleep, a goroutine or thread
// that helps it on helper: each is 1 meanwhile.
type side struct {
	shmring.Words

	helper step.Word32
}

// wake wakes the side, and who helps it.
func (s *side) wake() {
	futex.Wake(s.Asleep)
	futex.Wake(s.helper)
}

// The sides of a segment, by index; the first ring is the parent's.
const (
	parentSide = iota
	childSide
)

func sideAt(segment []byte, which int) side {
	b := segment[which*shmring.WordsBytes:]
	return side{shmring.WordsAt(b, nil), step.At32((*atomic.Uint32)(unsafe.Pointer(&b[wordHelper])), nil)}
}

// connect makes the ends of both rings that one side has of a shared segment.
func connect(s *memfd.Segment, which int, g *giver, t *taker) error {
	b := s.Bytes()
	if len(b) != channelBytes {
		return fmt.Errorf("baby: shared ring of %d bytes, want %d", len(b), channelBytes)
	}
	ring := func(which int) []byte {
		at := controlBytes + which*ringBytes
		return b[at : at+ringBytes : at+ringBytes]
	}
	mine, peer := sideAt(b, which), sideAt(b, 1-which)
	g.connect(ring(which), mine, peer)
	t.connect(ring(1-which), mine, peer)
	return nil
}

// A giver puts records into a ring. One goroutine at a time.
type giver struct {
	shmring.Producer

	peer side
}

func (g *giver) connect(data []byte, mine, peer side) {
	g.Data, g.Mine, g.Peer, g.HeadBytes, g.peer = data, mine.Words, peer.Words, recordHead, peer
}

// room tells whether there is room for a body of n bytes. If not, the taker wakes our
// side once there may be. An error means that the taker's word makes no sense.
func (g *giver) room(n int) (bool, error) {
	ok, err := g.Room(n)
	if err != nil {
		err = fmt.Errorf("%w: %w", errRing, err)
	}
	return ok, err
}

// put publishes a record, for which there is room. The caller wakes the taker.
func (g *giver) put(typ uint8, after uint64, body []byte) {
	b := g.Claim(len(body))
	binary.LittleEndian.PutUint32(b, uint32(len(body)))
	b[4] = typ
	binary.LittleEndian.PutUint64(b[8:], after)
	copy(b[recordHead:], body)
	g.Publish(g.Next)
}

// A taker takes records out of a ring. One goroutine at a time.
type taker struct {
	shmring.Consumer

	mine, peer side
	buf        [maxRecordBytes]byte

	hurries bool // tests: sleeps without looking first
}

func (t *taker) connect(data []byte, mine, peer side) {
	t.Data, t.Mine, t.Peer, t.HeadBytes, t.mine, t.peer = data, mine.Words, peer.Words, recordHead, mine, peer
}

// record is a copy of one: after is how many messages of the socket come first,
// body is valid until the next one is taken.
type record struct {
	typ   uint8
	after uint64
	body  []byte
}

// take copies the next record out; false if there is none. A giver that waits
// for room is woken.
func (t *taker) take(r *record) (bool, error) {
	var head [recordHead]byte
	most, ok, err := t.Peek(head[:])
	if err != nil {
		return false, fmt.Errorf("%w: %w", errRing, err)
	}
	if !ok {
		return false, nil
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > maxRecordBytes || int(n) > most {
		return false, fmt.Errorf("%w: record of %d bytes, want at most %d of the %d there", errRing, n, maxRecordBytes, most)
	}
	body, end := t.Take(int(n))
	r.typ, r.after, r.body = head[4], binary.LittleEndian.Uint64(head[8:]), t.buf[:n]
	copy(r.body, body)
	t.Release(end)
	if t.PeerBlocked() {
		t.peer.wake()
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

// Bounds of one sleep. A child out of its mind can write over the word that a
// wake-up is told by, and must not keep our threads from ending; and a goroutine
// that waits for an op looks so often whether its context has ended, or the op by
// another backend's doing.
const (
	maxSleep = time.Second
	minNap   = time.Millisecond
	maxNap   = 4 * time.Millisecond
)

// rest waits until there is something to take, somebody wakes this side, or a while
// has passed. The caller looks again, and why it was woken.
func (t *taker) rest(over *step.Bool) {
	if t.look(over.Load) {
		return
	}
	t.mine.Asleep.Store(1)
	if !over.Load() && !t.Waits() {
		futex.Sleep(t.mine.Asleep, maxSleep)
	}
	t.mine.Asleep.Store(0)
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
		if t.Waits() {
			return true
		}
	}
	futex.Yield() // lets another thread of this processor run
	return false
}
