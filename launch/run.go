package launch

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/launch/internal/budget"
	"github.com/skerry-ft/skerry/launch/internal/keeper"
	"github.com/skerry-ft/skerry/launch/internal/layout"
	"github.com/skerry-ft/skerry/launch/internal/output"
	"github.com/skerry-ft/skerry/launch/internal/progress"
	"github.com/skerry-ft/skerry/launch/internal/slots"
	"github.com/skerry-ft/skerry/launch/internal/sweep"
)

// A lighthouse is asked how many steps were committed: one of this process often, one elsewhere,
// which the launchers of many hosts ask, seldom and not all at once: after lookElsewhere, and up
// to as much again.
const (
	lookEvery     = 2 * time.Second
	lookElsewhere = 15 * time.Second
	lookLimit     = 10 * time.Second // for its answer
)

// death is the end of a replica's life.
type death struct {
	*replica

	outcome Outcome
}

// run is the one run of a Launcher. It is owned by the goroutine in loop, but for what says
// otherwise.
type run struct {
	*Launcher

	plan      layout.Plan
	slots     slots.Slots
	spares    []*replica
	warm      chan *attempt // those of spares that are ready, one for each that receives
	keeper    *keeper.Keeper
	mark      string // of all starts
	folder    string // for error files; empty: there is none
	out, errs *output.Writer

	total   atomic.Int64 // replicas that the job is to have, for what a start is told
	share   int          // of them, that are this launcher's
	news    chan Wanted
	told    Wanted      // the last of news
	begun   atomic.Bool // a rank of some replica was started
	lives   sync.WaitGroup
	ended   chan death
	running int
	ending  bool  // no more replicas are started
	failed  error // why, if the job has failed

	mu struct {
		sync.Mutex

		replicas []*replica // by index; none is ever taken out
	}
}

func newRun(l *Launcher, plan layout.Plan, k *keeper.Keeper, mark, folder string) *run {
	r := &run{Launcher: l, plan: plan, keeper: k, mark: mark, folder: folder, ended: make(chan death), news: make(chan Wanted), warm: make(chan *attempt)}
	if l.cfg.LogDir == "" || l.cfg.Tee {
		if l.cfg.Stdout != nil {
			r.out = output.NewWriter(l.cfg.Stdout)
		}
		if l.cfg.Stderr == l.cfg.Stdout {
			r.errs = r.out // lines of both stay whole
		} else if l.cfg.Stderr != nil {
			r.errs = output.NewWriter(l.cfg.Stderr)
		}
	}
	return r
}

// close takes what the ranks have written last. What reads our output may have been stopped: it
// is not waited for.
func (r *run) close() {
	lost := 0
	if r.out != nil {
		lost += r.out.Close(drainLimit)
	}
	if r.errs != nil && r.errs != r.out {
		lost += r.errs.Close(drainLimit)
	}
	if lost > 0 {
		r.cfg.Log.Warn().Int("lines", lost).Msg("lines of ranks are lost: what reads the output took none for a while")
	}
}

// loop starts the replicas, and returns when none runs any more.
func (r *run) loop(ctx context.Context) error {
	defer r.lives.Wait()
	r.share = r.cfg.Replicas
	r.total.Store(int64(r.share * r.plan.Nodes))
	for range r.share {
		r.begin(ctx, r.add())
	}
	r.beginSpares(ctx)
	defer r.stopSpares()
	stop := ctx.Done()
	killed := r.killed
	for r.running > 0 || r.waits() {
		select {
		case d := <-r.ended:
			r.running--
			d.replica.outcome = d.outcome
			r.take(ctx, d.replica)
		case s := <-r.scale:
			s.answer <- r.rescale(ctx, s.replicas)
		case w := <-r.news:
			r.hear(ctx, w)
		case <-stop:
			stop = nil
			r.stopAll(stopped{r.cfg.Grace})
		case <-killed: // the starts see to it that all end
			killed = nil
			r.stopAll(stopped{})
		}
	}
	return r.failed
}

// add makes the next replica.
func (r *run) add() *replica {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := len(r.mu.replicas)
	one := &replica{run: r, index: i, slot: i, key: strconv.Itoa(i), name: r.plan.Name(i), budget: budget.New(r.rule()), sessions: make(sweep.Sessions)}
	r.mu.replicas = append(r.mu.replicas, one)
	return one
}

// rule is what a replica may cost.
func (r *run) rule() budget.Rule {
	return budget.Rule{Most: r.cfg.MaxRestarts, RefillSteps: r.cfg.RefillSteps, RefillAfter: r.cfg.RefillAfter}
}

