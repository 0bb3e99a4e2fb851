package tcp

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/skerry-ft/skerry/internal/proof"
	"github.com/skerry-ft/skerry/internal/shmring"
	"github.com/skerry-ft/skerry/pg"
)

// Bounds of what a Hello carries.
const (
	maxClusterBytes   = 256
	maxReplicaIDBytes = 1024
	maxWorldSize      = 1 << 14
	nonceBytes        = 16
	preambleBytes     = 8 + nonceBytes
)

// preambleMagic is what both ends of a new socket write first; the last byte is
// the version.
const preambleMagic = "SKERRYT\x05"

// proofOfHello is what the sender of a Hello proves: the nonces of both sides, the binding
// to their connection, and all that the Hello says.
const proofOfHello = "skerry pg/tcp"

// joinMagic begins the preamble of who opens one more socket of an edge; behind
// the nonce follow the nonce that the other side has on the edge's first
// socket, the new one's index, and zeros.
const (
	joinMagic = "SKERRYS\x03"
	joinBytes = nonceBytes + 8
)

// edgeKey names the peer at the other end of an edge.
type edgeKey struct {
	replicaID string
	groupRank int
}

// hello is one side's announcement of an epoch on an edge.
type hello struct {
	cluster   string
	quorumID  int64
	replicaID string
	groupRank int
	rank      int
	worldSize int
	members   [sha256.Size]byte // hash of the member list in rank order
	window    [classes]int      // bytes that its sender is ready to hold
	lane      bool              // there is shared memory
	rings     [classes]uint64   // where its records of this epoch start
	socks     int               // of the edge
	nonces    [sha256.Size]byte // of the further ones
	proof     [proof.Bytes]byte
}

func (h *hello) epoch() pg.Epoch { return pg.Epoch{Cluster: h.cluster, QuorumID: h.quorumID} }

func (h *hello) key() edgeKey { return edgeKey{h.replicaID, h.groupRank} }

func newNonce() (n [nonceBytes]byte) {
	rand.Read(n[:]) // never fails: crypto/rand ends the program instead
	return n
}

// memberHash binds a Hello to one member list in one order.
func memberHash(ids []string) [sha256.Size]byte {
	h := sha256.New()
	var n [4]byte
	for _, id := range ids {
		binary.LittleEndian.PutUint32(n[:], uint32(len(id)))
		h.Write(n[:])
		h.Write([]byte(id))
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// prove computes the proof of a Hello that goes from the side with nonce
// from to the side with nonce to, over that connection.
func (h *hello) prove(token []byte, from, to [nonceBytes]byte, on binding) [proof.Bytes]byte {
	return [proof.Bytes]byte(proof.Of(token, proofOfHello, from[:], to[:], on[:], h.appendFields(nil)))
}

// verify tells whether h proves token.
func (h *hello) verify(token []byte, from, to [nonceBytes]byte, on binding) bool {
	return proof.Holds(h.proof[:], token, proofOfHello, from[:], to[:], on[:], h.appendFields(nil))
}

// appendFields encodes everything but the proof.
func (h *hello) appendFields(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint64(b, uint64(h.quorumID))
	b = le.AppendUint32(b, uint32(h.groupRank))
	b = le.AppendUint32(b, uint32(h.rank))
	b = le.AppendUint32(b, uint32(h.worldSize))
	for _, w := range h.window {
		b = le.AppendUint32(b, uint32(w))
	}
	lane := uint32(0)
	if h.lane {
		lane = 1
	}
	b = le.AppendUint32(b, lane)
	for _, start := range h.rings {
		b = le.AppendUint64(b, start)
	}
	b = le.AppendUint32(b, uint32(h.socks))
	b = append(b, h.nonces[:]...)
	b = append(b, h.members[:]...)
	b = le.AppendUint16(b, uint16(len(h.cluster)))
	b = append(b, h.cluster...)
	b = le.AppendUint16(b, uint16(len(h.replicaID)))
	return append(b, h.replicaID...)
}

func (h *hello) encode() []byte { return append(h.appendFields(nil), h.proof[:]...) }

var errShortHello = errors.New("hello ends early")

// decodeHello reads what encode wrote, and bounds every field.
func decodeHello(b []byte) (*hello, error) {
	const lane = 8 + 4 + 4 + 4 + 4*classes
	const rings = lane + 4
	const streams = rings + 8*classes
	const numbers = streams + 4
	const fixed = numbers + 2*sha256.Size
	if len(b) < fixed {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, errShortHello)
	}
	le := binary.LittleEndian
	h := &hello{quorumID: int64(le.Uint64(b))}
	groupRank, rank, world := le.Uint32(b[8:]), le.Uint32(b[12:]), le.Uint32(b[16:])
	if world < 1 || world > maxWorldSize || rank >= world || groupRank >= maxWorldSize {
		return nil, fmt.Errorf("%w: hello of rank %d of %d, group rank %d, limit %d",
			ErrCorrupt, rank, world, groupRank, maxWorldSize)
	}
	h.groupRank, h.rank, h.worldSize = int(groupRank), int(rank), int(world)
	for class := range h.window {
		w := le.Uint32(b[20+4*class:])
		if w < minWindowBytes || w > maxWindowBytes {
			return nil, fmt.Errorf("%w: hello with window of %d bytes, want %d to %d", ErrCorrupt, w, minWindowBytes, maxWindowBytes)
		}
		h.window[class] = int(w)
	}
	// One value has one encoding: the proof is over what encode makes of it.
	if b := le.Uint32(b[lane:]); b > 1 {
		return nil, fmt.Errorf("%w: hello says %d of shared memory, want 0 or 1", ErrCorrupt, b)
	}
	h.lane = le.Uint32(b[lane:]) == 1
	for class := range h.rings {
		h.rings[class] = le.Uint64(b[rings+8*class:])
		if h.rings[class]%shmring.Align != 0 {
			return nil, fmt.Errorf("%w: hello with shared records from byte %d, want a multiple of %d", ErrCorrupt, h.rings[class], shmring.Align)
		}
	}
	socks := le.Uint32(b[streams:])
	if socks < 1 || socks > MaxStreams {
		return nil, fmt.Errorf("%w: hello with %d streams, want 1 to %d", ErrCorrupt, socks, MaxStreams)
	}
	h.socks = int(socks)
	copy(h.nonces[:], b[numbers:])
	copy(h.members[:], b[numbers+sha256.Size:])
	rest := b[fixed:]
	var err error
	if h.cluster, rest, err = cutString(rest, maxClusterBytes); err != nil {
		return nil, fmt.Errorf("%w: cluster: %w", ErrCorrupt, err)
	}
	if h.replicaID, rest, err = cutString(rest, maxReplicaIDBytes); err != nil {
		return nil, fmt.Errorf("%w: replica id: %w", ErrCorrupt, err)
	}
	if h.replicaID == "" || len(rest) != len(h.proof) {
		return nil, fmt.Errorf("%w: hello of %q has %d bytes of proof, want %d",
			ErrCorrupt, h.replicaID, len(rest), len(h.proof))
	}
	copy(h.proof[:], rest)
	return h, nil
}

// cutString takes a string with a 16-bit length off b.
func cutString(b []byte, limit int) (string, []byte, error) {
	if len(b) < 2 {
		return "", nil, errShortHello
	}
	n := int(binary.LittleEndian.Uint16(b))
	if n > limit {
		return "", nil, fmt.Errorf("%d bytes, limit %d", n, limit)
	}
	if len(b) < 2+n {
		return "", nil, errShortHello
	}
	return string(b[2 : 2+n]), b[2+n:], nil
}
