package launch

import (
	"context"
	"time"

	"github.com/skerry-ft/skerry/internal/backoff"
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
	share := r.cfg.Replicas
	for pauses := askAgain; ctx.Err() == nil; {
		q := Query{Lighthouse: addresses, SeenMs: last.AtMs, Hold: hold}
		if share == 0 {
			q.Hold = holdIdle
		}
		asked := time.Now()
		w, err := r.cfg.Wanted(ctx, q)
		if err != nil {
			r.cfg.Log.Debug().Err(err).Msg("no answer to how many replicas are wanted")
			_ = pauses.Wait(ctx) // or ctx ends
			continue
		}
		if w == last {
			if time.Since(asked) < q.Hold/2 { // a lighthouse that does not wait is not to be asked all the time
				_ = pauses.Wait(ctx)
			}
			continue
		}
		pauses.Reset()
		if last = w; w.AtMs != 0 {
			share = r.plan.Share(w.Replicas)
		}
		select {
		case r.news <- w:
		case <-ctx.Done():
		}
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
