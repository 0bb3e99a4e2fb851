package tcp

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/skerry-ft/skerry/internal/perhost"
	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
)

// MaxStreams is the most sockets of one edge.
const MaxStreams = frame.MaxStreams

// sock is one socket of an edge, with its reader and its writer.
type sock struct {
	l     *link // the edge; guarded by b.mu until the reader knows it, then fixed
	index int   // 0: the first one
	conn  *rawConn
	here  bool          // both ends are on this host
	wake  chan struct{} // capacity 1: the writer takes over
	dead  chan struct{} // closed when the edge is gone

	received atomic.Int64 // when bytes came last, since b.origin
	sent     atomic.Int64

	// Set by the preamble, before the first frame.
	mine, theirs frame.Nonce
	binding      frame.Binding // of the TLS connection

	// Owned by the reader.
	in struct {
		buf  []byte
		r, w int // unread bytes are buf[r:w]
	}

	// Owned by whoever made busy true.
	out frameOut

	// Guarded by b.mu.
	busy     bool // somebody is sending
	mute     bool // the socket takes nothing any more: its reader will say why
	beatDue  bool
	early    queue[early]  // in order; the window bounds them
	newcomer perhost.Place // if the peer opened it
}

func newNonce() (n frame.Nonce) {
	rand.Read(n[:]) // never fails: crypto/rand ends the program instead
	return n
}

// init makes k a socket of l.
func (k *sock) init(l *link, c net.Conn) error {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return fmt.Errorf("tcp: connection is a %T, want *net.TCPConn", c)
	}
	raw, err := newRawConn(tcp)
	if err != nil {
		return err
	}
	raw.tune(&l.b.opt)
	k.l, k.conn, k.here, k.mine = l, raw, raw.local(), newNonce()
	if k.here {
		raw.unpace()
	}
	k.wake, k.dead = make(chan struct{}, 1), make(chan struct{})
	k.in.buf = make([]byte, frame.PreambleBytes+frame.JoinBytes)
	if l.dialed {
		k.in.buf = make([]byte, receiveBytes)
	}
	now := l.b.now()
	k.received.Store(now)
	k.sent.Store(now)
	return nil
}

// unsentBytes is how much a socket that shares the work with others may hold that
// has not even been sent once: enough that it does not run dry while its writer is
// woken, not so much that the largest send buffer takes all.
const unsentBytes = 128 << 10

// dropEarlyLocked returns the buffers of frames that never found their op.
func (k *sock) dropEarlyLocked() {
	for !k.early.empty() {
		k.l.b.pool.put(k.early.pop().buf)
	}
}

// idleLocked tells whether a socket of l is free to send.
func (l *link) idleLocked() bool {
	return slices.ContainsFunc(l.socks, func(k *sock) bool { return !k.busy })
}

