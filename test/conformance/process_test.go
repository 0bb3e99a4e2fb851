package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/spawn"
)

// workerName is the function that a rank of a world of processes runs.
const workerName = "conformance rank"

// job is what a worker is told: cells of a grid and world, by index.
type job struct {
	Store     string // host:port
	Transport tcp.Transport
	Grid      pgtest.Grid
	From, To  int
}

// inProcesses runs a unit with every rank in a process of its own.
func inProcesses(transport tcp.Transport) func(*testing.T, unit) {
	return func(t *testing.T, u unit) {
		args, err := json.Marshal(job{
			Store: pgtest.StartStore(t), Transport: transport, Grid: u.grid, From: u.at, To: u.at + len(u.cells),
		})
		if err != nil {
			t.Fatal(err)
		}
		o := spawn.Options{Args: args, Stderr: os.Stderr}
		if err := spawn.Run(t.Context(), u.cells[0].World, workerName, o); err != nil {
			t.Fatal(err)
		}
	}
}

// serveRank is one rank of a world of processes.
func serveRank(ctx context.Context, w spawn.Worker) error {
	var j job
	if err := json.Unmarshal(w.Args, &j); err != nil {
		return err
	}
	g := pg.NewGroup(tcp.New(tcp.Options{Transport: j.Transport, BeatTimeout: patientBeats}))
	ids := make([]string, w.WorldSize)
	for r := range ids {
		ids[r] = fmt.Sprintf("process-%d", r)
	}
	err := g.Configure(ctx, pg.Config{
		StoreAddress: j.Store + "/grid", ReplicaIDs: ids, Rank: w.Rank, Cluster: "grid", QuorumID: 1, Timeout: pgtest.Bound,
	})
	if err != nil {
		return err
	}
	cells, _ := pgtest.Split(j.Grid.Cells(w.WorldSize), pg.Kinds(), tensor.DTypes())
	if err := pgtest.RunCells(ctx, g, cells[j.From:j.To]); err != nil {
		return err
	}
	if err := g.Barrier(ctx); err != nil {
		return err
	}
	return g.Close()
}
