package launch

import (
	"context"
	"time"

	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/internal/logkey"
)

// How long the lighthouse may keep the answer back for news. That a job has finished is told when
// an answer is due: a launcher that does nothing but wait for it asks more often.
const (
	hold     = 20 * time.Second
	holdIdle = 2 * time.Second
)

// askAgain are the pauses of a launcher that gets no answer: of a job of which no replica has joined
// yet, or of a lighthouse that cannot be reached, or knows of no such number.
var askAgain = backoff.Backoff{First: 500 * time.Millisecond, Most: 10 * time.Second, Spread: true}

// ask asks how many replicas are wanted, and tells loop, until ctx ends. What is wanted stays as it
// is while there is no answer.
func (r *run) ask(ctx context.Context, addresses []string) {
	var last Wanted
	var waits vain
	share, first := r.cfg.Replicas, true
	for pauses := askAgain; ctx.Err() == nil; {
		q := Query{Lighthouse: addresses, SeenMs: last.AtMs, Hold: hold}
		if share == 0 {
			q.Hold = holdIdle
		}
		asked := time.Now()
		w, err := r.cfg.Wanted(ctx, q)
		if ctx.Err() == nil && share == 0 && waits.over(&r.cfg, w.Idle, err) { // as if the job had finished
			w, err = last, nil
			w.Finished = true
		}
		if err != nil {
			r.cfg.Log.Debug().Err(err).Msg("no answer to how many replicas are wanted")
			_ = pauses.Wait(ctx) // or ctx ends
			continue
		}
		if first {
			r.overridden(w)
		}
		if first = false; w == last {
			if time.Since(asked) < q.Hold/2 { // a lighthouse that does not wait is not to be asked all the time
				_ = pauses.Wait(ctx)
			}
			continue
		}
		pauses.Reset()
		if w.AtMs != 0 && w.AtMs != last.AtMs {
			share, waits = r.plan.Share(w.Replicas), vain{}
		}
		last = w
		select {
		case r.news <- w:
		case <-ctx.Done():
		}
	}
}

// overridden warns that what an operator asked for before this launcher began goes before its own
// number.
func (r *run) overridden(w Wanted) {
	if own := r.cfg.Replicas * r.plan.Nodes; w.AtMs != 0 && w.Replicas != own {
		r.cfg.Log.Warn().Int("wanted", w.Replicas).Int("replicas", own).Str(logkey.Job, r.cfg.Job).
			Msg("a number of an earlier skerry scale is wanted, not that of --replicas: take it back with skerry scale JOB 0, or give another")
	}
}

// hear does what the lighthouse tells: an order, or that the job has finished. An order that has
// ended with its run leaves the replicas as they are.
func (r *run) hear(ctx context.Context, w Wanted) {
	before := r.told
	r.told = w
	if w.AtMs == 0 || w.AtMs == before.AtMs || r.ending {
		return
	}
	err := r.check(w.Replicas)
	if err == nil {
		err = r.rescale(ctx, w.Replicas)
	}
	if err != nil {
		r.cfg.Log.Warn().Int("replicas", w.Replicas).Int64("kept", r.total.Load()).Err(err).Msg("wanted replicas cannot be had on this host")
	}
}

// waits tells that the job may yet want replicas of this launcher, which has no share in it.
func (r *run) waits() bool {
	return r.share == 0 && r.cfg.Wanted != nil && !r.told.Finished && !r.ending
}
