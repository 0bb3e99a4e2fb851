// Package feed keeps the events of a leadership's jobs, for those who follow them.
package feed

import (
	"fmt"
	"slices"

	"github.com/skerry-ft/skerry/internal/monitor"
	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/lighthouse/internal/web"
	"github.com/skerry-ft/skerry/quorum"
)

// maxTold bounds the events that are kept of a job.
const maxTold = 1_000

// Feed is the events of a leadership's jobs, for those who follow them. It is safe for
// concurrent use.
type Feed struct {
	mu struct {
		monitor.Monitor // that there is a new event, or that the leadership has ended

		jobs  map[string]*story
		ended bool
	}
}

// story is the events of one job.
type story struct {
	seq    int64
	events []api.Event // the newest maxTold, oldest first
	asked  *asked      // what an operator has just asked for, and the rules have not told yet
}

// asked is an order on its way through the rules.
type asked struct {
	kind    quorum.EventKind
	replica quorum.ReplicaID
	order   web.Order
}

// New makes a feed without events.
func New() *Feed {
	f := &Feed{}
	f.mu.jobs = make(map[string]*story)
	return f
}

// eventKinds are the names in the API of what the rules tell. The others are for logs.
var eventKinds = map[quorum.EventKind]string{
	quorum.EventFormed: "formed", quorum.EventLost: "lost", quorum.EventLeft: "left", quorum.EventEvicted: "evicted",
	quorum.EventDraining: "draining", quorum.EventConfigured: "configured", quorum.EventJoined: "joined",
	quorum.EventReturned: "returned", quorum.EventStuck: "stuck", quorum.EventAway: "away", quorum.EventCleared: "cleared",
	quorum.EventRefused: "refused", quorum.EventApart: "apart", quorum.EventMended: "mended",
	quorum.EventProbation: "probation", quorum.EventDiverged: "diverged", quorum.EventPositionFell: "position_fell",
	quorum.EventRestored: "restored", quorum.EventDoubted: "doubted",
}

// Ask notes who asked for what the rules are about to tell as an event of that kind.
func (f *Feed) Ask(job string, kind quorum.EventKind, id quorum.ReplicaID, o web.Order) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.storyLocked(job).asked = &asked{kind: kind, replica: id, order: o}
}

// Note keeps what the rules told, at that time in Unix milliseconds.
func (f *Feed) Note(job string, atMs int64, e quorum.Event) {
	kind, ok := eventKinds[e.Kind]
	if !ok {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.storyLocked(job)
	one := api.Event{AtMs: atMs, Kind: kind, Replica: string(e.ReplicaID), QuorumID: e.QuorumID, Text: e.String()}
	if a := s.asked; a != nil && a.kind == e.Kind && a.replica == e.ReplicaID {
		one.By, one.From, one.Reason = a.order.By, a.order.From, a.order.Reason
		one.Text = fmt.Sprintf("%s, asked for by %s", one.Text, one.By)
		s.asked = nil
	}
	f.addLocked(job, s, one)
}

// Add keeps an event that is not of the rules.
func (f *Feed) Add(job string, e api.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.addLocked(job, f.storyLocked(job), e)
}

func (f *Feed) addLocked(job string, s *story, e api.Event) {
	s.seq++
	e.Job, e.Seq = job, s.seq
	s.events = append(s.events, e)
	s.events = s.events[max(len(s.events)-maxTold, 0):]
	f.mu.Broadcast()
}

func (f *Feed) storyLocked(job string) *story {
	s := f.mu.jobs[job]
	if s == nil {
		s = &story{}
		f.mu.jobs[job] = s
	}
	return s
}

// Events returns up to limit events with a seq above since, oldest first.
func (f *Feed) Events(job string, since int64, limit int) []api.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.mu.jobs[job]
	if s == nil || len(s.events) == 0 {
		return nil
	}
	from := min(max(since-s.events[0].Seq+1, 0), int64(len(s.events)))
	rest := s.events[from:]
	return slices.Clone(rest[:min(len(rest), limit)])
}

// Newest is the seq of the newest event of each job that has any.
func (f *Feed) Newest() map[string]int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make(map[string]int64, len(f.mu.jobs))
	for job, s := range f.mu.jobs {
		if s.seq > 0 {
			all[job] = s.seq
		}
	}
	return all
}

// Last is the seq of a job's newest event; 0: it has none.
func (f *Feed) Last(job string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.mu.jobs[job]; s != nil {
		return s.seq
	}
	return 0
}

// Told returns a channel that is closed by the next event, and by the leadership's end.
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

// Forget drops the events of a job that is forgotten.
func (f *Feed) Forget(job string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.mu.jobs, job)
}

// End wakes those who follow: there will be no more events.
func (f *Feed) End() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.ended = true
	f.mu.Broadcast()
}
