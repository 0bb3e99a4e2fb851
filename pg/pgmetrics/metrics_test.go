package pgmetrics_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/dummy"
	"github.com/skerry-ft/skerry/pg/observe"
	"github.com/skerry-ft/skerry/pg/pgmetrics"
	"github.com/skerry-ft/skerry/tensor"
)

func config(id int64) pg.Config {
	return pg.Config{StoreAddress: fmt.Sprintf("s/%d", id), ReplicaIDs: []string{"a"}, Cluster: "c", QuorumID: id}
}

// TestMetrics: ops, bytes, errors and what is in flight are counted under the
// group's name.
func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := pgmetrics.New(registry)
	if err != nil {
		t.Fatal(err)
	}
	g := pg.NewGroup(observe.New(dummy.New(), m.Observer("dp")))
	if err := g.Configure(t.Context(), config(1)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := g.AllReduce(t.Context(), tensor.Of(make([]float32, 10)), tensor.Sum); err != nil {
			t.Fatal(err)
		}
	}
	g.Abort(errors.New("enough"))
	if err := g.Barrier(t.Context()); err == nil {
		t.Fatal("barrier of a broken group succeeded")
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, metric := range f.Metric {
			key := f.GetName()
			for _, l := range metric.Label {
				key += " " + l.GetValue()
			}
			switch {
			case metric.Counter != nil:
				got[key] = metric.Counter.GetValue()
			case metric.Gauge != nil:
				got[key] = metric.Gauge.GetValue()
			case metric.Histogram != nil:
				got[key] = float64(metric.Histogram.GetSampleCount())
			}
		}
	}
	for key, value := range map[string]float64{
		"skerry_pg_bytes_total dp all-reduce in":    120,
		"skerry_pg_bytes_total dp all-reduce out":   120,
		"skerry_pg_op_seconds dp all-reduce done":   3,
		"skerry_pg_op_seconds dp barrier failed":    1,
		"skerry_pg_errors_total dp barrier aborted": 1,
		"skerry_pg_ops_in_flight dp all-reduce":     0,
		"skerry_pg_op_seconds dp all-reduce failed": 0,
	} {
		if v, ok := got[key]; !ok || v != value {
			t.Errorf("%s is %v (%v), want %v", key, v, ok, value)
		}
	}
	if _, err := pgmetrics.New(registry); err == nil {
		t.Error("registered twice")
	}
}

// BenchmarkObserve is what an observer costs an op.
func BenchmarkObserve(b *testing.B) {
	m, err := pgmetrics.New(prometheus.NewRegistry())
	if err != nil {
		b.Fatal(err)
	}
	x := tensor.Of(make([]float32, 16))
	for _, c := range []struct {
		name    string
		backend pg.Backend
	}{{"without", dummy.New()}, {"with", observe.New(dummy.New(), m.Observer("dp"))}} {
		g := pg.NewGroup(c.backend)
		if err := g.Configure(context.Background(), config(1)); err != nil {
			b.Fatal(err)
		}
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := g.AllReduce(b.Context(), x, tensor.Sum); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
