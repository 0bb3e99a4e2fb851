package tcp

import (
	"github.com/skerry-ft/skerry/pg"
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
	d.chunk = combineCRC(d.chunk, crc, n)
}

// flush ends the chunk under way.
func (d *digest) flush() {
	if !d.open {
		return
	}
	d.sum = extendCRC(d.sum, d.chunk)
	d.open = false
}

// extendCRC is the checksum of what sum is that of, followed by v as four
// bytes, little-endian. Bit by bit: crc32.Update would allocate for them.
func extendCRC(sum, v uint32) uint32 {
	sum = ^sum ^ v
	for range 32 {
		if sum&1 != 0 {
			sum = sum>>1 ^ crcPoly
		} else {
			sum >>= 1
		}
	}
	return ^sum
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
	if t.err != nil || !digested(t.call.kind) {
		return
	}
	if len(t.crcs) == 0 {
		for _, p := range t.out {
			for off := 0; off < len(p); off += MaxPayload {
				n := min(MaxPayload, len(p)-off)
				d.add(off, n, checksum(p[off:off+n]))
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

// crcPoly is the polynomial of CRC32C, reflected.
const crcPoly = 0x82f63b78

// combineCRC is the checksum of a and b, one after the other, from theirs; n
// is the length of b. Appending n bytes multiplies a's remainder by x^(8n).
func combineCRC(a, b uint32, n int) uint32 {
	power := uint32(1) << 31  // x^0
	square := uint32(1) << 23 // x^8
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			power = mulPoly(square, power)
		}
		square = mulPoly(square, square)
	}
	return mulPoly(power, a) ^ b
}

// mulPoly multiplies two polynomials modulo that of the checksum. Bit 31 is x^0.
func mulPoly(a, b uint32) uint32 {
	var p uint32
	for ; a != 0; a <<= 1 {
		if a&(1<<31) != 0 {
			p ^= b
		}
		if b&1 != 0 {
			b = b>>1 ^ crcPoly
		} else {
			b >>= 1
		}
	}
	return p
}
