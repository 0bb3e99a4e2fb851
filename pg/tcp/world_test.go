package tcp

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/store"
)

// world is some backends in one process, and the store where they meet.
type world struct {
	t        testing.TB
	store    string
	cluster  string
	ids      []string
	backends []*Backend
	tls      *store.TLS // of all; nil: they are in the clear
	storeTLS *store.TLS // likewise
}

const testTimeout = 20 * time.Second

// patientBeats keeps tests that are not about silence from finding it on a
// machine that runs ten other things, under the race detector.
const patientBeats = 5 * time.Second

// quietLimit is for tests that wait for a silence which only time makes: those that live
// may stand still for less.
const quietLimit = 3 * time.Second

// streams has every test try itself on edges of several sockets; a few always do.
var streams = flag.Int("tcp.streams", 0, "sockets of each edge where a test names none; no shared memory then")

// overTLS has every test try itself over TLS; a few always do.
var overTLS = flag.Bool("tcp.tls", false, "have certificates where a test says nothing about them")

func (o Options) forTest() Options {
	if o.BeatTimeout == 0 {
		o.BeatTimeout = patientBeats
	}
	if o.Streams == 0 && *streams > 0 && o.Transport == TransportAuto {
		o.Streams, o.Transport = *streams, TransportTCP
	}
	return o
}

func newWorld(t testing.TB, n int, opt Options) *world {
	t.Helper()
	opts := make([]Options, n)
	for i := range opts {
		opts[i] = opt
	}
	return newWorldOf(t, opts)
}

func newWorldOf(t testing.TB, opts []Options) *world {
	t.Helper()
	w := &world{t: t, cluster: "test"}
	if *overTLS {
		w.tls = certified(t, guardtest.New(t), replica, "replica")
	}
	w.storeTLS = w.tls
	w.store = testStore(t, w.storeTLS)
	for i, o := range opts {
		w.ids = append(w.ids, fmt.Sprintf("replica%d", i))
		b := New(o.forTest())
		w.backends = append(w.backends, b)
		t.Cleanup(func() {
			if err := b.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
	return w
}

// testStore runs a store server and returns its address.
func testStore(t testing.TB, tls *store.TLS) string {
	t.Helper()
	s, err := store.NewServer(store.ServerConfig{TLS: tls})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { s.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		s.Close()
		wg.Wait()
	})
	return s.Addr()
}

// config is that of rank r of the given members in quorum q.
func (w *world) config(q int64, members []int, r int) pg.Config {
	c := pg.Config{
		StoreAddress: fmt.Sprintf("%s/skerry/%s/default/%d/0", w.store, w.cluster, q),
		Rank:         r, Cluster: w.cluster, QuorumID: q, GroupWorldSize: 1,
		Token: []byte("a token of sixteen"), TLS: w.tls, Timeout: testTimeout,
	}
	for _, m := range members {
		c.ReplicaIDs = append(c.ReplicaIDs, w.ids[m])
	}
	return c
}

func (w *world) everybody() []int {
	all := make([]int, len(w.backends))
	for i := range all {
		all[i] = i
	}
	return all
}

// configure makes the members, in rank order, a group; all must succeed.
func (w *world) configure(q int64, members ...int) {
	w.t.Helper()
	if len(members) == 0 {
		members = w.everybody()
	}
	errs := w.tryConfigure(q, members, func(int, *pg.Config) {})
	for r, err := range errs {
		if err != nil {
			w.t.Fatalf("configure quorum %d rank %d: %v", q, r, err)
		}
	}
}

func (w *world) tryConfigure(q int64, members []int, edit func(r int, c *pg.Config)) []error {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	errs := make([]error, len(members))
	var wg sync.WaitGroup
	for r, m := range members {
		wg.Go(func() {
			c := w.config(q, members, r)
			edit(r, &c)
			errs[r] = w.backends[m].Configure(ctx, c)
		})
	}
	wg.Wait()
	return errs
}

// wait waits for a Work, with a deadline.
func wait(t testing.TB, w *pg.Work) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	err := w.Wait(ctx)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		t.Fatalf("%v did not end", w.Op().Kind)
	}
	return err
}

// all submits one op per rank of the members and waits for all.
func (w *world) all(members []int, op func(r int) *pg.Op) []error {
	w.t.Helper()
	works := make([]*pg.Work, len(members))
	for r, m := range members {
		works[r] = w.backends[m].Submit(op(r))
	}
	errs := make([]error, len(members))
	for r := range works {
		errs[r] = wait(w.t, works[r])
	}
	return errs
}

func noError(t testing.TB, errs []error) {
	t.Helper()
	for r, err := range errs {
		if err != nil {
			t.Fatalf("rank %d: %v", r, err)
		}
	}
}

// eventually waits for ok, less long than the transport's keepalive takes to see a dead link.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	testkit.EventuallyWithin(t, testTimeout, what, ok)
}
