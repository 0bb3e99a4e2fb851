package frame

import "hash/crc32"

// castagnoli is the table of CRC32C, which the CPU computes; never written.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// crcPoly is the polynomial of CRC32C, reflected.
const crcPoly = 0x82f63b78

// ExtendChecksum is the checksum of what sum is that of, followed by v as four
// bytes, little-endian. Bit by bit: crc32.Update would allocate for them.
func ExtendChecksum(sum, v uint32) uint32 {
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

// JoinChecksums is the checksum of a and b, one after the other, from theirs; n
// is the length of b. Appending n bytes multiplies a's remainder by x^(8n).
func JoinChecksums(a, b uint32, n int) uint32 {
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
