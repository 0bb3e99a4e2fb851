package manager

import (
	"fmt"
	"strings"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/manager/internal/state"
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

// capture copies what the trainer changes in its forward pass.
func (m *Manager) capture() error {
	c, err := m.states.Capture()
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.heals.captured = c
	return nil
}

// serve lets others read the trainer's tensors, until it may change them: from
// the end of StartQuorum to that of ShouldCommit. They are the state of the
// position that this rank is at now; a step that is settled before ShouldCommit
// returns is not in them yet. Those who heal in this quorum are done by then,
// because their ballots are waited for.
//
// Tensors that hold parts of several states are served under no position. The
// replica is said to be where it was all the same, for the bytes of that position
// are kept beside, and come back before anybody computes with them: in the quorum of
// those who are left it may be the only one that has them. (Were it said to be
// nowhere, it would heal from a fresh replica, and a job that began from a file
// would be at step 0.)
func (m *Manager) serve() {
	m.mu.Lock()
	at, of := m.mu.rank.Position(), m.mu.heals.captured
	none := m.mu.rank.Differs() || m.mixedLocked()
	own := state.Own{Batches: m.mu.rank.Batches(), Digest: m.mu.rank.Digest()}
	m.mu.Unlock()
	if none {
		return // it is not the state of its position
	}
	save := func() (checkpoint.State, error) { return m.states.Save(own, of), nil }
	if err := m.transport.Serve(versionOf(at), save); err != nil {
		m.log.Debug().Err(err).Msg("state not served")
	}
}

// tellServed tells of an answer that makes this rank a donor.
func (m *Manager) tellServed(a *quorum.Assignment) {
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
	m.events.Emit(e)
}
