package manager

import (
	"context"
	"errors"

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
	for _, op := range firstCauses(err) {
		if !blames(op, a.QuorumID) {
			continue
		}
		cut := errors.Is(op, pg.ErrUnreachable)
		m.accuse(quorum.ReplicaID(op.PeerID), a.QuorumID, op.Error(), cut)
		if cut {
			m.probes.Probe(quorum.ReplicaID(op.PeerID), prober.Group, func(ctx context.Context) error {
				err := pg.Probe(ctx, m.managed, op.PeerID)
				if errors.Is(err, pg.ErrUnsupported) {
					return prober.ErrCannot
				}
				return err
			})
		}
	}
	if lost := noStore(err); lost != nil && a.Primary != m.id {
		cut := errors.Is(lost, pg.ErrUnreachable)
		m.accuse(a.Primary, a.QuorumID, lost.Error(), cut)
		if cut {
			m.probes.Probe(a.Primary, prober.Store, func(ctx context.Context) error {
				return pg.ProbeStore(ctx, pg.DefaultReachTimeout, a.StoreAddress)
			})
		}
	}
}

// firstCauses are the errors within err that accuse a peer.
func firstCauses(err error) (all []*pg.OpError) {
	switch op, ok := err.(*pg.OpError); {
	case ok && op.First:
		return []*pg.OpError{op}
	case ok:
		return nil // another rank's word
	}
	for _, e := range unwrapped(err) {
		all = append(all, firstCauses(e)...)
	}
	return all
}

// noStore is the part of err that says that there is no store; nil: none does.
func noStore(err error) error {
	if !errors.Is(err, pg.ErrNoStore) {
		return nil
	}
	for _, e := range unwrapped(err) {
		if e != pg.ErrNoStore && errors.Is(e, pg.ErrNoStore) {
			return noStore(e)
		}
	}
	return err
}

func unwrapped(err error) []error {
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return []error{inner}
		}
	case interface{ Unwrap() []error }:
		return e.Unwrap()
	}
	return nil
}
