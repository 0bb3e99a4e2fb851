package tcp

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/store"
)

// TestSilentInARecord: the way to rank 1 stops carrying in the midst of a large op,
// and so in the midst of a record of TLS. Rank 1 finds the silence and names the peer,
// long before the op's deadline, with TLS as without.
func TestSilentInARecord(t *testing.T) {
	t.Parallel()
	cert := certified(t, guardtest.New(t), replica, "replica")
	for _, tc := range []struct {
		name string
		tls  *store.TLS
		end  int // bytes that are carried
	}{
		{"in the clear", nil, 1_000_000},
		{"TLS", cert, 1_000_000},
		{"TLS, elsewhere in a record", cert, 1_300_000},
		{"TLS, and elsewhere", cert, 1_705_000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			frozen := make(chan struct{})
			thaw := sync.OnceFunc(func() { close(frozen) })
			p := startProxy(t, func(at int, _ []byte) error {
				if at > tc.end {
					<-frozen
					return io.EOF
				}
				return nil
			})
			t.Cleanup(thaw)
			opt := Options{Transport: TransportTCP, Streams: 1, Timeout: testTimeout / 2}
			dialed := opt
			dialed.Advertise, dialed.BeatTimeout = p.ln.Addr().String(), 2*time.Second // rank 0 is patient: it hears rank 1
			w := newWorldOf(t, []Options{opt, dialed})
			p.target = func() net.Addr { return w.backends[1].Addr() }
			p.wg.Go(p.accept)
			noError(t, w.configureWith(1, tc.tls, tc.tls))
			err := w.allReduce(w.everybody(), 4<<20)[1]
			if !errors.Is(err, pg.ErrPeerLost) || !errors.Is(err, errSilent) {
				t.Fatalf("rank 1: %v, want the peer lost for its silence", err)
			}
			if e := opError(t, err); e.Peer != 0 {
				t.Errorf("rank 1 blames %d: %v", e.Peer, err)
			}
		})
	}
}
