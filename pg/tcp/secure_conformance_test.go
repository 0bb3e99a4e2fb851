package tcp

import (
	"testing"

	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
)

// TestConformanceOverTLS: every rule of a backend holds over TLS, by lanes beside a
// socket as by one socket and by several.
func TestConformanceOverTLS(t *testing.T) {
	c := guardtest.New(t)
	tls := certified(t, c, replica, "replica")
	for name, opt := range map[string]Options{
		"shared": {Transport: TransportShared}, "tcp": {Transport: TransportTCP}, "streams": {Transport: TransportTCP, Streams: 3},
	} {
		t.Run(name, func(t *testing.T) {
			opt.BeatTimeout = patientBeats
			pgtest.RunWith(t, pgtest.Harness{
				MaxWorldSize: most(2),
				New:          func(*testing.T) pg.Backend { return &sealedBackend{New(opt), tls, nil} },
				Kill:         func(b pg.Backend) { kill(b.(*sealedBackend).Backend) },
				Corrupt:      func(b pg.Backend) { b.(*sealedBackend).spoilNext.Store(true) },
			})
		})
	}
}
