package quorum

import (
	"fmt"
	"slices"
)

// Ledger is the part of a job that raft replicates. Its Apply… methods are the
// FSM: pure, and the same on every server. The shell encodes it as JSON. The
// zero value is not useful; NewLedger makes one.
//
// In it is what must outlive a leader, and no more (ADR 0003): which ids were used (Q1, Q2),
// what was settled (C6), who must not come back, and the rules. What is soft (who beats, who
// has joined, who accuses whom) a new leader is told again within a heartbeat timeout.
//
// Cluster names this ledger's life: no epoch and no position of one that was lost equals one
// of its own (§1). Settled outlives the quorums that it is about: a member that was prepared,
// and comes back when all others have moved on, still finds what became of its step (§4.6).
type Ledger struct {
	Cluster   string
	Job       string
	Client    ClientKind
	HighestID int64  // every new quorum id is above it (Q1)
	Term      uint64 // of the newest command
	Last      *Quorum
	Settled   []Settlement // the newest MaxSettled; one per contested step (C6)
	Drained   []ReplicaID  // the newest MaxGone, in the order of their drains
	Evicted   []ReplicaID  // likewise
	Config    *Config      // overrides; nil: the servers' own
	History   []HistoryEntry
}

// HistoryEntry is one formed quorum, for people: no rule reads it. Its lists name at most
// MaxHistoryNames replicas each.
type HistoryEntry struct {
	CreatedMs   int64 // Unix milliseconds by the leader's wall clock
	QuorumID    int64
	Round       int64
	Size        int // number of members
	Members     []ReplicaID
	Joined      []ReplicaID  // members that the quorum before had not
	Left        []ReplicaID  // and the other way round
	Reason      string       // why the quorum before ended, and this one was formed
	Settlement  Settlement   // of the step that was cut short
	Accusations []Accusation // in the quorum before
}

// Formed is the command that makes a decision so. It names the quorum that it
// follows: the ledger's, FollowsID 0 when there is none. By that and its term a ledger tells a
// command of a leader that has been replaced from one of its own (ErrFenced).
type Formed struct {
	Term         uint64
	FollowsID    int64
	FollowsRound int64
	Client       ClientKind
	Quorum       Quorum
	Settled      []Settlement // contested steps, and steps on which members stand (§4.6)
	Accusations  []Accusation // a few of each replica, see fewOf

	// Delta stands for the quorum's members and participants, if it is there. Only
	// entries have one: see Against.
	Delta *Delta `json:",omitempty"`
}

// NewLedger starts a job's ledger (§4.7). Ids start above unixMs, Unix milliseconds by
// the caller's wall clock, so that a ledger that was lost does not repeat them.
func NewLedger(cluster, job string, unixMs int64) Ledger {
	return Ledger{Cluster: cluster, Job: job, HighestID: unixMs}
}

// follows says that the command is based upon quorum q, nil: upon none.
func (f *Formed) follows(q *Quorum) bool { return answerRef{f.FollowsID, f.FollowsRound} == q.ref() }

