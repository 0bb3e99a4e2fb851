package tcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
	"github.com/skerry-ft/skerry/store"
)

const (
	// maxDials is how many edges one Configure opens at a time.
	maxDials  = 32
	dialPause = 20 * time.Millisecond // after the first attempt; doubles
)

// dialer opens the missing edges of one Configure.
type dialer struct {
	b      *Backend
	g      *group
	store  store.Store
	slots  chan struct{} // maxDials: one per dial under way
	failed chan error    // unbuffered
	wg     sync.WaitGroup
}

// watchAfter is how long a Configure waits before it also watches the store for
// the news that another rank's has failed. Mostly it is over by then.
const watchAfter = 50 * time.Millisecond

// run works until the group is ready or cannot be.
func (d *dialer) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer d.wg.Wait()
	defer cancel()
	patience := time.After(watchAfter)
	var meet <-chan time.Time
	if limit := d.g.cfg.MeetTimeout; limit > 0 {
		meet = time.After(limit)
	}
	for {
		ready, err := d.step(ctx)
		switch {
		case ready:
			return nil
		case err != nil && d.b.gathers(d.g):
			return d.gather(ctx, err)
		case err != nil:
			return err
		}
		select {
		case <-d.g.wake:
		case err := <-d.failed:
			return d.gather(ctx, err)
		case <-patience:
			d.wg.Go(func() { d.watch(ctx) })
		case <-meet:
			return d.b.missingPeers(errNotMet, d.g)
		case <-ctx.Done():
			return d.b.missingPeers(context.Cause(ctx), d.g)
		}
	}
}

// watch waits for another rank to say in the store that its Configure failed.
func (d *dialer) watch(ctx context.Context) {
	b, g := d.b, d.g
	value, err := d.store.Get(ctx, failedKey)
	if err != nil {
		return // the store is gone or ctx is over; peers and ctx still tell
	}
	c, err := frame.DecodeCause(value, "a member by the store", g.world)
	if err != nil {
		b.opt.Logger.Debug().Err(err).Msg("news of a failed configure not understood")
		return
	}
	var do todo
	b.mu.Lock()
	b.breakLocked(g, c, &do)
	b.unlock(&do)
}

// step starts dialling what must be dialled, and tells whether the group is
// ready, or why it never will be.
func (d *dialer) step(ctx context.Context) (ready bool, err error) {
	g, b := d.g, d.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if g.readyLocked() {
		return true, nil
	}
	if g.phase == groupBroken {
		return false, g.err
	}
	for r, id := range g.cfg.ReplicaIDs {
		if r == g.rank || g.peers[r] != nil || g.dialing[r] || id < g.cfg.ReplicaIDs[g.rank] {
			continue
		}
		g.dialing[r] = true
		d.wg.Go(func() { d.dial(ctx, r) })
	}
	return false, nil
}

// dial opens the edge to rank r.
func (d *dialer) dial(ctx context.Context, r int) {
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	case <-ctx.Done():
		return
	}
	err := d.attempts(ctx, r)
	if err != nil && ctx.Err() == nil {
		select {
		case d.failed <- err:
		case <-ctx.Done(): // run has heard enough
		}
	}
	d.b.mu.Lock()
	d.g.dialing[r] = false // after its failure was heard: see gather
	d.b.mu.Unlock()
	d.g.wake.poke()
}

// connect makes one attempt.
func (d *dialer) connect(ctx context.Context, r int, addresses []string, place string) error {
	b := d.b
	ctx, cancel := context.WithTimeout(ctx, b.opt.DialTimeout)
	defer cancel()
	c, err := d.open(ctx, 0, addresses)
	if err != nil {
		return err
	}
	l, err := b.newLink(c, true)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { l.conn.interrupt() })
	l.conn.unansweredFor(b.opt.ReachTimeout)
	if err = l.sealDialed(d.g.cfg.TLS, addresses[0]); err == nil {
		_, err = l.exchangePreamble()
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	l.conn.unansweredFor(0) // from now on beats tell
	if err == nil {
		err = b.share(ctx, l, place)
	}
	if err == nil {
		err = d.widen(ctx, l, addresses)
	}
	if err != nil {
		c.Close()
		return fmt.Errorf("greet %s: %w", addresses[0], explained(err))
	}
	d.adopt(l, r)
	return nil
}

