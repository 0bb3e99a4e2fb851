package wire

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/skerry-ft/skerry/quorum"
)

// An encoded ballot, numbers big-endian:
//
//	offset  bytes  field
//	     0      1  version, ballotVersion
//	     1      1  flags
//	     2      4  digest of a slice of the state, or with a flag of the whole
//	     6      8  quorum id
//	    14      8  round
//	    22      8  position: step
//	    30      8  position: quorum id
//	    38      1  length of the position's cluster, n
//	    39      n  the position's cluster
//
// The digest of what was reduced is the backend's to carry, and not here. Managers
// from before states were compared set the four bytes to nothing and read them for
// that digest, which the backend's then replaced: both kinds can be in one job.
// Those from before whole states were compared refuse a ballot with that flag: a job
// sets ParityWhole when all of it knows it.
const (
	ballotVersion     = 1
	ballotHeaderBytes = 39
)

// The flags of an encoded ballot.
const (
	ballotOK = 1 << iota
	ballotReduced
	ballotHealed
	ballotUnhealed
	ballotChangeWanted
	ballotHasState
	ballotWholeState
	ballotFlags = ballotWholeState<<1 - 1 // all known ones
)

// EncodeBallot returns b's bytes without the digest of what was reduced, at most
// MaxBallotBytes. It panics if b's numbers are negative or its cluster is longer
// than MaxClusterBytes: a ballot is made from values that have been bounded.
func EncodeBallot(b quorum.Ballot) []byte {
	numbers := [...]int64{b.QuorumID, b.Round, b.Position.Step, b.Position.QuorumID}
	if len(b.Position.Cluster) > MaxClusterBytes || min(numbers[0], numbers[1], numbers[2], numbers[3]) < 0 {
		panic(fmt.Sprintf("wire: ballot out of bounds: %+v", b))
	}
	var flags byte
	for i, set := range [...]bool{b.OK, b.Reduced, b.Healed, b.Unhealed, b.ChangeWanted, b.State.Valid, b.Whole} {
		if set {
			flags |= 1 << i
		}
	}
	out := make([]byte, 0, ballotHeaderBytes+len(b.Position.Cluster))
	out = append(out, ballotVersion, flags)
	out = binary.BigEndian.AppendUint32(out, b.State.Sum)
	for _, n := range numbers {
		out = binary.BigEndian.AppendUint64(out, uint64(n))
	}
	out = append(out, byte(len(b.Position.Cluster)))
	return append(out, b.Position.Cluster...)
}

// DecodeBallot is the inverse of EncodeBallot: a ballot without a Digest. It refuses, with a *FieldError,
// whatever EncodeBallot cannot have made.
func DecodeBallot(data []byte) (quorum.Ballot, error) {
	var c check
	c.enter("ballot")
	if len(data) < ballotHeaderBytes || len(data) > MaxBallotBytes {
		c.fail("length", strconv.Itoa(len(data)), fmt.Sprintf("%d to %d bytes", ballotHeaderBytes, MaxBallotBytes))
		return quorum.Ballot{}, c.result()
	}
	c.number("version", int64(data[0]), ballotVersion, ballotVersion)
	flags := data[1]
	c.number("flags", int64(flags), 0, ballotFlags)
	number := func(field string, offset int) int64 {
		return int64(c.counter(field, binary.BigEndian.Uint64(data[offset:])))
	}
	b := quorum.Ballot{
		QuorumID:     number("quorum_id", 6),
		Round:        number("round", 14),
		OK:           flags&ballotOK != 0,
		Reduced:      flags&ballotReduced != 0,
		Healed:       flags&ballotHealed != 0,
		Unhealed:     flags&ballotUnhealed != 0,
		ChangeWanted: flags&ballotChangeWanted != 0,
		Whole:        flags&ballotWholeState != 0,
		State: quorum.Digest{
			Valid: flags&ballotHasState != 0,
			Sum:   binary.BigEndian.Uint32(data[2:]),
		},
	}
	b.Position.Step = number("position.step", 22)
	b.Position.QuorumID = number("position.quorum_id", 30)
	cluster := data[ballotHeaderBytes:]
	c.number("cluster length", int64(data[ballotHeaderBytes-1]), int64(len(cluster)), int64(len(cluster)))
	b.Position.Cluster = c.text("position.cluster", string(cluster), MaxClusterBytes)
	if c.failed() {
		return quorum.Ballot{}, c.result()
	}
	return b, nil
}
