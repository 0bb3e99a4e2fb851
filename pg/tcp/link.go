package tcp

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
)

const (
	// receiveBytes is the receive buffer of a socket of an edge: what is read with
	// one system call when it is not known what comes. See newcomer.go for what a
	// socket has before it is one.
	receiveBytes = 64 << 10
	// aheadBytes is how much is read behind a payload that goes straight into a
	// tensor: the next header, and small frames whole.
	aheadBytes = 4 << 10
	// inlineBytes is the largest payload that is written by whoever submits it, or
	// lets it go; longer ones are left to the writer, so that reading goes on
	// beside it. Within one host none is left: processors are what ranks share
	// there, and the window bounds what a Submit writes. Time without over
	// with, median of 8 at load 24, n=2: 1 MiB 1.5, 25 MiB 1.15.
	inlineBytes = 64 << 10
	// leaveTimeout is how long a link that is being closed may take to send
	// what is queued.
	leaveTimeout = 500 * time.Millisecond
)

// link is one edge: the first socket to a peer, which is embedded, and further
// ones beside it.
type link struct {
	sock

	b      *Backend
	dialed bool // by this side
	born   time.Time
	met    chan struct{} // closed once greeted

	// Guarded by b.mu.
	socks     []*sock // the first one is the embedded one; fixed once there is a Hello
	key       edgeKey
	group     *group       // that this link is or was part of
	rank      int          // of the peer in group; -1 before
	hello     *frame.Hello // the last one that came
	helloSent bool         // for group
	helloOK   bool         // the peer's for group was checked
	proven    bool         // by a Hello of any epoch
	greeted   bool         // preambles were exchanged: frames may go out
	left      bool         // the peer has left group in good order: its end accuses nobody
	gone      bool
	parted    bool // it is to be closed, and is no edge to be
	leaving   bool
	leaveBy   time.Time
	control   queue[control]
	flow      [frame.Classes]flow
	window    [frame.Classes]int // bytes that the peer may make us hold
	turn      int                // class whose turn it is
	stripe    stripe
	lane      *lane      // shared memory; nil: none
	sends     []*task    // point-to-point, in order of Submit
	incoming  []*message // point-to-point
}

// edgeKey names the peer at the other end of an edge.
type edgeKey struct {
	replicaID string
	groupRank int
}

// control is a frame that is not data, ready to be sent.
type control struct {
	head    frame.Header
	payload []byte
}

// flow is the window of one class, in both directions.
type flow struct {
	credit int // bytes that may still be sent
	held   int // bytes that came and are not given back
	owed   int // of these, placed, but not yet told
}

// newLink makes c the first socket of a link, or closes it.
func (b *Backend) newLink(c net.Conn, dialed bool) (*link, error) {
	l := &link{b: b, dialed: dialed, born: time.Now(), rank: -1}
	l.stripe.caught, l.met = make(nudge, 1), make(chan struct{})
	if err := l.sock.init(l, c); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	l.socks = []*sock{&l.sock}
	return l, nil
}

// now is the coarse clock of links.
func (b *Backend) now() int64 { return int64(time.Since(b.origin)) }

// greetLocked notes that preambles were exchanged.
func (l *link) greetLocked() {
	l.greeted = true
	close(l.met)
}

// attachLocked makes l part of g, as the edge to rank.
func (l *link) attachLocked(g *group, rank int) {
	l.group, l.rank = g, rank
	l.helloSent, l.helloOK, l.left = false, false, false
	l.flow = [frame.Classes]flow{} // no credit until the peer's Hello gives it
	l.window = [frame.Classes]int{l.b.opt.WindowBytes, l.b.opt.WindowBytes}
	if l.here {
		l.window[frame.ClassCollective] = min(l.b.opt.WindowBytes, localWindowBytes)
	}
	l.dropEarlyLocked()
	l.stripe.reset()
	if l.lane != nil {
		l.lane.on = false
	}
	g.peers[rank] = l
}

// dropEarlyLocked returns the buffers of what never found its op.
func (l *link) dropEarlyLocked() {
	for _, k := range l.socks {
		k.dropEarlyLocked()
	}
	for _, m := range l.incoming {
		m.drop(&l.b.pool)
	}
	l.incoming, l.sends = nil, nil
}

// sayHelloLocked queues this side's Hello for the link's group.
func (l *link) sayHelloLocked(do *todo) {
	g := l.group
	h := frame.Hello{Cluster: g.cfg.Cluster, ReplicaID: g.cfg.ReplicaIDs[g.rank], Numbers: frame.Numbers{
		QuorumID: g.cfg.QuorumID, GroupRank: uint32(g.cfg.GroupRank),
		Rank: uint32(g.rank), WorldSize: uint32(g.world), Members: g.members,
		Socks: uint32(len(l.socks)), Nonces: l.noncesLocked(),
	}}
	for class, bytes := range l.window {
		h.Window[class] = uint32(bytes)
	}
	if l.lane != nil {
		h.Lane = 1
		for class := range h.Rings {
			h.Rings[class] = l.lane.channels[class].send.Next // what is reserved before is of earlier epochs
		}
	}
	h.Prove(g.cfg.Token, l.mine, l.theirs, l.binding)
	l.control.push(l.b.controlFrame(frame.TypeHello, g.key, h.Encode()))
	l.helloSent = true
	do.kick = l
}

// controlFrame is a frame with a payload, which may be nil.
func (b *Backend) controlFrame(typ frame.Type, key frame.Epoch, payload []byte) control {
	return control{
		head: frame.Header{
			Type: typ, Epoch: key, Length: uint32(len(payload)), CRC: frame.Checksum(payload),
			Call: frame.Call{Root: -1},
		},
		payload: payload,
	}
}

