package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/reach"
)

// dialAttempts is how often a peer that refuses, or does not greet, is tried
// before Configure fails: it has published its address, so it listens, or it is
// dead. One whose host does not answer at all is tried once, for ReachTimeout.
const dialAttempts = 4

// gatherFor is how long a Configure that has failed waits for what its other
// dials come to, if all began together but for that. Who names all whom it cannot
// reach is put apart from them in one quorum, not in as many as they are.
func (b *Backend) gatherFor() time.Duration { return b.opt.ReachTimeout / 4 }

// unmetError is why a Configure failed that has several causes: each peer that
// is to blame, or the store.
type unmetError struct {
	errs []error // two or more
}

func (e *unmetError) Error() string {
	return fmt.Sprintf("%v; and %d more causes", e.errs[0], len(e.errs)-1)
}

func (e *unmetError) Unwrap() []error { return e.errs }

// unmet is errs as one error.
func unmet(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	return &unmetError{errs}
}

// gathers says that a Configure which ends, because another rank says so or its
// caller does, goes on for gatherFor: it has itself connected in vain for a while.
// Otherwise who knows first that a link is cut keeps all others from knowing what
// theirs are.
func (b *Backend) gathers(g *group) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(g.begun) < b.opt.ReachTimeout/2 {
		return false
	}
	for r, dialing := range g.dialing {
		if dialing && g.tries[r] > 0 {
			return true
		}
	}
	return g.opening
}

// reaching notes that the store is being opened, and that the dials follow it.
func (b *Backend) reaching(g *group, opening bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	g.opening, g.begun = opening, time.Now()
}

// gather adds to why a Configure fails the dials that fail with it.
func (d *dialer) gather(ctx context.Context, first error) error {
	errs := []error{first}
	ctx, cancel := context.WithTimeout(ctx, d.b.gatherFor())
	defer cancel()
	for d.dialling() {
		select {
		case err := <-d.failed:
			errs = append(errs, err)
		case <-d.g.wake: // a dial is over
		case <-ctx.Done():
			return unmet(errs)
		}
	}
	return unmet(errs)
}

// dialling tells whether a dial is under way.
func (d *dialer) dialling() bool {
	d.b.mu.Lock()
	defer d.b.mu.Unlock()
	return slices.Contains(d.g.dialing, true)
}

// attempts dials rank r until it is reached or is out of reach.
func (d *dialer) attempts(ctx context.Context, r int) error {
	value, err := d.store.Get(ctx, addressKey(r))
	if err != nil {
		return pg.StoreLost(ctx, fmt.Errorf("look up rank %d (%s): %w", r, d.g.cfg.ReplicaIDs[r], err))
	}
	addresses, place := parseAddresses(value)
	pauses := backoff.Backoff{First: dialPause, Most: d.b.opt.ReachTimeout}
	for began := time.Now(); ; {
		d.b.mu.Lock()
		d.g.tries[r]++
		tries := d.g.tries[r]
		d.b.mu.Unlock()
		err := d.connect(ctx, r, addresses, place)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || d.b.hopeless(err, tries, time.Since(began)) {
			d.b.remember(d.g.cfg.ReplicaIDs[r], addresses)
			return d.unreachable(r, err)
		}
		if pauses.Wait(ctx) != nil {
			return d.unreachable(r, err)
		}
	}
}

// hopeless says that a peer is to be given up: its host did not answer; or its
// process refused, or said nothing, often enough; or this host has had no way
// there for long enough.
func (b *Backend) hopeless(err error, tries int, took time.Duration) bool {
	switch {
	case errors.Is(err, pg.ErrUnreachable), errors.Is(err, syscall.ETIMEDOUT):
		return true
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETDOWN):
		return took >= b.opt.ReachTimeout
	}
	return tries >= dialAttempts
}

// unreachable names the peer that cannot be dialled.
func (d *dialer) unreachable(r int, err error) error {
	return d.g.blame(r, fmt.Errorf("%w: %w: %w", pg.ErrPeerLost, pg.ErrUnreachable, err))
}

// blame is a first cause of which rank r is the culprit.
func (g *group) blame(r int, err error) error {
	return &pg.OpError{
		QuorumID: g.epoch.QuorumID, Rank: g.rank, Peer: r, PeerID: g.cfg.ReplicaIDs[r], First: true, Err: err,
	}
}

// errNotMet is why members are given up that do not come.
var errNotMet = fmt.Errorf("given up: %w", context.DeadlineExceeded)

// maxOutOfReach bounds the peers that Probe knows.
const maxOutOfReach = 1024

// remember keeps the addresses of a peer that is out of reach, for Probe.
func (b *Backend) remember(peerID string, addresses []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.mu.outOfReach) >= maxOutOfReach {
		clear(b.mu.outOfReach) // they are of old quorums, but for a few
	}
	b.mu.outOfReach[peerID] = addresses
}

// Probe implements pg.Prober: as Configure's dials, it takes the answer of the
// peer's host, whatever its process does.
func (b *Backend) Probe(ctx context.Context, peerID string) error {
	b.mu.Lock()
	addresses := b.mu.outOfReach[peerID]
	b.mu.Unlock()
	if len(addresses) == 0 {
		return fmt.Errorf("tcp: %s was not out of reach when it was dialled last, or never", peerID)
	}
	for index := range addresses {
		c, err := b.reach(ctx, index, addresses)
		if err != nil {
			return fmt.Errorf("connect to %s: %w", addresses[index], err)
		}
		c.Close()
	}
	return nil
}

// missingPeers is the error of a Configure that ends before all have come. If it
// has waited for long enough, they are the culprits; or this rank is, to whom none
// comes: that is seen by who else misses whom.
func (b *Backend) missingPeers(why error, g *group) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if g.phase == groupBroken {
		return g.err
	}
	late := errors.Is(why, context.DeadlineExceeded)
	var errs []error
	missing := ""
	for r, l := range g.peers {
		if r == g.rank || l != nil && l.helloOK {
			continue
		}
		who := fmt.Sprintf(" %d (%s)", r, g.cfg.ReplicaIDs[r])
		missing += who
		errs = append(errs, g.blame(r, g.noHello(who, why)))
	}
	if !late || len(errs) == 0 {
		return g.noHello(missing, why)
	}
	return unmet(errs)
}

func (g *group) noHello(from string, why error) error {
	err := fmt.Errorf("no hello from rank%s: %w", from, why)
	if g.refusal != nil {
		err = fmt.Errorf("%w; last: %w", err, g.refusal)
	}
	return err
}

// reach connects the index-th socket of an edge: the peer's addresses and our
// interfaces are used in turn.
func (b *Backend) reach(ctx context.Context, index int, addresses []string) (net.Conn, error) {
	var from net.Dialer
	if ours := b.interfaces(); len(ours) > 0 {
		from.LocalAddr = &net.TCPAddr{IP: ours[index%len(ours)]}
	}
	return reach.Dial(ctx, b.opt.ReachTimeout, func(ctx context.Context) (net.Conn, error) {
		return from.DialContext(ctx, "tcp", addresses[index%len(addresses)])
	})
}