// all are the replicas that there are.
func (r *run) all() []*replica {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.replicas[:len(r.mu.replicas):len(r.mu.replicas)]
}

// begin lets a replica live, until it ends, or is told to stop.
func (r *run) begin(ctx context.Context, one *replica) {
	life, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	one.stop, one.outcome, one.shrunk = stop, "", false
	r.running++
	r.lives.Go(func() {
		r.ended <- death{one, one.live(life)} // loop takes it: it counts those that run
		stop(nil)
	})
}

// stopAll tells all replicas to stop, and starts no more.
func (r *run) stopAll(order stopped) {
	r.ending = true
	r.stopSpares()
	for _, one := range r.all() {
		one.stop(order)
	}
}

// take sees to what the end of a replica means for the job.
func (r *run) take(ctx context.Context, one *replica) {
	log := r.cfg.Log.Info().Str(logkey.ReplicaID, one.name)
	switch {
	case one.outcome == GivenUp:
		log.Discard()
		r.lose(one)
	case one.shrunk && !r.ending && one.index < r.share:
		log.Msg("replica drained, and is wanted again")
		r.begin(ctx, one)
	default:
		log.Str("outcome", string(one.outcome)).Msg("replica ended")
	}
}

// lose gives a replica up, and the job if too few are left.
func (r *run) lose(one *replica) {
	left := 0
	for _, other := range r.all() {
		if other.outcome != GivenUp && !other.shrunk {
			left++
		}
	}
	r.cfg.Log.Error().Str(logkey.ReplicaID, one.name).Int("left", left).Err(one.failure()).Msg("replica given up")
	switch {
	case r.ending:
	case one.unable != nil: // nor will another start be
		r.failed = one.unable
		r.stopAll(stopped{r.cfg.KillGrace})
	case left < min(r.cfg.MinReplicas, r.share):
		r.failed = &JobError{Left: left, Want: min(r.cfg.MinReplicas, r.share), Cause: one.last}
		r.stopAll(stopped{r.cfg.KillGrace})
	}
}

// rescale starts replicas that are missing, and stops those that are too many, of so many that the
// job is to have.
func (r *run) rescale(ctx context.Context, total int) error {
	if r.ending {
		return errors.New("the job ends: want no change any more")
	}
	wanted := r.plan.Share(total)
	if from := r.total.Swap(int64(total)); from != int64(total) {
		r.cfg.Log.Info().Int64("from", from).Int("to", total).Int("here", wanted).Msg("wanted replicas changed")
	}
	r.share = wanted
	for _, one := range r.all() {
		switch gone := one.outcome != ""; {
		case one.index >= wanted && !gone && !one.shrunk:
			one.shrunk = true
			one.stop(stopped{r.cfg.Grace})
		case one.index < wanted && gone && one.outcome == GivenUp:
			one.revive(budget.New(r.rule()))
			r.begin(ctx, one)
		case one.index < wanted && gone && one.shrunk:
			r.begin(ctx, one)
		}
	}
	for len(r.all()) < wanted {
		r.begin(ctx, r.add())
	}
	return nil
}

// reports tells of replicas, or spares, once none runs.
func reports(of []*replica) (all []ReplicaReport) {
	for _, one := range of {
		all = append(all, one.report())
	}
	return all
}

// watch asks how many steps the replicas have committed, until ctx ends. A lighthouse that
// does not answer gives nothing back, and is asked again.
func (r *run) watch(ctx context.Context, steps steps) {
	counters := make(map[int]*progress.Counter)
	for {
		pause := lookEvery
		if len(r.cfg.Lighthouse) > 0 {
			pause = lookElsewhere + rand.N(lookElsewhere)
		}
		if backoff.Sleep(ctx, pause) != nil {
			return
		}
		asking, cancel := context.WithTimeout(ctx, lookLimit)
		seen, err := steps(asking)
		cancel()
		if err == nil {
			r.count(counters, seen)
		}
	}
}

// count credits replicas with the steps since the last look. Of two incarnations of one
// replica, the one that trains counts.
func (r *run) count(counters map[int]*progress.Counter, seen []Seen) {
	now := make(map[int]progress.Seen)
	for _, s := range seen {
		if index, ok := progress.Index(s.ReplicaID); ok && s.Trains {
			now[index] = progress.Seen{ID: s.ReplicaID, Step: s.Step, Trains: true}
		}
	}
	for i, one := range r.all() {
		if counters[i] == nil {
			counters[i] = new(progress.Counter)
		}
		look, there := now[r.plan.Index(i)]
		one.committed.Add(counters[i].See(look))
		if there {
			one.known.Store(true)
		}
	}
}
