package lighthouse

import (
	"context"
	"time"

	"github.com/skerry-ft/skerry/lighthouse/cluster"
	"github.com/skerry-ft/skerry/quorum/story"
)

// saveAfter is how long what was told of a job waits for a command of the job that takes it
// along, before it gets one of its own. A leader that dies meanwhile takes it with it. In a
// job that trains nothing is told, and nothing written. Who left is saved at once.
const saveAfter = time.Second

// saves is how what was told of a job gets into the ledger. It is owned by the job's goroutine.
type saves struct {
	due   time.Time // when a command of its own is written; zero: nothing waits
	under bool      // way: one is being written
	again bool      // one could not be written
}

// after is when it is due, but not before at: a look that is too early saves nothing.
func (s saves) after(at time.Time) time.Time {
	if s.due.IsZero() || s.due.After(at) {
		return s.due
	}
	return at
}

// save writes what was told, if it has waited for long enough. A name that clients made up, and
// that never came to a quorum, gets no ledger by it.
func (j *job) save(now time.Time) {
	f := j.leadership.feed
	if j.saves.under {
		return
	}
	if j.machine.Last() == nil {
		j.saves.due = time.Time{}
		return
	}
	told := f.Unsaved(j.name)
	urgent := story.Urgent(told) && !j.saves.again
	switch {
	case len(told) == 0:
		j.saves.due = time.Time{}
	case j.saves.due.IsZero() && !urgent:
		j.saves.due = now.Add(saveAfter)
	case urgent || !now.Before(j.saves.due):
		j.saves = saves{under: true}
		j.leadership.running.Go(func() { j.tell(told) })
	}
}

// tell writes what was told. What fails is written with the next command.
func (j *job) tell(told []story.Told) {
	err := j.leadership.ledger.Apply(cluster.Command{Kind: cluster.CommandTell, Job: j.name, UnixMs: j.began, Told: told})
	_ = j.note(context.Background(), func(time.Time) { // without the job there is nothing to go on with
		j.saves = saves{again: err != nil}
		if err == nil {
			j.leadership.feed.Saved(j.name, told)
		}
	})
}

// recallLeft tells the rules, made anew, who had left before: presumed alive, they would be called
// lost, and a run that has finished one that failed. It was told then.
func (j *job) recallLeft(now time.Time) {
	last := j.machine.Last()
	if last == nil {
		return
	}
	for _, gone := range j.leadership.feed.Left(j.name, last.ID) {
		j.machine.Leave(now, gone.Replica, gone.Reason)
	}
	j.machine.Events()
	j.machine.Notices()
}
