package pgmetrics_test

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/debug"
	"github.com/skerry-ft/skerry/pg/dummy"
	"github.com/skerry-ft/skerry/pg/pgmetrics"
	"github.com/skerry-ft/skerry/tensor"
)

// All groups of a world count their ops under their names.
func ExampleNew() {
	registry := prometheus.NewRegistry()
	m, err := pgmetrics.New(registry)
	if err != nil {
		fmt.Println(err)
		return
	}
	debug := debug.New(debug.Config{Observer: m.Observer})
	g := pg.NewGroup(debug.Wrap("dp", dummy.New()))
	err = g.Configure(context.Background(), pg.Config{
		StoreAddress: "store/1", ReplicaIDs: []string{"a"}, Cluster: "c", QuorumID: 1,
	})
	if err == nil {
		err = g.AllReduce(context.Background(), tensor.Of([]float32{1, 2}), tensor.Sum)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	families, err := registry.Gather()
	for _, f := range families {
		for _, metric := range f.Metric {
			if metric.GetHistogram().GetSampleCount() > 0 {
				fmt.Println(f.GetName(), metric.Label[0].GetValue(), metric.Label[1].GetValue(), metric.Label[2].GetValue())
			}
		}
	}
	fmt.Println(err)
	// Output:
	// skerry_pg_op_seconds dp all-reduce done
	// <nil>
}
