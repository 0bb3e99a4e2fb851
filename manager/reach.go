package manager

import (
	"context"
	"errors"

	"github.com/skerry-ft/skerry/manager/internal/blame"
	"github.com/skerry-ft/skerry/manager/internal/prober"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/quorum"
)

// This file tells the lighthouse of links that are cut (PROTOCOL §6), and has package
// prober tell it when they hold again. The rules are Machine.Accuse's.

// meetShare is which part of the time for a Configure members have to come.
const meetShare = 3

// accuseUnmet accuses those because of whom the group of a quorum could not be
// configured: peers that could not be reached or did not come, and the member whose
// store could not be reached. The first are tried again from now on, beside
// whatever else happens.
func (m *Manager) accuseUnmet(err error, a *quorum.Assignment) {
	for _, op := range blame.First(err) {
		if !blames(op, a.QuorumID) {
			continue
		}
		cut := errors.Is(op, pg.ErrUnreachable)
		m.accuse(quorum.ReplicaID(op.PeerID), a.QuorumID, op.Error(), cut)
		if cut {
			m.probes.Probe(quorum.ReplicaID(op.PeerID), prober.Group, func(ctx context.Context) error { return pg.Probe(ctx, m.managed, op.PeerID) })
		}
	}
	if lost := blame.NoStore(err); lost != nil && a.Primary != m.id {
		cut := errors.Is(lost, pg.ErrUnreachable)
		m.accuse(a.Primary, a.QuorumID, lost.Error(), cut)
		if cut {
			m.probes.Probe(a.Primary, prober.Store, func(ctx context.Context) error {
				return pg.ProbeStore(ctx, pg.DefaultReachTimeout, a.StoreAddress)
			})
		}
	}
}
