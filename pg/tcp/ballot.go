package tcp

import (
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
)

// planBallot: every rank sends its ballot to every other.
func (t *task) planBallot(b *Backend) {
	op, g := t.op, t.group
	t.packed = b.pool.get(frame.BallotHead + len(op.Ballot))
	copy(t.packed.b[frame.BallotHead:], op.Ballot)
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
	frame.PutDigest(t.packed.b, d)
	t.takeBallot(t.group.rank, t.packed.b)
}

// takeBallot fills rank's entry from a frame. One that is too short to be a
// ballot is as good as none.
func (t *task) takeBallot(rank int, p []byte) {
	d, payload, ok := frame.DecodeBallot(p)
	if !ok {
		return
	}
	e := &t.op.Ballots[rank]
	e.Here, e.Digest = true, d
	e.Payload = append(e.Payload[:0], payload...)
}
