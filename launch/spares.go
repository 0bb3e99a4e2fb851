package launch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/launch/internal/budget"
	"github.com/skerry-ft/skerry/launch/internal/gate"
	"github.com/skerry-ft/skerry/launch/internal/sweep"
	"github.com/skerry-ft/skerry/launch/spare"
)

const (
	// takeLimit is how long a spare may take to say that it has taken its place: it does nothing
	// but wait for one.
	takeLimit = 2 * time.Second
	// overLimit is how long a spare that is not needed has to end by itself, before it is sent SIGTERM.
	overLimit = 2 * time.Second
	// refillPause is how long a spare that has become a replica is not made up for: its place in the
	// quorum, and a heal, need the processors more than the start of the next one does.
	refillPause = time.Second
	// askLimit is how long a spare may begin before the log says that it has not asked for a place.
	askLimit = time.Minute
)

// errKnowsNone is why a spare is given up that ended well without a place.
var errKnowsNone = errors.New("it ended with 0 before it was given a place: a program that is to be a spare waits for one (spare.Wait, skerry.wait_for_place)")

// errLeft is why a spare starts again that ended well though it waited: another process told it to end.
var errLeft = errors.New("it ended with 0 while it waited for a place")

// beginSpares lets the spares live, until the job ends.
func (r *run) beginSpares(ctx context.Context) {
	for i := range r.cfg.Spares {
		s := &replica{run: r, index: i, slot: r.share + i, key: fmt.Sprintf("s%d", i), name: r.plan.SpareName(i), budget: budget.New(r.rule()), sessions: make(sweep.Sessions)}
		life, stop := context.WithCancelCause(context.WithoutCancel(ctx))
		s.stop = stop
		r.spares = append(r.spares, s)
		r.lives.Go(func() {
			s.outcome = s.beSpare(life)
			stop(nil)
			if s.outcome == GivenUp {
				r.cfg.Log.Error().Str(logkey.ReplicaID, s.name).Err(s.failure()).Msg("spare given up: the job goes on without")
			}
		})
	}
}

// stopSpares tells all spares that they are not needed any more.
func (r *run) stopSpares() {
	for _, s := range r.spares {
		s.stop(stopped{r.cfg.KillGrace})
	}
}

// beSpare keeps a start ready, and makes another when it has become a replica's, or has died.
func (p *replica) beSpare(ctx context.Context) Outcome {
	for ctx.Err() == nil {
		began, a := time.Now(), p.newAttempt(ctx)
		life, end := context.WithCancelCause(ctx)
		taken, ended, err := false, (*rank)(nil), a.begin()
		if err == nil {
			taken, ended = a.offer(ctx)
		}
		if taken {
			end(nil)
			_ = backoff.Sleep(ctx, refillPause) // or ctx ends
			continue
		}
		end(stopped{p.cfg.KillGrace}) // of a rank that has ended well the others would not know
		failure, err := a.finish(life, err)
		switch {
		case err != nil:
			p.unable = err
			return GivenUp
		case ended != nil && ended.proc.Status().OK() && !a.waited:
			p.unable = errKnowsNone
			return GivenUp
		case ended == nil && failure == nil:
			return Done
		case ctx.Err() != nil:
			return Stopped
		}
		cause := errLeft
		if failure != nil {
			cause = failure
			p.note(failure)
		}
		pause, again := p.budget.Crash(budget.Life{Ran: time.Since(began)})
		if !again {
			p.unable = cause
			return GivenUp
		}
		p.cfg.Log.Warn().Str(logkey.ReplicaID, p.name).Err(cause).Int("crash", p.budget.Spent()).Int("of", p.cfg.MaxRestarts).
			Stringer("pause", pause).Msg("spare crashed, and starts again")
		if backoff.Sleep(ctx, pause) == nil {
			p.restarts++
		}
	}
	return Done // it has nothing that runs
}

