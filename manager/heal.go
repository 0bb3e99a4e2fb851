package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/internal/failpoint"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/manager/internal/replica"
	"github.com/skerry-ft/skerry/manager/internal/state"
	"github.com/skerry-ft/skerry/quorum"
)

// healing is one transfer of a state to this rank. What travels lies beside the
// live tensors first: the trainer may be in its forward pass, and a transfer that
// breaks off must leave a state behind that is one.
type healing struct {
	position quorum.Position // of the state
	quorumID int64
	sources  []quorum.Peer
	began    time.Time
	stop     context.CancelCauseFunc
	done     chan struct{} // closed when the fields below are set
	beside   bool          // the collectives do not wait for it
	direct   bool          // it goes over the live tensors

	err   error
	into  *state.Incoming
	meta  map[string]string
	bytes int64 // that travelled
}

// heals is what moves a state to this rank. Guarded by Manager.mu.
type heals struct {
	current  *healing        // under way, or waiting to be loaded; nil: none
	loan     *loan           // of the tensors; nil: the trainer has them
	incoming *state.Incoming // what heals have brought that is not installed
	stale    bool            // of incoming: the donors have other tensors by now
	over     bool            // the tensors were overwritten in part, by an incoming that is gone
	captured state.Captured  // as the last StartQuorum returned; before the first, as it began
}

// errSuperseded ends a transfer for a quorum that is over.
var errSuperseded = errors.New("another quorum came")

// arrived says that the state is there, and waits to be loaded.
func (h *healing) arrived() bool {
	select {
	case <-h.done:
		return h.err == nil
	default:
		return false
	}
}

// again is a transfer of the same state, for the same quorum.
func (h *healing) again() *healing {
	return &healing{
		position: h.position, quorumID: h.quorumID, sources: h.sources, began: h.began, beside: h.beside,
		direct: h.direct, bytes: h.bytes, done: make(chan struct{}),
	}
}

