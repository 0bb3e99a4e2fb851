package launch

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/launch/internal/budget"
	"github.com/skerry-ft/skerry/launch/internal/sweep"
)

// stopped is why a replica's life ends from without.
type stopped struct {
	grace time.Duration // between SIGTERM and SIGKILL
}

func (stopped) Error() string { return "told to stop" }

// replica is one replica, or one spare, in all its starts. While it lives, its goroutine owns it but for
// what says otherwise; then loop does.
type replica struct {
	*run

	index  int    // among this launcher's
	slot   int    // of devices, that a start takes if it is free
	key    string // in marks and names of files: "3", of a spare "s0"
	name   string
	budget *budget.Budget

	attempts int // starts so far
	restarts int
	moved    atomic.Int64 // of a replica: how many of the restarts spares were; of a spare: places taken
	failures []*Failure
	last     *Failure
	unable   error // it cannot be started at all
	// sessions are those of its ranks, of any start, in which something may be yet.
	sessions sweep.Sessions

	// Of loop, always.
	stop    context.CancelCauseFunc
	outcome Outcome // empty: it lives
	shrunk  bool    // by Scale

	// What the lighthouse tells of this start; watch writes them.
	committed atomic.Int64
	known     atomic.Bool
}

// live starts a replica, and starts it again, until it is done, told to stop, or given up.
func (p *replica) live(ctx context.Context) Outcome {
	warm := p.takeSpare(ctx)
	for ctx.Err() == nil || warm != nil {
		p.committed.Store(0)
		p.known.Store(false)
		began := time.Now()
		failure, err := p.attempt(ctx, warm)
		switch {
		case err != nil:
			p.unable = err
			return GivenUp
		case failure == nil:
			return Done
		case ctx.Err() != nil:
			p.note(failure)
			return Stopped
		}
		p.note(failure)
		pause, again := p.budget.Crash(budget.Life{Ran: time.Since(began), Known: p.known.Load(), Steps: p.committed.Load()})
		if !again {
			return GivenUp
		}
		warm = p.rest(ctx, pause, failure)
	}
	return Stopped
}

// rest is what comes between a crash and the next start: the spare that it returns, or, if it is
// nil, a new one. A spare need not wait for the first pause: it costs no start of a process.
func (p *replica) rest(ctx context.Context, pause time.Duration, failure *Failure) (warm *attempt) {
	p.cfg.Log.Warn().Str(logkey.ReplicaID, p.name).Err(failure).Int("crash", p.budget.Spent()).Int("of", p.cfg.MaxRestarts).
		Stringer("pause", pause).Msg("replica crashed, and starts again")
	if pause <= budget.FirstPause {
		warm = p.takeSpare(ctx)
	}
	if warm == nil {
		if backoff.Sleep(ctx, pause) != nil {
			return nil
		}
		warm = p.takeSpare(ctx)
	}
	p.restarts++
	if warm != nil {
		p.moved.Add(1)
	}
	return warm
}

// revive has a replica that was given up start anew, as one that has cost nothing. It does not
// live.
func (p *replica) revive(b *budget.Budget) { p.budget, p.unable = b, nil }

// forget forgets the sessions in which nothing is left: their numbers may come to be those of
// other processes.
func (p *replica) forget() {
	empty, err := sweep.Empty(p.sessions)
	if err != nil {
		return // the next look may find them
	}
	for _, session := range empty {
		delete(p.sessions, session)
		p.keeper.Remove(session)
	}
}

// note keeps a crash for the report.
func (p *replica) note(f *Failure) {
	p.last = f
	p.failures = append(p.failures[max(len(p.failures)-maxFailures+1, 0):], f)
}

// failure is why the replica was given up.
func (p *replica) failure() error {
	if p.unable != nil {
		return p.unable
	}
	return p.last
}

// report tells of the replica.
func (p *replica) report() ReplicaReport {
	return ReplicaReport{Replica: p.name, Outcome: p.outcome, Restarts: p.restarts, Moved: int(p.moved.Load()), Failures: p.failures}
}