// ApplyFormed makes a decision so. It returns ErrFenced, and changes nothing, for a command
// that does not follow the last quorum, is of an older term, or has a delta upon another
// list; ErrInvalid for one that no machine makes. (Of two leaders that do not know of each
// other one has decided upon facts that are over: two quorums of one id would be told, Q2.)
// Of a ledger that holds quorum 7 in round 2, and knows of no higher id:
//
//	follows 7.2: id 8, any members            taken: a new quorum
//	follows 7.2: id 7, round 3, the same      taken: another answer of the same quorum
//	follows 7.2: id 7, other members          ErrInvalid (Q2)
//	follows 7.2: id 6                         ErrInvalid (Q1)
//	follows 7.1; or 7.2, of an older term     ErrFenced
func (l *Ledger) ApplyFormed(f Formed) error {
	var id, round int64
	if l.Last != nil {
		id, round = l.Last.ID, l.Last.Round
	}
	if !f.follows(l.Last) || f.Term < l.Term {
		return fmt.Errorf("%w: command of term %d follows quorum %d round %d, the ledger holds %d round %d of term %d",
			ErrFenced, f.Term, f.FollowsID, f.FollowsRound, id, round, l.Term)
	}
	// §4.9: from here on the command has whole lists, and is judged by what they say.
	f, err := f.on(l.Last)
	if err != nil {
		return err
	}
	// Q1, Q2: an id is new, or it is the last one with the same members.
	q := f.Quorum
	switch {
	case len(q.Members) == 0:
		return invalidf("quorum %d has no member", q.ID)
	// Q1: above all that was ever formed, and above where this ledger began.
	case q.ID > l.HighestID:
	// Q2: the id of the last quorum goes to the same members again, or to nobody.
	case l.Last != nil && q.ID == id && q.Round > round && sameMembers(q.Members, l.Last.Members):
	default:
		return invalidf("quorum %d round %d does not rise above %d", q.ID, q.Round, l.HighestID)
	}
	// Every server refuses it alike, and before anything has changed.
	if err := validateQuorum(&q); err != nil {
		return fmt.Errorf("quorum %d: %w", q.ID, err)
	}
	if f.Client > KindTorchft {
		return invalidf("quorum %d: Client = %d, want at most %d", q.ID, f.Client, KindTorchft)
	}
	// A decision settles at most two steps of each quorum in which a joiner ran (settleQuorum).
	if err := validateEach("settled", f.Settled, MaxMembers, validateSettlement); err != nil {
		return fmt.Errorf("quorum %d: %w", q.ID, err)
	}
	l.History = appendBounded(l.History, MaxHistory, historyEntry(l.Last, f))
	// An older leader's commands are refused from now on, whatever they follow.
	l.Term = f.Term
	// §1: from now on the job is of this kind of client.
	if l.Client == KindUnset {
		l.Client = f.Client
	}
	l.HighestID = max(l.HighestID, q.ID)
	l.Last = &q
	// §4.6: by the same entry as the quorum, see Decision.Command.
	l.recordSettled(f.Settled)
	return nil
}

// Repeats says whether q may be told again without being written (§4.4): it returns
// ErrFenced if this ledger holds a quorum after it. (A leader that another one has replaced
// would send members back to a quorum that is over.)
func (l *Ledger) Repeats(q Quorum) error {
	// A later one than the ledger's is told all the same: its members brought it here, from a
	// ledger that was lost (§4.3).
	if l.Last != nil && q.ref().less(l.Last.ref()) {
		return fmt.Errorf("%w: quorum %d round %d is to be repeated, the ledger holds %d round %d",
			ErrFenced, q.ID, q.Round, l.Last.ID, l.Last.Round)
	}
	return nil
}

// Forgets says whether a job that was found idle when its highest id was highest, 0 for
// any, may be forgotten: it returns ErrFenced if a quorum was formed since, for then
// replicas have come. The ids of a job that takes its name begin above HighestID (Q1).
func (l *Ledger) Forgets(highest int64) error {
	// The look that found it idle and the command that forgets it are two moments.
	if highest > 0 && l.HighestID > highest {
		return fmt.Errorf("%w: job %s is forgotten as of id %d, the ledger holds %d", ErrFenced, l.Job, highest, l.HighestID)
	}
	return nil
}

// recordSettled keeps C6: what was settled before stays as it was. (A second word could
// discard what members have rolled forward by the first.)
func (l *Ledger) recordSettled(settled []Settlement) {
	for _, s := range settled {
		if s.Outcome == NothingToSettle || findSettled(l.Settled, s.Step, s.QuorumID) != nil {
			continue
		}
		l.Settled = appendBounded(l.Settled, MaxSettled, s)
	}
}

// ApplyConfig replaces the job's overrides.
func (l *Ledger) ApplyConfig(c Config) error {
	if err := c.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	// Its own copy: the caller may go on to change c.
	l.Config = &c
	return nil
}

