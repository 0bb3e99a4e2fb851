package pg

import (
	"slices"
	"time"

	"github.com/skerry-ft/skerry/tensor"
)

// Kind says which collective an Op is.
type Kind uint8

// The kinds of Op. The comment gives what In, Out and the other fields hold; W
// is the world size. Kinds marked (p2p) involve two ranks, all others all.
const (
	KindInvalid       Kind = iota
	KindAllReduce          // In[i] is reduced over ranks into Out[i]; Out may be In. Reduce, Divisor.
	KindReduce             // as all-reduce, but only Root has Out.
	KindBroadcast          // In[i] at Root goes to Out[i] everywhere; In == Out is allowed.
	KindAllGather          // In[0] of rank r goes to Out[r] everywhere; len(Out) == W.
	KindGather             // In[0] of rank r goes to Out[r] at Root.
	KindScatter            // In[r] at Root goes to Out[0] of rank r.
	KindReduceScatter      // In[r] is reduced over ranks into Out[0] of rank r; len(In) == W.
	KindAllToAll           // In[r] goes to rank r, where it becomes Out[sender]. len == W both.
	KindBarrier            // no tensors.
	KindSend               // (p2p) In[0] to Peer under Tag.
	KindRecv               // (p2p) Out[0] from Peer under Tag; Peer == AnySource takes the first.
	KindBallot             // Ballot out, Ballots in: see Op.Ballots.
	KindBatch              // Batch: ops of the kinds above but ballots, submitted as one; see Op.Batch.
	kindCount
)

// AnySource as the Peer of a receive takes the first message of any rank.
const AnySource = -1

// Epoch names one configuration of a group.
type Epoch struct {
	Cluster  string
	QuorumID int64
}

// After returns whether a member may go from old to e: e has a higher quorum id, or is of
// another cluster. Ids of two clusters have no order: each such epoch is after the other.
func (e Epoch) After(old Epoch) bool { return e.Cluster != old.Cluster || e.QuorumID > old.QuorumID }

// Op is one collective as data. The caller fills the upper part; the innermost
// backend fills Seq, Epoch and Round when it takes the op.
type Op struct {
	Kind    Kind
	In, Out []tensor.Tensor
	Reduce  tensor.ReduceOp
	Divisor int     // for Avg; 0 means the world size, PerRank times
	Factor  float64 // for PreMulSum
	Root    int
	Peer    int
	Tag     int

	// Flat says that In[0] and Out[0] hold the slots of all ranks one after the
	// other, where Kind wants a tensor per rank. InSplits and OutSplits are the
	// rows (of the first dimension) of each rank's slot in an all-to-all; nil
	// means even parts. A Group, or Managed once it knows the ranks, puts the
	// slots into In and Out and clears Flat: backends never see it.
	Flat                bool
	InSplits, OutSplits []int

	// PerRank is how many tensors of a rank each of In is folded of already, for Avg
	// without a Divisor: a Group, or Managed once it knows the ranks, sets that to so many
	// times their number. 0 means 1.
	PerRank int

	// DeviceIDs are the devices on which a barrier of a backend for devices meets,
	// as torch's device_ids; nil means its first. Other backends take no notice.
	DeviceIDs []int

	// Batch are the ops of a KindBatch op, at most MaxBatch. They start in
	// order; the batch is done when all of them are, with the first error. A
	// backend that has no way to issue several ops at once passes it to
	// SubmitBatch.
	Batch []*Op

	// Deadline is when the op fails by itself; zero means the backend's
	// default timeout.
	Deadline time.Time

	// Ballot is this rank's payload of a KindBallot op, at most
	// MaxBallotBytes. Ballots receives what came, indexed by rank, this rank's
	// included; entries that never came have Here == false. Unlike any other
	// op, a ballot that fails still fills Ballots with what it has. This rank's own
	// is not here if it may have gone out with a digest that is not known.
	Ballot  []byte
	Ballots []BallotEntry

	Seq   uint64
	Epoch Epoch
	Round int64

	// Source is filled by the backend before it completes a KindRecv op: the
	// rank that the message came from.
	Source int

	seat     *seat         // of a composed verb: among whom the op may run; nil: among any
	call     *call         // the pooled memory this op is part of, or nil
	flat     tensor.Tensor // Out[0] as it was before the slots were put into Out
	internal bool          // of a verb that is made of others: its tags lie above MaxTag
}

// MaxBatch bounds Op.Batch.
const MaxBatch = 4096

// MaxBallotBytes bounds Op.Ballot.
const MaxBallotBytes = 4096

// OwnBallot begins the results of a KindBallot op of a rank in a world of
// worldSize: Ballots holds as many entries, of which only the rank's own is
// here, without a digest. A backend calls it when it takes the op, so that a
// ballot that fails at whatever moment has its own, and nothing of an exchange
// that used the op's memory before. Once the ballot may be on its way, its entry
// is here only with the digest that went with it: a backend that lost that, as by
// the end of its process, takes the entry away.
func (op *Op) OwnBallot(rank, worldSize int) {
	op.Ballots = slices.Grow(op.Ballots[:0], worldSize)[:worldSize]
	for r := range op.Ballots {
		e := &op.Ballots[r]
		*e = BallotEntry{Payload: e.Payload[:0]}
	}
	own := &op.Ballots[rank]
	own.Here, own.Payload = true, append(own.Payload, op.Ballot...)
}

// BallotEntry is one rank's part of a ballot exchange.
type BallotEntry struct {
	Here    bool
	Digest  Digest // filled by that rank's backend
	Payload []byte
}

// Digest sums up the results that are equal on all ranks (all-reduce,
// broadcast, all-gather; not a reduce-scatter's part) since the last ballot:
// per result, in (Seq, tensor) order, the CRC32C of each 256 KiB chunk, the
// last one shorter, each folded little-endian into one CRC32C. A backend that
// does not compute it leaves Valid false, which equals only another such.
type Digest struct {
	Valid bool
	Sum   uint32
}

// Internal tells whether op belongs to a verb that is made of others and may use
// the tags above MaxTag.
func (op *Op) Internal() bool { return op.internal }

// MarkInternal makes op Internal: for a verb that is made of others, whose messages are
// none of the user's, and for backends that carry such an op to another process, where
// it is made anew.
func (op *Op) MarkInternal() { op.internal = true }
