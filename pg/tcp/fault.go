package tcp

import (
	"time"

	"github.com/skerry-ft/skerry/pg"
)

// FrameInfo describes a frame that is about to be sent.
type FrameInfo struct {
	Type      string // "hello", "data", "abort", "beat", "credit" or "take"
	From, To  int    // ranks; -1 before the link has one
	Peer      string // replica id of the receiver
	Kind      pg.Kind
	Seq       uint64
	Phase     int // of data: 0 inputs, 1 results
	Offset    uint64
	Bytes     int
	QuorumID  int64
	Stream    int  // which socket of the edge: 0 is the first
	LastFrame bool // of what its sender sends to this receiver in this phase
}

// Action is what becomes of a frame. The zero value sends it as it is.
type Action struct {
	Delay   time.Duration // first wait so long
	Drop    bool          // do not send it
	Corrupt bool          // flip a bit after the checksum was made
	Close   bool          // close the link instead
}

// Fault decides about each frame. It is called from several goroutines and
// must not block. Faults compose: see Faults.
type Fault func(FrameInfo) Action

// Faults asks every fault and joins their answers.
func Faults(all ...Fault) Fault {
	return func(f FrameInfo) Action {
		var joined Action
		for _, fault := range all {
			a := fault(f)
			joined.Delay += a.Delay
			joined.Drop = joined.Drop || a.Drop
			joined.Corrupt = joined.Corrupt || a.Corrupt
			joined.Close = joined.Close || a.Close
		}
		return joined
	}
}

// spoil flips a bit of t's result, as a broken memory would, before it is
// digested.
func (t *task) spoil() {
	for i, p := range t.out {
		if len(p) > 0 {
			t.out[i][0] ^= 1
			clear(t.crcs) // computed anew, from what is there now
			return
		}
	}
}
