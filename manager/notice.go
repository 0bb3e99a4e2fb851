package manager

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/manager/internal/replica"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/quorum"
)

// noticed takes in what the replica's server pushes.
func (m *Manager) noticed(n replica.Notice) {
	switch {
	case n.Hello != nil:
		m.checkHello(n.Hello)
		return
	case n.LighthouseBack:
		m.mu.Lock()
		m.mu.rank.HearAgain() // raises again the wishes that went unanswered
		m.mu.Unlock()
		return
	case n.Kind == quorum.NoticeFallen && n.Sibling == nil && m.needed():
		return
	case n.Sibling != nil:
		m.takeNotice(quorum.Notice{
			Kind: quorum.NoticeSibling, QuorumID: n.Sibling.QuorumID,
			Reason: fmt.Sprintf("group rank %d: %s", n.Sibling.GroupRank, n.Sibling.Cause),
		})
	default:
		m.takeNotice(n.Notice)
	}
}

// takeNotice does what a notice means for this rank.
func (m *Manager) takeNotice(n quorum.Notice) {
	m.mu.Lock()
	means := m.mu.rank.Hear(n)
	m.mu.Unlock()
	if n.Kind == quorum.NoticeLost && means != quorum.HeardEarly {
		err := lossOf(n)
		m.log.WithLevel(levelOf(err, false)).Str(logkey.Peer, string(n.About)).Int64(logkey.QuorumID, n.QuorumID).
			Str(logkey.Reason, n.Reason).Msg(err.Error())
		m.events.Emit(PeerLost{QuorumID: n.QuorumID, ReplicaID: string(n.About), Why: n.Reason})
	}
	switch {
	case means == quorum.HeardFall:
		m.fall(n.QuorumID, fallCause(n))
	case means == quorum.HeardWanted:
		m.log.Info().Int64(logkey.QuorumID, n.QuorumID).Str(logkey.Reason, n.Reason).Msg("change wanted")
	case n.Kind == quorum.NoticeDrain:
		m.drain(n.Reason)
	case n.Kind == quorum.NoticeStay:
		m.stay(n.Reason, -1)
	case n.Kind == quorum.NoticeEvict:
		m.evicted(n.Reason)
	}
}

// fallCause is why a notice ends the quorum.
func fallCause(n quorum.Notice) error {
	switch {
	case n.Kind == quorum.NoticeSibling:
		return fmt.Errorf("%w: %s", errSibling, n.Reason)
	case n.Kind == quorum.NoticeLost:
		return fmt.Errorf("%w: %s: %s", lossOf(n), n.About, n.Reason)
	case n.About == "":
		return fmt.Errorf("%w while the lighthouse could not say so", errFallen)
	}
	return fmt.Errorf("%w, as %s says", errFallen, n.About)
}

// lossOf says whether a member was lost, or left in good order. A lighthouse of an older version
// has words for it alone.
func lossOf(n quorum.Notice) error {
	said := n.Reason == "left" || strings.HasPrefix(n.Reason, "left: ")
	if n.Cause.Orderly() || n.Cause == quorum.CauseUnknown && said {
		return errLeft
	}
	return errLost
}

// levelOf is how loud a cause is in the log: members leave, and replicas drain, on purpose.
func levelOf(cause error, draining bool) zerolog.Level {
	if draining || errors.Is(cause, errLeft) || errors.Is(cause, ErrDrained) {
		return zerolog.InfoLevel
	}
	return zerolog.WarnLevel
}

// checkHello checks what the replica's server says of the replica.
func (m *Manager) checkHello(h *replica.RankHello) {
	if h.GroupWorldSize != m.cfg.GroupWorldSize {
		m.setFinal(fmt.Errorf("manager: GroupWorldSize = %d, group rank 0 has %d",
			m.cfg.GroupWorldSize, h.GroupWorldSize))
	}
}

// evicted ends training: the others go on without this replica.
func (m *Manager) evicted(reason string) {
	err := fmt.Errorf("%w: %s", ErrEvicted, reason)
	m.mu.Lock()
	id := m.mu.rank.QuorumID()
	m.mu.Unlock()
	m.log.Error().Int64(logkey.QuorumID, id).Str(logkey.Reason, reason).Msg("replica evicted")
	m.fallWith(id, err, false)
	if m.replica != nil {
		m.replica.End(err)
	}
	m.setFinal(err)
}

// fall ends the standing quorum, if it is quorum id: everything pending in its
// group fails now, and the next quorum is asked for, beside the forward pass if
// need be.
func (m *Manager) fall(id int64, cause error) { m.fallWith(id, cause, true) }

