// Package feed has the stories of a leadership's jobs for those who follow them, and the
// joins of late that were refused.
package feed

import (
	"cmp"
	"slices"

	"github.com/skerry-ft/skerry/internal/monitor"
	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/quorum/story"
)

// Feed is a copy of the stories, which their jobs own. It is safe for concurrent use.
type Feed struct {
	mu struct {
		monitor.Monitor // that something is told, or that the leadership has ended

		jobs  map[string][]story.Told // the newest story.Most, oldest first
		ended bool
	}
}

// New makes a feed of no jobs.
func New() *Feed {
	f := &Feed{}
	f.mu.jobs = make(map[string][]story.Told)
	return f
}

// Tell adds what follows what the feed has of a job. The caller does not change it any more.
func (f *Feed) Tell(job string, told []story.Told) {
	if len(told) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	all := append(f.mu.jobs[job], told...)
	f.mu.jobs[job] = all[max(len(all)-story.Most, 0):]
	f.mu.Broadcast()
}

// Events returns up to limit entries after since, oldest first.
func (f *Feed) Events(job string, since int64, limit int) []api.Event {
	f.mu.Lock()
	all := f.mu.jobs[job] // what is in it never changes
	f.mu.Unlock()
	at, found := slices.BinarySearchFunc(all, since, func(t story.Told, seq int64) int { return cmp.Compare(t.Seq, seq) })
	if found {
		at++
	}
	events := make([]api.Event, 0, min(len(all)-at, limit))
	for _, t := range all[at:min(len(all), at+limit)] {
		events = append(events, Event(job, t))
	}
	return events
}

// Newest is the seq of the newest entry of each job that has any.
func (f *Feed) Newest() map[string]int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make(map[string]int64, len(f.mu.jobs))
	for job, told := range f.mu.jobs {
		all[job] = told[len(told)-1].Seq
	}
	return all
}

// Last is the seq of a job's newest entry; 0: it has none.
func (f *Feed) Last(job string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if told := f.mu.jobs[job]; len(told) > 0 {
		return told[len(told)-1].Seq
	}
	return 0
}

// Told returns a channel that is closed when something is told, and by the leadership's end.
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

// End wakes those who follow: nothing more is told.
func (f *Feed) End() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.ended = true
	f.mu.Broadcast()
}
