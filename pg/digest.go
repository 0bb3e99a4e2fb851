package pg

import (
	"encoding/binary"
	"hash/crc32"
)

// DigestChunkBytes is the size of the chunks whose checksums a Digest folds.
const DigestChunkBytes = 256 << 10

// castagnoli is the table of every checksum on the data plane; hash/crc32 makes
// it once.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// Add folds one result, chunk by chunk. A backend that sees chunks pass may
// fold their checksums with AddChunk instead, in the same order.
func (d *Digest) Add(result []byte) {
	for len(result) > 0 {
		n := min(len(result), DigestChunkBytes)
		d.AddChunk(crc32.Checksum(result[:n], castagnoli()))
		result = result[n:]
	}
}

// AddChunk folds the CRC32C of one chunk.
func (d *Digest) AddChunk(crc uint32) {
	var le [4]byte
	binary.LittleEndian.PutUint32(le[:], crc)
	d.Sum = crc32.Update(d.Sum, castagnoli(), le[:])
}