// start runs l's goroutines. The caller holds b.mu and has seen that b is not
// closed, so that Close waits for them.
func (b *Backend) startLocked(l *link) {
	b.mu.links[l] = struct{}{}
	for _, k := range l.socks {
		b.wg.Go(k.readLoop)
		if l.dialed {
			b.wg.Go(k.writeLoop) // else once the peer's preamble is right
		}
	}
}

// lost is called by whoever finds l's socket at its end, for the reason err.
func (b *Backend) lost(l *link, err error) {
	b.mu.Lock()
	var do todo
	b.lostLocked(l, err, &do)
	b.unlock(&do)
}

func (b *Backend) lostLocked(l *link, err error, do *todo) {
	if l.gone {
		return
	}
	l.gone = true
	for _, k := range l.socks {
		close(k.dead)
	}
	l.leavePlacesLocked()
	delete(b.mu.links, l)
	if b.mu.edges[l.key] == l {
		delete(b.mu.edges, l.key)
	}
	if b.mu.held[l.key] == l {
		delete(b.mu.held, l.key)
	}
	do.close = append(do.close, l)
	l.dropLaneLocked(do)
	g := b.mu.group
	if g == nil || l.group != g || g.peers[l.rank] != l || l.left {
		return
	}
	switch {
	case g.phase == groupReady || g.phase == groupConfiguring && l.helloOK:
		b.breakLocked(g, l.lostCause(err), do)
	case g.phase == groupConfiguring:
		g.peers[l.rank] = nil // dialled anew, or the peer does
		g.refusal = fmt.Errorf("link to rank %d (%s): %w", l.rank, l.key.replicaID, err)
		g.wake.poke()
	}
}

// sockets are those of l. The caller holds no lock.
func (l *link) sockets() []*sock {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	return l.socks
}

// shut closes the sockets, which ends the readers and the writers. It may be
// called again, with no lock held.
func (l *link) shut() {
	for _, k := range l.sockets() {
		k.conn.tcp.Close() // nothing to do about an error: the descriptor is gone
	}
}

// partLocked has l closed once what is queued has gone out. From now on a Hello
// on it comes too late: it would make an edge of what is about to end.
func (l *link) partLocked(do *todo) {
	l.parted = true
	do.leave = append(do.leave, l)
}

// leave closes l once what is queued has gone out, or leaveTimeout has passed.
func (b *Backend) leave(l *link) {
	b.mu.Lock()
	l.leaving, l.leaveBy = true, time.Now().Add(leaveTimeout)
	mute, socks := l.mute, l.socks
	b.mu.Unlock()
	if mute { // nothing goes out
		b.lost(l, errLeft)
		return
	}
	// A writer that waits for the socket now waits no longer than this.
	for _, k := range socks {
		k.conn.tcp.SetWriteDeadline(l.leaveBy)
	}
	b.kick(l)
}

// stale counts a frame that belongs to no op of the epoch we are in.
func (b *Backend) stale() { b.stats.staleFrames.Add(1) }

// currentLocked is the group that b is in, if frames of epoch e on l belong to it,
// or nil.
func (l *link) currentLocked(e frame.Epoch) *group {
	g := l.b.mu.group
	if g != nil && l.group == g && g.key == e && l.helloOK && g.phase != groupBroken && g.peers[l.rank] == l {
		return g
	}
	return nil
}

// peerName is how texts name the other end.
func (l *link) peerName() string {
	if l.key.replicaID == "" {
		return l.conn.tcp.RemoteAddr().String()
	}
	return fmt.Sprintf("rank %d (%s)", l.rank, l.key.replicaID)
}

// info describes the frame for a Fault.
func (k *sock) info(h *frame.Header) FrameInfo {
	l := k.l
	from := -1
	if l.group != nil {
		from = l.group.rank
	}
	return FrameInfo{
		Type: h.Type.String(), From: from, To: l.rank, Peer: l.key.replicaID,
		Kind: h.Call.Kind, Seq: h.Seq, Phase: int(h.Phase), Offset: h.Offset,
		Bytes: int(h.Length), QuorumID: h.Epoch.Quorum, Stream: k.index,
		LastFrame: h.Type == frame.TypeData && h.Offset+uint64(h.Length) == h.Total,
	}
}

// oweLocked notes that n bytes of a class were placed, so the peer may send as
// many again. Enough of them make a credit frame due.
func (l *link) oweLocked(class, n int, do *todo) {
	if class == frame.ClassCollective && l.lane != nil {
		return // records are given back one by one
	}
	f := &l.flow[class]
	f.owed += n
	if f.due(l.window[class]) && l.idleLocked() {
		do.wake(l)
	}
}

// due tells whether credit is to be given back now: when it has become much, or
// when the peer has little left.
func (f *flow) due(window int) bool {
	few := window / creditShare
	return f.owed >= few || f.owed > 0 && window-f.held < few
}

// creditShare is which part of the window is given back at once: often enough
// that the peer need not stop, seldom enough to cost nothing.
const creditShare = 4

// creditLocked is the credit frame that is due, if any.
func (l *link) creditLocked() (frame.Header, bool) {
	if l.group == nil {
		return frame.Header{}, false
	}
	for class := range l.flow {
		f := &l.flow[class]
		if !f.due(l.window[class]) {
			continue
		}
		h := frame.Header{Type: frame.TypeCredit, Epoch: l.group.key, Phase: uint8(class), Total: uint64(f.owed), Call: frame.Call{Root: -1}}
		f.held -= f.owed
		f.owed = 0
		return h, true
	}
	return frame.Header{}, false
}
