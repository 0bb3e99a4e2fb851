package tcp

import (
	"flag"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
)

// wholeSuite has the suite run in groups of five over every transport, as make conformance does.
var wholeSuite = flag.Bool("tcp.whole", false, "the suite in groups of five over every transport, and twice the storms")

// most is the largest group of the suite; 0: as large as it goes.
func most(usual int) int {
	switch {
	case *wholeSuite:
		return 0
	case testing.Short():
		return min(usual, 3)
	}
	return usual
}

func TestConformance(t *testing.T) {
	for _, transport := range []Transport{TransportShared, TransportTCP} {
		t.Run(transport.String(), func(t *testing.T) {
			largest := most(4)
			if transport == TransportTCP {
				largest = most(3)
			}
			pgtest.RunWith(t, pgtest.Harness{
				MaxWorldSize: largest,
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
