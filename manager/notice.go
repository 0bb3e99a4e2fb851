package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/quorum"
)

// noticed takes in what the replica's server pushes.
func (m *Manager) noticed(n notice) {
	switch {
	case n.Hello != nil:
		m.greeted(n.Hello)
		return
	case n.Heard:
		m.heard()
		return
	case n.Kind == quorum.NoticeFallen && n.Sibling == nil && m.needed():
		return
	case m.tooEarly(n):
		return
	case n.Sibling != nil:
		m.fall(n.Sibling.QuorumID, fmt.Errorf("%w: group rank %d: %s", errSibling, n.Sibling.GroupRank, n.Sibling.Cause))
		return
	}
	switch n.Kind {
	case quorum.NoticeFallen:
		m.fallen(n.Notice)
	case quorum.NoticeLost:
		m.log.Warn().Str(logkey.Peer, string(n.About)).Int64(logkey.QuorumID, n.QuorumID).
			Str(logkey.Reason, n.Reason).Msg("member lost")
		m.events.emit(PeerLost{QuorumID: n.QuorumID, ReplicaID: string(n.About), Why: n.Reason})
		m.fall(n.QuorumID, fmt.Errorf("%w: %s: %s", errLost, n.About, n.Reason))
	case quorum.NoticeWanted:
		m.changeWanted(n.QuorumID, n.Reason)
	case quorum.NoticeDrain:
		m.drain(n.Reason)
	case quorum.NoticeEvict:
		m.evicted(n.Reason)
	}
}

// maxEarly bounds the notices kept for a quorum that is still to be taken up.
const maxEarly = 64

// tooEarly keeps a notice about a quorum whose answer is on its way through
// this process: it overtook the answer, which came first.
func (m *Manager) tooEarly(n notice) bool {
	id := n.quorumID()
	m.mu.Lock()
	defer m.mu.Unlock()
	if id == 0 || m.mu.quorum != nil && id <= m.mu.quorum.ID {
		return false
	}
	if len(m.mu.early) < maxEarly {
		m.mu.early = append(m.mu.early, n)
	}
	return true
}

// caughtUpLocked returns the kept notices about the quorum just taken up.
func (m *Manager) caughtUpLocked() []notice {
	var due, rest []notice
	for _, n := range m.mu.early {
		switch id := n.quorumID(); {
		case id == m.mu.quorum.ID:
			due = append(due, n)
		case id > m.mu.quorum.ID:
			rest = append(rest, n)
		}
	}
	m.mu.early = rest
	return due
}

// quorumID is the quorum that n is about; 0: none.
func (n notice) quorumID() int64 {
	if n.Sibling != nil {
		return n.Sibling.QuorumID
	}
	switch n.Kind {
	case quorum.NoticeFallen, quorum.NoticeLost, quorum.NoticeWanted:
		return n.QuorumID
	}
	return 0
}

// fallen is told that a member joined with fall. What it committed, this rank
// may commit too if it is prepared for it with the same bytes.
func (m *Manager) fallen(n quorum.Notice) {
	m.mu.Lock()
	if m.mu.quorum != nil && m.mu.quorum.ID == n.QuorumID {
		m.mu.claim.Tell(n.Fact)
	}
	m.mu.Unlock()
	cause := fmt.Errorf("%w: %s joins the next", errFallen, n.About)
	if n.About == "" {
		cause = fmt.Errorf("%w while the lighthouse could not say so", errFallen)
	}
	m.fall(n.QuorumID, cause)
}

// changeWanted makes this rank's next ballot and vote say so.
func (m *Manager) changeWanted(id int64, reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.quorum == nil || m.mu.quorum.ID != id || !m.mu.standing {
		return
	}
	if m.mu.wanted == "" {
		m.mu.wanted = reason
		if reason == "" {
			m.mu.wanted = "the lighthouse"
		}
		m.log.Info().Int64(logkey.QuorumID, id).Str(logkey.Reason, reason).Msg("change wanted")
	}
}

// heard raises again the wishes that went unanswered.
func (m *Manager) heard() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wishLocked()
}

// wishLocked is what this replica itself wants a change for. One that has healed
// beside a step waits for its first commit with that, unless there can be none:
// those who take part are too few.
func (m *Manager) wishLocked() {
	a := m.mu.assign
	due := m.mu.position != a.Max || a.Divisor < m.cfg.MinReplicas
	switch {
	case m.mu.draining != "" && m.mu.quorum != nil && m.mu.quorum.Size() > 1:
		m.mu.wanted = "a replica drains" // it stays only until another holds its state
	case m.mu.outside && due && (m.cfg.FixedWorldSize == 0 || a.Divisor < m.cfg.FixedWorldSize):
		m.mu.wanted = "a healed replica wants to take part"
	}
}

// greeted checks what the replica's server says of the replica.
func (m *Manager) greeted(h *rankHello) {
	if h.GroupWorldSize != m.cfg.GroupWorldSize {
		m.setFinal(fmt.Errorf("manager: GroupWorldSize = %d, group rank 0 has %d",
			m.cfg.GroupWorldSize, h.GroupWorldSize))
	}
}

