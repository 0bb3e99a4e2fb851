package pgcarrier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/store"
	"github.com/skerry-ft/skerry/tensor"
)

// The ranks of the group.
const (
	donorRank  = 0
	targetRank = 1
)

// prefix is where the two meet in the donor's store, which serves nobody else.
const prefix = "heal"

// Config says how the groups are made.
type Config struct {
	// Open makes an unconfigured backend, for one group. Required. Both sides' must be of
	// one kind, and take tensors in host memory.
	Open func() (pg.Backend, error)

	// Host is where the store of a donor's group listens, at a free port; empty means every
	// interface if there is an Advertise, else 127.0.0.1. Advertise is the host that targets dial, if it is
	// not Host; the donor dials it, too, where Host is every interface: what it tells of itself then is what
	// others reach.
	Host, Advertise string

	// TLS encrypts the store, and the group where its backend can; nil: both are plain. All
	// donors and targets have one, or none has.
	TLS *store.TLS

	// Timeout bounds a send and a receive; 0 means 5 s. Too low breaks a group whose peer
	// is busy, and the bytes come by HTTP then.
	Timeout time.Duration
}

// Carrier is a checkpoint.Carrier. Safe for concurrent use.
type Carrier struct{ cfg Config }

var _ checkpoint.Carrier = (*Carrier)(nil)

// New makes a Carrier. It starts nothing.
func New(cfg Config) (*Carrier, error) {
	if cfg.Open == nil {
		return nil, errors.New("pgcarrier: Open is nil, want what makes a backend")
	}
	if cfg.Timeout < 0 {
		return nil, fmt.Errorf("pgcarrier: Timeout = %v, want 0 or more", cfg.Timeout)
	}
	if cfg.Advertise == "" {
		cfg.Host = cmp.Or(cfg.Host, "127.0.0.1")
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, 5*time.Second)
	return &Carrier{cfg: cfg}, nil
}

// Offer implements checkpoint.Carrier: it opens the store of the group.
func (c *Carrier) Offer(secret []byte) (checkpoint.CarrierEnd, string, error) {
	server, err := store.NewServer(store.ServerConfig{
		Listen: net.JoinHostPort(c.cfg.Host, "0"), Token: secret, TLS: c.cfg.TLS, MaxConns: maxConns, MaxBytes: maxStoreBytes,
	})
	if err != nil {
		return nil, "", fmt.Errorf("open the store of a heal: %w", err)
	}
	own := server.Addr()
	address := own
	if host := c.cfg.Advertise; host != "" {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, "", errors.Join(err, server.Close())
		}
		address = net.JoinHostPort(host, port)
		if ip, err := netip.ParseAddr(c.cfg.Host); c.cfg.Host == "" || err == nil && ip.IsUnspecified() {
			own = address
		}
	}
	e, err := c.end(donorRank, own, secret)
	if err != nil {
		return nil, "", errors.Join(err, server.Close())
	}
	e.server = server
	e.serving.Go(func() { _ = server.Run(context.Background()) }) // ends with Close
	return e, address, nil
}

const (
	// maxConns and maxStoreBytes bound a donor's store: two clients, and strangers.
	maxConns      = 64
	maxStoreBytes = 1 << 20
)

// Answer implements checkpoint.Carrier.
func (c *Carrier) Answer(offer string, secret []byte) (checkpoint.CarrierEnd, error) {
	if host, _, err := net.SplitHostPort(offer); err != nil || host == "" {
		return nil, fmt.Errorf("offer %q, want the host:port of a store", clip(offer))
	}
	return c.end(targetRank, offer, secret)
}

func clip(s string) string { return s[:min(len(s), 100)] }

func (c *Carrier) end(rank int, address string, secret []byte) (*end, error) {
	b, err := c.cfg.Open()
	if err != nil {
		return nil, fmt.Errorf("open the group of a heal: %w", err)
	}
	return &end{group: pg.NewGroup(b), config: pg.Config{
		StoreAddress: address + "/" + prefix, ReplicaIDs: []string{donorRank: "donor", targetRank: "target"}, Rank: rank,
		Cluster: prefix, QuorumID: 1, GroupWorldSize: 1, Token: secret, TLS: c.cfg.TLS, Timeout: c.cfg.Timeout,
	}}, nil
}

// end is a group of two, and on the donor's side its store.
type end struct {
	group   *pg.Group
	config  pg.Config
	server  *store.Server // nil: a target's
	serving sync.WaitGroup
}

// peer is the other rank, and what carries tag.
func (e *end) peer(tag int) pg.Envelope { return pg.Envelope{Peer: 1 - e.config.Rank, Tag: tag} }

// Connect implements checkpoint.CarrierEnd.
func (e *end) Connect(ctx context.Context) error { return e.group.Configure(ctx, e.config) }

// Send implements checkpoint.CarrierEnd.
func (e *end) Send(ctx context.Context, tag int, b []byte) error {
	return e.group.Send(ctx, tensor.Of(b), e.peer(tag))
}

// Receive implements checkpoint.CarrierEnd.
func (e *end) Receive(ctx context.Context, tag int, into []byte) error {
	_, err := e.group.Recv(ctx, tensor.Of(into), e.peer(tag))
	return err
}

// Close implements checkpoint.CarrierEnd.
func (e *end) Close() error {
	err := e.group.Close()
	if e.server != nil {
		err = errors.Join(err, e.server.Close())
	}
	e.serving.Wait()
	return err
}
