package conformance

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/tensor"
)

var (
	all    = flag.Bool("conformance.all", false, "run the whole design, not a sample")
	sample = flag.Int("conformance.sample", 0, "run one cell of so many of the whole product; 0: few enough for a plain test")
	seed   = flag.Uint64("conformance.seed", 1, "draws the sample")
	from   = flag.Int("conformance.from", 1, "leave out the units before this one: where an earlier run ended")
	limit  = flag.Duration("conformance.for", 0, "start no unit after this time, and say where to go on; 0: to the end")
	shard  = flag.String("conformance.shard", "1/1", "i/n: of the units only each n-th, from the i-th on")
)

// What a test of all runs: one cell of so many, of sizes that take no time, and
// a few of the largest. A plain or a short one runs a fifth of it, and none of the largest.
const (
	plainSample = 220
	plainBytes  = 1 << 20
	largeSample = 2500
)

// Up to smallBytes a cell takes a few milliseconds, and the whole product of
// rows, sizes and worlds is run; above, the covering design.
const smallBytes = 2 << 20

// unitBytes is how much moves in one unit of the plan, and cellBytes what a cell
// counts for besides its bytes. A unit takes seconds.
const (
	unitBytes = 4 << 30
	cellBytes = 64 << 10
)

// suite is what the grid is run over.
type suite struct {
	name  string
	grids []pgtest.Grid
	run   func(t *testing.T, u unit)
}

// unit is a part of the plan: cells of one suite, grid and world size.
type unit struct {
	number int
	suite  suite
	grid   pgtest.Grid
	cells  []pgtest.Cell
	at     int // of the first, among those of its grid and world that are run
}

// How much of the grid a suite has.
type portion int

const (
	// whole: the product for all but large sizes; for these each row once with
	// each size.
	whole portion = iota
	// thin: each row once with each size and, as worlds take turns, with each
	// world; of large sizes only each verb with each size and world.
	thin
)

// grids are what this run goes through.
func (p portion) grids() []pgtest.Grid {
	small, large := pgtest.Grid{MaxBytes: smallBytes}, pgtest.Grid{MinBytes: smallBytes}
	weight := []int{whole: 1, thin: 4}[p]
	switch {
	case *all:
		small.Cover = []pgtest.Cover{whole: pgtest.CoverAll, thin: pgtest.CoverPairs}[p]
		large.Cover = []pgtest.Cover{whole: pgtest.CoverPairs, thin: pgtest.CoverVerbs}[p]
		return []pgtest.Grid{small, large}
	case *sample > 0:
		return []pgtest.Grid{{Sample: *sample * weight, Seed: *seed}}
	case testing.Short() || !testkit.All():
		return []pgtest.Grid{{Sample: 5 * plainSample * weight, Seed: *seed, MaxBytes: plainBytes}}
	}
	return []pgtest.Grid{
		{Sample: plainSample * weight, Seed: *seed, MaxBytes: plainBytes},
		{Sample: largeSample * weight, Seed: *seed, Sizes: []int{8 << 20, 32 << 20}},
	}
}

// suites are every backend and decorator, in one order.
func suites(t *testing.T) []suite {
	var list []suite
	for _, b := range backends(t) {
		grids := b.portion.grids()
		if b.processes {
			grids = ofProcesses(grids)
		}
		list = append(list, suite{b.name, grids, inProcess(b.open)})
	}
	network := pgtest.NewMemory()
	wraps := decorators()
	for _, name := range slices.Sorted(maps.Keys(wraps)) {
		open := func() pg.Backend { return wraps[name](network.Backend()) }
		list = append(list, suite{name + " over memory", thin.grids(), inProcess(open)})
	}
	for _, transport := range []tcp.Transport{tcp.TransportTCP, tcp.TransportShared} {
		list = append(list, suite{"processes over " + transport.String(), ofProcesses(whole.grids()), inProcesses(transport)})
	}
	return list
}

// ofProcesses makes grids start few processes, unless the whole is run.
func ofProcesses(grids []pgtest.Grid) []pgtest.Grid {
	if !*all && *sample == 0 {
		for i := range grids {
			grids[i].Worlds = []int{2, 5}
		}
	}
	return grids
}

// inProcess runs a unit with all ranks in this process.
func inProcess(open func() pg.Backend) func(*testing.T, unit) {
	return func(t *testing.T, u unit) {
		pgtest.RunWorld(t, pgtest.Harness{New: func(*testing.T) pg.Backend { return open() }}, u.cells)
	}
}

