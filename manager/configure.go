package manager

import (
	"context"
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/internal/failpoint"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/quorum"
)

// configure makes the group ready for the standing quorum. A quorum that only
// got a new round keeps its group.
func (m *Manager) configure(ctx context.Context) error {
	m.mu.Lock()
	q, a := m.mu.rank.Quorum(), m.mu.rank.Assignment()
	epoch := pg.Epoch{Cluster: q.Cluster, QuorumID: q.ID}
	keep := m.mu.rank.Ready() && m.mu.group == epoch
	m.mu.phase = quorum.PhaseConfiguring
	m.mu.Unlock()
	m.shareToken(q.Token)
	if keep && m.managed.Err() == nil {
		m.managed.SetRound(q.Round)
		return m.configuredFor(q, false, 0)
	}
	failpoint.At(ctx, failpoint.ConfigureBefore)
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, m.timeouts.Configure)
	defer cancel()
	if err := m.managed.Configure(ctx, m.groupConfig(q, a)); err != nil {
		err = fmt.Errorf("configure the group of quorum %d: %w", q.ID, err)
		m.accuseUnmet(err, a)
		m.fall(q.ID, err)
		return err
	}
	took := time.Since(began)
	failpoint.At(ctx, failpoint.ConfigureAfter)
	return m.configuredFor(q, true, took)
}

// configuredFor notes that the group is ready, unless the quorum fell
// meanwhile; anew: it is another group than before. A clock may not have moved in
// the time that this took.
func (m *Manager) configuredFor(q *quorum.Quorum, anew bool, took time.Duration) error {
	m.mu.Lock()
	m.mu.group = pg.Epoch{Cluster: q.Cluster, QuorumID: q.ID}
	if !m.mu.rank.Configured() {
		m.mu.Unlock()
		return errFallen
	}
	a := m.mu.rank.Assignment()
	if anew {
		m.watchLocked(m.mu.group)
		m.mu.stats.Reconfigures++
		m.mu.stats.LastReconfigure = took
	}
	m.mu.Broadcast()
	m.mu.Unlock()
	m.probes.Reached(a.ReplicaIDs...)
	m.probes.Reached(a.Primary) // which has another name there, in a quorum of thousands
	if anew {
		m.log.Info().Int64(logkey.QuorumID, q.ID).Dur(logkey.ElapsedMs, took).Msg("group configured")
		m.events.Emit(Configured{QuorumID: q.ID, Took: took})
	}
	return nil
}

// groupConfig says which group this rank is part of in q.
func (m *Manager) groupConfig(q *quorum.Quorum, a *quorum.Assignment) pg.Config {
	c := pg.Config{
		StoreAddress:   a.StoreAddress + "/" + quorum.StorePrefix(q, m.cfg.GroupRank),
		Rank:           a.ReplicaRank,
		Cluster:        q.Cluster,
		QuorumID:       q.ID,
		Round:          q.Round,
		GroupRank:      m.cfg.GroupRank,
		GroupWorldSize: m.cfg.GroupWorldSize,
		Timeout:        m.timeouts.Step,
		ReachTimeout:   pg.DefaultReachTimeout,
		MeetTimeout:    max(m.timeouts.Configure/meetShare, pg.DefaultReachTimeout),
	}
	for _, id := range a.ReplicaIDs {
		c.ReplicaIDs = append(c.ReplicaIDs, string(id))
	}
	if q.Token != (quorum.Token{}) {
		c.Token = q.Token[:]
	}
	c.TLS = m.dataTLS
	return c
}

// shareToken lets the heal transport prove and check the quorum's secret.
func (m *Manager) shareToken(t quorum.Token) {
	if s, ok := m.transport.(checkpoint.TokenSetter); ok && t != (quorum.Token{}) {
		s.SetToken(t[:])
	}
}
