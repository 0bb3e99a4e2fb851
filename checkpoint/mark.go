package checkpoint

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"runtime"
	"slices"
	"strconv"
)

// mark tells one chunk's bytes from others: CRC32C and the CRC32 of IEEE, side
// by side. Together they are a CRC of 64 bits: two chunks that differ have equal
// marks once in 2^64. One of them alone would take a changed chunk for the same
// once in 2^32, which a large job would see.
type mark uint64

// markBytes is the size of one mark.
const markBytes = 8

// running is a mark in the making.
type running struct{ castagnoli, ieee uint32 }

func (r *running) add(b []byte) {
	r.castagnoli = crc32.Update(r.castagnoli, castagnoli, b)
	r.ieee = crc32.Update(r.ieee, crc32.IEEETable, b)
}

func (r running) mark() mark { return mark(r.castagnoli)<<32 | mark(r.ieee) }

// markOf is the mark of parts, one after the other.
func markOf(parts [][]byte) mark {
	var sum running
	for _, part := range parts {
		for step := range slices.Chunk(part, copyStep) { // both sums read it from the cache
			sum.add(step)
			runtime.Gosched() // see copyStep
		}
	}
	return sum.mark()
}

func (m mark) String() string { return fmt.Sprintf("%016x", uint64(m)) }

// parseMark reads what String wrote.
func parseMark(s string) (mark, error) {
	n, err := strconv.ParseUint(s, 16, 64)
	if err != nil || len(s) != 2*markBytes {
		return 0, corrupt("mark = %q, want %d hexadecimal digits", clip(s), 2*markBytes)
	}
	return mark(n), nil
}

// encodeMarks gives the bytes of an answer to /v1/marks: the marks, and the
// CRC32C of all of them.
func encodeMarks(marks []mark) []byte {
	b := make([]byte, 0, markBytes*len(marks)+crcBytes)
	for _, m := range marks {
		b = binary.LittleEndian.AppendUint64(b, uint64(m))
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// readMarks reads n marks, and not a byte more.
func readMarks(r io.Reader, n int) ([]mark, error) {
	b := make([]byte, markBytes*n+crcBytes)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, fmt.Errorf("read marks: %w", truncated(err))
	}
	body := b[:markBytes*n]
	if got, want := crc32.Checksum(body, castagnoli), binary.LittleEndian.Uint32(b[len(body):]); got != want {
		return nil, corrupt("marks have checksum %08x, want %08x", got, want)
	}
	marks := make([]mark, n)
	for i := range marks {
		marks[i] = mark(binary.LittleEndian.Uint64(body[i*markBytes:]))
	}
	return marks, nil
}
