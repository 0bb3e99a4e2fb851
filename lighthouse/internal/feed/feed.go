// Package feed is what a leader tells of its jobs: the stories of what became of them, for those
// who follow them and for the ledger, and which joins it refused.
package feed

import (
	"github.com/skerry-ft/skerry/internal/monitor"
	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/lighthouse/internal/facts"
	"github.com/skerry-ft/skerry/lighthouse/internal/web"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/quorum/story"
)

// Feed is the stories of a leadership's jobs. It is safe for concurrent use.
type Feed struct {
	mu struct {
		monitor.Monitor // that there is a new entry, or that the leadership has ended

		jobs  map[string]*story.Story
		ended bool
	}
}

// New makes a feed without jobs.
func New() *Feed {
	f := &Feed{}
	f.mu.jobs = make(map[string]*story.Story)
	return f
}

// Begin goes on with what the ledger kept of a job; earlier says that it had another leader.
func (f *Feed) Begin(job string, kept []story.Told, earlier bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.jobs[job] = story.New(kept, earlier)
}

// Led tells that this server leads the job from now on.
func (f *Feed) Led(job string, atMs int64, term uint64, server string) {
	f.tell(job, func(s *story.Story) { s.Led(atMs, term, server) })
}

// Ask notes who asks for what, before it is done: see story.Story.Ask.
func (f *Feed) Ask(job string, atMs int64, kind story.Kind, id quorum.ReplicaID, o web.Order) {
	f.tell(job, func(s *story.Story) {
		s.Ask(atMs, story.Asked{Kind: kind, Replica: id, By: o.By, From: o.From, Reason: o.Reason})
	})
}

// Ordered tells of an order that the rules do not carry out: in words, and of that kind.
func (f *Feed) Ordered(job string, atMs int64, kind story.Kind, text string, o web.Order) {
	f.tell(job, func(s *story.Story) {
		s.Ask(atMs, story.Asked{Kind: kind, By: o.By, From: o.From, Reason: o.Reason, Text: text})
	})
}

// Unask takes back what was asked for and did not happen.
func (f *Feed) Unask(job string, id quorum.ReplicaID) {
	f.tell(job, func(s *story.Story) { s.Unask(id) })
}

// Note keeps what the rules told, at that time in Unix milliseconds.
func (f *Feed) Note(job string, atMs int64, last story.Last, e quorum.Event) {
	f.tell(job, func(s *story.Story) { s.Happened(atMs, last, e) })
}

// tell changes a job's story.
func (f *Feed) tell(job string, change func(*story.Story)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.mu.jobs[job]
	if s == nil {
		return // forgotten
	}
	before := s.Last()
	change(s)
	if s.Last() != before {
		f.mu.Broadcast()
	}
}

// Left are the replicas of a job that left a quorum, see story.Story.Left.
func (f *Feed) Left(job string, quorumID int64) []quorum.Cause {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.mu.jobs[job]; s != nil {
		return s.Left(quorumID)
	}
	return nil
}

// Unsaved returns what the ledger does not have of a job's story.
func (f *Feed) Unsaved(job string) []story.Told {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.mu.jobs[job]; s != nil {
		return s.Unsaved()
	}
	return nil
}

// Saved notes that the ledger has these entries, which Unsaved returned.
func (f *Feed) Saved(job string, told []story.Told) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.mu.jobs[job]; s != nil && len(told) > 0 {
		s.Saved(told[len(told)-1].Seq)
	}
}

// Events returns the oldest limit entries after since, oldest first.
func (f *Feed) Events(job string, since int64, limit int) (events []api.Event) {
	for _, t := range f.since(job, since, limit) { // not under the lock, for which jobs wait
		events = append(events, facts.Event(job, t))
	}
	return events
}

func (f *Feed) since(job string, since int64, limit int) []story.Told {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.mu.jobs[job]; s != nil {
		return s.Since(since, limit)
	}
	return nil
}

// Newest is the number of the newest entry of each job that has any.
func (f *Feed) Newest() map[string]int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make(map[string]int64, len(f.mu.jobs))
	for job, s := range f.mu.jobs {
		if last := s.Last(); last > 0 {
			all[job] = last
		}
	}
	return all
}

// Account is the number of a job's newest entry, 0 if it has none, and what its changes cost.
func (f *Feed) Account(job string) (last int64, cost story.Cost) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.mu.jobs[job]; s != nil {
		return s.Last(), s.Cost()
	}
	return 0, cost
}

// Told returns a channel that is closed by the next entry, and by the leadership's end.
func (f *Feed) Told() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.ended {
		now := make(chan struct{})
		close(now)
		return now
	}
	return f.mu.Changed()
}

// Forget drops the story of a job that is forgotten.
func (f *Feed) Forget(job string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.mu.jobs, job)
}

// End wakes those who follow: there will be no more entries.
func (f *Feed) End() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.ended = true
	f.mu.Broadcast()
}