func (m *Manager) fallWith(id int64, cause error, again bool) {
	m.mu.Lock()
	if !m.mu.rank.Fall(id) {
		m.mu.Unlock()
		return
	}
	epoch := pg.Epoch{Cluster: m.mu.rank.Quorum().Cluster, QuorumID: id}
	step, draining := m.mu.rank.Position().Step+1, m.mu.rank.Draining() != ""
	m.mu.incident.Fell(time.Now(), id, ownWord(cause))
	a := &m.mu.attempt
	switch r := m.mu.request; {
	case r != nil:
		r.stopLocked(errFallen)
	case a.closing:
		// ShouldCommit sees to it. Nothing will ask for the quorum that operations still
		// wait for, so they end; without a ballot the attempt is lost in any case. (They
		// waited for as long as a step may, and the others formed quorums without it.)
		if !m.mu.rank.Sealed() && m.openLocked() {
			m.failLocked(cause)
		}
	case m.mu.rank.Blocks():
		if m.openLocked() {
			m.failLocked(cause) // the next quorum begins with a StartQuorum that waits
		}
		if again && m.mu.final == nil {
			m.awaitStart(id)
		}
	case !again || m.mu.final != nil:
	case m.gone() && m.goAwayLocked():
	default:
		m.needLocked(a.opts)
	}
	if m.mu.heals.current != nil {
		m.mu.heals.current.stop(errFallen)
	}
	m.mu.Broadcast()
	m.mu.Unlock()
	m.log.WithLevel(levelOf(cause, draining)).Err(cause).Int64(logkey.QuorumID, id).Int64(logkey.Step, step).Msg("quorum fell")
	m.managed.Abort(epoch, cause)
	m.events.Emit(GroupBroken{QuorumID: id, Step: step, Cause: cause})
}

// ownWord is the cause of a fall as the lighthouse is told it: nothing, if others told it here.
func ownWord(cause error) string {
	if errors.Is(cause, errSibling) || errors.Is(cause, errLost) || errors.Is(cause, errLeft) || errors.Is(cause, errFallen) {
		return ""
	}
	return cause.Error()
}

// accuse tells the lighthouse who broke this rank's group, or could not even be reached.
func (m *Manager) accuse(whom quorum.ReplicaID, id int64, evidence string, unreachable bool) {
	a := quorum.Accusation{By: m.id, Against: whom, QuorumID: id, Evidence: evidence, Unreachable: unreachable}
	if m.tell(a) {
		m.log.Warn().Str(logkey.Peer, string(whom)).Int64(logkey.QuorumID, id).Str(logkey.Reason, evidence).Msg("peer accused")
		m.events.Emit(PeerLost{QuorumID: id, ReplicaID: string(whom), Why: evidence})
	}
}

// tell tells the lighthouse an accusation, once: the watch and the operations of
// one rank see one link break.
func (m *Manager) tell(a quorum.Accusation) bool {
	m.mu.Lock()
	news := m.mu.rank.Accuse(a)
	m.mu.Unlock()
	if news && m.replica != nil {
		m.replica.Accuse(a)
	}
	return news
}

// accuseOdd tells the lighthouse that a peer called something else than this rank
// in a collective. Whose call is the odd one it finds from all that it is told.
func (m *Manager) accuseOdd(whom quorum.ReplicaID, id int64, evidence string) {
	a := quorum.Accusation{By: m.id, Against: whom, QuorumID: id, Evidence: evidence, Kind: quorum.AccusedOdd}
	if whom != m.id && m.tell(a) {
		m.log.Warn().Str(logkey.Peer, string(whom)).Int64(logkey.QuorumID, id).Str(logkey.Reason, evidence).Msg("peer called something else")
	}
}

// unhealed tells the lighthouse that this replica's heal failed, unless another quorum
// came meanwhile, or the group broke: a donor's death ends a heal before it is known
// to have ended the quorum, and is not the healer's fault.
func (m *Manager) unhealed(id int64, err error) {
	if errors.Is(err, errFallen) || errors.Is(err, errSuperseded) || errors.Is(err, context.Canceled) ||
		m.managed.Err() != nil {
		return
	}
	m.tell(quorum.Accusation{
		By: m.id, Against: m.id, QuorumID: id, Evidence: err.Error(), Kind: quorum.AccusedUnhealed,
	})
}

// accuseFirst accuses if err says that a peer's link broke by itself.
func (m *Manager) accuseFirst(err error, id int64) {
	op, ok := errors.AsType[*pg.OpError](err)
	switch {
	case !ok || !op.First || !blames(op, id):
	case errors.Is(op, pg.ErrMismatch):
		m.accuseOdd(quorum.ReplicaID(op.PeerID), id, op.Error())
	default:
		m.accuse(quorum.ReplicaID(op.PeerID), id, op.Error(), false)
	}
}

// blames says that an error names a peer of quorum id's group. One of an older group
// accuses nobody: its links have ended with it.
func blames(op *pg.OpError, id int64) bool { return op.PeerID != "" && op.QuorumID == id }

// linkEnded ends training in this rank because its link to the replica's server
// has ended for good; the operations that wait for other ranks end too.
func (m *Manager) linkEnded(err error) {
	m.mu.Lock()
	over, id := m.mu.final != nil, m.mu.rank.QuorumID()
	m.mu.Unlock()
	if over {
		return
	}
	m.log.Error().Err(err).Msg("replica ended")
	m.fallWith(id, err, false)
	m.setFinal(err)
}
