package browser

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// The load that the page is to carry, and what it may cost.
const (
	bigReplicas = 1000
	bigEvents   = 10_000

	mostPaint  = time.Second
	mostUpdate = 100 * time.Millisecond // of the main thread
	mostHourly = 50_000_000             // bytes

	// Times are of the browser's own clocks, on a machine that does other things, too. A bound
	// that is missed by less than this is told, not failed: the bounds are for a machine at rest.
	busyMachine = 3
)

// bigWorld is 1,000 replicas in so many jobs, with 10,000 events.
func bigWorld(t *testing.T, jobs int) *world {
	w := newWorld(t)
	all := object{}
	each := bigReplicas / jobs
	for j := range jobs {
		replicas := object{}
		for i := range each {
			replicas[fmt.Sprintf("replica-%d", i)] = replica(object{"address": fmt.Sprintf("10.%d.%d.%d:7001", j, i/250, i%250), "step_ms": 100 + i%30})
		}
		replicas["replica-7"] = replica(object{"state": "suspect", "silence_ms": 2000})
		all[fmt.Sprintf("job-%d", j)] = job(replicas, object{"last_seq": bigEvents / jobs})
	}
	w.patch(object{"jobs": all})
	for j := range jobs {
		w.story(fmt.Sprintf("job-%d", j), bigEvents/jobs, each, 5*time.Hour)
	}
	return w
}

// busyWorld patches as a leader does with all jobs training: four times a second, a few steps
// times out of their tenth, and now and then a death. It returns a function that stops it.
func busyWorld(w *world, jobs int) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	draw := rand.New(rand.NewPCG(1, 2))
	running.Go(func() {
		tick := time.NewTicker(250 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			patches := object{}
			for j := range jobs {
				replicas := object{}
				for range 20 / jobs {
					replicas[fmt.Sprintf("replica-%d", draw.IntN(bigReplicas/jobs))] = object{"step_ms": 100 + draw.IntN(40), "wait_ms": draw.IntN(20)}
				}
				patches[fmt.Sprintf("job-%d", j)] = object{"max_step": 48211 + 2*n, "step_rate": 7 + draw.Float64(), "replicas": replicas}
			}
			w.patch(object{"jobs": patches})
			if n%20 == 10 {
				w.death(fmt.Sprintf("job-%d", n/20%jobs), time.Now().UnixMilli(), int64(1795313400000+n), "replica-3", bigReplicas/jobs)
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// look says that a browser is started.
var look = flag.Bool("browser.look", false, "look at the page with a browser (Debian: chromium)")

var big = flag.Bool("browser.big", false, "also put 1,000 replicas and 10,000 events on the page, and measure what it costs")

// A page with 1,000 replicas and 10,000 events is there within a second, no update holds its main
// thread for more than 100 ms, and it costs a viewer less than 50 MB an hour: for ten jobs,
// and for one that has all of them.
func TestBig(t *testing.T) {
	if !*big {
		t.Skip("it measures, and wants a machine to itself: -browser.big")
	}
	for _, jobs := range []int{10, 1} {
		t.Run(fmt.Sprintf("jobs=%d", jobs), func(t *testing.T) { bigPage(t, jobs) })
	}
}

func bigPage(t *testing.T, jobs int) {
	w, b := bigWorld(t, jobs), openTab(t)
	b.open("about:blank")
	b.open(w.url)
	b.until("replicas are there", `document.querySelectorAll("table.rows tbody tr").length > 10`)
	painted := eval[float64](b, `performance.getEntriesByName("skerry first replicas")[0].startTime`)
	b.until("events are there", `document.querySelectorAll(".line.change").length > 5`)
	eval[bool](b, `(window.tasks = [], new PerformanceObserver(l => tasks.push(...l.getEntries().map(e => e.duration))).observe({type: "longtask"}), performance.clearMeasures(), true)`)
	stop := busyWorld(w, jobs)
	defer stop()
	b.until("the first events have come", `performance.getEntriesByName("skerry draw").length >= 8`)
	before, began := b.bytes(), time.Now()
	b.until("ten seconds of updates", `performance.getEntriesByName("skerry draw").length >= 48`)
	took := time.Since(began)
	hourly := float64(b.bytes()-before) / took.Hours()
	draws := eval[[]float64](b, `performance.getEntriesByName("skerry draw").map(e => e.duration).sort((a, b) => a - b)`)
	tasks := eval[[]float64](b, `[0, ...tasks].sort((a, b) => a - b)`)
	median, worst, task := draws[len(draws)/2], draws[len(draws)-1], tasks[len(tasks)-1]
	t.Logf("first paint of the replicas %.0f ms; an update's draw: median %.1f ms, worst %.1f ms of %d; longest task %.0f ms (0: none over 50); %.1f MB an hour", painted, median, worst, len(draws), task, hourly/1e6)
	slow := func(what string, ms float64, most time.Duration) {
		if ms > busyMachine*float64(most.Milliseconds()) {
			t.Errorf("%s took %.0f ms, want at most %v", what, ms, most)
		} else if ms > float64(most.Milliseconds()) {
			t.Logf("%s took %.0f ms, over the bound of %v: the machine is busy?", what, ms, most)
		}
	}
	slow("the first paint", painted, mostPaint)
	slow("an update", max(worst, task), mostUpdate)
	slow("half of the updates", median, mostUpdate/4)
	if hourly > mostHourly {
		t.Errorf("a viewer costs %.1f MB an hour, want at most %.0f", hourly/1e6, mostHourly/1e6)
	}
	b.axe()
	b.shoot("big")
}
