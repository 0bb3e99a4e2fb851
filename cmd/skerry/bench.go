package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/bench"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/bench/goodput"
)

func newBenchCommand() *cobra.Command {
	var o bench.Options
	var out cli.Output
	long := []string{"Measure, and print a row per implementation and set of parameters: medians and 99th\npercentiles of samples that were taken in turn. Without a name all benches run; JSON is\none object a row:\n"}
	for _, b := range bench.All() {
		long = append(long, fmt.Sprintf("  %-10s %s", b.Name, b.Help))
	}
	cmd := &cobra.Command{
		Use:       "bench [NAME…]",
		Short:     "Measure, with peers beside us if they are installed",
		Long:      strings.Join(long, "\n"),
		ValidArgs: bench.Names(),
		RunE: func(cmd *cobra.Command, names []string) error {
			o.Notes = cmd.ErrOrStderr()
			return bench.Run(cmd.Context(), names, o, bench.NewPrinter(cmd.OutOrStdout(), out.JSON()))
		},
	}
	cmd.AddCommand(goodput.Command())
	f := cmd.Flags()
	out.Add(cmd)
	f.BoolVar(&o.Peers, "peers", false, "measure installed peers in the same run (Gloo, Open MPI)")
	f.IntVar(&o.Samples, "samples", 0, "samples of each row; 0: the bench's own number")
	f.IntSliceVar(&o.N, "n", nil, "ranks or replicas, instead of the bench's own")
	f.Int64SliceVar(&o.Bytes, "bytes", nil, "message sizes, instead of the bench's own")
	return cmd
}
