package nccl

import (
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"time"
	"unsafe"
)

// A communicator that was revoked can become that of the next epoch, if that has
// the same ranks in the same order but for those that are lost. All ranks must do
// so, or none: each offers it beside its proof, under the fresh prefix of the
// epoch, and rank 0 says what is done; once more after the shrink, should it fail. So a shrunk communicator is bound to a
// quorum as any other one is, and whoever has nothing to offer (a newcomer, a rank
// whose revoke hung) makes all meet anew.

// offer names what this rank could shrink: nothing, or the quorum id of the epoch
// before and the ranks in it that are to go.
func (e *engine) offer() []byte {
	exclude, ok := e.excluded()
	if !ok {
		return nil
	}
	b := binary.LittleEndian.AppendUint64(nil, uint64(e.before.cfg.QuorumID))
	for _, r := range exclude {
		b = binary.LittleEndian.AppendUint32(b, uint32(r))
	}
	return b
}

// excluded are the ranks of the epoch before that are not in this one; ok tells
// whether leaving them out gives this epoch.
func (e *engine) excluded() (ranks []int, ok bool) {
	old := e.before
	if old == nil || !old.hasKept() || !e.opt.Library.Has(Shrink) {
		return nil, false
	}
	if old.cfg.Cluster != e.cfg.Cluster || old.cfg.GroupRank != e.cfg.GroupRank {
		return nil, false
	}
	var left []string
	for r, id := range old.cfg.ReplicaIDs {
		if slices.Contains(e.cfg.ReplicaIDs, id) {
			left = append(left, id)
		} else {
			ranks = append(ranks, r)
		}
	}
	return ranks, len(ranks) > 0 && slices.Equal(left, e.cfg.ReplicaIDs)
}

func (e *engine) hasKept() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mu.kept
}

// shrunkMark is what a rank offers for which the shrink has worked.
const shrunkMark = "shrunk"

// tryShrink makes the communicator of e out of that of the epoch before. If that
// does not work for all, by half of the time that there is, all connect anew: what
// is to be shrunk has just seen a failure, and the library may refuse it.
func (e *engine) tryShrink(ctx context.Context) (how meeting, err error) {
	half := ctx
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		half, cancel = context.WithTimeout(ctx, time.Until(deadline)/2)
		defer cancel()
	}
	bad := e.initBy(half, "ncclCommShrink", e.shrink)
	if bad != nil && (ctx.Err() != nil || errors.Is(bad, ErrAbandoned)) {
		return how, bad
	}
	offer := []byte(shrunkMark)
	if bad != nil {
		e.opt.Log.Warn().Err(bad).Msg("communicator not shrunk")
		offer = nil
	}
	if how, err = e.meet(ctx, second, offer); err != nil {
		return how, errors.Join(bad, err)
	}
	if !how.shrink {
		e.dropBefore() // which also ends what hangs in it
		err = e.abortInit()
		e.began(nil)
	}
	return how, err
}

// shrink makes the communicator of e out of that of the epoch before.
func (e *engine) shrink(ctx context.Context) error {
	exclude, _ := e.excluded()
	list := make([]int32, len(exclude))
	for i, r := range exclude {
		list[i] = int32(r)
	}
	const shrinkAbort = 1 // NCCL_SHRINK_ABORT: nothing of the parent is in flight, or it is stopped
	raw, err := e.before.comm.make(ctx, "ncclCommShrink", func(raw comm, out *comm, cfg *config) int32 {
		return e.opt.Library.f.shrink(raw, unsafe.SliceData(list), int32(len(list)), out, cfg, shrinkAbort)
	})
	runtime.KeepAlive(list)
	if err != nil {
		return err
	}
	return e.adopt(ctx, raw, "ncclCommShrink")
}

// dropBefore ends the communicator of the epoch before, if it was kept.
func (e *engine) dropBefore() {
	if e.before != nil {
		e.before.dropKept()
		e.before = nil
	}
}

// dropKept aborts a communicator that was kept.
func (e *engine) dropKept() {
	e.mu.Lock()
	kept := e.mu.kept
	e.mu.kept = false
	e.mu.Unlock()
	if !kept {
		return
	}
	if err := e.comm.abort(e.opt.AbortLimit, nil); err != nil {
		e.mu.Lock()
		e.mu.abandoned = errors.Join(e.mu.abandoned, abandonedOnly(err))
		e.mu.Unlock()
		e.opt.Log.Error().Err(err).Msg("revoked communicator not aborted")
	}
}
