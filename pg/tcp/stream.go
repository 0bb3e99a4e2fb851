package tcp

import (
	"sync/atomic"

	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
)

// A stream is the bytes of one op that go from one rank to another in one
// phase: a range of the tensors, taken as if they lay one after the other. It
// moves in pieces, one frame each, that both sides compute alike: a piece ends
// where its tensor does and at multiples of cut within it. An empty stream is
// one empty piece, so that its coming is noticed.
type stream struct {
	used    bool
	phase   uint8
	scratch bool // incoming pieces go to pooled buffers, to be folded
	anySize bool // one piece of any length (a ballot)
	view    [][]byte
	cut     int
	total   int // bytes
	pieces  int
	limit   int // pieces that may be taken yet
	slots   int // index of the first piece's checksum in task.crcs, or -1

	position
}

// position is how far a stream is.
type position struct {
	done        int // bytes taken
	piece       int // pieces taken
	tensor, off int // where the next piece starts
}

// span is a range of bytes of a view.
type span struct{ lo, hi int }

func (s span) len() int { return s.hi - s.lo }

// newStream is the stream of part of view.
func newStream(view [][]byte, part span, cut int) stream {
	s := stream{used: true, view: view, cut: cut, total: part.len(), slots: -1}
	lo := part.lo
	for s.tensor < len(view)-1 && lo >= len(view[s.tensor]) {
		lo -= len(view[s.tensor])
		s.tensor++
	}
	s.off = lo
	count := s
	for count.pieces = 1; count.done+count.size() < count.total; count.pieces++ {
		count.take()
	}
	s.pieces = count.pieces
	s.limit = s.pieces
	return s
}

// ready tells whether a piece can be taken.
func (s *stream) ready() bool { return s.used && s.piece < s.limit }

// finished tells whether all pieces were taken.
func (s *stream) finished() bool { return s.piece == s.pieces }

// size is that of the next piece.
func (s *stream) size() int {
	left := s.total - s.done
	if left == 0 {
		return 0
	}
	return min(left, len(s.view[s.tensor])-s.off, s.cut-s.off%s.cut)
}

// take moves past the next piece and returns its memory.
func (s *stream) take() []byte {
	n := s.size()
	s.piece++
	if n == 0 {
		return nil
	}
	p := s.view[s.tensor][s.off : s.off+n : s.off+n]
	s.done += n
	s.off += n
	for s.done < s.total && s.off == len(s.view[s.tensor]) {
		s.tensor, s.off = s.tensor+1, 0
	}
	return p
}

// slotCRC keeps the checksum of a piece that is sent to several peers, or that
// the digest needs. The zero value knows none. A nil slot keeps nothing.
type slotCRC struct{ v atomic.Uint64 }

const slotKnown = 1 << 32

func (c *slotCRC) set(crc uint32) {
	if c != nil {
		c.v.Store(slotKnown | uint64(crc))
	}
}

func (c *slotCRC) get() (crc uint32, ok bool) {
	v := c.v.Load()
	return uint32(v), v&slotKnown != 0
}

// checksum is that of p, the piece that c is for; computed once.
func (c *slotCRC) checksum(p []byte) uint32 {
	if c == nil {
		return frame.Checksum(p)
	}
	crc, ok := c.get()
	if !ok {
		crc = frame.Checksum(p)
		c.set(crc)
	}
	return crc
}