// openGate makes the sockets of a spare's ranks.
func (a *attempt) openGate() (err error) {
	if !a.isSpare() {
		return nil
	}
	if a.folder == "" {
		return errors.New("no folder for the sockets of a spare")
	}
	a.gate, err = gate.Listen(a.folder, a.cfg.Ranks)
	return err
}

// offer offers the start of a spare to replicas whenever it is ready, until one has
// taken it, and owns it then; or a rank has ended, which it returns, or ctx has.
func (a *attempt) offer(ctx context.Context) (taken bool, ended *rank) {
	var to chan<- *attempt
	p, ranks := a.replica, a.ranks
	late := time.NewTimer(askLimit)
	defer late.Stop()
	for {
		select {
		case <-a.gate.Changed():
			if to = nil; a.gate.Ready() {
				late.Stop()
				if to = p.warm; !a.waited {
					a.waited = true
					p.cfg.Log.Info().Str(logkey.ReplicaID, p.name).Int("attempt", a.number).Msg("spare ready: it waits for a place")
				}
			}
		case to <- a:
			for _, one := range ranks {
				delete(p.sessions, one.proc.PID())
			}
			return true, nil
		case one := <-a.exits:
			a.exits <- one // for wait: there is room for all
			return false, one
		case <-late.C:
			p.cfg.Log.Warn().Str(logkey.ReplicaID, p.name).Dur("after", askLimit).Msg("spare has not asked for a place yet: it is of no use until all its ranks have")
		case <-ctx.Done():
			a.dismiss()
			return false, nil
		case <-a.killed:
			return false, nil
		}
	}
}

// dismiss tells a spare that it is not needed, and waits until it has ended, or a while, if all its
// ranks hear of it.
func (a *attempt) dismiss() {
	wait := a.gate.Ready() // one that has heard of it waits no more
	if err := a.gate.Order(spare.Order{Over: true}); err != nil || !wait {
		return
	}
	limit := time.NewTimer(overLimit)
	defer limit.Stop()
	for _, one := range a.ranks {
		select {
		case <-one.proc.Exited():
		case <-a.killed:
			return
		case <-limit.C:
			return
		}
	}
}

// takeSpare takes the start of a spare that is ready, and gives it the replica's place. nil: there is
// none, or it does not take it. No other is asked then: as fast as spares come that take no place the replica
// would not be started at all.
func (p *replica) takeSpare(ctx context.Context) *attempt {
	if ctx.Err() != nil {
		return nil
	}
	select {
	case a := <-p.warm:
		name, err := a.name, a.become(ctx, p)
		if err == nil {
			return a
		}
		p.cfg.Log.Warn().Str(logkey.ReplicaID, p.name).Str("spare", name).Err(err).Msg("spare did not take a place: it is killed")
		_, _ = a.finish(ctx, err) // which is all there is to say
	default:
	}
	return nil
}

// become makes the start of a spare one of a replica, whose goroutine this is. At the end of ctx it is one, too:
// ranks that train already are to drain.
func (a *attempt) become(ctx context.Context, p *replica) error {
	began, from, pids := time.Now(), a.replica, zerolog.Arr()
	a.replica, a.number = p, p.attempts
	p.attempts++
	a.makeLogs()
	for _, one := range a.ranks {
		p.sessions[one.proc.PID()] = one.began
		pids.Int(one.proc.PID())
		defer a.closeLog(a.label(one)) // when it trains: a file system may be slow
	}
	if err := a.gate.Order(spare.Order{Env: a.plan.Place(a.place())}); err != nil {
		return err
	}
	limit, cancel := context.WithTimeoutCause(ctx, takeLimit, fmt.Errorf("want it within %v", takeLimit))
	defer cancel()
	if err := a.gate.Taken(limit); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	from.moved.Add(1)
	p.cfg.Log.Info().Str(logkey.ReplicaID, p.name).Str("spare", from.name).Int("attempt", a.number).Array("pids", pids).
		Dur("took_ms", time.Since(began)).Msg("spare became a replica")
	return nil
}

// isSpare says whether this is a spare and not a replica.
func (p *replica) isSpare() bool { return p.key[0] == 's' }
