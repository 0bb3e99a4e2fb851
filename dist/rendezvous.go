package dist

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/skerry-ft/skerry/internal/netaddr"
	"github.com/skerry-ft/skerry/store"
)

// ErrInitialized is returned by Init for a rendezvous that this process has
// joined under the same rank already. Destroy that world first.
var ErrInitialized = errors.New("dist: initialized already")

// RendezvousRequest is what Init asks a rendezvous for.
type RendezvousRequest struct {
	URL       *url.URL
	Rank      *int // as given to Init; nil: the rendezvous must know
	WorldSize int  // as given to Init; 0: the rendezvous must know
	Token     []byte
	TLS       *store.TLS // of the store, if not nil
	Open      bool       // the store may be served beyond this host without Token or TLS
	Log       zerolog.Logger
}

// Rendezvous is how the ranks of a world find a store that they share.
type Rendezvous struct {
	Rank, WorldSize int

	// Address is "host:port" of the store's server, if there is one that
	// backends can dial; else Store is used by them too.
	Address string
	Store   store.Store

	// Close releases the store, and the server if this rank runs it. Nil: there
	// is nothing to release.
	Close func() error
}

// RendezvousFunc finds the store of a world, or serves it. It blocks until the
// store can be used or ctx ends.
type RendezvousFunc func(ctx context.Context, r RendezvousRequest) (*Rendezvous, error)

// rendezvous is who meets how. It is package state as the registry of backends
// is; live makes a second Init an error instead of a hang.
var rendezvous struct {
	sync.Mutex

	schemes map[string]RendezvousFunc
	live    map[string]bool
}

// builtinScheme gives the ways to meet that are always there.
func builtinScheme(scheme string) RendezvousFunc {
	switch scheme {
	case "env":
		return meetFromEnv
	case "tcp":
		return meetTCP
	case "file":
		return meetFile
	}
	return nil
}

// RegisterRendezvous makes URLs of a scheme ("etcd://…") known to Init. Main
// packages call it once per scheme; one that is taken is an error.
func RegisterRendezvous(scheme string, f RendezvousFunc) error {
	scheme = strings.ToLower(scheme)
	if scheme == "" || strings.ContainsAny(scheme, ":/") || f == nil {
		return fmt.Errorf("dist: register rendezvous %q: want a scheme and a function", scheme)
	}
	rendezvous.Lock()
	defer rendezvous.Unlock()
	if builtinScheme(scheme) != nil || rendezvous.schemes[scheme] != nil {
		return fmt.Errorf("dist: rendezvous %q is registered already", scheme)
	}
	if rendezvous.schemes == nil {
		rendezvous.schemes = make(map[string]RendezvousFunc)
	}
	rendezvous.schemes[scheme] = f
	return nil
}

// meet finds the store of a URL.
func meet(ctx context.Context, r RendezvousRequest) (*Rendezvous, error) {
	scheme := strings.ToLower(r.URL.Scheme)
	f := builtinScheme(scheme)
	if f == nil {
		rendezvous.Lock()
		f = rendezvous.schemes[scheme]
		rendezvous.Unlock()
	}
	if f == nil {
		return nil, fmt.Errorf("dist: no rendezvous for %q, want env://, tcp://, file:// or a registered one", methodText(r.URL))
	}
	return f(ctx, r)
}

// methodText is u for an error, without a password, as InitConfig.Method has it: net/url
// writes env:// as "env:".
func methodText(u *url.URL) string {
	text := u.Redacted()
	if u.Host == "" && u.Path == "" && u.Opaque == "" && u.User == nil {
		text = strings.Replace(text, ":", "://", 1)
	}
	return text
}

// claim notes that this process joins a rendezvous under a rank.
func claim(key string) error {
	rendezvous.Lock()
	defer rendezvous.Unlock()
	if rendezvous.live[key] {
		return fmt.Errorf("%w: %s", ErrInitialized, key)
	}
	if rendezvous.live == nil {
		rendezvous.live = make(map[string]bool)
	}
	rendezvous.live[key] = true
	return nil
}

func unclaim(key string) {
	rendezvous.Lock()
	defer rendezvous.Unlock()
	delete(rendezvous.live, key)
}

