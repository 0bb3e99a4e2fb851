package story

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/skerry-ft/skerry/quorum"
)

// Told is one entry of a job's feed. The ledger keeps the newest Most of a job, as JSON, so
// that they survive a leader. No rule reads them, but that a replica which told that it left
// is gone.
type Told struct {
	Seq      int64 // rises within a job; a new leader leaves a gap
	AtMs     int64 // Unix milliseconds by the leader's wall clock
	Kind     Kind
	Replica  quorum.ReplicaID `json:",omitempty"`
	QuorumID int64            `json:",omitempty"`
	Round    int64            `json:",omitempty"`
	Ordinal  int64            `json:",omitempty"` // of the quorum, among the job's; 0: not known
	Cause    *quorum.Cause    `json:",omitempty"` // of a replica that went, or stands still
	Change   *quorum.Change   `json:",omitempty"` // of a quorum that was formed, or resumed
	Step     int64            `json:",omitempty"` // of a job that finished: how far it came
	Text     string           `json:",omitempty"` // what no field says

	// Of what was asked for: who asked, from which address, and why.
	By     string `json:",omitempty"`
	From   string `json:",omitempty"`
	Reason string `json:",omitempty"`
}

// Kind is what is told. Readers skip a kind that they do not know.
type Kind string

// The kinds. Draining, Stays, Kill, Transfer and Scaled are asked for; Leader says that another server leads.
const (
	Formed       Kind = "formed"
	Resumed      Kind = "resumed"
	Healed       Kind = "healed"
	Lost         Kind = "lost"
	Left         Kind = "left"
	Drained      Kind = "drained"
	Evicted      Kind = "evicted"
	Returned     Kind = "returned"
	Stuck        Kind = "stuck"
	Away         Kind = "away"
	Moves        Kind = "moves" // it was stuck, or away
	Refused      Kind = "refused"
	Probation    Kind = "probation"
	Apart        Kind = "apart"
	Mended       Kind = "mended"
	Diverged     Kind = "diverged"
	PositionFell Kind = "position_fell"
	Restored     Kind = "restored"
	Doubted      Kind = "doubted"
	Configured   Kind = "configured"
	Finished     Kind = "finished"
	Draining     Kind = "draining"
	Stays        Kind = "stays" // its drain was taken back
	Kill         Kind = "kill"
	Leader       Kind = "leader"
	Transfer     Kind = "transfer" // another server is to lead, as its text says
	Scaled       Kind = "scaled"   // another number of replicas is wanted, as its text says
)

// Bounds on what is told.
const (
	Most       = 1000 // entries that a ledger keeps of a job
	mostNames  = 16   // replicas that one entry names of each kind
	mostSeen   = 4    // witnesses of one of several that are gone
	mostBytes  = 512  // of one text in it
	mostKnown  = 256  // bytes of a name
	mostNumber = quorum.MaxStep
)

// Keep appends to what is kept the entries that follow its newest, and drops what is oldest
// above Most. An entry that is out of its bounds, or out of order, is left out: the feed is
// for people, and no reason to refuse the command, or the snapshot, that it came with. It never
// writes into the array that it was given.
func Keep(kept, told []Told) []Told {
	kept, told = slices.Clip(kept), told[max(len(told)-Most, 0):]
	for i := range told {
		t := &told[i]
		if n := len(kept); n > 0 && t.Seq <= kept[n-1].Seq || t.validate() != nil {
			continue
		}
		kept = append(kept, *t)
	}
	if over := len(kept) - Most; over > 0 {
		kept = slices.Clone(kept[over:])
	}
	return kept
}

// bounded is t with its lists and texts cut to what is kept.
func (t Told) bounded() Told {
	t.Text, t.By, t.From, t.Reason = cut(t.Text), cut(t.By), cut(t.From), cut(t.Reason)
	if t.Cause != nil {
		t.Cause = new(boundedCause(*t.Cause))
	}
	if t.Change != nil {
		c := *t.Change
		c.Cause = boundedCause(c.Cause)
		c.Joined = first(c.Joined)
		gone := first(c.Gone)
		c.Gone = make([]quorum.Cause, len(gone))
		for i := range gone {
			c.Gone[i] = boundedCause(gone[i])
			c.Gone[i].Witnesses = c.Gone[i].Witnesses[:min(len(c.Gone[i].Witnesses), mostSeen)]
		}
		c.Settled.Digests = nil // what became of the step is told, not of which bytes
		t.Change = &c
	}
	return t
}

func boundedCause(c quorum.Cause) quorum.Cause {
	c.Witnesses = first(c.Witnesses)
	c.Evidence, c.Reason = cut(c.Evidence), cut(c.Reason)
	return c
}

func first[T any](list []T) []T { return list[:min(len(list), mostNames)] }

func cut(s string) string { return strings.ToValidUTF8(s[:min(len(s), mostBytes)], "") }

var (
	errNumber = fmt.Errorf("a number is not within 0 to %d", int64(mostNumber))
	errText   = fmt.Errorf("a text has over %d bytes", mostBytes)
	errName   = fmt.Errorf("a name has over %d bytes", mostKnown)
	errNames  = fmt.Errorf("a list has over %d names", mostNames)
	errKind   = errors.New("it has no kind")
)

// validate checks sizes and numbers.
func (t *Told) validate() error {
	for _, n := range []int64{t.Seq, t.AtMs, t.QuorumID, t.Round, t.Ordinal, t.Step} {
		if n < 0 || n > mostNumber {
			return errNumber
		}
	}
	if t.Kind == "" {
		return errKind
	}
	if len(t.Kind) > mostKnown || len(t.Replica) > mostKnown {
		return errName
	}
	for _, s := range []string{t.Text, t.By, t.From, t.Reason} {
		if len(s) > mostBytes {
			return errText
		}
	}
	if err := validateCause(t.Cause); err != nil || t.Change == nil {
		return err
	}
	c := t.Change
	if len(c.Joined) > mostNames || len(c.Gone) > mostNames || len(c.Settled.Digests) > 0 {
		return errNames
	}
	for i := range c.Gone {
		if err := validateCause(&c.Gone[i]); err != nil {
			return err
		}
	}
	return errors.Join(validateNames(c.Joined), validateCause(&c.Cause))
}

func validateCause(c *quorum.Cause) error {
	switch {
	case c == nil:
		return nil
	case len(c.Replica) > mostKnown:
		return errName
	case len(c.Witnesses) > mostNames:
		return errNames
	case len(c.Evidence) > mostBytes || len(c.Reason) > mostBytes:
		return errText
	}
	return validateNames(c.Witnesses)
}

func validateNames(ids []quorum.ReplicaID) error {
	for _, id := range ids {
		if len(id) > mostKnown {
			return errName
		}
	}
	return nil
}
