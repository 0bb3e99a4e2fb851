package tcp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/internal/failpoint"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/problems"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
	"github.com/skerry-ft/skerry/store"
)

// Configure implements pg.Backend. See the package comment for what it keeps
// of the epoch before.
//
// Errors: pg.ErrUsedPrefix; pg.ErrClosed; pg.ErrNoStore, and others of the store;
// *pg.OpError, one or several, with each peer that could not be reached
// (pg.ErrUnreachable) or did not come until the deadline or the MeetTimeout;
// context errors, with the peers that are missing.
func (b *Backend) Configure(ctx context.Context, c pg.Config) error {
	if b.optErr != nil {
		return b.optErr
	}
	if err := checkConfig(&c); err != nil {
		return err
	}
	b.configMu.Lock()
	defer b.configMu.Unlock()
	g, err := b.enter(c)
	if err != nil {
		return fmt.Errorf("configure %v: %w", c.Epoch(), err)
	}
	g.points = failpoint.From(ctx)
	b.live.Wait() // not for long: the group before is broken, its reads and writes are interrupted
	ctx, cancel := b.bound(ctx, g)
	defer cancel()
	if err := b.connect(ctx, g); err != nil {
		return fmt.Errorf("configure %v as rank %d of %d: %w", c.Epoch(), g.rank, g.world, b.fail(g, err))
	}
	b.opt.Logger.Debug().Int64(logkey.QuorumID, c.QuorumID).Int(logkey.ReplicaRank, g.rank).
		Int(logkey.WorldSize, g.world).Msg("group configured")
	b.sweep(g)
	return nil
}

// bound gives ctx the deadline of a Configure, and ends it when b is closed or
// g broken; a little later where g gathers.
func (b *Backend) bound(ctx context.Context, g *group) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(b.timeout(&g.cfg))
	}
	within, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	within, cancelCause := context.WithCancelCause(within)
	var wg sync.WaitGroup // waited for by the function returned
	wg.Go(func() {
		cause := pg.ErrAborted
		select {
		case <-g.broken:
		case <-ctx.Done():
			cause = context.Cause(ctx)
		case <-within.Done():
			return
		}
		if b.gathers(g) {
			_ = backoff.Sleep(within, b.gatherFor()) // an end of within is as good
		}
		cancelCause(cause)
	})
	return within, func() {
		cancelCause(nil)
		wg.Wait()
		cancel()
	}
}

// fail breaks g, if it is not broken yet, and gives the error to return.
func (b *Backend) fail(g *group, err error) error {
	c := frame.Cause{Code: frame.CodeUser, Peer: -1, Err: err}
	if e, ok := errors.AsType[*pg.OpError](err); ok {
		c = frame.Cause{Code: frame.CodeLost, Peer: e.Peer, PeerID: e.PeerID, First: e.First, Err: e.Err}
	}
	var do todo
	b.mu.Lock()
	b.breakLocked(g, c, &do)
	first, own := g.err, g.cause.First
	b.unlock(&do)
	if errors.Is(err, pg.ErrUsedPrefix) {
		return err
	}
	// The group may have broken for another reason meanwhile.
	all, several := errors.AsType[*unmetError](err)
	switch {
	case several && own:
		return &unmetError{append([]error{first}, all.errs[1:]...)}
	case several:
		return &unmetError{append([]error{first}, all.errs...)}
	case c.First && !own || errors.Is(err, pg.ErrNoStore) && !errors.Is(first, pg.ErrNoStore):
		return &unmetError{[]error{first, err}}
	}
	return first
}

func checkConfig(c *pg.Config) error {
	l, world := problems.List{Prefix: "tcp: Config."}, c.WorldSize()
	problems.Within(&l, "WorldSize()", world, 1, frame.MaxWorldSize)
	problems.Within(&l, "Rank", c.Rank, 0, world-1)
	problems.Within(&l, "GroupRank", c.GroupRank, 0, frame.MaxWorldSize-1)
	l.Short("Cluster", len(c.Cluster), frame.MaxClusterBytes)
	seen := make(map[string]bool, world)
	for i, id := range c.ReplicaIDs {
		l.Want(id != "" && len(id) <= frame.MaxReplicaIDBytes && !seen[id], fmt.Sprintf("ReplicaIDs[%d]", i), id,
			"a unique id of 1 to %d bytes", frame.MaxReplicaIDBytes)
		seen[id] = true
	}
	return l.Err()
}

