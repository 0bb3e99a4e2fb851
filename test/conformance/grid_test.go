package conformance

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/train/spawn"
)

var (
	all    = flag.Bool("conformance.all", false, "run the whole grid, not a sample")
	sample = flag.Int("conformance.sample", 0, "run one cell of so many; 0: few enough for a plain test")
	seed   = flag.Uint64("conformance.seed", 1, "draws the sample")
)

// What a plain test runs: one cell of so many, of sizes that take no time, and
// a few of the largest.
const (
	plainSample = 220
	plainBytes  = 1 << 20
	largeSample = 2500
)

// patientBeats keeps a loaded machine from looking like a dead peer.
const patientBeats = 20 * time.Second

func TestMain(m *testing.M) {
	spawn.Register(workerName, serveRank)
	spawn.Register(initName, liveWorlds)
	spawn.Init()
	goleak.VerifyTestMain(m)
}

// grids are what this run goes through, weight times thinner than usual.
func grids(weight int) []pgtest.Grid {
	switch {
	case *all:
		return []pgtest.Grid{{}}
	case *sample > 0:
		return []pgtest.Grid{{Sample: *sample * weight, Seed: *seed}}
	case testing.Short():
		return []pgtest.Grid{{Sample: 5 * plainSample * weight, Seed: *seed, MaxBytes: plainBytes}}
	}
	return []pgtest.Grid{
		{Sample: plainSample * weight, Seed: *seed, MaxBytes: plainBytes},
		{Sample: largeSample * weight, Seed: *seed, Worlds: []int{2, 5, 8}, Sizes: []int{8 << 20, 32 << 20}},
	}
}

// patientName is what pg's registry calls the tcp backend of these tests.
const patientName = "patient-tcp"

// registerPatient registers it, once in a process.
func registerPatient() error {
	if pg.Available(patientName) {
		return nil
	}
	return pg.Register(patientName, []string{"cpu"}, func(o pg.Options) (pg.Backend, error) {
		return tcp.New(tcp.Options{Listen: o.Listen, BeatTimeout: patientBeats, Logger: o.Log}), nil
	})
}

// backends are all there are here, by name.
func backends(t *testing.T) map[string]func() pg.Backend {
	network := pgtest.NewMemory()
	overTCP := func(o tcp.Options) func() pg.Backend {
		o.BeatTimeout = patientBeats
		return func() pg.Backend { return tcp.New(o) }
	}
	if err := registerPatient(); err != nil {
		t.Fatal(err)
	}
	return map[string]func() pg.Backend{
		"memory":     func() pg.Backend { return network.Backend() },
		"tcp":        overTCP(tcp.Options{Transport: tcp.TransportTCP}),
		"tcp shared": overTCP(tcp.Options{Transport: tcp.TransportShared}),
		"devices": func() pg.Backend {
			b, err := pg.Open("cpu:"+patientName, pg.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return b
		},
	}
}

// decorators are all there are, by name.
func decorators() map[string]func(pg.Backend) pg.Backend {
	return map[string]func(pg.Backend) pg.Backend{
		"swallow": func(b pg.Backend) pg.Backend { return pg.NewSwallow(b) },
		"managed": func(b pg.Backend) pg.Backend { return pg.NewManaged(b, everybody{b}) },
		"timeout": func(b pg.Backend) pg.Backend { return pg.NewTimeout(b, 2*pgtest.Bound) },
		"fake":    func(b pg.Backend) pg.Backend { return pg.NewFake(b) },
		"check":   func(b pg.Backend) pg.Backend { return pg.NewCheck(b) },
		"trace":   func(b pg.Backend) pg.Backend { return pg.NewTrace(b, pg.TraceConfig{}) },
	}
}

// everybody is a manager of a replica that always takes part with all others.
type everybody struct{ backend pg.Backend }

func (everybody) Attempt() int64 { return 1 }

func (e everybody) Roster(int64) (pg.Roster, bool) {
	c, ok := e.backend.(pg.Configured)
	if !ok {
		return pg.Roster{}, false
	}
	config, ok := c.Config()
	r := pg.Roster{Rank: config.Rank, WorldSize: config.WorldSize()}
	for rank := range r.WorldSize {
		r.Participants = append(r.Participants, rank)
	}
	return r, ok
}

func (e everybody) WaitRoster(ctx context.Context, attempt int64) (pg.Roster, error) {
	r, ok := e.Roster(attempt)
	if !ok {
		return r, fmt.Errorf("attempt %d: %w", attempt, pg.ErrUnconfigured)
	}
	return r, nil
}

func (everybody) ReportError(int64, error) {}

func (everybody) Errored(int64) bool { return false }

// TestGrid: every backend, and every decorator over the one in memory, all
// ranks in this process.
func TestGrid(t *testing.T) {
	for name, open := range backends(t) {
		runGrid(t, name, 1, open)
	}
	for name, wrap := range decorators() {
		network := pgtest.NewMemory()
		runGrid(t, name+" over memory", 4, func() pg.Backend { return wrap(network.Backend()) })
	}
}

func runGrid(t *testing.T, name string, weight int, open func() pg.Backend) {
	t.Run(name, func(t *testing.T) {
		var report pgtest.GridReport
		for _, grid := range grids(weight) {
			report.Add(pgtest.RunGrid(t, pgtest.Harness{
				New: func(*testing.T) pg.Backend { return open() }, MaxWorldSize: 8,
			}, grid))
		}
		t.Logf("%s: %s", name, report.String())
	})
}

// workerName is the function that a rank of TestGridProcesses runs.
const workerName = "conformance rank"

// job is what a worker is told.
type job struct {
	Store     string // host:port
	Transport tcp.Transport
	Grids     []pgtest.Grid
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
		StoreAddress: fmt.Sprintf("%s/grid/%d/%d", j.Store, j.Transport, w.WorldSize),
		ReplicaIDs:   ids, Rank: w.Rank, Cluster: "grid", QuorumID: 1, Timeout: pgtest.Bound,
	})
	if err != nil {
		return err
	}
	for _, grid := range j.Grids {
		cells, _ := pgtest.Split(grid.Cells(w.WorldSize), pg.Kinds(), pg.DTypes())
		if err := pgtest.RunCells(ctx, g, cells); err != nil {
			return err
		}
	}
	if err := g.Barrier(ctx); err != nil {
		return err
	}
	return g.Close()
}

// TestGridProcesses: the same cells with every rank in a process of its own.
func TestGridProcesses(t *testing.T) {
	worlds := []int{2, 5}
	if *all {
		worlds = []int{1, 2, 3, 4, 5, 6, 7, 8}
	}
	for _, transport := range []tcp.Transport{tcp.TransportTCP, tcp.TransportShared} {
		t.Run(transport.String(), func(t *testing.T) {
			j := job{Store: pgtest.StartStore(t), Transport: transport}
			var report pgtest.GridReport
			for _, grid := range grids(2) {
				grid.Worlds = nil
				j.Grids = append(j.Grids, grid)
				for _, world := range worlds {
					_, r := pgtest.Split(grid.Cells(world), pg.Kinds(), pg.DTypes())
					report.Add(r)
				}
			}
			args, err := json.Marshal(j)
			if err != nil {
				t.Fatal(err)
			}
			for _, world := range worlds {
				if err := spawn.Run(t.Context(), world, workerName, spawn.Options{Args: args, Stderr: os.Stderr}); err != nil {
					t.Fatalf("world of %d processes: %v", world, err)
				}
			}
			t.Logf("processes over %v, worlds %v: %s", transport, worlds, report.String())
		})
	}
}
