package manager

import (
	"fmt"
	"strings"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/quorum"
)

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

// serve lets others read the trainer's tensors, until it may change them: from
// the end of StartQuorum to that of ShouldCommit. They are the state of the
// position that this rank is at now; a step that is settled before ShouldCommit
// returns is not in them yet. Those who heal in this quorum are done by then,
// because their ballots are waited for.
func (m *Manager) serve() {
	m.mu.Lock()
	at := m.mu.position
	own := ownState{batches: m.mu.batches, digest: m.mu.digest}
	m.mu.Unlock()
	save := func() (checkpoint.State, error) { return m.states.save(own) }
	if err := m.transport.Serve(versionOf(at), save); err != nil {
		m.log.Debug().Err(err).Msg("state not served")
	}
}

// tellServed tells of an answer that makes this rank a donor.
func (m *Manager) tellServed(a quorum.Assignment) {
	if !a.Donor || len(a.Healing) == 0 {
		return
	}
	m.mu.Lock()
	m.mu.stats.HealsServed++
	m.mu.Unlock()
	e := HealServed{QuorumID: a.QuorumID, Position: a.Max}
	for _, t := range a.Healing {
		e.Targets = append(e.Targets, string(t.ReplicaID))
	}
	m.log.Info().Int64(logkey.QuorumID, a.QuorumID).Int64(logkey.Step, a.Max.Step).
		Strs("targets", e.Targets).Msg("state served")
	m.events.emit(e)
}

// givingLocked says whether others may still heal from this rank in the quorum
// that stands.
func (m *Manager) givingLocked() bool {
	a := m.mu.assign
	return m.mu.standing && a.Donor && len(a.Healing) > 0 && m.mu.position == a.Max
}
