package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// Contestant is one implementation, ready to be measured.
type Contestant interface {
	io.Closer

	// Impl is "skerry" or the peer's name.
	Impl() string
	// Sample measures once and returns microseconds. It ends with ctx.
	Sample(ctx context.Context, p Params) (float64, error)
}

// Contest measures contestants in turn.
type Contest struct {
	Bench   string
	Unit    string // "us" or "ms" if contestants are measured
	Samples int    // of each contestant, at least 1
	Warmup  int    // rounds thrown away first

	Bandwidth bool // rows of messages have algbw_gbs: bytes / time in GB/s
}

// haver is a contestant that does not have every op.
type haver interface{ Has(op string) bool }

// opOf is the op that a contestant is asked for: edges are one, too.
func opOf(p Params) string {
	op, ok := p["op"].(string)
	if !ok {
		op, _ = p["edges"].(string)
	}
	return op
}

// Each runs a contest for each set of parameters, and hands its rows out.
func (c Contest) Each(ctx context.Context, all []Contestant, emit emitFunc, sets ...Params) error {
	for _, p := range sets {
		rows, err := c.Run(ctx, p, all)
		if err != nil {
			return err
		}
		emit(rows...)
	}
	return nil
}

// Run takes samples of all contestants that have the op, round after round, and returns a row
// for each, whose Params are a copy of p. A contestant that fails ends the contest.
func (c Contest) Run(ctx context.Context, p Params, all []Contestant) ([]Row, error) {
	if c.Samples < 1 {
		return nil, fmt.Errorf("bench: samples = %d, want at least 1", c.Samples)
	}
	all = slices.DeleteFunc(slices.Clone(all), func(one Contestant) bool {
		h, ok := one.(haver)
		return ok && !h.Has(opOf(p))
	})
	taken := make([][]float64, len(all))
	for round := range c.Warmup + c.Samples {
		for i, one := range all {
			v, err := one.Sample(ctx, p)
			if err != nil {
				return nil, fmt.Errorf("%s with %v: %w", one.Impl(), p, err)
			}
			if c.Unit == "ms" {
				v /= 1e3
			}
			if round >= c.Warmup {
				taken[i] = append(taken[i], v)
			}
		}
	}
	rows := make([]Row, len(all))
	for i, one := range all {
		rows[i] = c.row(one.Impl(), maps.Clone(p), taken[i])
		if bytes, ok := p["bytes"].(int64); ok && c.Bandwidth {
			rows[i].Params["algbw_gbs"] = float64(bytes) / rows[i].Median / 1e3
		}
	}
	return rows, nil
}

func (c Contest) row(impl string, p Params, samples []float64) Row {
	sorted := slices.Sorted(slices.Values(samples))
	return Row{
		Bench: c.Bench, Impl: impl, Unit: c.Unit, Params: p,
		Samples: len(samples), Median: Quantile(sorted, 0.5), P99: Quantile(sorted, 0.99), samples: samples,
	}
}

func median(samples []float64) float64 {
	return Quantile(slices.Sorted(slices.Values(samples)), 0.5)
}

// Quantile is the q-quantile of sorted samples by linear interpolation.
func Quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := q * float64(len(sorted)-1)
	low := int(at)
	if low+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[low] + (at-float64(low))*(sorted[low+1]-sorted[low])
}

// closeAll closes contestants and joins what they say.
func closeAll(all []Contestant) error {
	var errs []error
	for _, c := range all {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
