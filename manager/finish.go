package manager

import (
	"context"
	"errors"
	"time"
)

// Finish ends a run in good order: it goes on calling step until a step has been
// committed in which no member was behind and none was waiting to be let in, for linger
// at least; then it drains, and returns nil once this replica has left. So a replica that
// died shortly before the end can come back within linger, and heal to the last step.
// Without it the first replica to end breaks a step of the others. Where too few are left to
// commit a step, since others have ended, it does not wait for one beyond linger.
//
// step is the loop's own, with all its collectives, for a replica that is behind makes
// them in the same step. It must change nothing any more once the model has had
// its steps, on a replica that has just healed as well:
//
//	step := func(ctx context.Context) error {
//		…                                    // StartQuorum, forward, backward, all-reduce
//		committed, err := m.ShouldCommit(ctx)
//		if committed && m.Step() <= steps { optimizer.Step() }
//		return err
//	}
//	for m.Step() < steps { … step(ctx) … }
//	err := m.Finish(ctx, 10*time.Second, step)
//
// It belongs to the trainer's goroutine, and is called in all ranks of a replica. It
// blocks until the replica has left: beyond linger a heal under way, and what Drain
// waits for. Where all end together they wait Timeouts.Linger for a process that might
// take over. A drain from elsewhere ends it well, too. Errors: step's, ctx's cause.
func (m *Manager) Finish(ctx context.Context, linger time.Duration, step func(ctx context.Context) error) error {
	over := time.Now().Add(linger)
	for {
		before := m.Step()
		if err := step(ctx); errors.Is(err, ErrDrained) {
			return nil
		} else if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if m.together(before) && !time.Now().Before(over) {
			m.Drain()
		}
	}
}

// together says that the quorum stands as it was asked for: none of its members is behind,
// and no replica waits to be let in; and that a step was committed since before, or none can be.
func (m *Manager) together(before int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &m.mu.rank
	return r.Standing() && !r.Behind() && !r.AwaitsHeals() && r.Wanted() == "" && !m.mu.attempt.changes &&
		(r.Position().Step > before || r.TooFew())
}
