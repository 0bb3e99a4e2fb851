package pg

import "fmt"

var kindNames = [kindCount]string{
	KindInvalid:       "invalid",
	KindAllReduce:     "all-reduce",
	KindReduce:        "reduce",
	KindBroadcast:     "broadcast",
	KindAllGather:     "all-gather",
	KindGather:        "gather",
	KindScatter:       "scatter",
	KindReduceScatter: "reduce-scatter",
	KindAllToAll:      "all-to-all",
	KindBarrier:       "barrier",
	KindSend:          "send",
	KindRecv:          "recv",
	KindBallot:        "ballot",
	KindBatch:         "batch",
}

// String is the kind as messages and metrics name it: "all-reduce".
func (k Kind) String() string {
	if k >= kindCount {
		return fmt.Sprintf("kind(%d)", uint8(k))
	}
	return kindNames[k]
}

// Valid tells whether k is one of the kinds above.
func (k Kind) Valid() bool { return k > KindInvalid && k < kindCount }

// PointToPoint tells whether k involves two ranks only.
func (k Kind) PointToPoint() bool { return k == KindSend || k == KindRecv }

// Reduces tells whether ops of kind k use Reduce, Divisor and Factor.
func (k Kind) Reduces() bool {
	return k == KindAllReduce || k == KindReduce || k == KindReduceScatter
}

// Kinds lists every valid kind.
func Kinds() []Kind {
	all := make([]Kind, 0, kindCount-1)
	for k := KindInvalid + 1; k < kindCount; k++ {
		all = append(all, k)
	}
	return all
}

// String is "cluster/quorum id".
func (e Epoch) String() string { return fmt.Sprintf("%s/%d", e.Cluster, e.QuorumID) }
