package manager

import (
	"context"
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/quorum"
)

// Drain asks to leave: the step under way is finished, the others form a quorum
// without this replica, and then StartQuorum or ShouldCommit returns
// ErrDrained. Until then, and for as long as the others still fetch from it,
// this replica goes on training and serving. Wire SIGTERM to it. One rank's
// call drains the whole replica; in ranks above 0 it waits for rank 0's. Any
// goroutine may call it, repeatedly; it does not block.
func (m *Manager) Drain() {
	if !m.drain("asked to") || m.hub == nil {
		return
	}
	m.tasks.add(m.tellDrain)
}

// drain notes that this replica leaves; false if it knew.
func (m *Manager) drain(reason string) bool {
	if reason == "" {
		reason = "an operator"
	}
	m.mu.Lock()
	if m.mu.draining != "" {
		m.mu.Unlock()
		return false
	}
	m.mu.draining = reason
	m.mu.Unlock()
	m.log.Info().Str(logkey.Reason, reason).Msg("draining")
	m.events.emit(Draining{Reason: reason})
	return true
}

// tellDrain tells the lighthouse until it has heard. When the others do not go
// on without this replica in time, it leaves all the same.
func (m *Manager) tellDrain(ctx context.Context) {
	deadline := time.NewTimer(m.timeouts.Drain)
	defer deadline.Stop()
	told := false
	for extended := false; ; {
		if !told {
			err := m.sendDrain(ctx)
			if told = err == nil; !told {
				m.log.Debug().Err(err).Msg("lighthouse not told of the drain")
			}
		}
		m.mu.Lock()
		final, donor := m.mu.final, m.mu.staged
		changed := m.mu.changed
		m.mu.Unlock()
		if final != nil {
			return
		}
		var again <-chan time.Time
		if !told {
			again = time.After(firstPause * 5)
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-again:
		case <-deadline.C:
			if donor && !extended {
				extended = true
				deadline.Reset(m.timeouts.Heal)
				continue
			}
			m.hub.server.fail(fmt.Errorf("%w: nobody took over within %v", ErrDrained, m.timeouts.Drain))
			m.setFinal(ErrDrained)
			return
		}
	}
}

// sendDrain calls the lighthouse.
func (m *Manager) sendDrain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.timeouts.Call)
	defer cancel()
	addr := m.hub.session.order()[0]
	conn, err := dialPeer(addr)
	if err != nil {
		return fmt.Errorf("dial %s: %w", addr, err)
	}
	defer conn.Close() //nolint:errcheck // nothing is lost with it
	_, err = skerrypb.NewLighthouseClient(conn).Drain(ctx, &skerrypb.DrainRequest{
		Job: m.cfg.Job, ReplicaId: string(m.id), Reason: "asked to",
	})
	return fromStatus(err)
}

// lookAgain is how often a replica that leaves looks whether the others have
// closed their links to it.
const lookAgain = 20 * time.Millisecond

// leave serves the others until their next group is there, which ends this
// one's, or the linger time has passed; then it says goodbye. Later calls do
// nothing.
func (m *Manager) leave(ctx context.Context) {
	m.mu.Lock()
	left, ready := m.mu.left, m.mu.ready
	m.mu.left = true
	m.mu.phase = quorum.PhaseDraining
	m.mu.Unlock()
	if left || m.hub == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, m.timeouts.Linger)
	defer cancel()
	for ready && m.managed.Err() == nil && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(lookAgain):
		}
	}
	if err := m.transport.Disallow(ctx); err != nil {
		m.log.Debug().Err(err).Msg("staged state cut off")
	}
	m.sayGoodbye()
	m.log.Info().Msg("drained")
}
