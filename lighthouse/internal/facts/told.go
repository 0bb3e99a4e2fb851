package facts

import (
	"cmp"
	"time"

	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/quorum/story"
)

// Event is an entry of a job's story as the API has it.
func Event(job string, t story.Told) api.Event {
	e := api.Event{
		Job: job, Seq: t.Seq, AtMs: t.AtMs, Kind: string(t.Kind), Replica: string(t.Replica), QuorumID: t.QuorumID, Round: t.Round, Ordinal: t.Ordinal,
		By: t.By, From: t.From, Reason: t.Reason, Text: story.Sentence(t),
	}
	if what := story.What(t); what != e.Text {
		e.What = what
	}
	if t.Cause != nil {
		e.Cause = causeOf(*t.Cause)
	}
	c := t.Change
	if c == nil {
		return e
	}
	e.Members, e.Before, e.Joined = c.Members, c.Before, Texts(c.Joined)
	for _, gone := range c.Gone {
		if g := causeOf(gone); g != nil {
			e.Gone = append(e.Gone, *g)
		}
	}
	if e.Cause == nil {
		e.Cause = causeOf(c.Cause)
	}
	e.Cost = &api.Cost{KnownMs: ms(c.Known), ReformedMs: ms(c.Reformed), ResumedMs: ms(c.Resumed), LostMs: ms(c.Lost)}
	switch {
	case c.Redone:
		e.Cost.Step, e.Cost.Outcome = cmp.Or(c.Step, c.Settled.Step), quorum.Discard.String() // Step is of a build that says it
	case c.Settled.Counts() && !c.Settled.Standing:
		e.Cost.Step, e.Cost.Outcome = c.Settled.Step, c.Settled.Outcome.String()
	}
	return e
}

// causeOf is a cause as the API has it; nil: there is none.
func causeOf(c quorum.Cause) *api.Cause {
	if c.Kind == quorum.CauseUnknown {
		return nil
	}
	return &api.Cause{
		Kind: c.Kind.String(), Replica: string(c.Replica), Witnesses: Texts(c.Witnesses), Evidence: c.Evidence, Reason: c.Reason,
	}
}

// ms is in milliseconds, with three digits of them.
func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
