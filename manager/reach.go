package manager

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/quorum"
)

// This file tells the lighthouse of links that are cut, and when they hold again
// (PROTOCOL §6). The rules are Machine.Accuse's and Machine.Link's.

// Times and bounds of probes.
const (
	// firstProbe is after how long a peer that was out of reach is tried again;
	// the pause grows up to lastProbe, which is well below what the lighthouse
	// takes for silence (quorum.LinkRetryAfter).
	firstProbe = 200 * time.Millisecond
	lastProbe  = 5 * time.Second
	// probeFor ends the probes of a peer that is accused no more: it may be gone.
	probeFor = time.Hour
	// maxProbed bounds the peers that are tried at one time.
	maxProbed = 64
	// meetShare is which part of the time for a Configure members have to come.
	meetShare = 3
)

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
			m.probe(quorum.ReplicaID(op.PeerID), probeGroup, func(ctx context.Context) error { return pg.Probe(ctx, m.managed, op.PeerID) })
		}
	}
	if lost := noStore(err); lost != nil && a.Primary != m.id {
		cut := errors.Is(lost, pg.ErrUnreachable)
		m.accuse(a.Primary, a.QuorumID, lost.Error(), cut)
		if cut {
			m.probe(a.Primary, probeStore, func(ctx context.Context) error {
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

// What of a peer could not be reached.
const (
	probeGroup = iota // its backend
	probeStore
	probeKinds
)

// probed is a peer that was out of reach.
type probed struct {
	stop  context.CancelCauseFunc                 // ends its probes
	tries [probeKinds]func(context.Context) error // what could not be reached; nil: could
}

// prober has the peers that were out of reach, and are tried again. Safe for concurrent
// use.
type prober struct {
	mu struct {
		sync.Mutex

		peers map[quorum.ReplicaID]*probed
	}
}

// probe tries what of a peer was out of reach again and again, and tells the
// lighthouse each time what came of it. Only group rank 0 can tell; for the others
// the lighthouse goes by time.
func (m *Manager) probe(peer quorum.ReplicaID, kind int, try func(context.Context) error) {
	if m.replica == nil {
		return
	}
	m.probes.mu.Lock()
	defer m.probes.mu.Unlock()
	p := &probed{}
	if old := m.probes.mu.peers[peer]; old != nil {
		old.stop(nil) // the pauses begin anew
		p.tries = old.tries
	} else if len(m.probes.mu.peers) >= maxProbed {
		return
	}
	p.tries[kind] = try
	m.probes.mu.peers[peer] = p
	p.stop = m.tasks.Start(func(ctx context.Context) { m.probeUntil(ctx, p, peer) })
}

func (m *Manager) probeUntil(ctx context.Context, p *probed, peer quorum.ReplicaID) {
	pauses := backoff.Backoff{First: firstProbe, Most: lastProbe, Factor: 1.5}
	for end := time.Now().Add(probeFor); time.Now().Before(end); {
		if pauses.Wait(ctx) != nil {
			return
		}
		r := quorum.LinkReport{By: m.id, To: peer, Holds: true}
		for _, try := range p.tries {
			if try == nil {
				continue
			}
			if err := try(ctx); errors.Is(err, pg.ErrUnsupported) {
				return // and be silent: time tells
			} else if err != nil {
				r.Holds, r.Evidence = false, err.Error()
			}
		}
		m.reportLink(ctx, r)
	}
	m.probes.mu.Lock()
	defer m.probes.mu.Unlock()
	if ctx.Err() == nil {
		m.unprobeLocked(peer)
	}
}

// reportLink tells of a peer that is still probed: ctx ends with the probes.
func (m *Manager) reportLink(ctx context.Context, r quorum.LinkReport) {
	m.probes.mu.Lock()
	probed := ctx.Err() == nil
	if probed {
		m.replica.ReportLink(r)
	}
	m.probes.mu.Unlock()
	if probed {
		m.log.Debug().Str(logkey.Peer, string(r.To)).Bool("holds", r.Holds).Str(logkey.Reason, r.Evidence).Msg("link tried")
	}
}

// reached ends the probes of those who are in one group with this rank now.
func (m *Manager) reached(ids ...quorum.ReplicaID) {
	m.probes.mu.Lock()
	defer m.probes.mu.Unlock()
	for _, id := range ids {
		m.unprobeLocked(id)
	}
}

// unprobeLocked ends the probes of a peer.
func (m *Manager) unprobeLocked(peer quorum.ReplicaID) {
	if p := m.probes.mu.peers[peer]; p != nil {
		p.stop(nil)
		delete(m.probes.mu.peers, peer)
		m.replica.ForgetLink(peer)
	}
}
