package tcp

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// MaxPayload is the most payload bytes of one frame, and the size of the chunks
// that digests are folded from.
const MaxPayload = 256 << 10

const (
	headerBytes  = 96
	frameMagic   = 0x5b53
	frameVersion = 1

	// maxControl bounds the payload of everything but data frames: the text of
	// an abort, the ids of a Hello.
	maxControl = 4 << 10
)

// ErrCorrupt is the cause, joined with pg.ErrPeerLost, when bytes from a peer
// are not a frame or do not have the frame's checksum.
var ErrCorrupt = errors.New("tcp: corrupt frame")

// castagnoli is the table of CRC32C, which the CPU computes; never written.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// frameType says what a frame is. The numbers go over the wire.
type frameType uint8

const (
	frameHello frameType = iota + 1
	frameData
	frameAbort
	frameBeat
	frameCredit
	frameTake
	frameTypeEnd
)

var frameTypeNames = [frameTypeEnd]string{
	"invalid", "hello", "data", "abort", "beat", "credit", "take",
}

func (t frameType) String() string {
	if t >= frameTypeEnd {
		return fmt.Sprintf("frame(%d)", uint8(t))
	}
	return frameTypeNames[t]
}

// epochKey is a pg.Epoch as frames carry it.
type epochKey struct {
	cluster uint64
	quorum  int64
}

// keyOf hashes the cluster: 64 bits, so that two clusters that ever meet on
// one socket do not look alike.
func keyOf(e pg.Epoch) epochKey {
	sum := sha256.Sum256([]byte(e.Cluster))
	return epochKey{cluster: binary.LittleEndian.Uint64(sum[:]), quorum: e.QuorumID}
}

// call is what all ranks must agree on for one op.
type call struct {
	kind   pg.Kind
	dtype  tensor.DType
	reduce tensor.ReduceOp
	root   int32
	round  int64
	count  uint64 // elements
	sig    uint32 // lengths, dtypes, divisor
	small  bool   // which algorithm; part of sig on the wire
	relay  bool   // likewise
}

// String is how a mismatch names what a side called.
func (c call) String() string {
	s := fmt.Sprintf("%v of %d %v", c.kind, c.count, c.dtype)
	if c.kind.Reduces() {
		s += " " + c.reduce.String()
	}
	if c.root >= 0 {
		s += fmt.Sprintf(" root %d", c.root)
	}
	return s + fmt.Sprintf(" round %d (signature %08x)", c.round, c.sig)
}

// header is a frame's header in the clear. See doc.go for the layout.
type header struct {
	typ    frameType
	phase  uint8
	length uint32
	epoch  epochKey
	seq    uint64
	offset uint64
	total  uint64
	tag    int64
	call   call
	crc    uint32 // of the payload
}

// encode writes h to b, which has headerBytes, with its checksum.
func (h *header) encode(b []byte) {
	le := binary.LittleEndian
	_ = b[headerBytes-1]
	le.PutUint16(b[0:], frameMagic)
	b[2], b[3] = frameVersion, byte(h.typ)
	le.PutUint32(b[4:], h.length)
	le.PutUint64(b[8:], h.epoch.cluster)
	le.PutUint64(b[16:], uint64(h.epoch.quorum))
	le.PutUint64(b[24:], uint64(h.call.round))
	le.PutUint64(b[32:], h.seq)
	le.PutUint64(b[40:], h.offset)
	le.PutUint64(b[48:], h.total)
	le.PutUint64(b[56:], h.call.count)
	le.PutUint64(b[64:], uint64(h.tag))
	le.PutUint32(b[72:], uint32(h.call.root))
	b[76], b[77], b[78], b[79] = byte(h.call.kind), byte(h.call.dtype), byte(h.call.reduce), h.phase
	le.PutUint32(b[80:], h.call.sig)
	le.PutUint32(b[84:], 0)
	le.PutUint32(b[88:], h.crc)
	le.PutUint32(b[92:], checksum(b[:92]))
}

// decode reads a header from b, which has headerBytes. What it accepts is
// bounded: a known type, a payload within the type's limit, a stream that
// holds the payload.
func (h *header) decode(b []byte) error {
	le := binary.LittleEndian
	_ = b[headerBytes-1]
	if m := le.Uint16(b[0:]); m != frameMagic {
		return fmt.Errorf("%w: magic %#04x, want %#04x", ErrCorrupt, m, frameMagic)
	}
	if got, want := checksum(b[:92]), le.Uint32(b[92:]); got != want {
		return fmt.Errorf("%w: header checksum %08x, computed %08x", ErrCorrupt, want, got)
	}
	if b[2] != frameVersion {
		return fmt.Errorf("tcp: peer speaks frame version %d, want %d", b[2], frameVersion)
	}
	h.typ, h.phase = frameType(b[3]), b[79]
	h.length = le.Uint32(b[4:])
	h.epoch = epochKey{le.Uint64(b[8:]), int64(le.Uint64(b[16:]))}
	h.seq = le.Uint64(b[32:])
	h.offset, h.total = le.Uint64(b[40:]), le.Uint64(b[48:])
	h.tag = int64(le.Uint64(b[64:]))
	h.call = call{
		kind: pg.Kind(b[76]), dtype: tensor.DType(b[77]), reduce: tensor.ReduceOp(b[78]),
		root: int32(le.Uint32(b[72:])), round: int64(le.Uint64(b[24:])),
		count: le.Uint64(b[56:]), sig: le.Uint32(b[80:]),
	}
	h.crc = le.Uint32(b[88:])
	return h.check()
}

func (h *header) check() error {
	limit := uint32(maxControl)
	switch h.typ {
	case frameData:
		limit = MaxPayload
	case frameHello, frameAbort:
	case frameBeat, frameCredit, frameTake:
		limit = 0
	default:
		return fmt.Errorf("%w: frame type %d, want 1 to %d", ErrCorrupt, h.typ, frameTypeEnd-1)
	}
	if h.length > limit {
		return fmt.Errorf("%w: %v payload of %d bytes, limit %d", ErrCorrupt, h.typ, h.length, limit)
	}
	if h.typ != frameData {
		return nil
	}
	if h.phase > 1 {
		return fmt.Errorf("%w: phase %d, want 0 or 1", ErrCorrupt, h.phase)
	}
	if h.offset > h.total || uint64(h.length) > h.total-h.offset {
		return fmt.Errorf("%w: %d bytes at %d of a stream of %d", ErrCorrupt, h.length, h.offset, h.total)
	}
	return nil
}
