package tcp

import (
	"errors"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/pg"
)

// TestUnsentIsCut: a member that has us answer without end (changes of TLS's keys) and
// reads nothing, while its beats come, loses its edge at once. The answers are put
// where crypto/tls puts them.
func TestUnsentIsCut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, Options{Transport: TransportTCP, Streams: 1, BeatTimeout: testTimeout, Timeout: testTimeout / 2})
	w.tls = certified(t, guardtest.New(t), replica, "replica")
	w.configureSealed(1)
	b := w.backends[0]
	s := b.linkTo(w.ids[1]).conn.sealed.Load()
	s.mu.Lock()
	s.mu.out = append(s.mu.out, make([]byte, maxUnsent-8)...)
	s.mu.Unlock()
	op, _ := reduction(0, 1<<18, 0)
	began := time.Now()
	err := wait(t, b.Submit(op))
	if !errors.Is(err, pg.ErrPeerLost) || !errors.Is(err, errUnsent) {
		t.Fatalf("after %v: %v, want the peer lost for %v", time.Since(began), err, errUnsent)
	}
	if e := opError(t, err); e.Peer != 1 {
		t.Errorf("rank 0 blames %d: %v", e.Peer, err)
	}
}
