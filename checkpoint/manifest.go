package checkpoint

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/skerry-ft/skerry/checkpoint/safetensors"
)

// Bounds of how a state is cut.
const (
	// DefaultChunkBytes is the unit of checksums and of work that targets
	// share out over donors.
	DefaultChunkBytes = 4 << 20
	// MinChunkBytes and MaxChunkBytes bound it.
	MinChunkBytes = 4 << 10
	MaxChunkBytes = 64 << 20
	// MaxChunks bounds the chunks of one state.
	MaxChunks = 1 << 24
)

// manifestMagic begins a manifest; the digit is the format's version.
const manifestMagic = "SKM2"

// manifestFixed is the size of what comes before the header: magic, chunk
// bytes, chunk count.
const manifestFixed = len(manifestMagic) + 4 + 4

// crcBytes is the size of one checksum.
const crcBytes = 4

// castagnoli is the table of CRC32C. It is built once by the runtime, and is
// never written.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// manifest is a layout and how its data section is cut.
//
//	"SKM2" | chunk bytes u32 | chunks u32 | header length u64 | header JSON |
//	CRC32C of everything before u32     (little-endian)
type manifest struct {
	safetensors.Layout
	chunkBytes int64
}

// chunkCount is how many chunks size bytes make.
func chunkCount(size, chunkBytes int64) int64 { return (size + chunkBytes - 1) / chunkBytes }

// chunks is how many there are.
func (m *manifest) chunks() int { return int(chunkCount(m.Size(), m.chunkBytes)) }

// bounds gives chunk i's part of the data section.
func (m *manifest) bounds(i int) (from, to int64) {
	from = int64(i) * m.chunkBytes
	return from, min(from+m.chunkBytes, m.Size())
}

// sameCut tells whether both lay out and cut a state in one way. Metadata may
// differ.
func (m *manifest) sameCut(o *manifest) bool {
	return m.chunkBytes == o.chunkBytes && slices.EqualFunc(m.Entries, o.Entries, func(a, b safetensors.Entry) bool {
		return a.From == b.From && a.To == b.To && a.Equal(b.TensorInfo)
	})
}

// encode gives the manifest's bytes; head is the layout's header.
func (m *manifest) encode(head []byte) []byte {
	b := make([]byte, 0, manifestFixed+len(head)+crcBytes)
	b = append(b, manifestMagic...)
	b = binary.LittleEndian.AppendUint32(b, uint32(m.chunkBytes))
	b = binary.LittleEndian.AppendUint32(b, uint32(m.chunks()))
	b = append(b, head...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// readManifest reads what encode wrote, from a peer that may send anything. It
// never allocates much more than has arrived.
func readManifest(r io.Reader) (*manifest, error) {
	sum := crc32.New(castagnoli)
	body := io.TeeReader(r, sum)
	var fixed [manifestFixed]byte
	if _, err := io.ReadFull(body, fixed[:]); err != nil {
		return nil, fmt.Errorf("read manifest: %w", safetensors.Truncated(err))
	}
	if string(fixed[:len(manifestMagic)]) != manifestMagic {
		return nil, safetensors.Corrupt("manifest begins with %q, want %q", fixed[:len(manifestMagic)], manifestMagic)
	}
	m := &manifest{chunkBytes: int64(binary.LittleEndian.Uint32(fixed[len(manifestMagic):]))}
	chunks := int64(binary.LittleEndian.Uint32(fixed[len(manifestMagic)+4:]))
	if m.chunkBytes < MinChunkBytes || m.chunkBytes > MaxChunkBytes {
		return nil, safetensors.Corrupt("chunk bytes = %d, want %d to %d", m.chunkBytes, MinChunkBytes, MaxChunkBytes)
	}
	l, err := safetensors.ReadHeader(body)
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	m.Layout = *l
	if want := chunkCount(m.Size(), m.chunkBytes); chunks != want || chunks > MaxChunks {
		return nil, safetensors.Corrupt("chunks = %d, want %d and at most %d", chunks, want, MaxChunks)
	}
	want := sum.Sum32()
	var last [crcBytes]byte
	if _, err := io.ReadFull(r, last[:]); err != nil {
		return nil, fmt.Errorf("read manifest checksum: %w", safetensors.Truncated(err))
	}
	if got := binary.LittleEndian.Uint32(last[:]); got != want {
		return nil, safetensors.Corrupt("manifest checksum %08x, want %08x", got, want)
	}
	return m, nil
}