// noncesLocked binds a Hello to the further sockets of its edge: a hash of both
// nonces of each, the dialler's first.
func (l *link) noncesLocked() (sum [sha256.Size]byte) {
	if len(l.socks) < 2 {
		return sum
	}
	socks := slices.SortedFunc(slices.Values(l.socks[1:]), func(x, y *sock) int { return x.index - y.index })
	h := sha256.New()
	for _, k := range socks {
		first, second := k.mine, k.theirs
		if !l.dialed {
			first, second = second, first
		}
		h.Write(first[:])
		h.Write(second[:])
		k.binding.AddTo(h)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// errJoin is why a socket cannot become one of an edge.
var errJoin = errors.New("tcp: no edge takes this socket")

// joinLocked makes k, which a peer opened, the index-th socket of the edge whose
// nonce the peer knows, before that edge's Hello, which says how many there are
// and which. What k was until now, an edge of its own, is gone.
//
// The reader of that edge's first socket may be behind: then the edge is returned,
// without an error, and k is to ask again once it has met the peer.
func (k *sock) joinLocked(nonce frame.Nonce, index int) (behind *link, err error) {
	shell := k.l
	b := shell.b
	if b.mu.closed || shell.gone || shell.leaving || k.busy {
		return nil, errJoin
	}
	for p := range b.mu.links {
		if p.mine != nonce || p.dialed || p == shell {
			continue
		}
		taken := slices.ContainsFunc(p.socks, func(other *sock) bool { return other.index == index })
		if p.gone || p.leaving || p.hello != nil || taken {
			break
		}
		if !p.greeted {
			return p, nil
		}
		delete(b.mu.links, shell)
		shell.gone, shell.socks = true, nil
		k.l, k.index, k.beatDue = p, index, true // the beat tells the peer
		p.socks = append(p.socks, k)
		return nil, nil
	}
	return nil, errJoin
}

// ended is called by the reader that finds k's socket at its end.
func (k *sock) ended(err error) {
	l := k.l
	b := l.b
	if k.index == 0 || errors.Is(err, ErrCorrupt) {
		b.lost(l, err)
		return
	}
	b.mu.Lock()
	l.stripe.endings++
	last := l.stripe.endings == len(l.socks)-1
	first := l.stripe.ended == nil
	if first {
		l.stripe.ended = fmt.Errorf("stream %d (%s): %w", k.index, k.path(), err)
	}
	b.mu.Unlock()
	if first {
		// The peer may have said why, on the first socket, before it ended this
		// one: whoever reads there judges, once nothing is left to be read.
		l.stripe.over.Store(true)
		l.conn.interrupt()
	}
	if last {
		l.stripe.caught.poke()
	}
}

// path says between which addresses k runs.
func (k *sock) path() string {
	return fmt.Sprintf("%v to %v", k.conn.tcp.LocalAddr(), k.conn.tcp.RemoteAddr())
}

// fallen is why the edge has ended although its first socket has not, if nothing
// waits to be read there: the reader of the first socket asks before it waits.
func (k *sock) fallen() error {
	if k.index != 0 || !k.l.stripe.over.Load() || k.conn.unread() > 0 {
		return nil
	}
	b := k.l.b
	b.mu.Lock()
	defer b.mu.Unlock()
	return k.l.stripe.ended
}

// awaitsLocked tells whether frames of epoch e are still to come over l's further
// sockets, of which the peer has sent so many; broken is closed when they are not
// wanted any more.
func (l *link) awaitsLocked(e frame.Epoch, frames uint64) (broken <-chan struct{}, waits bool) {
	g := l.b.mu.group
	waits = l.stripe.came < frames && !l.gone && l.stripe.endings < len(l.socks)-1 &&
		g != nil && g.phase != groupBroken && l.group == g && g.key == e
	if !waits {
		return nil, false
	}
	return g.broken, true
}

// catchUpLooks is how often in a BeatTimeout catchUp looks whether something comes:
// a pause of this process is one look, not all of them.
const catchUpLooks = 5

// catchUp waits until as many frames have come over l's further sockets as the
// peer had sent there before it said on the first that it leaves. Those sockets
// may hold megabytes, and their path may be slower than the first one's: it
// waits as long as bytes of frames come, and gives up a BeatTimeout after the last
// one. A farewell to another epoch than that of l says nothing about the frames of
// this one.
func (b *Backend) catchUp(l *link, e frame.Epoch, frames uint64) {
	tick := time.NewTicker(max(b.opt.BeatTimeout/catchUpLooks, time.Millisecond))
	defer tick.Stop()
	for still, moved := 0, l.stripe.moved.Load(); still < catchUpLooks; {
		b.mu.Lock()
		broken, waits := l.awaitsLocked(e, frames)
		b.mu.Unlock()
		if !waits {
			return
		}
		select {
		case <-l.stripe.caught:
		case <-tick.C:
			last := moved
			if moved = l.stripe.moved.Load(); moved == last {
				still++
			} else {
				still = 0
			}
			l.received.Store(b.now()) // nobody reads there meanwhile: it is not silent
		case <-broken:
			return
		case <-l.dead:
			return
		}
	}
}
