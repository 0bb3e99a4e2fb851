package nccl

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/skerry-ft/skerry/internal/proof"
	"github.com/skerry-ft/skerry/pg"
)

// What a group keeps in its store, under the prefix.
const (
	keyID    = "nccl/id"    // the unique id, and rank 0's proof
	keyAbort = "nccl/abort" // the first note
	keyRank  = "nccl/rank/" // and a rank: its proof, and what it could shrink
)

// A turn of a meeting has keys of its own.
type turn string

const (
	first  turn = ""
	second turn = "/again" // after a shrink: it has worked for all, or all connect anew
)

// proof shows that a rank knows the quorum's token, without telling it.
func (e *engine) proof(rank int, of []byte) []byte {
	address := e.cfg.StoreAddress
	prefix := address[max(strings.IndexByte(address, '/'), 0):] // ranks may reach one store by different addresses
	return proof.Of(e.cfg.Token, "skerry nccl", []byte(prefix), binary.LittleEndian.AppendUint64(nil, uint64(rank)), of)
}

// meeting is what rank 0 has decided.
type meeting struct {
	id     UniqueID
	shrink bool // make the communicator out of the one before; id is none
}

// shrinkMark is in place of an id, before the offer that all ranks made.
const shrinkMark = "shrink"

// meet shows that this rank belongs here, and learns how the communicator is made.
// It is to be shrunk if all ranks offer the same, and that is something.
func (e *engine) meet(ctx context.Context, t turn, offer []byte) (how meeting, err error) {
	if e.cfg.Rank == 0 {
		return e.decide(ctx, t, offer)
	}
	name := fmt.Sprint(keyRank, e.cfg.Rank, t)
	mine := append(e.proof(e.cfg.Rank, offer), offer...)
	first, err := e.store.CompareSet(ctx, name, nil, mine)
	if err != nil {
		return how, err
	}
	if !hmac.Equal(first, mine) {
		return how, fmt.Errorf("%w: %s: somebody else was rank %d there", pg.ErrUsedPrefix, e.cfg.StoreAddress, e.cfg.Rank)
	}
	got, err := e.store.Get(ctx, keyID+string(t))
	if err != nil {
		return how, fmt.Errorf("wait for rank 0 (%s): %w", e.cfg.ReplicaIDs[0], err)
	}
	if want := len(how.id) + sha256.Size; len(got) != want {
		return how, fmt.Errorf("id of %d bytes from rank 0, want %d", len(got), want)
	}
	copy(how.id[:], got)
	if !hmac.Equal(got[len(how.id):], e.proof(0, how.id[:])) {
		return how, fmt.Errorf("rank 0 (%s) does not know this quorum's token", e.cfg.ReplicaIDs[0])
	}
	how.shrink = len(offer) > 0 && how.id == shrinkID(offer)
	return how, nil
}

// shrinkID stands in place of an id and says that all ranks offered this.
func shrinkID(offer []byte) (id UniqueID) {
	sum := sha256.Sum256(offer)
	copy(id[copy(id[:], shrinkMark):], sum[:])
	return id
}

// decide waits for all ranks, and says how the communicator is made.
func (e *engine) decide(ctx context.Context, t turn, offer []byte) (how meeting, err error) {
	how.shrink = len(offer) > 0
	for rank := 1; rank < e.cfg.WorldSize(); rank++ {
		got, err := e.store.Get(ctx, fmt.Sprint(keyRank, rank, t))
		if err != nil {
			return how, fmt.Errorf("wait for rank %d (%s): %w", rank, e.cfg.ReplicaIDs[rank], err)
		}
		theirs := got[min(len(got), sha256.Size):]
		if !hmac.Equal(got[:len(got)-len(theirs)], e.proof(rank, theirs)) {
			return how, fmt.Errorf("rank %d (%s) does not know this quorum's token", rank, e.cfg.ReplicaIDs[rank])
		}
		how.shrink = how.shrink && bytes.Equal(offer, theirs)
	}
	if how.shrink {
		how.id = shrinkID(offer)
	} else if err := e.opt.Library.check("ncclGetUniqueId", e.opt.Library.f.uniqueID(&how.id), 0); err != nil {
		return how, err
	}
	note := append(how.id[:], e.proof(0, how.id[:])...)
	first, err := e.store.CompareSet(ctx, keyID+string(t), nil, note)
	if err == nil && !hmac.Equal(first, note) {
		err = fmt.Errorf("%w: %s: somebody has published an id there", pg.ErrUsedPrefix, e.cfg.StoreAddress)
	}
	return how, err
}