// enter ends the epoch before and begins that of c.
func (b *Backend) enter(c pg.Config) (*group, error) {
	var do todo
	b.mu.Lock()
	defer b.unlock(&do)
	if b.mu.closed {
		return nil, pg.ErrClosed
	}
	if err := b.mu.used.Use(&c); err != nil {
		return nil, err
	}
	old := b.mu.group
	if old != nil {
		b.breakLocked(old, frame.Cause{
			Code: frame.CodeMoved, Peer: -1,
			Err: fmt.Errorf("rank %d (%s) moved on to %v", old.rank, old.cfg.ReplicaIDs[old.rank], c.Epoch()),
		}, &do)
	}
	g := newGroup(c)
	b.mu.group, b.mu.tls = g, c.TLS
	b.forgetLocked(g, &do)
	return g, nil
}

func newGroup(c pg.Config) *group {
	g := &group{
		cfg: c, epoch: c.Epoch(), key: frame.EpochOf(c.Epoch()),
		rank: c.Rank, world: c.WorldSize(), round: c.Round,
		members: frame.MemberHash(c.ReplicaIDs),
		ranks:   make(map[string]int, c.WorldSize()),
		peers:   make([]*link, c.WorldSize()),
		dialing: make([]bool, c.WorldSize()),
		tries:   make([]int, c.WorldSize()),
		missing: c.WorldSize() - 1,
		wake:    make(nudge, 1),
		broken:  make(chan struct{}),
		sendSeq: make(map[p2pKey]uint64),
		recvSeq: make(map[p2pKey]uint64),
	}
	for r, id := range c.ReplicaIDs {
		g.ranks[id] = r
	}
	return g
}

// forgetLocked lets go of edges to replicas that are no members any more, and of
// those that no Hello can go out on, or of which a stream is silent: it is about to
// break the edge, and would break this epoch; and of those that are in the clear where
// g is not, or the other way round.
func (b *Backend) forgetLocked(g *group, do *todo) {
	for key, l := range b.mu.edges {
		if _, member := g.ranks[key.replicaID]; !member || key.groupRank != g.cfg.GroupRank || l.mute || l.hasSilentStreamLocked() || !l.sealedAs(g.cfg.TLS) {
			delete(b.mu.edges, key)
			l.partLocked(do)
		}
	}
}

// connect makes every edge of g and waits for every Hello.
func (b *Backend) connect(ctx context.Context, g *group) error {
	b.reaching(g, true)
	st, err := g.cfg.OpenStore(ctx)
	b.reaching(g, false)
	if err != nil {
		return err
	}
	done := func() { st.Close() }
	defer func() { done() }()
	if err := b.listen(ctx, g); err != nil {
		return err
	}
	if err := b.publish(ctx, g, st); err != nil {
		return err
	}
	b.attach(g)
	failpoint.At(ctx, failpoint.ConfigureDuring)
	d := dialer{b: b, g: g, store: st, slots: make(chan struct{}, maxDials), failed: make(chan error)}
	err = d.run(ctx)
	if err != nil {
		done = b.tellStore(g, st, err)
	}
	return err
}

// failedKey is where the first rank whose Configure fails says why.
const failedKey = "tcp/failed"

// tellStore breaks g and returns what tells those ranks whom no edge reaches yet, and
// closes st. It is best effort, without which they learn by their own timeout, and goes on
// beside the caller: the store may have gone with the rank for whose sake Configure failed,
// and the next one must not wait for that.
func (b *Backend) tellStore(g *group, st store.Store, err error) func() {
	_ = b.fail(g, err) // the caller returns it
	b.mu.Lock()
	defer b.mu.Unlock()
	c := g.cause
	if c.Peer < 0 {
		c.Peer, c.PeerID = g.rank, g.cfg.ReplicaIDs[g.rank]
	}
	value := c.Encode()
	tell := func() {
		defer st.Close()
		ctx, cancel := context.WithTimeout(b.ending, sweepTimeout)
		defer cancel()
		if _, err := st.CompareSet(ctx, failedKey, nil, value); err != nil {
			b.opt.Logger.Debug().Err(err).Msg("failed configure not told")
		}
	}
	if b.mu.closed || g.cfg.Store != nil { // a store that is given is the caller's again then
		return tell
	}
	b.wg.Go(tell)
	return func() {}
}