// healIfBehind fetches the state that the quorum is at, if this rank is not. A
// rank that takes part, or that Syncs, heals before its collectives; any other beside
// them.
func (m *Manager) healIfBehind(ctx context.Context, r *request) error {
	if err := m.supersede(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	a := m.mu.rank.Assignment()
	switch {
	case a.Heal:
	case !m.mixedLocked():
		m.mu.heals.incoming = nil
		m.mu.rank.SetAside()
	case !m.mu.attempt.waiting: // else StartQuorum settles it, see settleMixed
		m.failLocked(errMixed)
	}
	if !a.Heal || r.opts.ForbidHeal {
		m.mu.Unlock()
		return nil
	}
	h := &healing{
		position: a.Max, quorumID: a.QuorumID, sources: a.Sources, began: time.Now(), done: make(chan struct{}),
	}
	// With HealInPlace StartQuorum waits, and no forward pass reads the tensors. (What is computed beside a
	// heal counts for nothing, and the members wait for its end either way.)
	h.direct = m.cfg.HealInPlace && m.mu.attempt.waiting
	before := r.sync || a.ParticipantRank >= 0 || h.direct
	h.beside = !before
	hctx := ctx
	if before {
		hctx, h.stop = context.WithCancelCause(ctx)
		m.mu.phase = quorum.PhaseHealing
		m.mu.heals.current = h
	} else {
		m.fetchLocked(h) // it outlives the request
	}
	m.mu.Broadcast()
	m.mu.Unlock()
	m.tellHeals(h)
	if !before {
		return nil
	}
	defer h.stop(nil)
	m.fetch(hctx, h)
	if h.err == nil {
		return nil
	}
	m.dropHeal(h)
	err := fmt.Errorf("heal: %w", h.err)
	m.unhealed(h.quorumID, h.err)
	m.fall(h.quorumID, err)
	return err
}

// fetchLocked makes h the heal that is under way, on a goroutine of its own.
func (m *Manager) fetchLocked(h *healing) {
	m.mu.heals.current = h
	h.stop = m.tasks.Start(func(ctx context.Context) { m.fetch(ctx, h) })
}

// supersede ends the transfer that an earlier quorum began. What it has brought
// stays for the next one, which compares it.
func (m *Manager) supersede(ctx context.Context) error {
	m.mu.Lock()
	old := m.mu.heals.current
	m.mu.heals.current = nil
	m.mu.Unlock()
	if old == nil {
		return nil
	}
	old.stop(errSuperseded)
	select {
	case <-old.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// tellHeals logs and tells that a heal begins.
func (m *Manager) tellHeals(h *healing) {
	var ids []string
	for _, s := range h.sources {
		ids = append(ids, string(s.ReplicaID))
	}
	m.log.Info().Int64(logkey.QuorumID, h.quorumID).Int64(logkey.Step, h.position.Step).
		Strs("sources", ids).Msg("heal started")
	m.events.Emit(HealStarted{QuorumID: h.quorumID, Position: h.position, Sources: ids})
}

// fetch transfers the state, while the tensors are lent, and notes what became of it.
func (m *Manager) fetch(ctx context.Context, h *healing) {
	for {
		lent, release, err := m.borrow(ctx)
		if err == nil {
			err = m.transfer(lent, h)
		}
		if err != nil && ctx.Err() == nil && errors.Is(context.Cause(lent), errTakenBack) {
			release()
			continue
		}
		m.fetched(h, err)
		release() // after that: who takes the tensors back sees what became of it
		return
	}
}

// fetched ends a transfer.
func (m *Manager) fetched(h *healing, err error) {
	took := time.Since(h.began)
	m.mu.Lock()
	h.err = err
	close(h.done)
	m.mu.stats.LastHeal = took
	m.mu.Broadcast()
	m.mu.Unlock()
	if err != nil {
		m.log.Warn().Err(err).Int64(logkey.QuorumID, h.quorumID).Dur(logkey.ElapsedMs, took).Msg("heal broke off")
		m.events.Emit(HealDone{QuorumID: h.quorumID, Position: h.position, Bytes: h.bytes, Took: took, Err: err})
	}
}

// transfer reads what this rank does not hold of the state, from all donors.
func (m *Manager) transfer(ctx context.Context, h *healing) error {
	ctx, cancel := context.WithTimeout(ctx, m.timeouts.Heal)
	defer cancel()
	donors, err := m.donors(ctx, h.sources)
	if err != nil {
		return err
	}
	if h.into, err = m.receive(); err != nil {
		return err
	}
	failpoint.At(ctx, failpoint.ReceiveBefore)
	before := h.into.Mirror.Received()
	if h.direct {
		h.into.Mirror.SetDirect(true)
		defer h.into.Mirror.SetDirect(false)
	}
	h.meta, err = m.transport.Fetch(ctx, versionOf(h.position), donors, h.into.Mirror)
	h.bytes += h.into.Mirror.Received() - before
	if err == nil {
		_, err = state.ParseOwn(h.meta) // else the tensors would be written, and the donor's word be the end
	}
	if err == nil {
		return nil
	}
	if errors.Is(err, checkpoint.ErrOtherCut) {
		m.mu.Lock()
		m.mu.heals.stale = m.mu.heals.stale || h.into == m.mu.heals.incoming
		m.mu.Unlock()
	}
	return fmt.Errorf("fetch step %d of quorum %d: %w", h.position.Step, h.position.QuorumID, err)
}

// receive returns what heals have brought so far; transfers take turns.
func (m *Manager) receive() (*state.Incoming, error) {
	m.mu.Lock()
	in, of := m.mu.heals.incoming, m.mu.heals.captured
	m.mu.Unlock()
	if in != nil {
		return in, nil
	}
	in, err := m.states.Incoming(of, m.cfg.HealInPlace, func(bytes int64) {
		m.move()
		m.healBytes.Add(uint64(bytes))
	})
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.heals.incoming, m.mu.heals.stale = in, false
	return in, nil
}

// donors asks the sources' managers where this group rank's state is served.
func (m *Manager) donors(ctx context.Context, sources []quorum.Peer) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, m.timeouts.Call)
	defer cancel()
	sources = sources[:min(len(sources), checkpoint.MaxDonors)]
	donors, errs := make([]string, len(sources)), make([]error, len(sources))
	var wg sync.WaitGroup
	for i, s := range sources {
		wg.Go(func() { donors[i], errs[i] = m.donor(ctx, s) })
	}
	wg.Wait()
	donors = slices.DeleteFunc(donors, func(d string) bool { return d == "" })
	if len(donors) == 0 {
		return nil, fmt.Errorf("find donors: %w", errors.Join(errs...))
	}
	return donors, nil
}

func (m *Manager) donor(ctx context.Context, s quorum.Peer) (string, error) {
	conn, err := replica.Dial(m.guard, m.cfg.Network, m.sibling(), s.Address)
	if err != nil {
		return "", fmt.Errorf("dial %s at %s: %w", s.ReplicaID, s.Address, err)
	}
	defer conn.Close() //nolint:errcheck // nothing is lost with it
	out, err := skerrypb.NewManagerClient(conn).CheckpointMetadata(ctx,
		&skerrypb.CheckpointMetadataRequest{GroupRank: uint32(m.cfg.GroupRank)})
	if err != nil {
		return "", fmt.Errorf("ask %s at %s: %w", s.ReplicaID, s.Address, wire.FromStatus(err)) // another's end is not this one's
	}
	return out.GetMetadata(), nil
}

// load makes the fetched state this rank's own. It runs on the trainer's
// goroutine. An error of the transfer is not returned: the quorum falls, and
// the next one names other sources.
func (m *Manager) load(ctx context.Context, h *healing) error {
	select {
	case <-h.done:
	case <-ctx.Done():
		return fmt.Errorf("heal: %w", context.Cause(ctx))
	}
	m.dropHeal(h)
	if h.err != nil {
		if isFinal(h.err) {
			m.setFinal(h.err)
			return h.err
		}
		m.dropStale()
		m.unhealed(h.quorumID, h.err)
		m.fall(h.quorumID, fmt.Errorf("heal: %w", h.err))
		return nil
	}
	m.transport.Pause() // the tensors change
	m.comparison.End()
	own, err := m.states.Install(h.into, versionOf(h.position), h.meta)
	if err != nil {
		err = fmt.Errorf("load the state of step %d: %w", h.position.Step, err)
		m.mu.Lock()
		m.mu.heals.over = true // the tensors may be the donors', and a part has not taken them
		m.mu.Unlock()
		m.setFinal(err)
		return err
	}
	failpoint.At(ctx, failpoint.ReceiveAfter)
	m.mu.Lock()
	m.mu.rank.Healed(h.position, own.Batches, own.Digest)
	m.mu.heals.incoming, m.mu.heals.over = nil, false
	m.mu.stats.Heals++
	took := time.Since(h.began)
	m.mu.stats.LastHeal = took
	m.mu.Broadcast()
	m.mu.Unlock()
	m.log.Info().Int64(logkey.QuorumID, h.quorumID).Int64(logkey.Step, h.position.Step).
		Int64(logkey.Bytes, h.bytes).Dur(logkey.ElapsedMs, took).Msg("healed")
	m.events.Emit(HealDone{QuorumID: h.quorumID, Position: h.position, Bytes: h.bytes, Took: took})
	return nil
}

// dropHeal forgets h.
func (m *Manager) dropHeal(h *healing) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.heals.current == h {
		m.mu.heals.current = nil
		m.mu.Broadcast()
	}
}
