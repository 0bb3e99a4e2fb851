package tcp

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/debug"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

// TestCheckConforms: DETAIL mode over sockets, where an abort may overtake the
// fingerprints.
func TestCheckConforms(t *testing.T) {
	testkit.Long(t)
	if testing.Short() {
		t.Skip("the suite runs over tcp and over Check already")
	}
	pgtest.RunWith(t, pgtest.Harness{
		MaxWorldSize: most(3),
		New:          func(*testing.T) pg.Backend { return debug.NewCheck(New(Options{BeatTimeout: patientBeats})) },
		DTypes:       []tensor.DType{tensor.Float32, tensor.Int64},
		Kill:         func(b pg.Backend) { kill(b.(*debug.Check).Unwrap().(*Backend)) },
	})
}

// TestCheckNamesBothSidesOverSockets: whoever sees the disagreement first, and
// whoever is only told by an abort, every rank's error says who called what.
func TestCheckNamesBothSidesOverSockets(t *testing.T) {
	const ranks, odd = 4, 2
	w := pgtest.NewWorld(t, pgtest.StartStore(t))
	var members []pgtest.Member
	for i := range ranks {
		members = append(members, w.Join(string(rune('a'+i)), debug.NewCheck(New(Options{BeatTimeout: patientBeats}))))
	}
	for range 5 {
		w.Configure(members...)
		errs := make([]error, ranks)
		w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
			n := 20
			if rank == odd {
				n = 10
			}
			errs[rank] = g.AllReduce(ctx, tensor.New(tensor.Float32, n), tensor.Sum)
			return nil
		})
		for rank, err := range errs {
			if !errors.Is(err, pg.ErrMismatch) {
				t.Fatalf("rank %d: %v, want ErrMismatch", rank, err)
			}
			for _, want := range []string{"rank 2 (c) called all-reduce #1 of float32[10]", "called all-reduce #1 of float32[20]"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("rank %d: %q does not say %q", rank, err, want)
				}
			}
		}
	}
}
