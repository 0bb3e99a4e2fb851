package tcp

import (
	"errors"
	"fmt"
)

// readHello takes a Hello: for the epoch that we configure, for one to come, or
// for one that is over.
func (l *link) readHello(p []byte) error {
	h, err := decodeHello(p)
	if err != nil {
		return err
	}
	b := l.b
	b.pullAll(l) // what the peer sent before it moved on
	var do todo
	b.mu.Lock()
	err = b.takeHelloLocked(l, h, &do)
	b.mu.Unlock()
	b.do(&do)
	return err
}

func (b *Backend) takeHelloLocked(l *link, h *hello, do *todo) error {
	if l.gone || l.parted || l.leaving {
		return nil // too late: the peer opens a new edge when it sees the end
	}
	if l.key != (edgeKey{}) && l.key != h.key() {
		return fmt.Errorf("%w: hello of %v on the link of %v", ErrCorrupt, h.key(), l.key)
	}
	l.key, l.hello = h.key(), h
	g := b.mu.group
	if g != nil && g.phase == groupConfiguring && h.epoch() == g.epoch {
		b.checkHelloLocked(g, l, do)
		return nil
	}
	if g != nil && g.phase == groupBroken && h.epoch() == g.epoch {
		b.declineLocked(g, l, do)
	}
	if l.proven {
		if g != nil && l.group == g && g.peers[l.rank] == l && h.epoch().After(g.epoch) {
			b.departLocked(g, l, cause{
				code: abortMoved, peer: -1,
				err: fmt.Errorf("%s moved on to %v", l.peerName(), h.epoch()),
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
	l.control = append(l.control, b.controlFrame(frameAbort, g.key, g.cause.encode()))
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
		l.flow[class].credit = l.hello.window[class]
	}
	b.mu.edges[l.key] = l
	if b.mu.held[l.key] == l {
		delete(b.mu.held, l.key)
	}
	if !l.helloSent {
		l.sayHelloLocked(do)
	}
	if len(l.socks) > 1 { // no credit, but the word that the peer may use them all
		l.control = append(l.control, control{head: header{typ: frameCredit, epoch: g.key, call: call{root: -1}}})
		do.wake(l)
	}
	g.missing--
	g.poke()
}

// errRefused is why a peer's Hello is not taken.
var errRefused = errors.New("hello refused")

// vet checks the Hello on l against g and gives the peer's rank.
func (g *group) vet(l *link) (rank int, err error) {
	h := l.hello
	rank, member := g.ranks[h.replicaID]
	switch {
	case !l.sealedAs(g.cfg.TLS):
		return 0, fmt.Errorf("%w: %s came before this rank's certificates did, or went", errRefused, l.key.replicaID)
	case !h.verify(g.cfg.Token, l.theirs, l.mine, l.binding):
		return 0, fmt.Errorf("%w: %s does not prove the token of %v", errRefused, l.key.replicaID, g.epoch)
	case !member || rank == g.rank || h.groupRank != g.cfg.GroupRank:
		return 0, fmt.Errorf("%w: %s group rank %d is no peer in %v", errRefused, h.replicaID, h.groupRank, g.epoch)
	case rank != h.rank || h.worldSize != g.world || h.members != g.members:
		return 0, fmt.Errorf("%w: %s has other members in %v: it is rank %d of %d there, rank %d of %d here",
			errRefused, h.replicaID, g.epoch, h.rank, h.worldSize, rank, g.world)
	case h.socks != len(l.socks) || h.nonces != l.noncesLocked():
		return 0, fmt.Errorf("%w: %s has other streams: %d there, %d here", errRefused, h.replicaID, h.socks, len(l.socks))
	}
	return rank, nil
}

// refuseLocked turns a link away. On one that we dialled, or that was proven
// before, the peer is who the store says it is, and the group can never be;
// any other may be a stranger's, and the peer may still come.
func (b *Backend) refuseLocked(g *group, l *link, err error, do *todo) {
	b.stats.refused.Add(1)
	g.refusal = err
	c := cause{code: abortRefused, peer: l.rank, peerID: l.key.replicaID, err: err}
	if l.group != g {
		c.peer = -1
	}
	l.control = append(l.control, b.controlFrame(frameAbort, g.key, c.encode()))
	l.partLocked(do)
	if b.mu.held[l.key] == l {
		delete(b.mu.held, l.key)
	}
	if l.group == g && (l.dialed || l.proven) {
		b.breakLocked(g, c, do)
	}
}

// readAbort takes a peer's abort.
func (l *link) readAbort(h *header, p []byte) error {
	b := l.b
	b.pullAll(l) // what the peer sent before it left
	if leaves(p) {
		b.catchUp(l, h.epoch, h.call.count)
	}
	var do todo
	b.mu.Lock()
	defer func() {
		b.mu.Unlock()
		b.do(&do)
	}()
	g := b.mu.group
	if g == nil || l.group != g || g.key != h.epoch || g.phase == groupBroken || g.peers[l.rank] != l {
		b.stale()
		return nil
	}
	if !l.helloOK && !l.dialed && !l.proven {
		return nil // a stranger
	}
	c, err := decodeCause(p, l.peerName(), g.world)
	if err != nil {
		return err
	}
	if c.peer < 0 || c.code == abortRefused { // no other culprit than who says so
		c.peer, c.peerID = l.rank, l.key.replicaID
	}
	if leaves(p) && l.stripe.came >= h.call.count {
		b.departLocked(g, l, c, &do)
	} else {
		b.breakLocked(g, c, &do)
	}
	return nil
}
