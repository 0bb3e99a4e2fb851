package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
)

// EnvStreams is the variable that StreamsFromEnv reads.
const EnvStreams = "SKERRY_TCP_STREAMS"

// StreamsFromEnv is Options.Streams as the environment has it, 0 if it says nothing.
func StreamsFromEnv() (n int, err error) {
	if s := os.Getenv(EnvStreams); s != "" {
		if n, err = parseStreams(s); err != nil {
			err = fmt.Errorf("tcp: %s = %q, %w", EnvStreams, s, err)
		}
	}
	return n, err
}

func parseStreams(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > MaxStreams {
		return 0, fmt.Errorf("want 1 to %d", MaxStreams)
	}
	return n, nil
}

// streamsOf is how many sockets the edge of l, which we dial, is to have when
// the peer listens on so many addresses.
func (b *Backend) streamsOf(l *link, addresses int) int {
	switch {
	case l.lane != nil: // the sockets carry no collectives
		return 1
	case b.opt.Streams > 0:
		return b.opt.Streams
	case l.here:
		return 1
	}
	return streamsBetween(addresses)
}

// streamsBetween is the default between hosts: as many on each address.
func streamsBetween(addresses int) int {
	return min((DefaultStreams+addresses-1)/addresses*addresses, MaxStreams)
}

// widen opens the further sockets of an edge that we dial.
func (d *dialer) widen(ctx context.Context, l *link, addresses []string) error {
	n := d.b.streamsOf(l, len(addresses))
	socks, errs := make([]*sock, n), make([]error, n)
	var wg sync.WaitGroup
	for i := 1; i < n; i++ {
		wg.Go(func() { socks[i], errs[i] = d.join(ctx, l, i, addresses) })
	}
	wg.Wait()
	err := errors.Join(errs...)
	for _, k := range socks[1:] {
		switch {
		case k == nil:
		case err != nil:
			k.conn.tcp.Close() // the edge is given up
		default:
			l.socks = append(l.socks, k)
			k.conn.limitUnsent(unsentBytes)
			l.conn.limitUnsent(unsentBytes)
		}
	}
	return err
}

// join opens the index-th socket of l's edge, and waits until the peer has made
// it one.
func (d *dialer) join(ctx context.Context, l *link, index int, addresses []string) (*sock, error) {
	c, err := d.open(ctx, index, addresses)
	if err != nil {
		return nil, err
	}
	k := &sock{index: index}
	if err := k.init(l, c); err != nil {
		c.Close()
		return nil, err
	}
	stop := context.AfterFunc(ctx, k.conn.interrupt)
	if err = k.sealDialed(d.g.cfg.TLS, addresses[index%len(addresses)]); err == nil {
		err = k.askToJoin()
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("stream %d (%s): %w", index, k.path(), err)
	}
	return k, nil
}

// open dials the index-th socket of an edge: the peer's addresses and our
// interfaces are used in turn.
func (d *dialer) open(ctx context.Context, index int, addresses []string) (net.Conn, error) {
	b := d.b
	c, err := b.reach(ctx, index, addresses)
	if err != nil {
		return nil, fmt.Errorf("stream %d of our interfaces %v to the peer's %v, which all hosts must name in one order: %w",
			index, b.interfaces(), addresses, err)
	}
	b.stats.dials.Add(1)
	return c, nil
}

// interfaces are the addresses that Options.Interfaces stand for here.
func (b *Backend) interfaces() []net.IP {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.sources
}

func (k *sock) askToJoin() error {
	if err := k.conn.writeAll(frame.Join(k.mine, k.l.theirs, k.index)); err != nil {
		return err
	}
	if _, err := k.readPreamble(); err != nil {
		return err
	}
	if err := k.fillOnce(frame.HeaderBytes); err != nil {
		return err
	}
	var h frame.Header
	if err := h.Decode(k.bytes(frame.HeaderBytes)); err != nil {
		return err
	}
	if h.Type != frame.TypeBeat {
		return fmt.Errorf("%w: %v frame before the stream is joined", ErrCorrupt, h.Type)
	}
	return nil
}

// join reads the rest of the preamble of a further socket and makes k one of the
// edge that it names.
func (k *sock) join() error {
	if err := k.fillOnce(frame.JoinBytes); err != nil {
		return err
	}
	edge, index, err := frame.DecodeJoin(k.bytes(frame.JoinBytes))
	if err != nil {
		return err
	}
	b := k.l.b
	if err := k.joinEdge(edge, index); err != nil {
		return err
	}
	if err := k.conn.tcp.SetDeadline(time.Time{}); err != nil {
		return err
	}
	k.conn.limitUnsent(unsentBytes)
	k.l.conn.limitUnsent(unsentBytes)
	b.kick(k.l)
	return nil
}

// joinEdge makes k a socket of the edge with that nonce. It waits, within
// DialTimeout, until that edge's own preamble has been read: the peer opens all
// sockets one after the other, and their readers run when they can.
func (k *sock) joinEdge(nonce frame.Nonce, index int) error {
	b := k.l.b
	over := time.After(b.opt.DialTimeout)
	for {
		b.mu.Lock()
		behind, err := k.joinLocked(nonce, index)
		b.mu.Unlock()
		if behind == nil {
			return err
		}
		select {
		case <-behind.met:
			continue
		case <-behind.dead:
		case <-b.closing:
		case <-over:
		}
		return errJoin
	}
}

// exchangePreamble writes ours and reads the peer's; joins tells that it opened
// one more socket of an edge.
func (k *sock) exchangePreamble() (joins bool, err error) {
	if err := k.conn.writeAll(frame.Preamble(k.mine)); err != nil {
		return false, err
	}
	return k.readPreamble()
}

func (k *sock) readPreamble() (joins bool, err error) {
	if err := k.fillOnce(frame.PreambleBytes); err != nil {
		return false, err
	}
	got := k.bytes(frame.PreambleBytes)
	opening, nonce := frame.DecodePreamble(got)
	k.theirs = nonce
	switch {
	case opening == frame.OpensEdge:
		return false, nil
	case opening == frame.OpensStream && !k.l.dialed:
		return true, nil
	case opening == frame.OpensTLS:
		return false, errTLS
	}
	return false, fmt.Errorf("%w: preamble %q, want %q", ErrCorrupt, got[:len(frame.PreambleMagic)], frame.PreambleMagic)
}

// fillOnce is fill for the preamble: a deadline is an error there.
func (k *sock) fillOnce(n int) error {
	for k.in.w-k.in.r < n {
		got, err := k.conn.read(k.in.buf[k.in.w:], nil)
		if err != nil {
			return err
		}
		k.in.w += got
	}
	return nil
}
