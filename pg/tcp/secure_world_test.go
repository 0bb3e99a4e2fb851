package tcp

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/store"
	"github.com/skerry-ft/skerry/store/certs"
)

// job is the one that the ranks of these tests are of.
const job = "vision"

// certified is the TLS of a member of job that has p's certificate.
func certified(t testing.TB, c *guardtest.Cluster, p guard.Party, name string) *store.TLS {
	t.Helper()
	o := c.PartyOptions(t, p, name)
	g := guardtest.Open(t, o)
	return certs.Of(g, o, job)
}

// replica is what members show.
var replica = guard.Party{Role: guard.Replica}

// apart has the meeting place be as t says, whatever the data plane is.
func apart(ctx context.Context, c pg.Config, t *store.TLS) (pg.Config, func(), error) {
	address, prefix, _ := strings.Cut(c.StoreAddress, "/")
	client, err := store.Dial(ctx, address, store.ClientConfig{Token: c.Token, TLS: t})
	if err != nil {
		return c, nil, err
	}
	c.Store, c.StoreAddress = client, prefix
	return c, func() { client.Close() }, nil
}

// sealedBackend is a Backend whose groups have certificates.
type sealedBackend struct {
	*Backend

	tls, store *store.TLS
}

func (b *sealedBackend) Configure(ctx context.Context, c pg.Config) error {
	c, done, err := apart(ctx, c, b.store)
	if err != nil {
		return err
	}
	defer done()
	c.TLS = b.tls
	return b.Backend.Configure(ctx, c)
}

// lines keeps what is logged, above debug.
type lines struct {
	sync.Mutex

	all bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.all.Write(p)
}

func (l *lines) logger() zerolog.Logger { return zerolog.New(l).Level(zerolog.InfoLevel) }

func (l *lines) text() string {
	l.Lock()
	defer l.Unlock()
	return l.all.String()
}
