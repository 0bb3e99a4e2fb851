package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/burst"
	"github.com/skerry-ft/skerry/internal/perhost"
	"github.com/skerry-ft/skerry/internal/step"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
	"github.com/skerry-ft/skerry/store"
)

// Name is what pg's registry and errors call this backend.
const Name = "tcp"

// MaxPayload is the most payload bytes of one frame, and the size of the chunks
// that digests are folded from.
const MaxPayload = frame.MaxPayload

// ErrCorrupt is the cause, joined with pg.ErrPeerLost, when bytes from a peer
// are not a frame or do not have the frame's checksum.
var ErrCorrupt = frame.ErrCorrupt

// Backend is a pg.Backend over TCP; see the package comment. Make one with
// New. Safe for concurrent use.
type Backend struct {
	opt    Options
	optErr error // of Options.Validate; every Configure returns it
	pool   bufPool
	origin time.Time // of the links' coarse clocks
	stats  counters

	wg         sync.WaitGroup  // every goroutine
	live       sync.WaitGroup  // ops whose Work is not done
	closing    chan struct{}   // closed by Close
	ending     context.Context // until sweepGrace after that
	end        context.CancelFunc
	newcomers  *perhost.Counter // sockets that peers opened, on which no Hello is proved yet
	handshakes *perhost.Counter // those that are in a handshake of TLS
	work       nudge            // the worker looks for a collective to start
	tick       nudge            // a deadline is nearer than the clock's next look
	configMu   sync.Mutex       // one Configure at a time; held while it waits
	lanesGen   step.Uint64      // rises when a link gets or loses its lane
	// crossed is touched after the caller's memory was read for a lane, and before
	// it is written with what came on one. That the first happens before the second
	// follows from what the peer does in between, in another process, where the
	// race detector cannot see it.
	crossed    atomic.Uint32
	spoilNext  atomic.Bool // for tests: see task.spoil
	bell       *bell       // set before any lane is made; nil: none ever is
	poller     *poller     // likewise
	deathWatch *deathWatch // likewise
	pending    step.Int64  // ops whose Work is not done, but for those that are about to be

	strangers    zerolog.Logger // for the lines that strangers cause
	saidUnshared sync.Once      // that edges within this host are sockets

	mu state
}

// strangerLines is how many lines strangers cause in strangerPeriod.
const (
	strangerLines  = 5
	strangerPeriod = 10 * time.Second
)

// state is everything that goroutines share.
type state struct {
	step.Mutex

	closed    bool
	listeners []net.Listener
	sources   []net.IP            // what Options.Interfaces stand for
	unix      []*net.UnixListener // for peers of this host
	sharing   map[*net.UnixConn]struct{}
	place     string     // what peers need to find unix
	tls       *store.TLS // of the last configuration
	group     *group     // the last configuration, whatever became of it; nil before

	links map[*link]struct{} // every open socket
	edges map[edgeKey]*link  // proven by a Hello of some epoch
	held  map[edgeKey]*link  // unproven, with an early Hello

	used pg.History

	outOfReach map[string][]string // the addresses of peers, by replica id
	nextLook   time.Time           // of the clock

	free     spares[task]
	messages spares[message]
	vectors  [][][]byte // for folds
}

// counters are those of Stats.
type counters struct {
	dials, accepts, staleFrames, refused             atomic.Uint64
	dataFrames, dataBytes, stripedBytes, sharedBytes atomic.Uint64
}

// Stats are counts since New.
type Stats struct {
	Dials        uint64 // sockets that this side opened
	Accepts      uint64 // sockets that peers opened
	StaleFrames  uint64 // data and abort frames of another epoch, dropped
	Refused      uint64 // Hellos refused: wrong token, wrong member list; connections without the right certificate
	DataFrames   uint64 // sent
	DataBytes    uint64 // payload sent over sockets
	StripedBytes uint64 // of this, over others than the first of their edge
	SharedBytes  uint64 // payload sent through shared memory
	Links        int    // edges open now
	Streams      int    // their sockets
	Encrypted    int    // of these, over TLS
	Lanes        int    // edges with shared memory beside their socket
	Buffers      int    // pooled buffers in use now
}

var _ pg.Backend = (*Backend)(nil)
var _ pg.Rounder = (*Backend)(nil)
var _ pg.Prober = (*Backend)(nil)

// New makes an unconfigured backend. It opens and starts nothing.
func New(opt Options) *Backend {
	b := &Backend{
		opt:        opt.withDefaults(),
		optErr:     opt.Validate(),
		origin:     time.Now(),
		closing:    make(chan struct{}),
		newcomers:  perhost.New(perhost.Limits{Max: maxNewcomers, PerHost: maxNewcomersPerHost, Scarce: scarceNewcomers}),
		handshakes: perhost.New(perhost.Limits{Max: maxHandshakes, PerHost: maxHandshakesPerHost, Scarce: scarceNewcomers}),
		work:       make(nudge, 1),
		tick:       make(nudge, 1),
	}
	b.ending, b.end = context.WithCancel(context.Background())
	b.strangers = b.opt.Logger.Sample(&burst.Sampler{Lines: strangerLines, Period: strangerPeriod})
	b.pending.Watch(b.opt.hook)
	b.lanesGen.Watch(b.opt.hook)
	b.mu.Watch(b.opt.hook)
	b.mu.links = make(map[*link]struct{})
	b.mu.edges = make(map[edgeKey]*link)
	b.mu.held = make(map[edgeKey]*link)
	b.mu.outOfReach = make(map[string][]string)
	b.mu.sharing = make(map[*net.UnixConn]struct{})
	return b
}

