package tcp

import (
	"sync/atomic"

	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
)

// stripeBytes is the least size of a piece that a further socket takes: what
// is shorter goes over the first one, in order.
const stripeBytes = minCut

// maxHoles bounds how many pieces a peer may pass over.
const maxHoles = 1 << 12

// stripe is what an edge with several sockets knows about the pieces that they
// share: whichever is free takes the next one, so they come in any order.
// Guarded by Backend.mu, but for over, caught and moved.
type stripe struct {
	open    bool          // the peer has checked our Hello: frames of this epoch may overtake it
	sent    uint64        // frames of collectives that further sockets took in this epoch
	came    uint64        // that came there
	holes   [2][]position // pieces that were passed over, by phase
	found   stream
	ended   error         // why a further socket ended, the first that did
	endings int           // how many have
	over    atomic.Bool   // ended is set
	caught  nudge         // a reader that waits for frames looks again
	moved   atomic.Uint64 // rises with every read of bytes of frames from a further socket
}

// reset begins an epoch.
func (s *stripe) reset() {
	s.open, s.sent, s.came = false, 0, 0
	for phase := range s.holes {
		s.holes[phase] = s.holes[phase][:0]
	}
}

// whole tells whether every piece of a phase has come.
func (s *stripe) whole(phase int) bool { return len(s.holes[phase]) == 0 }

// seekLocked is st, or a copy of it, at the piece that begins at offset; nil if
// none does that is to come. Pieces before it are remembered: they are on their
// way over other sockets.
func (l *link) seekLocked(st *stream, phase uint8, offset uint64) *stream {
	if offset == uint64(st.done) && !st.finished() {
		return st
	}
	if len(l.socks) < 2 || st.anySize {
		return nil
	}
	holes := l.stripe.holes[phase]
	for i := range holes {
		if uint64(holes[i].done) == offset {
			l.stripe.found = *st
			l.stripe.found.position = holes[i]
			holes[i] = holes[len(holes)-1]
			l.stripe.holes[phase] = holes[:len(holes)-1]
			return &l.stripe.found
		}
	}
	for uint64(st.done) < offset && !st.finished() && len(holes) < maxHoles {
		holes = append(holes, st.position)
		st.take()
	}
	l.stripe.holes[phase] = holes
	if offset != uint64(st.done) || st.finished() {
		return nil
	}
	return st
}

// stripableLocked is the stream whose next piece a further socket may take.
func (l *link) stripableLocked() (*task, *stream) {
	g := l.group
	if !l.stripe.open || l.lane != nil || l.leaving || g == nil || g.phase != groupReady || g.peers[l.rank] != l {
		return nil, nil
	}
	t := g.active
	if t == nil || !t.open {
		return nil, nil
	}
	s := t.outgoing(l.rank)
	if s == nil || s.anySize || s.size() < stripeBytes || l.flow[frame.ClassCollective].credit < s.size()+frame.HeaderBytes {
		return nil, nil
	}
	return t, s
}

// wantsLocked tells whether k, which is not the first socket, has something to
// send.
func (k *sock) wantsLocked() bool {
	if k.beatDue {
		return true
	}
	t, _ := k.l.stripableLocked()
	return t != nil
}

// countedLocked notes a frame of the current epoch that came over a further
// socket.
func (k *sock) countedLocked(e frame.Epoch) {
	s := &k.l.stripe
	if k.l.currentLocked(e) != nil {
		s.came++
		s.moved.Add(1)
		s.caught.poke()
	}
}
