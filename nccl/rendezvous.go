package nccl

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"

	"github.com/skerry-ft/skerry/pg"
)

// What a group keeps in its store, under the prefix.
const (
	keyID    = "nccl/id"    // the unique id, and rank 0's proof
	keyAbort = "nccl/abort" // the first note
	keyRank  = "nccl/rank/" // and a rank: its proof
)

// proof shows that a rank knows the quorum's token, without telling it.
func (e *engine) proof(rank int, of []byte) []byte {
	mac := hmac.New(sha256.New, e.cfg.Token)
	fmt.Fprintf(mac, "skerry/nccl\x00%s\x00%d\x00", e.cfg.StoreAddress[prefixAt(e.cfg.StoreAddress):], rank)
	mac.Write(of)
	return mac.Sum(nil)
}

// prefixAt is where the prefix begins: ranks may reach one store by different
// addresses.
func prefixAt(address string) int {
	for i := range address {
		if address[i] == '/' {
			return i
		}
	}
	return 0
}

// uniqueID is drawn by rank 0, once every rank has shown that it belongs here,
// and read by the others.
func (e *engine) uniqueID(ctx context.Context) (id UniqueID, err error) {
	if e.cfg.Rank == 0 {
		return e.publishID(ctx)
	}
	name := fmt.Sprint(keyRank, e.cfg.Rank)
	mine := e.proof(e.cfg.Rank, nil)
	first, err := e.store.CompareSet(ctx, name, nil, mine)
	if err != nil {
		return id, err
	}
	if !hmac.Equal(first, mine) {
		return id, fmt.Errorf("%w: %s: somebody else was rank %d there", pg.ErrUsedPrefix, e.cfg.StoreAddress, e.cfg.Rank)
	}
	got, err := e.store.Get(ctx, keyID)
	if err != nil {
		return id, fmt.Errorf("wait for rank 0 (%s): %w", e.cfg.ReplicaIDs[0], err)
	}
	if want := len(id) + sha256.Size; len(got) != want {
		return id, fmt.Errorf("id of %d bytes from rank 0, want %d", len(got), want)
	}
	copy(id[:], got)
	if !hmac.Equal(got[len(id):], e.proof(0, id[:])) {
		return id, fmt.Errorf("rank 0 (%s) does not know this quorum's token", e.cfg.ReplicaIDs[0])
	}
	return id, nil
}

func (e *engine) publishID(ctx context.Context) (id UniqueID, err error) {
	for rank := 1; rank < e.cfg.WorldSize(); rank++ {
		got, err := e.store.Get(ctx, fmt.Sprint(keyRank, rank))
		if err != nil {
			return id, fmt.Errorf("wait for rank %d (%s): %w", rank, e.cfg.ReplicaIDs[rank], err)
		}
		if !hmac.Equal(got, e.proof(rank, nil)) {
			return id, fmt.Errorf("rank %d (%s) does not know this quorum's token", rank, e.cfg.ReplicaIDs[rank])
		}
	}
	if err := e.opt.Library.check("ncclGetUniqueId", e.opt.Library.f.uniqueID(&id), 0); err != nil {
		return id, err
	}
	note := append(id[:], e.proof(0, id[:])...)
	first, err := e.store.CompareSet(ctx, keyID, nil, note)
	if err == nil && !hmac.Equal(first, note) {
		err = fmt.Errorf("%w: %s: somebody has published an id there", pg.ErrUsedPrefix, e.cfg.StoreAddress)
	}
	return id, err
}
