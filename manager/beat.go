package manager

import "github.com/skerry-ft/skerry/quorum"

// beat is what the session tells the lighthouse each interval.
func (m *Manager) beat() quorum.Beat {
	busy := m.tracked.busy()
	m.mu.Lock()
	defer m.mu.Unlock()
	b := quorum.Beat{
		Position: m.mu.rank.Position(), QuorumID: m.mu.rank.QuorumID(), Ballots: m.mu.rank.Ballots(), Phase: m.mu.phase,
		Progress: m.presence.moves.Load(),
	}
	b.Own, b.Wait = m.metrics.Pace()
	b.HealBytes, b.Discarded = m.healBytes.Load(), m.mu.stats.Discards
	if in := m.mu.heals.incoming; in != nil {
		b.HealTotal = uint64(in.Mirror.Bytes())
	}
	b.Waits = busy || m.balloting.Load() > 0 || m.waitsLocked()
	if m.mu.rank.Draining() != "" {
		b.Phase = quorum.PhaseDraining
	}
	return b
}

// waitsLocked says that this replica waits for others: for an answer, a state, or
// a settlement. A heal that waits for the next loan of the tensors waits for its own
// trainer, which may hang. Where it waits for its own ranks it cannot tell whether these
// compute or wait; it is taken to wait.
func (m *Manager) waitsLocked() bool {
	if h := m.mu.heals.current; h != nil {
		select {
		case <-h.done:
		default:
			return m.mu.heals.loan != nil
		}
	}
	voting := m.cfg.GroupWorldSize > 1 && m.mu.phase == quorum.PhaseBalloting
	return voting || m.mu.phase == quorum.PhaseSettling || m.mu.request != nil
}