// addressKey is where a rank publishes its address.
func addressKey(rank int) string { return fmt.Sprintf("tcp/%d", rank) }

// publish tells peers where we listen. The store says whether somebody has
// used the prefix before us.
func (b *Backend) publish(ctx context.Context, g *group, st store.Store) error {
	addresses, err := b.advertised()
	if err != nil {
		return err
	}
	mine := fmt.Appendf(nil, "%s %x %s", strings.Join(addresses, ","), newNonce(), b.place())
	got, err := st.CompareSet(ctx, addressKey(g.rank), nil, mine)
	if err != nil {
		return pg.StoreLost(ctx, fmt.Errorf("publish address: %w", err))
	}
	if string(got) != string(mine) {
		return fmt.Errorf("%w: %s: rank %d has published %q there", pg.ErrUsedPrefix, g.cfg.StoreAddress, g.rank, got)
	}
	return nil
}

// attach takes what edges there are: those that peers have opened anew for
// this epoch, and those that are left from the one before.
func (b *Backend) attach(g *group) {
	var do todo
	var kicks []*link
	b.mu.Lock()
	for r, id := range g.cfg.ReplicaIDs {
		if g.phase != groupConfiguring {
			break
		}
		if r == g.rank || g.peers[r] != nil { // its Hello has come since enter
			continue
		}
		key := edgeKey{id, g.cfg.GroupRank}
		if l := b.mu.held[key]; l != nil && l.hello.Epoch() == g.epoch {
			b.checkHelloLocked(g, l, &do)
			kicks = append(kicks, l)
			if g.peers[r] == l {
				continue
			}
		}
		if l := b.mu.edges[key]; l != nil {
			l.attachLocked(g, r)
			l.sayHelloLocked(&do)
			kicks = append(kicks, l)
			if l.hello != nil && l.hello.Epoch() == g.epoch {
				b.checkHelloLocked(g, l, &do)
			}
		}
	}
	g.attached = true
	b.unlock(&do)
	for _, l := range kicks {
		b.kick(l)
	}
}

// readyLocked makes g ready if nobody is missing.
func (g *group) readyLocked() bool {
	if g.phase == groupConfiguring && g.missing == 0 {
		g.phase = groupReady
	}
	return g.phase == groupReady
}

// sweep deletes the prefix before last, if the token is still that one's. One rank does
// that, and nobody waits for it: a prefix that stays is only waste.
func (b *Backend) sweep(g *group) {
	if g.rank != 0 || g.cfg.Store != nil { // a store that is given is not ours to sweep
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	old, ok := b.mu.used.BeforeLast()
	if !ok || b.mu.closed {
		return
	}
	b.wg.Go(func() {
		ctx, cancel := context.WithTimeout(b.ending, sweepTimeout)
		defer cancel()
		if err := b.deletePrefix(ctx, old, store.ClientConfig{Token: g.cfg.Token, TLS: g.cfg.TLS}); err != nil {
			b.opt.Logger.Debug().Err(err).Msg("old prefix not deleted")
		}
	})
}

const (
	// sweepTimeout bounds what is said to a store that no one waits for.
	sweepTimeout = 2 * time.Second
	// sweepGrace is what Close leaves of that: a store that has gone, as that of a
	// replica that died, must not hold up the end of one that lives.
	sweepGrace = 100 * time.Millisecond
)

func (b *Backend) deletePrefix(ctx context.Context, address string, client store.ClientConfig) error {
	st, err := store.Open(ctx, address, client)
	if err != nil {
		return err
	}
	defer st.Close()
	_, err = st.DeletePrefix(ctx, "tcp")
	return err
}
