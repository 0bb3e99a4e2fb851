package debug

import (
	"hash/crc32"

	"github.com/skerry-ft/skerry/pg"
)

// join is the digest of what d covers followed by what o covers, which is that
// of so many chunks.
func join(d, o pg.Digest, chunks int) pg.Digest {
	if !d.Valid || !o.Valid {
		return pg.Digest{}
	}
	// Each chunk adds the four bytes of its checksum to what a digest is of.
	return pg.Digest{Valid: true, Sum: crcTimes(d.Sum, crcShift(4*chunks)) ^ o.Sum}
}

// crcOne is the polynomial 1 in the bit order of checksums.
const crcOne = 1 << 31

// crcShift is x to the 8·n modulo the polynomial: what a checksum is multiplied
// by when n bytes follow.
func crcShift(n int) uint32 {
	power, result := uint32(crcOne>>8), uint32(crcOne)
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			result = crcTimes(result, power)
		}
		power = crcTimes(power, power)
	}
	return result
}

// crcTimes is a times b modulo the polynomial.
func crcTimes(a, b uint32) uint32 {
	var product uint32
	for bit := uint32(crcOne); bit != 0; bit >>= 1 {
		if a&bit != 0 {
			product ^= b
		}
		if b&1 != 0 {
			b = b>>1 ^ crc32.Castagnoli
		} else {
			b >>= 1
		}
	}
	return product
}
