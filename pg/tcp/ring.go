package tcp

import (
	"fmt"

	"github.com/skerry-ft/skerry/internal/shmring"
	"github.com/skerry-ft/skerry/internal/step"
	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
)

// A shared segment is one page of control words and, for each class of data, a ring
// of records, frames whose payload lies behind their header. Only the segment's maker
// writes it: its frames, and the words that tell the peer how far it is. The words'
// Asleep is odd where the peer need not ring; that of the first class is for all.
const (
	controlBytes = 4096
	classWords   = 1024 // each class's part of the page

	recordHead = 128 // a header, and what aligns the payload

	// minRingBytes holds a full frame wherever in the ring it is to start.
	minRingBytes = 2 * (recordHead + MaxPayload)
	maxRingBytes = 1 << 30
)

func wordsOf(segment []byte, class int, h step.Hook) shmring.Words {
	return shmring.WordsAt(segment[class*classWords:], h)
}

// consumer reads records. One goroutine at a time pulls; any may release.
type consumer struct {
	shmring.Consumer

	raw [frame.HeaderBytes]byte
}

// peek decodes the header of the next record, if there is one. What the peer
// wrote is copied first, and every bound is checked on the copy.
func (c *consumer) peek(h *frame.Header) (ok bool, err error) {
	most, ok, err := c.Peek(c.raw[:])
	if err != nil {
		return false, fmt.Errorf("%w: shared memory: %w", ErrCorrupt, err)
	}
	if !ok {
		return false, nil
	}
	if err := h.Decode(c.raw[:]); err != nil {
		return false, err
	}
	if int(h.Length) > most {
		return false, fmt.Errorf("%w: shared record with %d bytes of payload, %d are there", ErrCorrupt, h.Length, most)
	}
	return true, nil
}
