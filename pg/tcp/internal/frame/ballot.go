package frame

import (
	"encoding/binary"

	"github.com/skerry-ft/skerry/pg"
)

const (
	// BallotHead is what stands before a ballot's payload: whether the digest
	// is valid, and its sum.
	BallotHead = 5
	// MaxBallot is the longest ballot with its head.
	MaxBallot = BallotHead + pg.MaxBallotBytes
)

// PutDigest writes the head of a ballot to b.
func PutDigest(b []byte, d pg.Digest) {
	b[0] = 0
	if d.Valid {
		b[0] = 1
	}
	binary.LittleEndian.PutUint32(b[1:], d.Sum)
}

// DecodeBallot reads a ballot. One that is too short is none.
func DecodeBallot(p []byte) (d pg.Digest, payload []byte, ok bool) {
	if len(p) < BallotHead {
		return pg.Digest{}, nil, false
	}
	return pg.Digest{Valid: p[0] == 1, Sum: binary.LittleEndian.Uint32(p[1:])}, p[BallotHead:], true
}
