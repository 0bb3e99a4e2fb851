package story

import (
	"fmt"
	"slices"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// maxUnsaved bounds the entries that one command carries.
const maxUnsaved = 256

// Story is a job's feed at the leader. It is owned by one goroutine.
type Story struct {
	told  []Told // the newest Most, oldest first
	next  int64  // the next entry's number
	saved int64  // the newest that the ledger keeps
	asked map[quorum.ReplicaID]Asked

	quorum int64 // the newest that was told of
}

// New goes on with what the ledger kept. Numbers that the leader before gave to what it could
// not save are left out, so that a reader who has seen them misses nothing of what follows.
// earlier says that there was one.
func New(kept []Told, earlier bool) *Story {
	s := &Story{told: slices.Clone(kept), next: 1, asked: make(map[quorum.ReplicaID]Asked)}
	if n := len(kept); n > 0 {
		s.saved = kept[n-1].Seq
		s.quorum = kept[n-1].QuorumID
	}
	if earlier {
		s.next = s.saved + 1 + Most
	}
	return s
}

// Asked is what an operator, or a program of theirs, asked for.
type Asked struct {
	Kind    Kind // draining, stays, evicted, kill, configured
	Replica quorum.ReplicaID
	By      string // who, as far as it was proved
	From    string // the address of who asked
	Reason  string
	Text    string // what no field says: of a transfer all
}

// Ask notes what was asked for, before it is carried out: of a drain and an eviction the rules
// tell themselves, and their entry names who asked; the others are told now.
func (s *Story) Ask(atMs int64, a Asked) {
	switch a.Kind {
	case Draining, Stays, Evicted, Configured:
		if len(s.asked) >= maxUnsaved {
			clear(s.asked) // what they asked for never happened
		}
		s.asked[a.Replica] = a
	default:
		s.add(Told{AtMs: atMs, Kind: a.Kind, Replica: a.Replica, QuorumID: s.quorum, By: a.By, From: a.From, Reason: a.Reason, Text: a.Text})
	}
}

// Unask takes back what was asked for of a replica, or of the job, and did not happen.
func (s *Story) Unask(id quorum.ReplicaID) { delete(s.asked, id) }

// Led tells that another server leads from now on.
func (s *Story) Led(atMs int64, term uint64, server string) {
	s.add(Told{AtMs: atMs, Kind: Leader, From: server, Text: fmt.Sprintf("term %d", term)})
}

// kinds are the events that are told, each by its own kind.
var kinds = map[quorum.EventKind]Kind{
	quorum.EventFormed:       Formed,
	quorum.EventResumed:      Resumed,
	quorum.EventHealed:       Healed,
	quorum.EventLost:         Lost,
	quorum.EventLeft:         Left,
	quorum.EventEvicted:      Evicted,
	quorum.EventReturned:     Returned,
	quorum.EventStuck:        Stuck,
	quorum.EventAway:         Away,
	quorum.EventCleared:      Moves,
	quorum.EventRefused:      Refused,
	quorum.EventProbation:    Probation,
	quorum.EventApart:        Apart,
	quorum.EventMended:       Mended,
	quorum.EventDiverged:     Diverged,
	quorum.EventPositionFell: PositionFell,
	quorum.EventRestored:     Restored,
	quorum.EventDoubted:      Doubted,
	quorum.EventConfigured:   Configured,
	quorum.EventDraining:     Draining,
	quorum.EventStays:        Stays,
	quorum.EventFinished:     Finished,
}

// Last is what an event does not say of the job's last quorum.
type Last struct {
	Round   int64
	Ordinal int64 // its number among the job's; 0: not known
}

// Happened tells an event of the rules, if it is one for the feed.
func (s *Story) Happened(atMs int64, last Last, e quorum.Event) {
	kind, told := kinds[e.Kind]
	if !told {
		return
	}
	t := Told{AtMs: atMs, Kind: kind, Replica: e.ReplicaID, QuorumID: e.QuorumID, Round: last.Round, Ordinal: last.Ordinal, Change: e.Change, Step: e.Step}
	if e.Cause.Kind != quorum.CauseUnknown {
		t.Cause = &e.Cause
	}
	switch e.Kind {
	case quorum.EventFormed:
		// Another round of the same members is how a member that has healed begins to take
		// part: that is told of it.
		if e.Change == nil || last.Round > 1 {
			return
		}
	case quorum.EventCleared:
		// A suspicion that came to nothing is no news: of one that stood still it is.
		if t.Cause == nil {
			return
		}
	case quorum.EventLeft:
		if e.Cause.Kind == quorum.CauseDrained {
			t.Kind = Drained
		}
	case quorum.EventLost, quorum.EventStuck, quorum.EventAway, quorum.EventResumed, quorum.EventEvicted:
	case quorum.EventDraining, quorum.EventStays:
		t.Reason = e.Text
	default:
		t.Text = e.Text
	}
	s.name(&t)
	s.add(t)
}

// name says who asked for what the rules tell of.
func (s *Story) name(t *Told) {
	switch t.Kind {
	case Draining, Stays, Evicted, Configured:
	case Drained, Lost, Left:
		delete(s.asked, t.Replica)
		return
	default:
		return
	}
	a, ok := s.asked[t.Replica]
	if !ok || a.Kind != t.Kind {
		return
	}
	delete(s.asked, t.Replica)
	t.By, t.From, t.Reason = a.By, a.From, a.Reason
}

func (s *Story) add(t Told) {
	s.quorum = max(s.quorum, t.QuorumID)
	t.Seq = s.next
	s.next++
	s.told = append(s.told, t.bounded())
	if over := len(s.told) - Most; over > 0 {
		s.told = slices.Delete(s.told, 0, over)
	}
}

// Last is the number of the newest entry; 0: there is none.
func (s *Story) Last() int64 {
	if len(s.told) == 0 {
		return 0
	}
	return s.told[len(s.told)-1].Seq
}

// Since returns the first limit entries after that one, oldest first. The caller does not change
// what the entries point to.
func (s *Story) Since(seq int64, limit int) []Told {
	at, _ := slices.BinarySearchFunc(s.told, seq+1, func(t Told, seq int64) int { return int(min(max(t.Seq-seq, -1), 1)) })
	found := s.told[at:]
	return slices.Clone(found[:min(len(found), limit)])
}

// Left are the replicas that left, or were drained, in the quorum of that id, in that order; but
// those that came back.
func (s *Story) Left(quorumID int64) (left []quorum.Cause) {
	for _, t := range s.told {
		switch {
		case (t.Kind == Left || t.Kind == Drained) && t.QuorumID == quorumID:
			left = append(left, causeOf(t))
		case t.Kind == Returned:
			left = slices.DeleteFunc(left, func(c quorum.Cause) bool { return c.Replica == t.Replica })
		}
	}
	return left
}

// Urgent says that the next leader has to know of one of the entries: who left is not waited
// for.
func Urgent(told []Told) bool {
	return slices.ContainsFunc(told, func(t Told) bool { return t.Kind == Left || t.Kind == Drained })
}

// Unsaved returns what the ledger does not have, for a command to carry.
func (s *Story) Unsaved() []Told { return s.Since(s.saved, maxUnsaved) }

// Saved notes that the ledger keeps all up to an entry.
func (s *Story) Saved(seq int64) { s.saved = max(s.saved, seq) }

// Cost is what changes cost a job, as far as its feed goes back.
type Cost struct {
	FromMs int64         // the first entry, in Unix milliseconds; 0: there is none
	ToMs   int64         // when the job finished; 0: it has not
	Step   int64         // at which step it did
	Lost   time.Duration // in which no step was made for a change
}

// Cost adds up what the changes in the feed cost.
func (s *Story) Cost() (c Cost) {
	for _, t := range s.told {
		if c.FromMs == 0 && t.Kind == Formed {
			c.FromMs = t.AtMs
		}
		if t.Kind == Resumed && t.Change != nil {
			c.Lost += t.Change.Lost
		}
		switch t.Kind {
		case Finished:
			c.ToMs, c.Step = t.AtMs, t.Step
		case Formed:
			c.ToMs, c.Step = 0, 0
		}
	}
	return c
}

// Goodput is the share of the time, from 0 to 1, that no change cost. nowMs is the time; down is
// for how long the job has been without a quorum by then.
func (c Cost) Goodput(nowMs int64, down time.Duration) float64 {
	end := nowMs
	if c.ToMs > 0 {
		end, down = c.ToMs, 0
	}
	all := time.Duration(end-c.FromMs) * time.Millisecond
	if c.FromMs == 0 || all <= 0 {
		return 0
	}
	return max(0, 1-(c.Lost+down).Seconds()/all.Seconds())
}
