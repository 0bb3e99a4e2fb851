// Package managedtest has managers as pg.Managed sees them, which a test moves by hand,
// and worlds of members that have them.
package managedtest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
)

// Manager is the pg.Participation of one member.
type Manager struct {
	mu       sync.Mutex
	attempt  int64
	roster   pg.Roster
	known    bool
	changed  chan struct{}
	errs     map[int64][]error
	hopeless error // what WaitRoster returns instead of waiting
	passing  pg.Roster
	passes   int // how often passing is still told
}

// New makes the manager of a member, in an attempt of which the participants are known.
func New(worldSize, rank int, participants ...int) *Manager {
	return &Manager{
		attempt: 1, known: true, changed: make(chan struct{}), errs: map[int64][]error{},
		roster: pg.Roster{Rank: rank, WorldSize: worldSize, Participants: participants},
	}
}

// Begin starts the next attempt, whose roster is not known yet.
func (m *Manager) Begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.attempt++
	m.known, m.hopeless = false, nil
}

// Settle makes the roster known, or fails those who wait for it.
func (m *Manager) Settle(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known, m.hopeless = err == nil, err
	close(m.changed)
	m.changed = make(chan struct{})
}

// Choose sets who takes part.
func (m *Manager) Choose(participants ...int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.roster.Participants = participants
}

// Fall lets a quorum of other participants be told so many times, before it falls and
// the one that was chosen follows in the same attempt.
func (m *Manager) Fall(times int, participants ...int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.passes, m.passing = times, m.roster
	m.passing.Participants = participants
}

// Reported are the errors of the attempt under way.
func (m *Manager) Reported() []error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.errs[m.attempt])
}

// Attempt implements pg.Participation.
func (m *Manager) Attempt() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.attempt
}

// Roster implements pg.Participation.
func (m *Manager) Roster(attempt int64) (pg.Roster, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case !m.known || attempt != m.attempt:
		return pg.Roster{}, false
	case m.passes > 0:
		m.passes--
		return m.passing, true
	}
	return m.roster, true
}

// WaitRoster implements pg.Participation.
func (m *Manager) WaitRoster(ctx context.Context, attempt int64) (pg.Roster, error) {
	for {
		if known, ok := m.Roster(attempt); ok {
			return known, nil
		}
		m.mu.Lock()
		changed, hopeless, over := m.changed, m.hopeless, attempt != m.attempt
		m.mu.Unlock()
		if over {
			return pg.Roster{}, fmt.Errorf("attempt %d is over", attempt)
		}
		if hopeless != nil {
			return pg.Roster{}, hopeless
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return pg.Roster{}, context.Cause(ctx)
		}
	}
}

// ReportError implements pg.Participation.
func (m *Manager) ReportError(attempt int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if attempt == m.attempt {
		m.errs[attempt] = append(m.errs[attempt], err)
	}
}

// Errored implements pg.Participation.
func (m *Manager) Errored(attempt int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return attempt != m.attempt || len(m.errs[attempt]) > 0
}

// World is a world of managed members with their managers, in which some take part.
func World(t *testing.T, worldSize int, participants ...int) (*pgtest.World, []*Manager) {
	t.Helper()
	everybody := make([]int, worldSize)
	for i := range everybody {
		everybody[i] = i
	}
	var managers []*Manager
	w := pgtest.MemoryWorld(t, worldSize, func(b pg.Backend) pg.Backend {
		m := New(worldSize, len(managers), everybody...) // all, so that World's own checks hold
		managers = append(managers, m)
		return pg.NewManaged(b, m)
	})
	for _, m := range managers {
		m.Choose(participants...)
	}
	return w, managers
}
