package ddp_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/ddp"
)

func TestUnusedAreNamed(t *testing.T) {
	t.Parallel()
	for _, managed := range []bool{false, true} {
		w, ranks := newWorld(1)
		m := ddp.Over(ranks[0].group)
		if managed {
			m = ranks[0]
		}
		red, err := ddp.New(m, newModel([]int{3, 3, 3}, 0, 0).params(), ddp.Options{})
		if err != nil {
			t.Fatal(err)
		}
		red.Ready(1)
		err = red.Reduce(t.Context())
		if managed {
			if err != nil || len(ranks[0].reports) != 1 {
				t.Fatalf("reduce: %v, reports %v, want one report", err, ranks[0].reports)
			}
			err = ranks[0].reports[0]
		}
		unused, ok := errors.AsType[*ddp.UnusedError](err)
		if !ok || !slices.Equal(unused.Params, []string{"p0", "p2"}) || !strings.Contains(err.Error(), "p0, p2") {
			t.Errorf("managed %v: %v, want p0 and p2 named", managed, err)
		}
		if want := []int{36}; !slices.Equal(w.mu.bytes, want) {
			t.Errorf("ops of %v bytes, want %v: the other ranks wait for them", w.mu.bytes, want)
		}
	}
}

func TestPlainGroupReturnsErrors(t *testing.T) {
	t.Parallel()
	_, ranks := newWorld(1)
	red, err := ddp.New(ddp.Over(ranks[0].group), newModel([]int{3}, 0, 0).params(), ddp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	ranks[0].fail = boom
	red.Ready(0)
	if err := red.Reduce(t.Context()); !errors.Is(err, boom) {
		t.Errorf("reduce: %v, want boom", err)
	}
}

func TestNoSyncReducesNothing(t *testing.T) {
	t.Parallel()
	w, ranks := newWorld(1)
	red, err := ddp.New(ddp.Over(ranks[0].group), newModel([]int{3}, 0, 0).params(), ddp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = red.NoSync(func() error { red.Ready(0); return red.Reduce(t.Context()) })
	if err != nil || len(w.mu.bytes) != 0 {
		t.Errorf("inside NoSync: %v, ops of %v bytes, want none", err, w.mu.bytes)
	}
	red.Ready(0)
	if err := red.Reduce(t.Context()); err != nil || !slices.Equal(w.mu.bytes, []int{12}) {
		t.Errorf("after NoSync: %v, ops of %v bytes, want one of 12", err, w.mu.bytes)
	}
}

// TestBucketsOfASmallModel: unless told, a model of 25 MiB is not one bucket that is full with the last gradient.
func TestBucketsOfASmallModel(t *testing.T) {
	t.Parallel()
	_, ranks := newWorld(1)
	const mib = 1 << 20
	for _, c := range []struct {
		layers, bytes int // of each
		first         int
		want          []int
	}{
		{25, mib, 0, []int{mib, 3 * mib, 3 * mib, 3 * mib, 3 * mib, 3 * mib, 3 * mib, 3 * mib, 3 * mib}},
		{3, mib, 0, []int{mib, mib, mib}},
		{8, mib, 4 * mib, []int{4 * mib, 4 * mib}},
		{41, 5 * mib, 0, slices.Concat([]int{5 * mib}, slices.Repeat([]int{25 * mib}, 8))},
	} {
		params := make([]ddp.Param, c.layers)
		for i := range params {
			params[i] = ddp.Param{Name: fmt.Sprint(i), DType: tensor.Float32, Shape: []int{c.bytes / 4}}
		}
		red, err := ddp.New(ranks[0], params, ddp.Options{Views: true, FirstBucketBytes: c.first})
		if err != nil {
			t.Fatal(err)
		}
		if got := red.Stats().BucketBytes; !slices.Equal(got, c.want) {
			t.Errorf("%d layers of %d bytes: buckets of %v bytes, want %v", c.layers, c.bytes, got, c.want)
		}
	}
}

func TestFirstBucketIsSmall(t *testing.T) {
	t.Parallel()
	w, ranks := newWorld(1)
	red, err := ddp.New(ranks[0], newModel([]int{4, 4, 4, 4}, 0, 0).params(),
		ddp.Options{BucketBytes: 48, FirstBucketBytes: 16, FindUnused: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := red.Reduce(t.Context()); err != nil || !slices.Equal(w.mu.bytes, []int{16, 48}) {
		t.Errorf("reduce: %v, buckets of %v bytes, want 16 and 48", err, w.mu.bytes)
	}
	if _, err := ddp.New(nil, nil, ddp.Options{BucketBytes: 8, FirstBucketBytes: 9}); err == nil ||
		!strings.Contains(err.Error(), "FirstBucketBytes = 9") {
		t.Errorf("error %v, want FirstBucketBytes refused", err)
	}
}
