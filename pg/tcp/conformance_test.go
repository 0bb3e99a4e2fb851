package tcp

import (
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
)

func TestConformance(t *testing.T) {
	for _, transport := range []Transport{TransportShared, TransportTCP} {
		t.Run(transport.String(), func(t *testing.T) {
			most := 0
			if testing.Short() && transport == TransportTCP {
				most = 3
			}
			pgtest.RunWith(t, pgtest.Harness{
				MaxWorldSize: most,
				New: func(t *testing.T) pg.Backend {
					return New(Options{BeatTimeout: patientBeats, Transport: transport})
				},
				Kill:    func(b pg.Backend) { kill(b.(*Backend)) },
				Corrupt: func(b pg.Backend) { b.(*Backend).spoilNext.Store(true) },
			})
		})
	}
}

// kill closes b's sockets without a word, as the kernel does for a process
// that was killed. The lock keeps b from telling anybody about the first one
// over the others.
func kill(b *Backend) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for l := range b.mu.links {
		for _, k := range l.socks {
			k.conn.tcp.SetLinger(0)
			k.conn.tcp.Close()
		}
	}
}
