package tcp

import (
	"errors"
	"fmt"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
)

// breakLocked ends g with its first cause: pending ops fail, peers are told.
// Ops complete as soon as no goroutine touches their tensors.
func (b *Backend) breakLocked(g *group, c frame.Cause, do *todo) {
	if g.phase == groupBroken {
		return
	}
	if t := g.active; t != nil && c.Kind == pg.KindInvalid {
		c.Kind, c.Seq = t.call.Kind, t.seq
	}
	g.phase = groupBroken
	close(g.broken)
	g.cause, g.err = c, g.opError(&c, c.Kind, c.Seq)
	abort := b.controlFrame(frame.TypeAbort, g.key, c.Encode())
	for _, l := range g.peers {
		if l == nil || l.group != g {
			continue
		}
		for _, k := range l.socks {
			k.conn.interrupt()
		}
		l.dropEarlyLocked()
		if l.helloSent && !l.gone {
			f := abort
			f.head.Call.Count = l.stripe.sent // what is begun is finished
			l.control.push(f)
		}
	}
	for _, t := range g.pending {
		if t.open && t.need == 0 { // done, but for a frame that is being written
			continue
		}
		t.err = g.opError(&c, t.call.Kind, t.seq)
		if b.settledLocked(t) {
			do.finish(t)
		}
	}
	g.pending, g.recvs, g.active = nil, nil, nil
	g.queue = queue[*task]{}
	do.broken, do.kickAll = g, g
	g.wake.poke()
}

// departLocked takes the news that the peer on l has left the epoch in good
// order. An op that needs nothing of it any more may still end well: whoever
// leaves after a barrier or a ballot must not spoil it for those who are a
// moment behind. Everything else breaks.
func (b *Backend) departLocked(g *group, l *link, c frame.Cause, do *todo) {
	t := g.active
	if t == nil || !t.doneWith(l.rank) {
		b.breakLocked(g, c, do)
		return
	}
	l.left = true
	if g.deferredBreak == nil {
		g.deferredBreak = &c
	}
}

// doneWith tells whether all frames of t from and to a rank have moved.
func (t *task) doneWith(rank int) bool {
	if !t.open || t.err != nil || t.peers[rank].unsent {
		return false
	}
	p := &t.peers[rank]
	for phase := range p.in {
		if !p.in[phase].finished() || !t.group.peers[rank].stripe.whole(phase) || !p.out[phase].finished() {
			return false
		}
	}
	return true
}

func (g *group) opError(c *frame.Cause, kind pg.Kind, seq uint64) *pg.OpError {
	e := &pg.OpError{
		Op: kind, Seq: seq, QuorumID: g.epoch.QuorumID, Rank: g.rank,
		Peer: c.Peer, PeerID: c.PeerID, First: c.First, Err: c.Err,
	}
	if c.Code == frame.CodeUser || c.Code == frame.CodeMoved || c.Code == frame.CodeClosed {
		e.Err = fmt.Errorf("%w: %w", pg.ErrAborted, c.Err)
	}
	return e
}

// lostCause is the cause for a link that this rank saw break.
func (l *link) lostCause(err error) frame.Cause {
	c := frame.Cause{Code: frame.CodeLost, Peer: l.rank, PeerID: l.key.replicaID, First: true}
	c.Err = fmt.Errorf("%w: %w", pg.ErrPeerLost, err)
	if errors.Is(err, ErrCorrupt) {
		c.Code = frame.CodeCorrupt
	}
	return c
}
