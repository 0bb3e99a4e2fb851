package manager

import (
	"context"
	"errors"
	"fmt"

	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/monitor"
	"github.com/skerry-ft/skerry/quorum"
)

// settle asks the lighthouse what became of a step that this replica promised:
// the next quorum says so, for all who were prepared (C5, C6). At the deadline
// the promise is given up, and an answer that would count on it is not taken up.
func (m *Manager) settle(ctx context.Context, v verdict) (verdict, error) {
	v.settled = true
	if v.cause == nil {
		v.cause = errFallen
	}
	m.mu.Lock()
	m.mu.phase = quorum.PhaseSettling
	m.mu.Unlock()
	m.log.Info().Int64(logkey.QuorumID, v.id).Msg("step prepared, waiting for the settlement")
	m.fall(v.id, v.cause)
	m.renew()
	settled := false
	err := m.await(ctx, "the settlement", m.timeouts.Settle, func() bool {
		v.Commit, settled = m.mu.rank.Settled()
		return settled
	})
	switch {
	case settled:
		return v, nil
	case errors.Is(err, monitor.ErrTimeout):
		err = nil
	}
	return m.giveUp(v, err)
}

// giveUp takes the promise back, because of err or because it takes too long,
// unless it was settled in this very moment: then that is what became of it.
func (m *Manager) giveUp(v verdict, err error) (verdict, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if forward, settled := m.mu.rank.GiveUp(); settled {
		v.Commit = forward
		return v, nil
	}
	if r := m.mu.request; r != nil {
		r.stopLocked(errRestarted)
	}
	v.settled = false
	if err != nil {
		return v, err
	}
	v.cause = fmt.Errorf("not settled within %v: %w", m.timeouts.Settle, v.cause)
	m.log.Warn().Int64(logkey.QuorumID, v.id).Msg("prepared step given up")
	return v, nil
}