// ApplyDrain records that a replica was told to drain. Repeating it is fine.
func (l *Ledger) ApplyDrain(id ReplicaID) error {
	return applyGone(&l.Drained, id)
}

// ApplyUndrain takes a drain back. Repeating it is fine.
func (l *Ledger) ApplyUndrain(id ReplicaID) error {
	l.Drained = slices.DeleteFunc(l.Drained, func(d ReplicaID) bool { return d == id })
	return validateID("replica id", id)
}

// ApplyEvict records that a replica was evicted. Repeating it is fine.
func (l *Ledger) ApplyEvict(id ReplicaID) error {
	return applyGone(&l.Evicted, id)
}

// applyGone adds an id to a list of those that are not to come back.
func applyGone(list *[]ReplicaID, id ReplicaID) error {
	if err := validateID("replica id", id); err != nil {
		return err
	}
	// An id is never used again (§4.1), so nothing is taken out but what is oldest.
	if !slices.Contains(*list, id) {
		*list = appendBounded(*list, MaxGone, id)
	}
	return nil
}

// Clone returns a ledger that shares nothing that either of them changes. Last and Config are
// shared: they are replaced, never written.
func (l *Ledger) Clone() Ledger {
	c := *l
	c.Settled = slices.Clone(l.Settled)
	c.Drained = slices.Clone(l.Drained)
	c.Evicted = slices.Clone(l.Evicted)
	c.History = slices.Clone(l.History)
	return c
}

// historyEntry compares the new quorum with the one that it follows. It is made by each server
// from the same command, so all have the same page.
func historyEntry(last *Quorum, f Formed) HistoryEntry {
	q := f.Quorum
	h := HistoryEntry{
		CreatedMs: q.CreatedMs, QuorumID: q.ID, Round: q.Round, Size: len(q.Members), Members: memberIDs(q.Members),
		Reason: q.Reason, Settlement: q.Settlement, Accusations: f.Accusations,
	}
	var old []ReplicaID
	if last != nil {
		old = memberIDs(last.Members)
	}
	h.Joined = without(h.Members, old)
	// Before the lists are cut: cut ones need not hold the same names.
	h.Left = without(old, h.Members)
	for _, list := range []*[]ReplicaID{&h.Members, &h.Joined, &h.Left} {
		*list = slices.Clone((*list)[:min(len(*list), MaxHistoryNames)])
	}
	h.Accusations = slices.Clone(h.Accusations[:min(len(h.Accusations), MaxHistoryNames)])
	return h
}

// appendBounded appends v and drops what is oldest above limit. It never
// writes into an array that a clone may share beyond its length.
func appendBounded[T any](s []T, limit int, v T) []T {
	// The ledger is as long after a year as after a day: raft's snapshots hold it.
	if over := len(s) + 1 - limit; over > 0 {
		s = slices.Clone(s[over:])
	}
	return append(slices.Clip(s), v)
}

// without returns what of the sorted list a is not in the sorted list b.
func without(a, b []ReplicaID) []ReplicaID {
	var out []ReplicaID
	for _, id := range a {
		if _, found := slices.BinarySearch(b, id); !found {
			out = append(out, id)
		}
	}
	return out
}

func memberIDs(members []Member) []ReplicaID {
	ids := make([]ReplicaID, len(members))
	for i, m := range members {
		ids[i] = m.ReplicaID
	}
	return ids
}

// sameMembers compares replica ids only (Q2), as torchft does: addresses and steps
// are no reason for a new id.
func sameMembers(a, b []Member) bool {
	return slices.EqualFunc(a, b, func(x, y Member) bool { return x.ReplicaID == y.ReplicaID })
}

// findSettled returns what was settled about (step, quorum id), or nil.
func findSettled(settled []Settlement, step, quorumID int64) *Settlement {
	for i := range settled {
		if settled[i].about(step, quorumID) {
			return &settled[i]
		}
	}
	return nil
}