// adopt makes l the edge to rank r and says Hello on it.
func (d *dialer) adopt(l *link, r int) {
	b, g := d.b, d.g
	var do todo
	b.mu.Lock()
	if b.mu.closed || b.mu.group != g || g.phase != groupConfiguring || g.peers[r] != nil {
		l.dropLaneLocked(&do)
		b.unlock(&do)
		l.shut()
		return // not wanted any more; step finds out what is the matter
	}
	l.greetLocked()
	l.key = edgeKey{g.cfg.ReplicaIDs[r], g.cfg.GroupRank}
	l.attachLocked(g, r)
	l.sayHelloLocked(&do)
	b.startLocked(l)
	b.unlock(&do)
	b.lanesChanged()
}

// listen opens the listeners, the first time, and starts what runs until Close.
func (b *Backend) listen(ctx context.Context, g *group) error {
	own := ""
	if g.cfg.Store != nil {
		own = b.ownAddress(ctx, &g.cfg)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.closed {
		return pg.ErrClosed
	}
	if b.mu.listeners != nil {
		return b.checkReached(&g.cfg, b.mu.listeners)
	}
	addresses, sources, err := b.listenAddresses(&g.cfg, own)
	if err != nil {
		return err
	}
	listeners, err := listenAll(addresses)
	if err != nil {
		return err
	}
	if err := b.checkReached(&g.cfg, listeners); err != nil {
		return errors.Join(err, closeAll(listeners))
	}
	if err := b.openSharingLocked(); err != nil {
		if b.opt.Transport == TransportShared || b.opt.ShareDir != "" { // what is asked for by name is to work
			return errors.Join(err, closeAll(listeners))
		}
		b.opt.Logger.Warn().Err(err).Msg("shared memory not available")
	}
	b.mu.listeners, b.mu.sources = listeners, sources
	for _, ln := range listeners {
		b.wg.Go(func() { acceptAll(b, ln.Accept, "connection not accepted", b.admit) })
	}
	b.wg.Go(b.clock)
	b.wg.Go(b.worker)
	return nil
}

// listenAddress is Options.Listen, or the local address that packets to the
// store leave from, or own, this host's, if the store need not be anywhere.
func (b *Backend) listenAddress(cfg *pg.Config, own string) (string, error) {
	switch host, port := splitAddress(b.opt.Listen); {
	case b.opt.Listen != "":
		return net.JoinHostPort(host, cmp.Or(port, "0")), nil
	case own != "":
		return net.JoinHostPort(own, "0"), nil
	}
	a, err := store.ParseAddress(cfg.StoreAddress)
	if err != nil {
		return "", err
	}
	c, err := net.Dial("udp", a.HostPort()) // sends nothing: it only finds the route
	if err != nil {
		return "", fmt.Errorf("find the route to the store: %w", err)
	}
	defer c.Close()
	local, _ := splitAddress(c.LocalAddr().String())
	return net.JoinHostPort(local, "0"), nil
}

// splitAddress is the host and the port of an address; the port is empty if it has
// none.
func splitAddress(address string) (host, port string) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return strings.Trim(address, "[]"), ""
	}
	return host, port
}

// acceptAll has serve take every connection, until the listener is closed.
func acceptAll[C net.Conn](b *Backend, accept func() (C, error), failed string, serve func(C)) {
	for {
		c, err := accept()
		switch {
		case err == nil:
			serve(c)
			continue
		case errors.Is(err, net.ErrClosed):
			return
		}
		// Out of descriptors, most likely. Peers try again; so do we.
		b.opt.Logger.Warn().Err(err).Msg(failed)
		select {
		case <-time.After(dialPause):
		case <-b.closing:
			return
		}
	}
}

// admit starts a link on a socket that a peer opened.
func (b *Backend) admit(c net.Conn) {
	b.stats.accepts.Add(1)
	place, err := b.newcomers.Enter(c.RemoteAddr())
	if err != nil {
		b.opt.Logger.Debug().Err(err).Msg("connection refused")
		c.Close()
		return
	}
	l, err := b.newLink(c, false)
	if err != nil {
		place.Leave()
		return
	}
	l.newcomer = place
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.closed {
		place.Leave()
		c.Close()
		return
	}
	b.startLocked(l)
}
