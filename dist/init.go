package dist

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/netaddr"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/debug"
	"github.com/skerry-ft/skerry/pg/netif"
	"github.com/skerry-ft/skerry/store"
)

// DefaultInitTimeout bounds Init if its ctx has no deadline.
const DefaultInitTimeout = 5 * time.Minute

// DefaultInitMethod is how ranks meet if neither URL nor store is given.
const DefaultInitMethod = "env://"

// InitConfig says how Init makes a world. The zero value takes everything from
// the environment, as torchrun sets it.
type InitConfig struct {
	// Backend names the backend, as pg.Open takes it: "tcp" ("gloo"), "nccl",
	// "cpu:tcp,cuda:nccl". Empty means pg.DefaultBackends.
	Backend string
	// Options are for the backend. Interfaces, if empty, come from the
	// environment; see netif.FromEnv.
	Options pg.Options

	// Method is a URL that says where to meet: env://, tcp://host:port (rank
	// 0's, which listens on loopback if that is loopback, else so that all reach it:
	// on every interface, unless the host is the address of one), file:///path (a file that does not exist yet), or of a scheme
	// that was registered; ?rank= and &world_size= may stand in it. Empty means
	// DefaultInitMethod, if there is no Store.
	Method string
	// Store, instead of Method, is a store that all ranks reach. The caller
	// closes it, after Destroy.
	Store store.Store

	// Rank, 0 to WorldSize-1, and WorldSize. Nil and 0 leave them to Method;
	// with a Store both are needed.
	Rank      *int
	WorldSize int

	// Timeout bounds ops that have no deadline; 0 means pg.DefaultTimeout.
	Timeout time.Duration
	// Token guards the store that rank 0 serves, and the data plane. Equal on
	// all ranks; empty means unguarded, which is fine where they all are on one host.
	Token []byte
	// TLS encrypts both; nil: they are plain. All ranks have one, or none has: see
	// certs.FromEnv. A store that torchrun's agent serves (TORCHELASTIC_USE_AGENT_STORE)
	// speaks none; dial it for Store then. Where other hosts reach the data plane it needs a
	// Token, or Open, besides: certificates do not say which world a replica is of.
	TLS *store.TLS
	// Open lets other hosts reach both without a Token, as PyTorch does: whoever
	// comes may write to the store and take part. Off, Init refuses to listen like
	// that. SKERRY_OPEN=1 sets it.
	Open bool
	// Debug, if not nil, wraps the world and its subgroups. Nil means one as the
	// environment says (TORCH_DISTRIBUTED_DEBUG).
	Debug *debug.Debugger
	Log   zerolog.Logger
}

// World is the group of all ranks of a job, with the store that they share. It
// is what torch's default group is, but a handle: there is no hidden global.
type World struct {
	*pg.Group
	Directory // of groups that were given a name in this world

	store store.Store
	key   string // of the claim
	close func() error

	ending sync.Once
	err    error // of Close
}

// Init meets the other ranks and makes their world. It blocks until all have
// come, ctx ends, or DefaultInitTimeout has passed.
//
// Errors: ErrInitialized if this process is in that world already, with this
// rank; store.ErrUsedFile for a file that another run has left behind; those of
// pg.Group.Configure; a clear one if rank or world size are missing or differ.
func Init(ctx context.Context, c InitConfig) (*World, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, DefaultInitTimeout)
		defer cancel()
	}
	key, err := c.claim()
	if err != nil {
		return nil, fmt.Errorf("init: %w", err)
	}
	w := &World{key: key}
	if !c.Open {
		c.Open, err = netaddr.OpenFromEnv()
	}
	if err == nil {
		err = w.open(&c)
	}
	if err != nil { // before anybody counts on this rank
		return nil, errors.Join(fmt.Errorf("init: %w", err), w.Close())
	}
	met, l, err := c.meet(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("init: %w", err), w.Close())
	}
	w.store, w.close = met.Store, met.Close
	if err := w.join(ctx, &c, met, l); err != nil {
		return nil, errors.Join(fmt.Errorf("init rank %d of %d: %w", met.Rank, met.WorldSize, err), w.Close())
	}
	return w, nil
}

// claim notes that this process joins a rendezvous; see ErrInitialized.
func (c *InitConfig) claim() (key string, err error) {
	if c.Store != nil {
		if err := c.checkStore(); err != nil {
			return "", err
		}
		key = fmt.Sprintf("store %p rank %d", c.Store, *c.Rank)
		return key, claim(key)
	}
	u, err := c.methodURL()
	if err != nil {
		return "", err
	}
	key = claimKey(u, c.Rank)
	return key, claim(key)
}

func (c *InitConfig) methodURL() (*url.URL, error) {
	method := cmp.Or(c.Method, DefaultInitMethod)
	u, err := url.Parse(method)
	if err != nil {
		return nil, fmt.Errorf("method %q: %w", method, err)
	}
	return u, nil
}

// meetAgain is the pause before another try.
const meetAgain = 20 * time.Millisecond

// maxRefusals is how often a refusal by the store is doubted.
const maxRefusals = 25

