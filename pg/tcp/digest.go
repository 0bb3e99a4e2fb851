package tcp

import (
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
)

// digest folds the checksums of results as pg.Digest says. The zero value is
// that of no results. Guarded by Backend.mu.
type digest struct {
	sum   uint32
	chunk uint32 // of the chunk under way
	open  bool
}

// add takes the checksum of the next n bytes of a result, which lie at off in
// their tensor and in one chunk.
func (d *digest) add(off, n int, crc uint32) {
	if n == 0 {
		return
	}
	if off%MaxPayload == 0 {
		d.flush()
		d.chunk, d.open = crc, true
		return
	}
	d.chunk = frame.JoinChecksums(d.chunk, crc, n)
}

// flush ends the chunk under way.
func (d *digest) flush() {
	if !d.open {
		return
	}
	d.sum = frame.ExtendChecksum(d.sum, d.chunk)
	d.open = false
}

// take returns the digest and starts anew.
func (d *digest) take() pg.Digest {
	d.flush()
	sum := d.sum
	*d = digest{}
	return pg.Digest{Valid: true, Sum: sum}
}

// addDigest adds t's results, if they are equal on all ranks, to d. It is called
// when t has succeeded, in the order of Seq.
func (t *task) addDigest(d *digest) {
	if t.err != nil || !digested(t.call.Kind) {
		return
	}
	if len(t.crcs) == 0 {
		for _, p := range t.out {
			for off := 0; off < len(p); off += MaxPayload {
				n := min(MaxPayload, len(p)-off)
				d.add(off, n, frame.Checksum(p[off:off+n]))
			}
		}
		return
	}
	slots := 0
	for i := range t.peers {
		s := t.resultStream(i)
		s.slots = slots
		slots += s.pieces
		for !s.finished() {
			slot, off := t.slotOf(&s), s.off
			p := s.take()
			d.add(off, len(p), slot.checksum(p))
		}
	}
}

func digested(k pg.Kind) bool {
	return k == pg.KindAllReduce || k == pg.KindBroadcast || k == pg.KindAllGather
}
