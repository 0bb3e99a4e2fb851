package baby

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/store"
	"github.com/skerry-ft/skerry/store/certs"
)

// TestChildIsRefused: a child that cannot speak TLS with the store, or whose files are
// not what they were, ends its Configure with the reason; so does a TLS of which a child
// could make none.
func TestChildIsRefused(t *testing.T) {
	t.Parallel()
	o := guardtest.New(t).PartyOptions(t, guard.Party{Role: guard.Replica, Job: "vision"}, "replica")
	conf, err := certs.FromOptions(o, "vision")
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.NewServer(store.ServerConfig{TLS: conf})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), pgtest.Bound)
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) }) // the test sees what does not work
	defer running.Wait()
	defer s.Close()
	with := func(change func(f *store.TLSFiles)) *store.TLS {
		changed := *conf
		change(&changed.Files)
		return &changed
	}
	for want, conf := range map[string]*store.TLS{
		"TLS without Files":      with(func(f *store.TLSFiles) { *f = store.TLSFiles{} }),
		".gone":                  with(func(f *store.TLSFiles) { f.Key += ".gone" }),
		`bound to job "vision"`:  with(func(f *store.TLSFiles) { f.Job = "text" }),
		"speaks nothing but TLS": nil,
	} {
		err := newBaby(t, Options{}).Configure(ctx, pg.Config{
			StoreAddress: fmt.Sprintf("%s/q", s.Addr()), ReplicaIDs: []string{"a", "b"}, Cluster: "c", QuorumID: 1,
			GroupWorldSize: 1, Timeout: pgtest.Bound, TLS: conf,
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("configured with %v, want an error with %q", err, want)
		}
		if without := want == "TLS without Files"; without != errors.Is(err, pg.ErrUnsupported) {
			t.Errorf("%s: %v, want %v: %t", want, err, pg.ErrUnsupported, without)
		}
	}
}
