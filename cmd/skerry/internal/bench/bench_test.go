package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
)

// scripted gives the samples it was made with.
type scripted struct {
	impl    string
	samples []float64
	log     *[]string
}

func (s *scripted) Impl() string { return s.impl }
func (s *scripted) Close() error { return nil }

func (s *scripted) Sample(context.Context, Params) (float64, error) {
	if len(s.samples) == 0 {
		return 0, errors.New("nothing left")
	}
	v := s.samples[0]
	s.samples = s.samples[1:]
	*s.log = append(*s.log, s.impl)
	return v, nil
}

func TestContestTakesTurnsAndDropsWarmup(t *testing.T) {
	var log []string
	a := &scripted{"a", []float64{1000, 3, 1, 2}, &log}
	b := &scripted{"b", []float64{1000, 30, 10, 20}, &log}
	c := Contest{Bench: "x", Unit: "us", Samples: 3, Warmup: 1}
	rows, err := c.Run(t.Context(), Params{"n": 2}, []Contestant{a, b})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(log, ""), "abababab"; got != want {
		t.Errorf("order %s, want %s", got, want)
	}
	if rows[0].Median != 2 || rows[1].Median != 20 || rows[0].Samples != 3 {
		t.Errorf("rows %+v", rows)
	}
	if math.Abs(rows[0].P99-2.98) > 1e-9 {
		t.Errorf("p99 %v, want 2.98", rows[0].P99)
	}
}

func TestContestNamesWhoFailed(t *testing.T) {
	var log []string
	b := Bench{Name: "x", run: func(ctx context.Context, _ Options, _ emitFunc) error {
		_, err := Contest{Bench: "x", Samples: 1}.Run(ctx, Params{"n": 2}, []Contestant{&scripted{"slow", nil, &log}})
		return err
	}}
	err := b.measure(t.Context(), Options{}, nil)
	if err == nil || !strings.Contains(err.Error(), "bench x: slow with n=2: nothing left") {
		t.Errorf("got %v", err)
	}
}

func TestRowIsOneFlatObject(t *testing.T) {
	var out bytes.Buffer
	p := NewPrinter(&out, true)
	p.Print(Row{Bench: "allreduce", Impl: "skerry", Unit: "us", Samples: 3, Median: 1.5, P99: 2, Params: Params{"n": 2, "bytes": 4096}})
	if err := p.Flush(); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{"bench": "allreduce", "impl": "skerry", "unit": "us", "samples": 3.0, "median": 1.5, "p99": 2.0, "n": 2.0, "bytes": 4096.0} {
		if got[key] != want {
			t.Errorf("%s = %v, want %v", key, got[key], want)
		}
	}
}

func TestQuantileInterpolates(t *testing.T) {
	for _, c := range []struct {
		q, want float64
	}{{0, 1}, {0.5, 2.5}, {1, 4}} {
		if got := Quantile([]float64{1, 2, 3, 4}, c.q); got != c.want {
			t.Errorf("quantile %v = %v, want %v", c.q, got, c.want)
		}
	}
	if got := Quantile(nil, 0.5); got != 0 {
		t.Errorf("quantile of nothing = %v, want 0", got)
	}
}

func TestBadOptionsNameValueAndBound(t *testing.T) {
	for want, o := range map[string]Options{
		"samples = -1, want 0 to 100000":   {Samples: -1},
		"n = 16385, want 1 to 16384":       {N: []int{16385}},
		"bytes = 7, want a multiple of 4 ": {Bytes: []int64{7}},
	} {
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	err := Run(t.Context(), []string{"nope"}, Options{}, NewPrinter(&bytes.Buffer{}, true))
	if err == nil || !strings.Contains(err.Error(), `no bench is called "nope"; there are: allreduce`) {
		t.Errorf("got %v", err)
	}
}
