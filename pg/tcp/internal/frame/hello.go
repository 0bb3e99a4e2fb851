package frame

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"

	"github.com/skerry-ft/skerry/internal/proof"
	"github.com/skerry-ft/skerry/internal/shmring"
	"github.com/skerry-ft/skerry/pg"
)

// Bounds of what a Hello carries.
const (
	MaxClusterBytes   = 256
	MaxReplicaIDBytes = 1024
	MaxWorldSize      = 1 << 14
	MaxStreams        = 16

	// MinWindowBytes lets at least four full frames be under way;
	// MaxWindowBytes keeps credits far from overflow.
	MinWindowBytes = 4 * (MaxPayload + HeaderBytes)
	MaxWindowBytes = 1 << 30
)

// The two classes of data, each with a window of its own.
const (
	ClassCollective = iota
	ClassMessage    // point-to-point
	Classes
)

// ClassOf says which window op kind k uses.
func ClassOf(k pg.Kind) int {
	if k.PointToPoint() {
		return ClassMessage
	}
	return ClassCollective
}

// proofOfHello is what the sender of a Hello proves: the nonces of both sides, the binding
// to their connection, and all that the Hello says.
const proofOfHello = "skerry pg/tcp"

// Binding is what the two ends of a TLS connection derive from its keys, and nobody
// between two connections can: under the proof of a Hello it ties that to its
// connection. Zero: the connection is in the clear.
type Binding [sha256.Size]byte

// BindingLabel is what it is derived for.
const BindingLabel = "EXPORTER-skerry-data-plane"

// AddTo adds a binding that is not zero to the hash of an edge's further sockets.
func (b *Binding) AddTo(h hash.Hash) {
	if *b != (Binding{}) {
		h.Write([]byte(BindingLabel))
		h.Write(b[:])
	}
}

// Hello is one side's announcement of an epoch on an edge.
type Hello struct {
	Numbers

	Cluster   string
	ReplicaID string

	proof [proof.Bytes]byte
}

// Numbers is what of a Hello always has the same length, in the order of the wire.
type Numbers struct {
	QuorumID  int64
	GroupRank uint32
	Rank      uint32
	WorldSize uint32
	Window    [Classes]uint32   // bytes that its sender is ready to hold
	Lane      uint32            // 1: there is shared memory, else 0
	Rings     [Classes]uint64   // where its records of this epoch start
	Socks     uint32            // of the edge
	Nonces    [sha256.Size]byte // of the further ones
	Members   [sha256.Size]byte // hash of the member list in rank order
}

// Epoch is the epoch that h announces.
func (h *Hello) Epoch() pg.Epoch { return pg.Epoch{Cluster: h.Cluster, QuorumID: h.QuorumID} }

// MemberHash binds a Hello to one member list in one order.
func MemberHash(ids []string) [sha256.Size]byte {
	h := sha256.New()
	var n [4]byte
	for _, id := range ids {
		binary.LittleEndian.PutUint32(n[:], uint32(len(id)))
		h.Write(n[:])
		h.Write([]byte(id))
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// Prove makes h one that goes from the side with nonce from to the side with nonce
// to, over that connection.
func (h *Hello) Prove(token []byte, from, to Nonce, on Binding) {
	h.proof = [proof.Bytes]byte(proof.Of(token, proofOfHello, from[:], to[:], on[:], h.appendFields(nil)))
}

// Verify tells whether h proves token.
func (h *Hello) Verify(token []byte, from, to Nonce, on Binding) bool {
	return proof.Holds(h.proof[:], token, proofOfHello, from[:], to[:], on[:], h.appendFields(nil))
}

// appendFields encodes everything but the proof.
func (h *Hello) appendFields(b []byte) []byte {
	b, err := binary.Append(b, binary.LittleEndian, &h.Numbers)
	if err != nil {
		panic(fmt.Sprintf("frame: %v", err)) // Numbers has a field without a size
	}
	b = appendString(b, h.Cluster, MaxClusterBytes)
	return appendString(b, h.ReplicaID, MaxReplicaIDBytes)
}

// Encode is h as the payload of a frame.
func (h *Hello) Encode() []byte { return append(h.appendFields(nil), h.proof[:]...) }

var errShort = errors.New("hello ends early")

// DecodeHello reads what Encode wrote, and bounds every field.
func DecodeHello(b []byte) (*Hello, error) {
	h := new(Hello)
	n, err := binary.Decode(b, binary.LittleEndian, &h.Numbers)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, errShort)
	}
	if h.WorldSize < 1 || h.WorldSize > MaxWorldSize || h.Rank >= h.WorldSize || h.GroupRank >= MaxWorldSize {
		return nil, fmt.Errorf("%w: hello of rank %d of %d, group rank %d, limit %d",
			ErrCorrupt, h.Rank, h.WorldSize, h.GroupRank, MaxWorldSize)
	}
	for _, w := range h.Window {
		if w < MinWindowBytes || w > MaxWindowBytes {
			return nil, fmt.Errorf("%w: hello with window of %d bytes, want %d to %d", ErrCorrupt, w, MinWindowBytes, MaxWindowBytes)
		}
	}
	// One value has one encoding: the proof is over what Encode makes of it.
	if h.Lane > 1 {
		return nil, fmt.Errorf("%w: hello says %d of shared memory, want 0 or 1", ErrCorrupt, h.Lane)
	}
	for _, start := range h.Rings {
		if start%shmring.Align != 0 {
			return nil, fmt.Errorf("%w: hello with shared records from byte %d, want a multiple of %d", ErrCorrupt, start, shmring.Align)
		}
	}
	if h.Socks < 1 || h.Socks > MaxStreams {
		return nil, fmt.Errorf("%w: hello with %d streams, want 1 to %d", ErrCorrupt, h.Socks, MaxStreams)
	}
	rest := b[n:]
	if h.Cluster, rest, err = cutString(rest, MaxClusterBytes); err != nil {
		return nil, fmt.Errorf("%w: cluster: %w", ErrCorrupt, err)
	}
	if h.ReplicaID, rest, err = cutString(rest, MaxReplicaIDBytes); err != nil {
		return nil, fmt.Errorf("%w: replica id: %w", ErrCorrupt, err)
	}
	if h.ReplicaID == "" || len(rest) != len(h.proof) {
		return nil, fmt.Errorf("%w: hello of %q has %d bytes of proof, want %d",
			ErrCorrupt, h.ReplicaID, len(rest), len(h.proof))
	}
	copy(h.proof[:], rest)
	return h, nil
}

// appendString writes s, cut to limit, behind its 16-bit length.
func appendString(b []byte, s string, limit int) []byte {
	s = s[:min(len(s), limit)]
	b = binary.LittleEndian.AppendUint16(b, uint16(len(s)))
	return append(b, s...)
}

// cutString takes a string with a 16-bit length off b.
func cutString(b []byte, limit int) (string, []byte, error) {
	if len(b) < 2 {
		return "", nil, errShort
	}
	n := int(binary.LittleEndian.Uint16(b))
	if n > limit {
		return "", nil, fmt.Errorf("%d bytes, limit %d", n, limit)
	}
	if len(b) < 2+n {
		return "", nil, errShort
	}
	return string(b[2 : 2+n]), b[2+n:], nil
}
