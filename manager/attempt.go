package manager

import (
	"context"
	"errors"
	"fmt"

	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/monitor"
	"github.com/skerry-ft/skerry/pg"
)

// attempt is what goroutines wait for in one try at a step, from StartQuorum to the
// end of ShouldCommit; what it means is quorum.Rank's. What belongs to one attempt
// never touches the next.
type attempt struct {
	closing      bool // ShouldCommit was called, and has not returned
	changes      bool // its ballots wanted another quorum, which is asked for
	waiting      bool // its StartQuorum waits, or gave up waiting, for the quorum and the heal
	opts         StartOptions
	err          error // why it has failed; the first one counts
	cut          bool  // its operations are not worth issuing: the others will not meet them
	siblingEnded bool  // a sibling has ended it: this rank has only to vote
}

// openLocked says that StartQuorum was called, and ShouldCommit has not returned.
func (m *Manager) openLocked() bool {
	_, open := m.mu.rank.Attempt()
	return open
}

// participation is the Manager as pg.Managed sees it.
type participation struct {
	m *Manager
}

// Attempt implements pg.Participation.
func (p participation) Attempt() int64 {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	number, _ := p.m.mu.rank.Attempt()
	return int64(number)
}

// Roster implements pg.Participation.
func (p participation) Roster(attempt int64) (pg.Roster, bool) {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	return p.m.rosterLocked(attempt)
}

// WaitRoster implements pg.Participation. An operation waits for the quorum of
// its attempt no longer than ShouldCommit does: a trainer that blocks in it would
// never come to ShouldCommit.
func (p participation) WaitRoster(ctx context.Context, attempt int64) (r pg.Roster, over error) {
	err := p.m.mu.Await(ctx, p.m.timeouts.Quorum, func() (there bool) {
		over = p.m.overLocked(attempt)
		r, there = p.m.rosterLocked(attempt)
		return there || over != nil
	})
	switch {
	case errors.Is(err, monitor.ErrTimeout):
		return pg.Roster{}, p.m.noQuorum()
	case err != nil:
		return pg.Roster{}, fmt.Errorf("wait for the quorum of attempt %d: %w", attempt, err)
	case over != nil:
		return pg.Roster{}, over
	}
	return r, nil
}

// noQuorum is why an attempt fails whose quorum does not come.
func (m *Manager) noQuorum() error {
	return fmt.Errorf("%w: waited %v", errNoQuorum, m.timeouts.Quorum)
}

// ReportError implements pg.Participation.
func (p participation) ReportError(attempt int64, err error) { p.m.opFailed(attempt, err) }

// Errored implements pg.Participation.
func (p participation) Errored(attempt int64) bool {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	return p.m.overLocked(attempt) != nil
}

// rosterLocked is the roster of an attempt whose quorum is there and settled.
func (m *Manager) rosterLocked(number int64) (pg.Roster, bool) {
	if !m.mu.rank.Trying(uint64(number)) || !m.mu.rank.Usable() {
		return pg.Roster{}, false
	}
	q := m.mu.rank.Quorum()
	return pg.Roster{
		Rank: m.mu.rank.Assignment().ReplicaRank, WorldSize: q.Size(), Participants: q.ParticipantRanks(),
	}, true
}

// overLocked says why operations of an attempt are not worth issuing any more.
func (m *Manager) overLocked(number int64) error {
	switch {
	case m.mu.final != nil:
		return m.mu.final
	case !m.mu.rank.Trying(uint64(number)):
		return fmt.Errorf("attempt %d is over", number)
	case m.mu.attempt.cut:
		return m.mu.attempt.err
	}
	return nil
}

// reportLocked marks the attempt under way as one to be discarded; the first
// error counts. Its operations go on: the others wait for them, and learn of the
// error from the ballot, in a group that is well.
func (m *Manager) reportLocked(err error) {
	a := &m.mu.attempt
	if !m.openLocked() {
		m.log.Debug().Err(err).Msg("late error ignored")
		return
	}
	m.mu.rank.Fail()
	if a.err != nil {
		return
	}
	a.err = err
	m.log.WithLevel(levelOf(err, m.mu.rank.Draining() != "")).Err(err).Int64(logkey.Step, m.mu.rank.Position().Step+1).
		Int64(logkey.QuorumID, m.mu.rank.QuorumID()).Msg("step failed")
	m.mu.Broadcast()
}

// fail is failLocked for callers without the lock.
func (m *Manager) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failLocked(err)
}

// failLocked marks the attempt under way as one to be discarded whose operations
// lead nowhere any more.
func (m *Manager) failLocked(err error) {
	m.reportLocked(err)
	if a := &m.mu.attempt; m.openLocked() && !a.cut {
		a.cut = true
		m.mu.rank.Cut()
		m.mu.Broadcast()
	}
}

// opFailed takes in the error of an operation. One of an earlier attempt marks
// nothing. One that broke the group ends the quorum.
func (m *Manager) opFailed(number int64, err error) {
	m.mu.Lock()
	if !m.mu.rank.Trying(uint64(number)) {
		m.mu.Unlock()
		m.log.Debug().Err(err).Msg("late error ignored")
		return
	}
	m.failLocked(err)
	id := m.mu.rank.QuorumID()
	m.mu.Unlock()
	m.brokeWith(id, err)
}
