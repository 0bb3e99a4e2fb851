package frame

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// MaxPayload is the most payload bytes of one frame, and the size of the chunks
// that digests are folded from.
const MaxPayload = 256 << 10

// HeaderBytes is the length of a header.
const HeaderBytes = 96

const (
	magic   = 0x5b53
	version = 1

	// maxControl bounds the payload of everything but data frames: the text of
	// an abort, the ids of a Hello.
	maxControl = 4 << 10
)

// ErrCorrupt is the cause, joined with pg.ErrPeerLost, when bytes from a peer
// are not a frame or do not have the frame's checksum.
var ErrCorrupt = errors.New("tcp: corrupt frame")

// Type says what a frame is. The numbers go over the wire.
type Type uint8

// The types of frames; see the package comment for who may send which.
const (
	TypeHello Type = iota + 1
	TypeData
	TypeAbort
	TypeBeat
	TypeCredit
	TypeTake
	typeEnd
)

var typeNames = [typeEnd]string{
	"invalid", "hello", "data", "abort", "beat", "credit", "take",
}

func (t Type) String() string {
	if t >= typeEnd {
		return fmt.Sprintf("frame(%d)", uint8(t))
	}
	return typeNames[t]
}

// Epoch is a pg.Epoch as frames carry it.
type Epoch struct {
	Cluster uint64
	Quorum  int64
}

// EpochOf hashes the cluster: 64 bits, so that two clusters that ever meet on
// one socket do not look alike.
func EpochOf(e pg.Epoch) Epoch {
	sum := sha256.Sum256([]byte(e.Cluster))
	return Epoch{Cluster: binary.LittleEndian.Uint64(sum[:]), Quorum: e.QuorumID}
}

// Call is what all ranks must agree on for one op.
type Call struct {
	Kind   pg.Kind
	DType  tensor.DType
	Reduce tensor.ReduceOp
	Root   int32 // -1: none
	Round  int64
	Count  uint64 // elements
	Sig    uint32 // lengths, dtypes, divisor
	Small  bool   // which algorithm; part of Sig on the wire
	Relay  bool   // likewise
}

// String is how a mismatch names what a side called.
func (c Call) String() string {
	s := fmt.Sprintf("%v of %d %v", c.Kind, c.Count, c.DType)
	if c.Kind.Reduces() {
		s += " " + c.Reduce.String()
	}
	if c.Root >= 0 {
		s += fmt.Sprintf(" root %d", c.Root)
	}
	return s + fmt.Sprintf(" round %d (signature %08x)", c.Round, c.Sig)
}

// Header is a frame's header in the clear. See doc.go for the layout.
type Header struct {
	Type   Type
	Phase  uint8
	Length uint32
	Epoch  Epoch
	Seq    uint64
	Offset uint64
	Total  uint64
	Tag    int64
	Call   Call
	CRC    uint32 // of the payload
}

// Encode writes h to b, which has HeaderBytes, with its checksum.
func (h *Header) Encode(b []byte) {
	le := binary.LittleEndian
	_ = b[HeaderBytes-1]
	le.PutUint16(b[0:], magic)
	b[2], b[3] = version, byte(h.Type)
	le.PutUint32(b[4:], h.Length)
	le.PutUint64(b[8:], h.Epoch.Cluster)
	le.PutUint64(b[16:], uint64(h.Epoch.Quorum))
	le.PutUint64(b[24:], uint64(h.Call.Round))
	le.PutUint64(b[32:], h.Seq)
	le.PutUint64(b[40:], h.Offset)
	le.PutUint64(b[48:], h.Total)
	le.PutUint64(b[56:], h.Call.Count)
	le.PutUint64(b[64:], uint64(h.Tag))
	le.PutUint32(b[72:], uint32(h.Call.Root))
	b[76], b[77], b[78], b[79] = byte(h.Call.Kind), byte(h.Call.DType), byte(h.Call.Reduce), h.Phase
	le.PutUint32(b[80:], h.Call.Sig)
	le.PutUint32(b[84:], 0)
	le.PutUint32(b[88:], h.CRC)
	le.PutUint32(b[92:], Checksum(b[:92]))
}

// Decode reads a header from b, which has HeaderBytes. What it accepts is
// bounded: a known type, a payload within the type's limit, a stream that
// holds the payload.
func (h *Header) Decode(b []byte) error {
	le := binary.LittleEndian
	_ = b[HeaderBytes-1]
	if m := le.Uint16(b[0:]); m != magic {
		return fmt.Errorf("%w: magic %#04x, want %#04x", ErrCorrupt, m, magic)
	}
	if got, want := Checksum(b[:92]), le.Uint32(b[92:]); got != want {
		return fmt.Errorf("%w: header checksum %08x, computed %08x", ErrCorrupt, want, got)
	}
	if b[2] != version {
		return fmt.Errorf("tcp: peer speaks frame version %d, want %d", b[2], version)
	}
	h.Type, h.Phase = Type(b[3]), b[79]
	h.Length = le.Uint32(b[4:])
	h.Epoch = Epoch{le.Uint64(b[8:]), int64(le.Uint64(b[16:]))}
	h.Seq = le.Uint64(b[32:])
	h.Offset, h.Total = le.Uint64(b[40:]), le.Uint64(b[48:])
	h.Tag = int64(le.Uint64(b[64:]))
	h.Call = Call{
		Kind: pg.Kind(b[76]), DType: tensor.DType(b[77]), Reduce: tensor.ReduceOp(b[78]),
		Root: int32(le.Uint32(b[72:])), Round: int64(le.Uint64(b[24:])),
		Count: le.Uint64(b[56:]), Sig: le.Uint32(b[80:]),
	}
	h.CRC = le.Uint32(b[88:])
	return h.check()
}

func (h *Header) check() error {
	limit := uint32(maxControl)
	switch h.Type {
	case TypeData:
		limit = MaxPayload
	case TypeHello, TypeAbort:
	case TypeBeat, TypeCredit, TypeTake:
		limit = 0
	default:
		return fmt.Errorf("%w: frame type %d, want 1 to %d", ErrCorrupt, h.Type, typeEnd-1)
	}
	if h.Length > limit {
		return fmt.Errorf("%w: %v payload of %d bytes, limit %d", ErrCorrupt, h.Type, h.Length, limit)
	}
	if h.Type != TypeData {
		return nil
	}
	if h.Phase > 1 {
		return fmt.Errorf("%w: phase %d, want 0 or 1", ErrCorrupt, h.Phase)
	}
	if h.Offset > h.Total || uint64(h.Length) > h.Total-h.Offset {
		return fmt.Errorf("%w: %d bytes at %d of a stream of %d", ErrCorrupt, h.Length, h.Offset, h.Total)
	}
	return nil
}
