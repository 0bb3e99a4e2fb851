package manager

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/quorum"
)

// staging is the making of one copy of this rank's state for others. The
// optimizer waits for it.
type staging struct {
	done chan struct{}
	stop context.CancelFunc // guarded by Manager.mu; nil before it runs
	off  bool               // guarded by Manager.mu: stopped before it ran
}

// versionOf names the state of a position.
func versionOf(p quorum.Position) checkpoint.Version {
	cluster := strings.Map(func(r rune) rune {
		if r <= ' ' || r == '\uFFFD' {
			return '_'
		}
		return r
	}, p.Cluster)
	return checkpoint.Version(fmt.Sprintf("%d-%d-%s", p.Step, p.QuorumID, cluster))
}

// stage copies the state for the members that heal, if the answer names this
// rank as a donor and the state is that of its position: between StartQuorum
// and the ballot. At any other time it waits for the next StartQuorum.
func (m *Manager) stage() {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := &m.mu.attempt
	if !m.mu.stageNext || !a.open || a.sealed || m.mu.staging != nil {
		return
	}
	if !m.mu.standing || m.mu.position != m.mu.assign.Max {
		return
	}
	m.mu.stageNext, m.mu.staged = false, true
	s := &staging{done: make(chan struct{})}
	m.mu.staging = s
	at, targets := m.mu.position, m.mu.assign.Healing
	id := m.mu.assign.QuorumID
	own := ownState{batches: m.mu.batches, digest: m.mu.digest}
	m.tasks.add(func(ctx context.Context) { m.serve(ctx, s, id, at, own, targets) })
}

// serve makes the copy.
func (m *Manager) serve(
	ctx context.Context, s *staging, id int64, at quorum.Position, own ownState, targets []quorum.Peer,
) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, m.timeouts.Heal)
	defer cancel()
	m.mu.Lock()
	s.stop = cancel
	if s.off {
		cancel()
	}
	m.mu.Unlock()
	state, err := m.states.save(own)
	if err == nil {
		err = m.transport.Serve(ctx, versionOf(at), state)
	}
	e := HealServed{QuorumID: id, Position: at, Took: time.Since(began), Err: err}
	for _, t := range targets {
		e.Targets = append(e.Targets, string(t.ReplicaID))
	}
	m.mu.Lock()
	m.mu.staging = nil
	if err == nil {
		m.mu.stats.HealsServed++
	}
	m.mu.stats.LastStage = e.Took
	close(s.done)
	m.changedLocked()
	m.mu.Unlock()
	if err != nil {
		m.log.Warn().Err(err).Int64(logkey.QuorumID, id).Msg("state not staged")
	} else {
		m.log.Info().Int64(logkey.QuorumID, id).Int64(logkey.Step, at.Step).Strs("targets", e.Targets).
			Dur(logkey.ElapsedMs, e.Took).Msg("state staged")
	}
	m.events.emit(e)
}

// unstageLocked drops a copy that nobody needs any more.
func (m *Manager) unstageLocked() {
	if !m.mu.staged || m.mu.stageNext {
		return
	}
	m.mu.staged = false
	m.tasks.add(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, m.timeouts.Heal)
		defer cancel()
		if err := m.transport.Disallow(ctx); err != nil {
			m.log.Debug().Err(err).Msg("staged state cut off")
		}
	})
}

// awaitStaging waits until no copy is being made, for then the trainer may
// change the state. When ctx ends it stops the copy, which lets go of the
// tensors; those who heal ask again at the next step.
func (m *Manager) awaitStaging(ctx context.Context) {
	m.mu.Lock()
	s, stopped := m.mu.staging, m.mu.stopped
	m.mu.Unlock()
	if s == nil {
		return
	}
	select {
	case <-s.done:
		return
	case <-stopped:
		return
	case <-ctx.Done():
	}
	m.mu.Lock()
	s.off = true
	if s.stop != nil {
		s.stop()
	}
	m.mu.Unlock()
	select {
	case <-s.done:
	case <-stopped:
	}
}
