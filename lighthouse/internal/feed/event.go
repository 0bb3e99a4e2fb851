package feed

import (
	"time"

	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/quorum/story"
)

// Event is an entry as the API has it.
func Event(job string, t story.Told) api.Event {
	e := api.Event{
		Job: job, Seq: t.Seq, AtMs: t.AtMs, Kind: string(t.Kind), Replica: string(t.Replica), QuorumID: t.QuorumID, Round: t.Round,
		By: t.By, From: t.From, Reason: t.Reason, Text: story.Sentence(t),
	}
	if t.Cause != nil {
		e.Cause = Cause(*t.Cause)
	}
	if c := t.Change; c != nil {
		e.Members, e.Before, e.Cost = c.Members, c.Before, cost(c)
		if e.Cause == nil {
			e.Cause = Cause(c.Cause)
		}
		for _, id := range c.Joined {
			e.Joined = append(e.Joined, string(id))
		}
		for _, gone := range c.Gone {
			if g := Cause(gone); g != nil {
				e.Gone = append(e.Gone, *g)
			}
		}
	}
	return e
}

// Cause is a cause as the API has it; nil: there is none.
func Cause(c quorum.Cause) *api.Cause {
	if c.Kind == quorum.CauseUnknown && c.Replica == "" && c.Evidence == "" {
		return nil
	}
	a := &api.Cause{Kind: c.Kind.String(), Replica: string(c.Replica), Evidence: c.Evidence, Reason: c.Reason}
	for _, id := range c.Witnesses {
		a.Witnesses = append(a.Witnesses, string(id))
	}
	return a
}

func cost(c *quorum.Change) *api.Cost {
	a := &api.Cost{KnownMs: millis(c.Known), ReformedMs: millis(c.Reformed), ResumedMs: millis(c.Resumed), LostMs: millis(c.Lost)}
	if s := c.Settled; s.Settles() {
		a.Step, a.Outcome = s.Step, s.Outcome.String()
	}
	if *a == (api.Cost{}) {
		return nil
	}
	return a
}

// millis is a time in milliseconds, to the hundredth.
func millis(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond).Microseconds()) / 1e3
}
