package tcp

import (
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
)

// TestCheckConforms: DETAIL mode over sockets, where an abort may overtake the
// fingerprints.
func TestCheckConforms(t *testing.T) {
	if testing.Short() {
		t.Skip("the suite runs over tcp and over Check already")
	}
	pgtest.RunWith(t, pgtest.Harness{
		New:    func(*testing.T) pg.Backend { return pg.NewCheck(New(Options{BeatTimeout: patientBeats})) },
		DTypes: []pg.DType{pg.Float32DType, pg.Int64DType},
		Kill:   func(b pg.Backend) { kill(b.(*pg.Check).Unwrap().(*Backend)) },
	})
}
