package nccl

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/pg"
)

// A note tells the other ranks of an epoch why one of them left it. NCCL itself
// tells nobody: without a note they would wait for their deadlines.
type note struct {
	Rank int      `json:"rank"`
	How  noteKind `json:"how"`
	Text string   `json:"text"`
}

type noteKind string

const (
	noteAborted noteKind = "aborted"
	noteClosed  noteKind = "closed" // in good order: what it took part in is done
)

// Bounds of notes.
const (
	tellLimit    = time.Second           // of writing one
	tellHurry    = 50 * time.Millisecond // where the next epoch waits for it
	maxNoteText  = 1024
	maxNoteBytes = 8 << 10
)

// tell writes a note where the other ranks listen. The first one stays. It does not try
// for long once listen has found that the store is lost.
func (e *engine) tell(how noteKind, cause error) {
	ctx, cancel := context.WithTimeout(e.found, tellLimit)
	defer cancel()
	text := cause.Error()
	b, err := json.Marshal(note{Rank: e.cfg.Rank, How: how, Text: text[:min(len(text), maxNoteText)]})
	if err == nil {
		_, err = e.store.CompareSet(ctx, keyAbort, nil, b)
	}
	if err != nil {
		e.opt.Log.Warn().Err(err).Msg("departure not told to the other ranks")
	}
}

// listen waits for a note of another rank, until the store is lost, or the epoch over.
func (e *engine) listen() {
	b, err := e.store.Get(e.found, keyAbort)
	if err != nil {
		if e.ctx.Err() == nil {
			e.opt.Log.Warn().Err(err).Msg("rendezvous store lost: aborts of other ranks are seen at the deadline")
		}
		e.lose()
		return
	}
	n, err := readNote(b, e.cfg.WorldSize())
	if err != nil {
		e.fail(err, false)
		return
	}
	if n.Rank == e.cfg.Rank {
		return
	}
	peer := e.cfg.ReplicaIDs[n.Rank]
	cause := &pg.OpError{
		QuorumID: e.cfg.QuorumID, Rank: e.cfg.Rank, Peer: n.Rank, PeerID: peer,
		Err: fmt.Errorf("%w: %s has %s: %s", pg.ErrPeerLost, peer, n.How, n.Text),
	}
	if n.How != noteClosed {
		e.fail(cause, false)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.gone, e.mu.goneAt = cause, time.Now()
}

// readNote reads what another rank of so many has written.
func readNote(b []byte, world int) (n note, err error) {
	if len(b) > maxNoteBytes {
		return n, fmt.Errorf("nccl: note of %d bytes in the store, want at most %d", len(b), maxNoteBytes)
	}
	if err := json.Unmarshal(b, &n); err != nil {
		return n, fmt.Errorf("nccl: read a note of %d bytes in the store: %w", len(b), err)
	}
	if n.Rank < 0 || n.Rank >= world {
		return n, fmt.Errorf("nccl: note of rank %d in the store, want 0 to %d", n.Rank, world-1)
	}
	return n, nil
}