// meet finds the store and the life of it that this rank is to be part of. A
// rank that is early may find the server of the life before, which rank 0 is
// just about to end: it tries again.
func (c *InitConfig) meet(ctx context.Context) (*Rendezvous, *life, error) {
	for refusals := 0; ; {
		met, err := c.findStore(ctx)
		if errors.Is(err, store.ErrUnauthorized) && refusals < maxRefusals {
			// A server that ends while it greets looks like one that refuses.
			refusals++
			if pause(ctx, meetAgain) {
				continue
			}
		}
		if err != nil {
			return nil, nil, err
		}
		l, err := joinLife(ctx, met.Store, met.Rank, met.WorldSize)
		if err == nil {
			return met, l, nil
		}
		err = fmt.Errorf("rank %d of %d: %w", met.Rank, met.WorldSize, err)
		if met.Close != nil {
			err = errors.Join(err, met.Close())
		}
		if met.Address == "" || met.Rank == 0 || ctx.Err() != nil || errors.Is(err, pg.ErrMismatch) {
			return nil, nil, err
		}
		if !pause(ctx, meetAgain) {
			return nil, nil, err
		}
	}
}

// pause waits, and tells whether ctx is still alive then.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

func (c *InitConfig) findStore(ctx context.Context) (*Rendezvous, error) {
	if c.Store != nil {
		return &Rendezvous{Rank: *c.Rank, WorldSize: c.WorldSize, Store: c.Store}, nil
	}
	u, err := c.methodURL()
	if err != nil {
		return nil, err
	}
	met, err := meet(ctx, RendezvousRequest{URL: u, Rank: c.Rank, WorldSize: c.WorldSize, Token: c.Token, TLS: c.TLS, Open: c.Open, Log: c.Log})
	if err == nil && (met == nil || met.Store == nil) {
		err = fmt.Errorf("rendezvous %s gave no store", methodText(u))
	}
	return met, err
}

// claimKey names a rendezvous and a rank of it: the rank may stand in the URL.
func claimKey(u *url.URL, rank *int) string {
	where := u.Scheme + "://" + u.Host + u.Path
	if at := u.Query().Get("rank"); at != "" {
		return where + " rank " + at
	}
	if rank != nil {
		return fmt.Sprintf("%s rank %d", where, *rank)
	}
	return where
}

// checkStore checks what has to come with a store.
func (c *InitConfig) checkStore() error {
	switch {
	case c.Method != "":
		return fmt.Errorf("both a store and the method %q were given, want one of them", c.Method)
	case c.Rank == nil || c.WorldSize == 0:
		return errors.New("a store was given without rank and world size, want all three")
	case c.WorldSize < 1 || *c.Rank < 0 || *c.Rank >= c.WorldSize:
		return fmt.Errorf("rank %d of %d, want 0 to the world size less one", *c.Rank, c.WorldSize)
	}
	return nil
}

// join makes the backend and configures it with the others.
func (w *World) join(ctx context.Context, c *InitConfig, met *Rendezvous, l *life) error {
	ids := make([]string, met.WorldSize)
	for r := range ids {
		ids[r] = fmt.Sprintf("rank-%d", r)
	}
	config := pg.Config{
		StoreAddress: "skerry/" + l.name, Store: met.Store,
		ReplicaIDs: ids, Rank: met.Rank, Cluster: l.name, QuorumID: 1,
		GroupWorldSize: 1, Token: c.Token, TLS: c.TLS, Timeout: c.Timeout,
	}
	if met.Address != "" {
		config.StoreAddress, config.Store = met.Address+"/"+config.StoreAddress, nil
	}
	if err := w.Configure(ctx, config); err != nil {
		return l.failed(err)
	}
	return l.begun(ctx)
}

// open makes the group, with what helps to debug it.
func (w *World) open(c *InitConfig) error {
	debugger := c.Debug
	if debugger == nil {
		d := debug.Config{Log: c.Log}
		if err := d.FromEnv(); err != nil {
			return err
		}
		debugger = debug.New(d)
	}
	if len(c.Options.Interfaces) == 0 && c.Options.Listen == "" {
		c.Options.Interfaces = netif.FromEnv()
	}
	c.Options.Open = c.Options.Open || c.Open
	backend, err := pg.Open(c.Backend, c.Options)
	if err != nil {
		return err
	}
	w.Group = pg.NewGroup(debugger.Wrap(worldName, backend))
	return nil
}

// worldName is what traces and logs call the group of all ranks.
const worldName = "world"

// Store is the store that the ranks met in, under a prefix for users. It is
// closed with the world.
func (w *World) Store() store.Store { return store.WithPrefix(w.store, "user") }

// Destroy ends the world and all its subgroups, and leaves the rendezvous: the
// same ranks, or others in their place, may Init there again, and name groups
// from the beginning. A second one is pg.ErrUnknownGroup.
//
// Ranks should agree that they are done (Barrier) before one destroys: those
// still under way see it as a peer that has left.
func (w *World) Destroy() error {
	if err := w.Group.Destroy(); err != nil {
		return err
	}
	return w.Close()
}

// Close is Destroy that may be called twice.
func (w *World) Close() error {
	w.ending.Do(func() {
		if w.Group != nil {
			w.err = w.Group.Close()
		}
		if w.close != nil {
			w.err = errors.Join(w.err, w.close())
		}
		unclaim(w.key)
	})
	return w.err
}
