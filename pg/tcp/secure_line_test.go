package tcp

import (
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/internal/burst"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
)

// TestTLSStrangersWriteShortLines: what a stranger wrote into a certificate is not
// repeated at length in the log.
func TestTLSStrangersWriteShortLines(t *testing.T) {
	t.Parallel()
	var log lines
	w := newWorld(t, 2, Options{Transport: TransportTCP, Logger: log.logger()})
	w.tls = certified(t, guardtest.New(t), replica, "replica")
	w.configureSealed(1)
	guardtest.ShowOdd(t, w.backends[0].Addr().String(), 28_000)
	const what = "connection to the data plane refused"
	eventually(t, "the stranger is logged", func() bool { return strings.Contains(log.text(), what) })
	for line := range strings.Lines(log.text()) {
		if most := 2*burst.MaxErrorBytes + 256; len(line) > most { // escapes; the other fields
			t.Errorf("a stranger caused a line of %d bytes, want %d at most: %.80s", len(line), most, line)
		}
	}
}
