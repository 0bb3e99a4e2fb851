package lighthouse

import (
	"time"

	"github.com/skerry-ft/skerry/lighthouse/internal/web"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/quorum/story"
)

// This file is how a job's story reaches those who follow it. The story belongs to the job's
// goroutine, as its machine does; the leadership's feed has a copy for all others.

// begunStory is a job's story, as far as the ledger kept it; of one that the ledger has, it
// is told that another server leads.
func (l *leadership) begunStory(job string) *story.Story {
	kept := l.ledger.Told(job)
	s := story.New(kept)
	l.feed.Tell(job, kept)
	if l.ledger.Has(job) {
		s.Led(time.Now().UnixMilli(), l.term, l.server.address())
	}
	return s
}

// happened tells an event of the rules.
func (j *job) happened(atMs int64, e quorum.Event) {
	var round int64
	if q := j.machine.Last(); q != nil {
		round = q.Round
	}
	j.story.Happened(atMs, round, e)
}

// ask tells what an operator asks for, before it is carried out.
func (j *job) ask(kind story.Kind, id quorum.ReplicaID, o web.Order) {
	var quorumID int64
	if q := j.machine.Last(); q != nil {
		quorumID = q.ID
	}
	j.story.Ask(time.Now().UnixMilli(), quorumID, story.Asked{Kind: kind, Replica: id, By: o.By, From: o.From, Reason: o.Reason})
}

// share gives what was told since the last time to those who follow.
func (j *job) share() {
	f := j.leadership.feed
	if last := f.Last(j.name); j.story.Last() > last {
		f.Tell(j.name, j.story.Since(last, story.Most))
	}
}