// evicted ends training: the others go on without this replica.
func (m *Manager) evicted(reason string) {
	err := fmt.Errorf("%w: %s", ErrEvicted, reason)
	m.log.Error().Str(logkey.Reason, reason).Msg("replica evicted")
	m.mu.Lock()
	id := m.mu.assign.QuorumID
	m.mu.Unlock()
	m.fallWith(id, err, false)
	if m.hub != nil {
		m.hub.server.fail(err)
	}
	m.setFinal(err)
}

// fall ends the standing quorum, if it is quorum id: everything pending in its
// group fails now, and the next quorum is asked for, beside the forward pass if
// need be.
func (m *Manager) fall(id int64, cause error) { m.fallWith(id, cause, true) }

func (m *Manager) fallWith(id int64, cause error, again bool) {
	m.mu.Lock()
	if m.mu.quorum == nil || m.mu.quorum.ID != id || !m.mu.standing {
		m.mu.Unlock()
		return
	}
	m.mu.standing = false
	epoch := pg.Epoch{Cluster: m.mu.quorum.Cluster, QuorumID: id}
	step := m.mu.position.Step + 1
	a := &m.mu.attempt
	switch r := m.mu.request; {
	case r != nil:
		r.kind = quorum.JoinFall
		r.stopLocked(errFallen)
	case a.closing: // ShouldCommit sees to it
	case m.blockingLocked():
		if a.open {
			m.failLocked(cause) // the next quorum begins with a StartQuorum that waits
		}
	case !again || m.mu.final != nil:
	case m.gone():
		m.goAwayLocked()
	default:
		m.requestLocked(quorum.JoinFall, a.opts)
	}
	if m.mu.heal != nil {
		m.mu.heal.stop(errFallen)
	}
	m.changedLocked()
	m.mu.Unlock()
	m.log.Warn().Err(cause).Int64(logkey.QuorumID, id).Int64(logkey.Step, step).Msg("quorum fell")
	m.managed.Abort(epoch, cause)
	m.events.emit(GroupBroken{QuorumID: id, Step: step, Cause: cause})
}

// accuse tells the lighthouse who broke this rank's group.
func (m *Manager) accuse(whom quorum.ReplicaID, id int64, evidence string) {
	m.accuseOf(whom, id, evidence, false)
}

// accuseOf is accuse, of a peer that could not even be reached.
func (m *Manager) accuseOf(whom quorum.ReplicaID, id int64, evidence string, unreachable bool) {
	a := quorum.Accusation{By: m.id, Against: whom, QuorumID: id, Evidence: evidence, Unreachable: unreachable}
	if m.tell(a) {
		m.log.Warn().Str(logkey.Peer, string(whom)).Int64(logkey.QuorumID, id).Msg("peer accused")
		m.events.emit(PeerLost{QuorumID: id, ReplicaID: string(whom), Why: evidence})
	}
}

// tell tells the lighthouse an accusation, once: the watch and the operations of
// one rank see one link break.
func (m *Manager) tell(a quorum.Accusation) bool {
	m.mu.Lock()
	known := slices.ContainsFunc(m.mu.accusations, func(old quorum.Accusation) bool {
		return old.Against == a.Against && old.QuorumID == a.QuorumID && old.Kind == a.Kind
	})
	if !known && len(m.mu.accusations) < maxAccusations {
		m.mu.accusations = append(m.mu.accusations, a)
	}
	m.mu.Unlock()
	if !known && m.hub != nil {
		m.hub.session.accuse(a)
	}
	return !known
}

// accuseOdd tells the lighthouse that a peer called something else than this rank
// in a collective. Whose call is the odd one it finds from all that it is told.
func (m *Manager) accuseOdd(whom quorum.ReplicaID, id int64, evidence string) {
	a := quorum.Accusation{By: m.id, Against: whom, QuorumID: id, Evidence: evidence, Kind: quorum.AccusedOdd}
	if whom != m.id && m.tell(a) {
		m.log.Warn().Str(logkey.Peer, string(whom)).Int64(logkey.QuorumID, id).Msg("peer called something else")
	}
}

// unhealed tells the lighthouse that this replica's heal failed, unless the quorum
// fell over it.
func (m *Manager) unhealed(id int64, err error) {
	if errors.Is(err, errFallen) || errors.Is(err, context.Canceled) {
		return
	}
	m.tell(quorum.Accusation{
		By: m.id, Against: m.id, QuorumID: id, Evidence: err.Error(), Kind: quorum.AccusedUnhealed,
	})
}

// maxAccusations bounds what one rank says about one quorum: one per member
// would do.
const maxAccusations = 64

// accuseFirst accuses if err says that a peer's link broke by itself.
func (m *Manager) accuseFirst(err error, id int64) {
	op, ok := errors.AsType[*pg.OpError](err)
	switch {
	case !ok || !op.First || op.PeerID == "" || op.QuorumID != id:
	case errors.Is(op, pg.ErrMismatch):
		m.accuseOdd(quorum.ReplicaID(op.PeerID), id, op.Error())
	default:
		m.accuse(quorum.ReplicaID(op.PeerID), id, op.Error())
	}
}

// listen passes notices on until ctx ends.
func (m *Manager) listen(ctx context.Context) error {
	return m.link.notices(ctx, m.noticed)
}
