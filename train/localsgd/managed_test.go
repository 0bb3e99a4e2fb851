package localsgd_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/skerry-ft/skerry/dist/quant"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/managedtest"
	"github.com/skerry-ft/skerry/train/localsgd"
)

// rounds are a round of the second of two fragments, among those that take part. A spare is
// at another step until it heals in ShouldCommit; it gives nothing, and gets the average.
func rounds() map[string]managedtest.Verb {
	verbs := make(map[string]managedtest.Verb)
	for name, r := range map[string]localsgd.Reduction{
		"plain": {BucketBytes: 8}, "int8": {Quantize: &quant.Options{Row: 2}}, "e4m3": {Quantize: &quant.Options{Format: quant.E4M3}},
	} {
		for delay := range 2 {
			a := algorithm{sizes: sizes{{2}, {4, 3}}, every: 4, outer: &localsgd.SGD{Rate: 1}, delay: delay, reduction: r}
			verbs[fmt.Sprintf("%s, delay %d", name, delay)] = a.secondRound
		}
	}
	return verbs
}

func (a algorithm) secondRound(ctx context.Context, g *pg.Group, rank, size int) error {
	m, x := &fake{group: g, step: 1}, a.sizes.fresh()
	d, err := a.make(m, x)
	if err != nil {
		return err
	}
	defer d.Close()
	for _, values := range x[1] {
		for i := range values {
			values[i] -= float32(rank + 1)
		}
	}
	if rank < 0 {
		x[1][0][0] = float32(math.NaN()) // counts for nothing
		m.step = 0
		m.ending = func() {
			m.step = 1
			if err := m.load(m.save()); err != nil {
				m.ReportError(err)
			}
		}
	}
	for range 2 {
		if _, err := d.Step(ctx); err != nil {
			return err
		}
	}
	if len(m.reported) > 0 || d.Rounds() != 1 {
		return fmt.Errorf("%d rounds, reported %v", d.Rounds(), m.reported)
	}
	want := wide(a.sizes.fresh().flat())
	for i := range want[1] {
		want[1][i] -= float64(size+1) / 2
	}
	if err := near(a.sizes.globals(d.State()), want); err != nil {
		return fmt.Errorf("global parameters of rank %d: %w", rank, err)
	}
	return near(x.flat(), want)
}

func TestRoundsAmongThoseWhoTakePart(t *testing.T) {
	t.Parallel()
	managedtest.BeforeQuorum(t, rounds())
}

func TestRoundsBeginAnew(t *testing.T) {
	t.Parallel()
	managedtest.BeginAnew(t, rounds())
}