// plan cuts the suites into units, numbered from 1, and counts by suite what is
// to run and what is not.
func plan(list []suite) (units []unit, reports map[string]*pgtest.GridReport) {
	reports = make(map[string]*pgtest.GridReport)
	for _, s := range list {
		reports[s.name] = new(pgtest.GridReport)
		for _, grid := range s.grids {
			for world := 1; world <= 8; world++ {
				cells, r := pgtest.Split(grid.Cells(world), pg.Kinds(), tensor.DTypes())
				reports[s.name].Add(r)
				if *all {
					reports[s.name].Add(leftOut(grid, world, len(cells)))
				}
				for at := 0; at < len(cells); {
					n := unitOf(cells[at:])
					units = append(units, unit{number: len(units) + 1, suite: s, grid: grid, cells: cells[at : at+n], at: at})
					at += n
				}
			}
		}
	}
	return units, reports
}

// leftOut reports the cells of the whole product that a grid's design has not.
func leftOut(grid pgtest.Grid, world, has int) pgtest.GridReport {
	grid.Cover = pgtest.CoverAll
	product, _ := pgtest.Split(grid.Cells(world), pg.Kinds(), tensor.DTypes())
	if len(product) == has {
		return pgtest.GridReport{}
	}
	return pgtest.GridReport{Skipped: map[string]int{"left out by the covering design": len(product) - has}}
}

// unitOf is how many of cells make a unit, at least one.
func unitOf(cells []pgtest.Cell) int {
	n, bytes := 0, 0
	for n < len(cells) && (n == 0 || bytes < unitBytes) {
		bytes += (cells[n].Bytes + cellBytes) * cells[n].World
		n++
	}
	return n
}

// mine tells whether this run is to do the unit.
func (u unit) mine(i, n int) bool { return u.number >= *from && (u.number-i)%n == 0 }

// TestGrid runs the plan. What fails is reported with the unit's number, and
// the rest goes on.
func TestGrid(t *testing.T) {
	var i, n int
	if _, err := fmt.Sscanf(*shard, "%d/%d", &i, &n); err != nil || i < 1 || i > n {
		t.Fatalf("-conformance.shard %q, want i/n with 1 <= i <= n", *shard)
	}
	units, reports := plan(suites(t))
	did := newTally(len(units))
	if *all {
		for _, name := range slices.Sorted(maps.Keys(reports)) {
			fmt.Printf("plan: %s: %s\n", name, reports[name])
		}
	}
	for _, u := range units {
		if !u.mine(i, n) {
			continue
		}
		if *limit > 0 && time.Since(did.began) > *limit {
			t.Logf("time is up: go on with -conformance.from %d", u.number)
			break
		}
		began, ran := time.Now(), false // not if -run leaves it out
		ok := t.Run(u.suite.name, func(t *testing.T) {
			t.Run(fmt.Sprintf("world=%d", u.cells[0].World), func(t *testing.T) {
				ran = true
				u.suite.run(t, u)
			})
		})
		if !ran {
			continue
		}
		did.add(u, ok, time.Since(began))
		if *all {
			fmt.Println(did.progress(u)) // at once; t.Log has it all at the end
		}
	}
	for _, line := range did.summary(reports) {
		t.Log(line)
	}
}

// tally counts what a run did.
type tally struct {
	units, done    int
	cells          map[string]int // by suite
	took           map[string]time.Duration
	total          int
	failed         []int // units
	began          time.Time
	failedOfSuites map[string][]int
}

func newTally(units int) *tally {
	return &tally{
		units: units, cells: make(map[string]int), took: make(map[string]time.Duration), began: time.Now(),
		failedOfSuites: make(map[string][]int),
	}
}

func (d *tally) add(u unit, ok bool, took time.Duration) {
	d.done++
	d.took[u.suite.name] += took
	if !ok {
		d.failed = append(d.failed, u.number)
		d.failedOfSuites[u.suite.name] = append(d.failedOfSuites[u.suite.name], u.number)
		return
	}
	d.cells[u.suite.name] += len(u.cells)
	d.total += len(u.cells)
}

// progress is one line: where the run is.
func (d *tally) progress(u unit) string {
	return fmt.Sprintf("unit %d of %d (%s, world %d, %d cells, the first %v): %d cells in %v so far, %d units failed",
		u.number, d.units, u.suite.name, u.cells[0].World, len(u.cells), u.cells[0],
		d.total, time.Since(d.began).Round(time.Second), len(d.failed))
}

// summary says what became of every suite.
func (d *tally) summary(reports map[string]*pgtest.GridReport) []string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(reports)) {
		if d.took[name] == 0 {
			continue
		}
		perCell := d.took[name].Seconds() * 1000 / float64(max(d.cells[name], 1))
		lines = append(lines, fmt.Sprintf("%s: %d cells run in %v (%.2f ms each), units failed: %v; the plan: %s",
			name, d.cells[name], d.took[name].Round(time.Millisecond), perCell, d.failedOfSuites[name], reports[name]))
	}
	return append(lines, fmt.Sprintf("in all: %d cells run, units failed: %v", d.total, d.failed))
}