// Place settles rank and world size from the request and its URL
// (?rank=0&world_size=2), and checks them. Rank and worldSize are what else
// could tell them, nil and 0 if nothing does.
func (r *RendezvousRequest) Place(rank *int, worldSize int) (atRank, ofWorld int, err error) {
	var errs []error
	query := r.URL.Query()
	number := func(key string, given *int) *int {
		text := query.Get(key)
		if text == "" {
			return given
		}
		n, err := strconv.Atoi(text)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s=%q in the URL is no number", key, text))
		case given != nil && *given != n:
			errs = append(errs, fmt.Errorf("%s is %d in the URL and %d in the call", key, n, *given))
		}
		return &n
	}
	known := func(size *int) *int {
		if *size == 0 {
			return nil
		}
		return size
	}
	rankHere := cmp.Or(number("rank", r.Rank), rank)
	sizeHere := cmp.Or(number("world_size", known(&r.WorldSize)), known(&worldSize))
	if rankHere == nil {
		errs = append(errs, errors.New("the rank is not known: give it to Init, or as ?rank= in the URL"))
	}
	if sizeHere == nil {
		errs = append(errs, errors.New("the world size is not known: give it to Init, or as ?world_size= in the URL"))
	}
	if len(errs) == 0 && (*sizeHere < 1 || *rankHere < 0 || *rankHere >= *sizeHere) {
		errs = append(errs, fmt.Errorf("rank %d of %d, want 0 to the world size less one", *rankHere, *sizeHere))
	}
	if err := errors.Join(errs...); err != nil {
		return 0, 0, fmt.Errorf("rendezvous %s: %w", methodText(r.URL), err)
	}
	return *rankHere, *sizeHere, nil
}

// meetTCP: rank 0 serves the store at the URL's host and port, all others dial.
func meetTCP(ctx context.Context, r RendezvousRequest) (*Rendezvous, error) {
	rank, size, err := r.Place(nil, 0)
	if err != nil {
		return nil, err
	}
	if r.URL.Port() == "" || r.URL.Hostname() == "" || strings.Trim(r.URL.Path, "/") != "" {
		return nil, fmt.Errorf("rendezvous %s: want tcp://host:port", methodText(r.URL))
	}
	m := &Rendezvous{Rank: rank, WorldSize: size, Address: r.URL.Host}
	return m, m.overTCP(ctx, r.URL.Host, rank == 0, r)
}

// overTCP serves the store, if this rank does, and connects to it.
func (m *Rendezvous) overTCP(ctx context.Context, listen string, serve bool, r RendezvousRequest) error {
	if err := checkMeeting(m.Address, m.WorldSize, serve); err != nil {
		return err
	}
	stop := func() error { return nil }
	if serve {
		var err error
		if m.Address, stop, err = serveStore(ctx, listen, r); err != nil {
			return err
		}
	}
	client, err := store.Dial(ctx, m.Address, store.ClientConfig{Token: r.Token, TLS: r.TLS})
	if err != nil {
		return errors.Join(err, stop())
	}
	m.Store = client
	m.Close = func() error { return errors.Join(client.Close(), stop()) }
	return nil
}

// guarded says that whoever comes to the store must prove something.
func (r *RendezvousRequest) guarded() bool {
	return len(r.Token) > 0 || r.TLS.AsksClients()
}

// serveStore serves the store until stop is called, and returns where this rank reaches it.
func serveStore(ctx context.Context, listen string, r RendezvousRequest) (address string, stop func() error, err error) {
	bind, own, err := storePlace(ctx, listen, r.guarded() || r.Open)
	if err != nil {
		return "", nil, fmt.Errorf("serve store at %s: %w", listen, err)
	}
	server, err := store.NewServer(store.ServerConfig{Listen: bind, Token: r.Token, TLS: r.TLS, Open: r.Open, Log: r.Log})
	if err != nil {
		return "", nil, fmt.Errorf("serve store at %s: %w", listen, err)
	}
	if reached, err := netaddr.Reached(ctx, bind); err == nil && reached && !r.guarded() {
		r.Log.Warn().Str("addr", server.Addr()).Msg("unguarded store served beyond this host")
	}
	address = server.Addr()
	if own != "" {
		_, port, _ := net.SplitHostPort(address) // a listener's address has one
		address = net.JoinHostPort(own, port)
	}
	running, cancel := context.WithCancel(context.Background())
	var serving errgroup.Group
	serving.Go(func() error { return server.Run(running) })
	stop = func() error {
		cancel()
		return serving.Wait()
	}
	return address, stop, nil
}

// meetFile: all ranks share a file, which the last one removes.
func meetFile(_ context.Context, r RendezvousRequest) (*Rendezvous, error) {
	rank, size, err := r.Place(nil, 0)
	if err != nil {
		return nil, err
	}
	if r.URL.Path == "" || r.URL.Host != "" && r.URL.Host != "localhost" {
		return nil, fmt.Errorf("rendezvous %s: want file:///path", methodText(r.URL))
	}
	file, err := store.NewFile(r.URL.Path, size)
	if err != nil {
		return nil, fmt.Errorf("rendezvous %s: %w", methodText(r.URL), err)
	}
	return &Rendezvous{Rank: rank, WorldSize: size, Store: file, Close: file.Close}, nil
}
