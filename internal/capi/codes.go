package capi

import (
	"context"
	"errors"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/store"
	"github.com/skerry-ft/skerry/tensor"
)

// ABI is the version of what the library exports. It rises when a caller of an older one
// would go wrong.
const ABI = 3

// kinds, dtypes and reduces are by their numbers in an operation.
var (
	kinds = []pg.Kind{
		1: pg.KindAllReduce, 2: pg.KindReduce, 3: pg.KindBroadcast, 4: pg.KindAllGather, 5: pg.KindGather, 6: pg.KindScatter,
		7: pg.KindReduceScatter, 8: pg.KindAllToAll, 9: pg.KindBarrier, 10: pg.KindSend, 11: pg.KindRecv,
	}
	dtypes = []tensor.DType{
		1: tensor.Uint8, 2: tensor.Int8, 3: tensor.Int16, 4: tensor.Int32, 5: tensor.Int64, 6: tensor.Uint16, 7: tensor.Uint32,
		8: tensor.Uint64, 9: tensor.Bool, 10: tensor.Float16, 11: tensor.BFloat16, 12: tensor.Float32, 13: tensor.Float64,
		14: tensor.Complex64, 15: tensor.Complex128, 16: tensor.Float8E4M3, 17: tensor.Float8E5M2,
	}
	reduces = []tensor.ReduceOp{
		0: tensor.Sum, 1: tensor.Avg, 2: tensor.Product, 3: tensor.Min, 4: tensor.Max, 5: tensor.BAnd, 6: tensor.BOr, 7: tensor.BXor,
	}
)

// Code says what kind of failure it was.
type Code int

// The codes. Their numbers do not change.
const (
	CodeNone        Code = iota
	CodeAborted          // the group was aborted, here or by a peer
	CodeLost             // a peer was lost
	CodeTimeout          // the operation's time, or a call's, was over
	CodeMismatch         // ranks called different operations
	CodeInvalid          // the call cannot be right, whatever the peers do
	CodeClosed           // the group or store is closed, or never was one
	CodeUnsupported      // this backend cannot
	CodeNoStore          // the rendezvous store could not be reached, or was lost
	CodeOther

	// Of a Manager: why training cannot go on, or the step.
	CodeDrained     // it has left, in good order
	CodeEvicted     // an operator or a policy took it out
	CodeRefused     // the lighthouse refuses it for good
	CodeRankLost    // another rank of the replica is gone
	CodeMaxRetries  // too many steps in a row were discarded
	CodeUnreachable // no lighthouse, or no peer, can be reached
	CodeDiffered    // states differed, and that ends it
	CodeStateLost   // in part overwritten by those who are gone
	CodeStepFailed  // the step is lost already
	CodeStepOpen    // a start without the commit before
	CodeOtherState  // the others' state has other tensors
)

// sentinels are looked for in this order: a group that was aborted because a peer was lost
// is one that lost a peer.
var sentinels = []struct {
	err  error
	code Code
}{
	{errNoHandle, CodeClosed},
	{pg.ErrInvalidOp, CodeInvalid},
	{pg.ErrUsedPrefix, CodeInvalid},
	{pg.ErrMismatch, CodeMismatch},
	{pg.ErrNoStore, CodeNoStore},
	{pg.ErrPeerLost, CodeLost},
	{context.DeadlineExceeded, CodeTimeout},
	{pg.ErrUnsupported, CodeUnsupported},
	{pg.ErrClosed, CodeClosed},
	{store.ErrClosed, CodeClosed},
	{pg.ErrUnconfigured, CodeClosed},
	{pg.ErrAborted, CodeAborted},
}

// Failure is why a call failed, or a group is broken.
type Failure struct {
	Code   Code
	Rank   int    // the culprit's; -1: nobody's
	PeerID string // the culprit's replica id, or ""
	Text   string
}

// FailureOf describes err; nil gives CodeNone.
func FailureOf(err error) Failure {
	f := Failure{Rank: -1}
	if err == nil {
		return f
	}
	f.Code, f.Text = CodeOther, err.Error()
	if c, ok := finalCode(err); ok {
		f.Code = c
		return f
	}
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			f.Code = s.code
			break
		}
	}
	if e, ok := errors.AsType[*pg.OpError](err); ok {
		f.Rank, f.PeerID = e.Peer, e.PeerID
	}
	return f
}
