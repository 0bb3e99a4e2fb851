package tcp

import (
	"encoding/binary"

	"github.com/skerry-ft/skerry/pg"
)

const (
	// ballotHead is what stands before a ballot's payload: whether the digest
	// is valid, and its sum.
	ballotHead     = 5
	maxBallotFrame = ballotHead + pg.MaxBallotBytes
)

// planBallot: every rank sends its ballot to every other.
func (t *task) planBallot(b *Backend) {
	op, g := t.op, t.group
	t.packed = b.pool.get(ballotHead + len(op.Ballot))
	copy(t.packed.b[ballotHead:], op.Ballot)
	t.fold.packed[0] = t.packed.b
	for r := range t.peers {
		if r != g.rank {
			t.peers[r].out[0] = newStream(t.fold.packed[:], span{0, len(t.packed.b)}, MaxPayload)
			t.peers[r].in[0] = stream{used: true, scratch: true, anySize: true, pieces: 1, limit: 1, slots: -1}
		}
	}
}

// fillBallot puts the digest into this rank's ballot, once every earlier op
// is complete.
func (t *task) fillBallot(d pg.Digest) {
	t.packed.b[0] = 0
	if d.Valid {
		t.packed.b[0] = 1
	}
	binary.LittleEndian.PutUint32(t.packed.b[1:], d.Sum)
	t.takeBallot(t.group.rank, t.packed.b)
}

// takeBallot fills rank's entry from a frame. One that is too short to be a
// ballot is as good as none.
func (t *task) takeBallot(rank int, p []byte) {
	if len(p) < ballotHead {
		return
	}
	e := &t.op.Ballots[rank]
	e.Here = true
	e.Digest = pg.Digest{Valid: p[0] == 1, Sum: binary.LittleEndian.Uint32(p[1:])}
	e.Payload = append(e.Payload[:0], p[ballotHead:]...)
}
