package tcp

import (
	"errors"
	"fmt"

	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
)

// readHello takes a Hello: for the epoch that we configure, for one to come, or
// for one that is over.
func (l *link) readHello(p []byte) error {
	h, err := frame.DecodeHello(p)
	if err != nil {
		return err
	}
	b := l.b
	b.pullAll(l) // what the peer sent before it moved on
	var do todo
	b.mu.Lock()
	err = b.takeHelloLocked(l, h, &do)
	b.unlock(&do)
	return err
}

func (b *Backend) takeHelloLocked(l *link, h *frame.Hello, do *todo) error {
	if l.gone || l.parted || l.leaving {
		return nil // too late: the peer opens a new edge when it sees the end
	}
	key := edgeKey{h.ReplicaID, int(h.GroupRank)}
	if l.key != (edgeKey{}) && l.key != key {
		return fmt.Errorf("%w: hello of %v on the link of %v", ErrCorrupt, key, l.key)
	}
	l.key, l.hello = key, h
	g := b.mu.group
	if g != nil && g.phase == groupConfiguring && h.Epoch() == g.epoch {
		b.checkHelloLocked(g, l, do)
		return nil
	}
	if g != nil && g.phase == groupBroken && h.Epoch() == g.epoch {
		b.declineLocked(g, l, do)
	}
	if l.proven {
		if g != nil && l.group == g && g.peers[l.rank] == l && h.Epoch().After(g.epoch) {
			b.departLocked(g, l, frame.Cause{
				Code: frame.CodeMoved, Peer: -1,
				Err: fmt.Errorf("%s moved on to %v", l.peerName(), h.Epoch()),
			}, do)
		}
		return nil
	}
	if old := b.mu.held[l.key]; old != nil && old != l {
		do.close = append(do.close, old)
	}
	b.mu.held[l.key] = l
	return nil
}

// declineLocked answers the Hello of a peer that is late: its epoch is broken
// here. Otherwise it would wait for ours until its Configure times out.
func (b *Backend) declineLocked(g *group, l *link, do *todo) {
	if _, err := g.vet(l); err != nil {
		return
	}
	l.control.push(b.controlFrame(frame.TypeAbort, g.key, g.cause.Encode()))
	do.wake(l)
}

// checkHelloLocked checks the Hello that came on l for g, which is being
// configured, and makes l an edge of it.
func (b *Backend) checkHelloLocked(g *group, l *link, do *todo) {
	if l.group == g && l.helloOK || l.gone {
		return
	}
	rank, err := g.vet(l)
	if err == nil {
		err = l.canShareLocked()
	}
	if err != nil {
		b.refuseLocked(g, l, err, do)
		return
	}
	if old := g.peers[rank]; old != nil && old != l {
		// The peer has opened a new socket: the old one is dead at its end.
		if old.helloOK {
			g.missing++
		}
		g.peers[rank] = nil
		do.close = append(do.close, old)
	}
	if old := b.mu.edges[l.key]; old != nil && old != l {
		do.close = append(do.close, old)
	}
	if l.group != g {
		l.attachLocked(g, rank)
	}
	l.leavePlacesLocked()
	l.proven, l.helloOK = true, true
	delete(b.mu.outOfReach, l.key.replicaID)
	l.agreeLaneLocked(do)
	for class := range l.flow {
		l.flow[class].credit = int(l.hello.Window[class])
	}
	b.mu.edges[l.key] = l
	if b.mu.held[l.key] == l {
		delete(b.mu.held, l.key)
	}
	if !l.helloSent {
		l.sayHelloLocked(do)
	}
	if len(l.socks) > 1 { // no credit, but the word that the peer may use them all
		l.control.push(b.controlFrame(frame.TypeCredit, g.key, nil))
		do.wake(l)
	}
	g.missing--
	g.wake.poke()
}

// errRefused is why a peer's Hello is not taken.
var errRefused = errors.New("hello refused")

// vet checks the Hello on l against g and gives the peer's rank.
func (g *group) vet(l *link) (rank int, err error) {
	h := l.hello
	rank, member := g.ranks[h.ReplicaID]
	switch {
	case !l.sealedAs(g.cfg.TLS):
		return 0, fmt.Errorf("%w: %s came before this rank's certificates did, or went", errRefused, l.key.replicaID)
	case !h.Verify(g.cfg.Token, l.theirs, l.mine, l.binding):
		return 0, fmt.Errorf("%w: %s does not prove the token of %v", errRefused, l.key.replicaID, g.epoch)
	case !member || rank == g.rank || int(h.GroupRank) != g.cfg.GroupRank:
		return 0, fmt.Errorf("%w: %s group rank %d is no peer in %v", errRefused, h.ReplicaID, h.GroupRank, g.epoch)
	case rank != int(h.Rank) || int(h.WorldSize) != g.world || h.Members != g.members:
		return 0, fmt.Errorf("%w: %s has other members in %v: it is rank %d of %d there, rank %d of %d here",
			errRefused, h.ReplicaID, g.epoch, h.Rank, h.WorldSize, rank, g.world)
	case int(h.Socks) != len(l.socks) || h.Nonces != l.noncesLocked():
		return 0, fmt.Errorf("%w: %s has other streams: %d there, %d here", errRefused, h.ReplicaID, h.Socks, len(l.socks))
	}
	return rank, nil
}

// refuseLocked turns a link away. On one that we dialled, or that was proven
// before, the peer is who the store says it is, and the group can never be;
// any other may be a stranger's, and the peer may still come.
func (b *Backend) refuseLocked(g *group, l *link, err error, do *todo) {
	b.stats.refused.Add(1)
	g.refusal = err
	c := frame.Cause{Code: frame.CodeRefused, Peer: l.rank, PeerID: l.key.replicaID, Err: err}
	if l.group != g {
		c.Peer = -1
	}
	l.control.push(b.controlFrame(frame.TypeAbort, g.key, c.Encode()))
	l.partLocked(do)
	if b.mu.held[l.key] == l {
		delete(b.mu.held, l.key)
	}
	if l.group == g && (l.dialed || l.proven) {
		b.breakLocked(g, c, do)
	}
}

// readAbort takes a peer's abort.
func (l *link) readAbort(h *frame.Header, p []byte) error {
	b := l.b
	b.pullAll(l) // what the peer sent before it left
	if frame.Leaves(p) {
		b.catchUp(l, h.Epoch, h.Call.Count)
	}
	var do todo
	b.mu.Lock()
	defer b.unlock(&do)
	g := b.mu.group
	if g == nil || l.group != g || g.key != h.Epoch || g.phase == groupBroken || g.peers[l.rank] != l {
		b.stale()
		return nil
	}
	if !l.helloOK && !l.dialed && !l.proven {
		return nil // a stranger
	}
	c, err := frame.DecodeCause(p, l.peerName(), g.world)
	if err != nil {
		return err
	}
	if c.Peer < 0 || c.Code == frame.CodeRefused { // no other culprit than who says so
		c.Peer, c.PeerID = l.rank, l.key.replicaID
	}
	if frame.Leaves(p) && l.stripe.came >= h.Call.Count {
		b.departLocked(g, l, c, &do)
	} else {
		b.breakLocked(g, c, &do)
	}
	return nil
}