// Name is "tcp".
func (b *Backend) Name() string { return Name }

// Addr is where this backend listens, first of all, or nil before the first Configure.
func (b *Backend) Addr() net.Addr {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.mu.listeners) == 0 {
		return nil
	}
	return b.mu.listeners[0].Addr()
}

// Stats counts what happened since New.
func (b *Backend) Stats() Stats {
	c := &b.stats
	s := Stats{
		Dials: c.dials.Load(), Accepts: c.accepts.Load(),
		StaleFrames: c.staleFrames.Load(), Refused: c.refused.Load(),
		DataFrames: c.dataFrames.Load(), DataBytes: c.dataBytes.Load(),
		StripedBytes: c.stripedBytes.Load(), SharedBytes: c.sharedBytes.Load(),
		Buffers: b.pool.outstanding(),
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s.Links = len(b.mu.links)
	for l := range b.mu.links {
		s.Streams += len(l.socks)
		for _, k := range l.socks {
			if k.conn.sealed.Load() != nil {
				s.Encrypted++
			}
		}
		if l.lane != nil {
			s.Lanes++
		}
	}
	return s
}

// SetRound implements pg.Rounder.
func (b *Backend) SetRound(round int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if g := b.mu.group; g != nil {
		g.round = round
	}
}

// Err implements pg.Backend.
func (b *Backend) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.closed {
		return pg.ErrClosed
	}
	if b.mu.group == nil {
		return pg.ErrUnconfigured
	}
	return b.mu.group.err
}

// usableLocked is why no op can be submitted now, or nil.
func (b *Backend) usableLocked() error {
	g := b.mu.group
	switch {
	case b.mu.closed:
		return fmt.Errorf("%w: %w", pg.ErrAborted, pg.ErrClosed)
	case g == nil:
		return pg.ErrUnconfigured
	case g.phase == groupBroken:
		return fmt.Errorf("%w: %w", pg.ErrAborted, g.err)
	case g.phase == groupConfiguring:
		return fmt.Errorf("%w: configure of %v is under way", pg.ErrUnconfigured, g.epoch)
	}
	return nil
}

// Submit implements pg.Backend. Small frames go out before it returns.
func (b *Backend) Submit(op *pg.Op) *pg.Work {
	b.mu.Lock()
	g := b.mu.group
	if op.Kind == pg.KindBallot && g != nil {
		op.OwnBallot(g.rank, g.world)
	}
	err := b.usableLocked()
	if err == nil {
		err = op.Validate(g.rank, g.world)
	}
	if err == nil {
		err = op.RequireCPU()
	}
	if err != nil {
		b.mu.Unlock()
		return pg.Finished(op, err)
	}
	if op.Kind == pg.KindBatch {
		b.mu.Unlock()
		return pg.SubmitBatch(b, op)
	}
	t := b.newTaskLocked(g, op)
	w, collective := t.work, !op.Kind.PointToPoint()
	var do todo
	switch op.Kind {
	case pg.KindSend:
		b.sendLocked(t, &do)
	case pg.KindRecv:
		b.recvLocked(t, &do)
	default:
		g.seq++
		op.Seq = g.seq
		t.seq = g.seq
		g.queue.push(t)
	}
	b.unlock(&do)
	if collective { // op may be done, and its memory in use again
		b.advance(g)
	}
	b.poller.rest()
	return w
}

// Abort implements pg.Backend.
func (b *Backend) Abort(e pg.Epoch, cause error) {
	var do todo
	b.mu.Lock()
	defer b.unlock(&do)
	if g := b.mu.group; g != nil && g.epoch == e {
		b.breakLocked(g, causeOfAbort(cause), &do)
	}
}

func causeOfAbort(err error) frame.Cause {
	if err == nil {
		err = errors.New("aborted with no cause")
	}
	c := frame.Cause{Code: frame.CodeUser, Peer: -1, Err: err}
	if errors.Is(err, pg.ErrMismatch) { // debug.Check says so on every rank
		c.Code = frame.CodeMismatch
	}
	if e, ok := errors.AsType[*pg.OpError](err); ok {
		c.Peer, c.PeerID = e.Peer, e.PeerID
	}
	return c
}

// Close implements pg.Backend.
func (b *Backend) Close() error {
	b.mu.Lock()
	if b.mu.closed {
		b.mu.Unlock()
		b.wg.Wait()
		return nil
	}
	b.mu.closed = true
	close(b.closing)
	grace := time.AfterFunc(sweepGrace, b.end)
	defer grace.Stop()
	defer b.end()
	var do todo
	if g := b.mu.group; g != nil && g.phase != groupBroken {
		b.breakLocked(g, frame.Cause{Code: frame.CodeClosed, Peer: -1, Err: pg.ErrClosed}, &do)
	}
	listeners, bell := b.mu.listeners, b.bell
	for _, ln := range b.mu.unix {
		ln.Close() // its end ends the loop; there is nothing else to know
	}
	for c := range b.mu.sharing {
		c.Close()
	}
	links := make([]*link, 0, len(b.mu.links))
	for l := range b.mu.links {
		links = append(links, l)
	}
	b.unlock(&do)
	err := closeAll(listeners)
	for _, l := range links {
		b.leave(l)
	}
	b.deathWatch.poke() // it ends
	if bell != nil {
		err = errors.Join(err, bell.close()) // ends the poller
	}
	b.wg.Wait()
	return err
}
