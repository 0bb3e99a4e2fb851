package pg

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/store"
)

// DefaultReachTimeout is after how long without an answer a host is out of
// reach. The answer to a connection is the other system's, not the process's: one
// that is busy, or stopped, answers at once. So it need cover no more than a few
// round trips and lost packets.
const DefaultReachTimeout = time.Second

const (
	// reachTries is how many connections Reach tries side by side, one after the
	// other: the system repeats a lost SYN after a second only, then after two more.
	// So a link that was mended is found within a quarter of the limit.
	reachTries = 4
	// reachDoubts bounds how often Reach begins anew because it was itself not
	// scheduled.
	reachDoubts = 3
)

// Reach connects to a host that answers within limit. dial makes one connection; it
// is called several times, the calls overlap, and ends with its context.
//
// An answer that is no connection (refused) is returned at once. A process that
// finds that its own clock was late doubts itself, and tries again.
//
// Errors: ErrUnreachable when nothing answered; those of dial; context errors.
func Reach(ctx context.Context, limit time.Duration, dial func(context.Context) (net.Conn, error)) (net.Conn, error) {
	for doubt := 0; ; doubt++ {
		began := time.Now()
		c, err := reachOnce(ctx, limit, dial)
		late := time.Since(began) - limit
		if !errors.Is(err, ErrUnreachable) || late < limit/reachTries || doubt == reachDoubts {
			return c, err
		}
	}
}

// reached is what became of one call of dial.
type reached struct {
	c   net.Conn
	err error
}

func reachOnce(ctx context.Context, limit time.Duration, dial func(context.Context) (net.Conn, error)) (net.Conn, error) {
	within, cancel := context.WithTimeout(ctx, limit)
	var wg sync.WaitGroup
	results := make(chan reached)
	running := 0
	try := func() {
		running++
		wg.Go(func() {
			c, err := dial(within)
			results <- reached{c, err}
		})
	}
	defer func() {
		cancel()
		for ; running > 0; running-- {
			if r := <-results; r.err == nil {
				r.c.Close() // another one was first
			}
		}
		wg.Wait()
	}()
	again := time.NewTicker(max(limit/reachTries, 1))
	defer again.Stop()
	try()
	for tries := 1; ; {
		select {
		case r := <-results:
			running--
			ne, ok := errors.AsType[net.Error](r.err)
			switch {
			case r.err == nil || ctx.Err() != nil:
				return r.c, r.err
			case within.Err() == nil && !(ok && ne.Timeout()): // whose clock may be ahead of ours
				return nil, r.err // it was refused, or this host has no way there
			case running == 0:
				// Hidden, for it would say that another try may help.
				return nil, fmt.Errorf("%w: no answer within %v: %v", ErrUnreachable, limit, r.err)
			}
		case <-again.C:
			if tries < reachTries {
				tries++
				try()
			}
		}
	}
}

// ProbeStore connects to the host of a store as Config.OpenStore does, and hangs
// up.
func ProbeStore(ctx context.Context, limit time.Duration, address string) error {
	a, err := store.ParseAddress(address)
	if err != nil {
		return err
	}
	var d net.Dialer
	c, err := Reach(ctx, limit, func(ctx context.Context) (net.Conn, error) {
		return d.DialContext(ctx, "tcp", a.HostPort())
	})
	if err == nil {
		c.Close()
	}
	return err
}

// openStore is store.Open, but a store whose host does not answer is given up
// after limit.
func openStore(ctx context.Context, limit time.Duration, address string, c store.ClientConfig) (store.Store, error) {
	if limit > 0 {
		// While a rank waits for a key, keep-alives find that its link is cut.
		d := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: limit, Interval: limit, Count: 2}}
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			return Reach(ctx, limit, func(ctx context.Context) (net.Conn, error) {
				return d.DialContext(ctx, network, address)
			})
		}
	}
	s, err := store.Open(ctx, address, c)
	return s, StoreLost(ctx, err)
}

// StoreLost makes the failure of a Configure's store ErrNoStore, unless it comes
// of Configure's own end: ctx was cancelled, for whatever reason, or the group
// aborted.
func StoreLost(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil && !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNoStore, err)
}

// Prober is implemented by backends that can try, beside a group and whatever
// state it is in, to reach a peer that a Configure could not (ErrUnreachable).
type Prober interface {
	// Probe connects to the peer as that Configure did, and hangs up: nil says
	// that another Configure would reach it. It knows only peers that were out of
	// reach the last time that they were dialled.
	Probe(ctx context.Context, peerID string) error
}

// Probe tries a peer with the first backend from b downwards that is a Prober.
//
// Errors: ErrUnsupported if none is; ErrUnreachable, and others of the network.
func Probe(ctx context.Context, b Backend, peerID string) error {
	p, ok := find[Prober](b)
	if !ok {
		return fmt.Errorf("%w: probes", ErrUnsupported)
	}
	return p.Probe(ctx, peerID)
}
