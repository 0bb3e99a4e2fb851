package baby

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/store/certs"
)

// TestChildWaitsForARenewal: a child that is configured while key and certificate are
// not of one another waits for the rest of the renewal. If none comes it says why it
// has none; and whoever ends the Configure ends the wait.
func TestChildWaitsForARenewal(t *testing.T) {
	t.Parallel()
	c := guardtest.New(t)
	o := c.Options(t, guard.Replica, "replica")
	conf := certs.Of(guardtest.Open(t, o), o, "")
	address := storeOver(t, conf)
	half := func() {
		t.Helper()
		if err := os.WriteFile(o.TLSKey, []byte("half a k"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := newBaby(t, Options{})
	ctx, cancel := context.WithTimeout(t.Context(), pgtest.Bound)
	defer cancel()
	warm := func() { // the child is to read the files soon after
		t.Helper()
		if err := b.Warm(ctx); err != nil {
			t.Fatal(err)
		}
	}
	configure := func(ctx context.Context, quorum int64) error {
		return b.Configure(ctx, pg.Config{
			StoreAddress: fmt.Sprintf("%s/%d", address, quorum), ReplicaIDs: []string{"a"}, Cluster: "c", QuorumID: quorum,
			GroupWorldSize: 1, TLS: conf,
		})
	}
	half()
	warm()
	rest := time.AfterFunc(filesPatience/10, func() { c.Sign(t, guard.Party{Role: guard.Replica}, "replica") })
	defer rest.Stop()
	if err := configure(ctx, 1); err != nil {
		t.Fatalf("in the midst of a renewal: %v", err)
	}
	half()
	warm()
	if err := configure(ctx, 2); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with files that stay as they are: %v, want what is wrong with them", err)
	}
	warm()
	over := errors.New("the test has had enough")
	given, end := context.WithCancelCause(ctx)
	time.AfterFunc(filesPatience/10, func() { end(over) })
	if err := configure(given, 3); !errors.Is(err, over) {
		t.Errorf("given up: %v, want %v", err, over)
	}
}
