package checkpoint

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"runtime"
	"slices"
	"strconv"

	"github.com/zeebo/xxh3"

	"github.com/skerry-ft/skerry/checkpoint/safetensors"
)

// mark tells one chunk's bytes from others: their XXH3 of 64 bits, which is made faster
// than memory is read (ADR 0030). Two chunks that differ have equal marks once in 2^64. It
// is no proof against who wants them equal: that is the token's.
type mark uint64

// markBytes is the size of one mark.
const markBytes = 8

// running is a mark in the making. The zero value is that of no bytes.
type running struct{ hash *xxh3.Hasher }

func (r *running) add(b []byte) {
	if r.hash == nil {
		r.hash = xxh3.New()
	}
	_, _ = r.hash.Write(b) // it returns no error
}

func (r running) mark() mark {
	if r.hash == nil {
		return mark(xxh3.Hash(nil))
	}
	return mark(r.hash.Sum64())
}

// markOf is the mark of parts, one after the other.
func markOf(parts [][]byte) mark {
	var sum running
	for _, part := range parts {
		for step := range slices.Chunk(part, copyStep) {
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
		return 0, safetensors.Corrupt("mark = %q, want %d hexadecimal digits", safetensors.Clip(s), 2*markBytes)
	}
	return mark(n), nil
}

// encodeMarks gives the bytes of an answer to /v2/marks: the marks, and the
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
		return nil, fmt.Errorf("read marks: %w", safetensors.Truncated(err))
	}
	body := b[:markBytes*n]
	if got, want := crc32.Checksum(body, castagnoli), binary.LittleEndian.Uint32(b[len(body):]); got != want {
		return nil, safetensors.Corrupt("marks have checksum %08x, want %08x", got, want)
	}
	marks := make([]mark, n)
	for i := range marks {
		marks[i] = mark(binary.LittleEndian.Uint64(body[i*markBytes:]))
	}
	return marks, nil
}
