package baby

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/store"
	"github.com/skerry-ft/skerry/store/certs"
)

// certified is a replica's TLS.
func certified(t *testing.T) *store.TLS {
	t.Helper()
	o := guardtest.New(t).Options(t, guard.Replica, "replica")
	return certs.Of(guardtest.Open(t, o), o, "")
}

// storeOver serves a store with that TLS and returns its address.
func storeOver(t *testing.T, c *store.TLS) string {
	t.Helper()
	s, err := store.NewServer(store.ServerConfig{TLS: c})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Run(ctx) }) // the test sees what does not work
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return s.Addr()
}

// overTLS is a Baby whose groups have certificates.
type overTLS struct {
	*Backend

	tls *store.TLS
}

func (b *overTLS) Configure(ctx context.Context, c pg.Config) error {
	c.TLS = b.tls
	return b.Backend.Configure(ctx, c)
}

// TestConformanceOverTLS: what a child needs for TLS reaches it, and the rules hold.
func TestConformanceOverTLS(t *testing.T) {
	if testing.Short() {
		t.Skip("the children of a whole suite: not with -short")
	}
	c := certified(t)
	pgtest.RunWith(t, pgtest.Harness{
		MaxWorldSize: 2,
		StoreAddress: func(t *testing.T) string { return storeOver(t, c) },
		New: func(t *testing.T) pg.Backend {
			return &overTLS{newBaby(t, Options{Silence: pgtest.Bound}), c}
		},
		Kill: func(b pg.Backend) { killChild(t, b.(*overTLS).Backend) },
	})
}

// TestChildTakesTLSOnly: a child of a rank that has certificates meets one that has
// too, in whatever process, and none that has not; of the files no more than names
// reach it, and those by its socket.
func TestChildTakesTLSOnly(t *testing.T) {
	c := certified(t)
	b := newBaby(t, Options{})
	other := tcp.New(tcp.Options{BeatTimeout: 20 * time.Second, Transport: tcp.TransportTCP})
	t.Cleanup(func() { other.Close() })
	address, plain := storeOver(t, c), storeOver(t, nil)
	meet := func(quorum int64, theirs *store.TLS) error {
		ctx, cancel := context.WithTimeout(t.Context(), pgtest.Bound)
		defer cancel()
		errs := make([]error, 3)
		var wg sync.WaitGroup
		for r, one := range []pg.Backend{b, other} {
			wg.Go(func() {
				config := pg.Config{
					StoreAddress: fmt.Sprintf("%s/%d", address, quorum), ReplicaIDs: []string{"a", "b"}, Rank: r,
					Cluster: "c", QuorumID: quorum, GroupWorldSize: 1, TLS: c,
				}
				if r == 1 && theirs == nil {
					config.TLS = nil
					config.StoreAddress = fmt.Sprintf("%s/%d", plain, quorum)
				}
				if errs[r] = one.Configure(ctx, config); r == 0 && errs[r] != nil {
					cancel() // nobody will come to the other
				}
			})
		}
		if theirs == nil { // they find one another: the stores say the same
			wg.Go(func() { errs[2] = sameAddresses(ctx, quorum, address, c, plain) })
		}
		wg.Wait()
		return errors.Join(errs...)
	}
	if err := meet(1, c); err != nil {
		t.Fatal(err)
	}
	pid, _ := b.Child()
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || strings.Contains(string(line), ".key") {
		t.Errorf("the child's command line is %q, %v", line, err)
	}
	if err := meet(2, nil); err == nil || !strings.Contains(err.Error(), "set SKERRY_TLS_DATA=false") {
		t.Errorf("with a peer in the clear: %v, want what to set", err)
	}
	if err := meet(3, c); err != nil {
		t.Error(err)
	}
}

// sameAddresses copies what the ranks publish in one store into the other.
func sameAddresses(ctx context.Context, quorum int64, address string, c *store.TLS, plain string) error {
	from, err := store.Open(ctx, fmt.Sprintf("%s/%d", plain, quorum), store.ClientConfig{})
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := store.Open(ctx, fmt.Sprintf("%s/%d", address, quorum), store.ClientConfig{TLS: c})
	if err != nil {
		return err
	}
	defer to.Close()
	value, err := from.Get(ctx, "tcp/1") // rank 0, the child, dials
	if err != nil {
		return err
	}
	return to.Set(ctx, "tcp/1", value)
}
