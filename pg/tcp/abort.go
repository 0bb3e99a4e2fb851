package tcp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/skerry-ft/skerry/pg"
)

// abortCode says on the wire what kind of cause broke a group, so that
// errors.Is holds on every rank.
type abortCode uint8

const (
	abortUser     abortCode = iota + 1 // Abort was called
	abortClosed                        // Close was called
	abortMoved                         // a member is in a later epoch
	abortLost                          // a link broke or fell silent
	abortCorrupt                       // a checksum did not hold
	abortMismatch                      // ranks called different collectives
	abortDeadline                      // an op's deadline passed
	abortRefused                       // a Hello was refused
	abortCodeEnd
)

// sentinels are what an error with this code satisfies.
func (c abortCode) sentinels() []error {
	switch c {
	case abortLost, abortClosed:
		return []error{pg.ErrPeerLost}
	case abortCorrupt:
		return []error{pg.ErrPeerLost, ErrCorrupt}
	case abortMismatch:
		return []error{pg.ErrMismatch}
	case abortDeadline:
		return []error{context.DeadlineExceeded}
	default:
		return nil
	}
}

// cause is why a group broke.
type cause struct {
	code   abortCode
	peer   int // the culprit's rank, or -1
	peerID string
	first  bool // this rank saw the culprit's link break itself
	kind   pg.Kind
	seq    uint64
	err    error
}

// leaves tells whether an encoded cause is that of a peer that has left in good
// order.
func leaves(encoded []byte) bool {
	return len(encoded) > 0 && (abortCode(encoded[0]) == abortClosed || abortCode(encoded[0]) == abortMoved)
}

// maxAbortText bounds the text of an abort frame.
const maxAbortText = 1024

func (c *cause) encode() []byte {
	le := binary.LittleEndian
	b := []byte{byte(c.code), byte(c.kind)}
	b = le.AppendUint32(b, uint32(int32(c.peer)))
	b = le.AppendUint64(b, c.seq)
	b = appendString(b, c.peerID, maxReplicaIDBytes)
	return appendString(b, c.err.Error(), maxAbortText)
}

func appendString(b []byte, s string, limit int) []byte {
	s = s[:min(len(s), limit)]
	b = binary.LittleEndian.AppendUint16(b, uint16(len(s)))
	return append(b, s...)
}

// decodeCause reads what encode wrote. reporter names who sent it; world bounds
// the culprit's rank.
func decodeCause(b []byte, reporter string, world int) (cause, error) {
	const fixed = 2 + 4 + 8
	if len(b) < fixed {
		return cause{}, fmt.Errorf("%w: abort of %d bytes", ErrCorrupt, len(b))
	}
	le := binary.LittleEndian
	c := cause{
		code: abortCode(b[0]), kind: pg.Kind(b[1]),
		peer: int(int32(le.Uint32(b[2:]))), seq: le.Uint64(b[6:]),
	}
	if c.code == 0 || c.code >= abortCodeEnd || c.peer < -1 || c.peer >= world {
		return cause{}, fmt.Errorf("%w: abort code %d, culprit rank %d of %d", ErrCorrupt, c.code, c.peer, world)
	}
	id, rest, err := cutString(b[fixed:], maxReplicaIDBytes)
	if err != nil {
		return cause{}, fmt.Errorf("%w: abort: culprit: %w", ErrCorrupt, err)
	}
	text, rest, err := cutString(rest, maxAbortText)
	if err != nil || len(rest) > 0 {
		return cause{}, fmt.Errorf("%w: abort: text", ErrCorrupt)
	}
	c.peerID = strings.ToValidUTF8(id, "?")
	c.err = pg.NewRemoteError(fmt.Sprintf("told by %s: %s", reporter, text), c.code.sentinels()...)
	return c, nil
}

// breakLocked ends g with its first cause: pending ops fail, peers are told.
// Ops complete as soon as no goroutine touches their tensors.
func (b *Backend) breakLocked(g *group, c cause, do *todo) {
	if g.phase == groupBroken {
		return
	}
	if t := g.active; t != nil && c.kind == pg.KindInvalid {
		c.kind, c.seq = t.call.kind, t.seq
	}
	g.phase = groupBroken
	close(g.broken)
	g.cause, g.err = c, g.opError(&c, c.kind, c.seq)
	frame := b.controlFrame(frameAbort, g.key, c.encode())
	for _, l := range g.peers {
		if l == nil || l.group != g {
			continue
		}
		l.dropEarlyLocked()
		if l.helloSent && !l.gone {
			f := frame
			f.head.call.count = l.stripe.sent // what is begun is finished
			l.control = append(l.control, f)
		}
	}
	for _, t := range g.pending {
		if t.open && t.need == 0 { // done, but for a frame that is being written
			continue
		}
		t.err = g.opError(&c, t.call.kind, t.seq)
		if b.settledLocked(t) {
			do.finish(t)
		}
	}
	g.pending, g.recvs, g.active = nil, nil, nil
	g.queue = taskQueue{}
	do.broken, do.kickAll = g, g
	g.poke()
}

// departLocked takes the news that the peer on l has left the epoch in good
// order. An op that needs nothing of it any more may still end well: whoever
// leaves after a barrier or a ballot must not spoil it for those who are a
// moment behind. Everything else breaks.
func (b *Backend) departLocked(g *group, l *link, c cause, do *todo) {
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

func (g *group) opError(c *cause, kind pg.Kind, seq uint64) *pg.OpError {
	e := &pg.OpError{
		Op: kind, Seq: seq, QuorumID: g.epoch.QuorumID, Rank: g.rank,
		Peer: c.peer, PeerID: c.peerID, First: c.first, Err: c.err,
	}
	if c.code == abortUser || c.code == abortMoved || c.code == abortClosed {
		e.Err = fmt.Errorf("%w: %w", pg.ErrAborted, c.err)
	}
	return e
}

// lostCause is the cause for a link that this rank saw break.
func (l *link) lostCause(err error) cause {
	c := cause{code: abortLost, peer: l.rank, peerID: l.key.replicaID, first: true}
	c.err = fmt.Errorf("%w: %w", pg.ErrPeerLost, err)
	if errors.Is(err, ErrCorrupt) {
		c.code = abortCorrupt
	}
	return c
}
