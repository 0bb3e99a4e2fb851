package failpoint_test

import (
	"context"
	"slices"
	"testing"

	"github.com/skerry-ft/skerry/internal/failpoint"
)

func TestHooksAreApart(t *testing.T) {
	var a, b []failpoint.Point
	failpoint.At(t.Context(), failpoint.JoinBefore) // nobody is told
	in := func(seen *[]failpoint.Point) context.Context {
		return failpoint.With(t.Context(), func(p failpoint.Point) { *seen = append(*seen, p) })
	}
	ca, cb := in(&a), in(&b)
	failpoint.At(ca, failpoint.JoinBefore)
	failpoint.At(context.WithoutCancel(cb), failpoint.JoinAfter)
	failpoint.From(ca).At(failpoint.VoteAfter)
	failpoint.At(t.Context(), failpoint.BallotAfter)
	if want := []failpoint.Point{failpoint.JoinBefore, failpoint.VoteAfter}; !slices.Equal(a, want) {
		t.Errorf("a is told %v, want %v", a, want)
	}
	if want := []failpoint.Point{failpoint.JoinAfter}; !slices.Equal(b, want) {
		t.Errorf("b is told %v, want %v", b, want)
	}
}

func TestPointsDiffer(t *testing.T) {
	all := failpoint.All()
	slices.Sort(all)
	if n := len(slices.Compact(slices.Clone(all))); n != 30 || n != len(all) {
		t.Errorf("%d names of %d points, want 30: three each of ten", n, len(all))
	}
}
