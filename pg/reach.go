package pg

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/skerry-ft/skerry/pg/reach"
	"github.com/skerry-ft/skerry/store"
)

// DefaultReachTimeout is after how long without an answer a host is out of
// reach. The answer to a connection is the other system's, not the process's: one
// that is busy, or stopped, answers at once. So it need cover no more than a few
// round trips and lost packets.
const DefaultReachTimeout = time.Second

// ProbeStore connects to the host of a store as Config.OpenStore does, and hangs
// up.
func ProbeStore(ctx context.Context, limit time.Duration, address string) error {
	a, err := store.ParseAddress(address)
	if err != nil {
		return err
	}
	var d net.Dialer
	c, err := reach.Dial(ctx, limit, func(ctx context.Context) (net.Conn, error) {
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
			return reach.Dial(ctx, limit, func(ctx context.Context) (net.Conn, error) {
				return d.DialContext(ctx, network, address)
			})
		}
	}
	s, err := store.Open(ctx, address, c)
	return s, StoreLost(ctx, err)
}

// StoreLost makes the failure of a Configure's store ErrNoStore, unless it comes
// of Configure's own end: ctx was cancelled, for whatever reason, or the group
// aborted. A store that was out of reach before that is lost all the same.
func StoreLost(ctx context.Context, err error) error {
	ended := ctx.Err() != nil && !errors.Is(context.Cause(ctx), context.DeadlineExceeded)
	if err == nil || ended && !errors.Is(err, ErrUnreachable) {
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
