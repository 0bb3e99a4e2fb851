package story

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// shown is the least time that is told: what is shorter is the time of a few instructions.
const shown = 100 * time.Microsecond

// maxNamed is how many replicas a sentence names before it counts.
const maxNamed = 4

// Sentence is an entry in words:
//
//	replica-0 died: link cut, seen by replica-3 and replica-4 · known after 4 ms · 4 members
//	again after 11 ms · step 661 done anew
//
// Names, evidence and reasons in it come from elsewhere: who shows it makes them harmless.
func Sentence(t Told) string {
	what, cost := sentence(t)
	return strings.Join(append(what, cost...), " · ")
}

// What is the sentence without what it cost, for those who show the numbers apart:
//
//	replica-0 died: link cut, seen by replica-3 and replica-4 · step 661 done anew
func What(t Told) string {
	what, _ := sentence(t)
	if t.Kind == Formed && t.Change != nil {
		if len(what) == 0 { // the same members asked for another quorum
			what = append(what, size(t.Change))
		}
		what = append(what, step(t.Change)...)
	}
	return strings.Join(what, " · ")
}

// sentence is an entry in words, and what that cost.
func sentence(t Told) (parts, cost []string) {
	switch t.Kind {
	case Formed:
		return formed(t.Change)
	case Resumed:
		return resumed(t.Change)
	case Lost, Left, Drained, Stuck, Away:
		parts = []string{gone(causeOf(t))}
	case Evicted:
		parts = []string{asked(t, "was evicted")}
	case Draining:
		parts = []string{asked(t, "was told to drain")}
	case Stays:
		parts = []string{asked(t, "stays: its drain was taken back")}
	case Transfer, Scaled:
		parts = []string{asked(t, t.Text)}
	case Kill:
		parts = []string{asked(t, "was killed")}
	case Configured:
		parts = []string{asked(t, "rules were changed")}
	default:
		parts = []string{plain(t)}
	}
	return parts, nil
}

// plain is the sentence of what needs its text alone.
func plain(t Told) string {
	text := map[Kind]string{
		Healed: "healed", Returned: "is back", Moves: "moves again",
		Refused: "is refused for a while", Probation: "is put on probation",
		Apart: "and another replica do not reach each other", Mended: "is reached again",
		Diverged: "members committed different bytes", PositionFell: "the newest state is lost, with all that held it",
		Restored: "the last quorum was brought back by its members", Doubted: "the lighthouse doubts its own sight",
		Finished: "finished: all members left in good order", Leader: t.From + " leads from now on",
	}[t.Kind]
	if text == "" {
		text = string(t.Kind) // of a newer version
	}
	s := strings.TrimPrefix(string(t.Replica)+" "+text, " ")
	switch {
	case t.Text == "":
		return s
	case t.Kind == Healed || t.Kind == Leader || t.Kind == Finished:
		return s + ", " + t.Text
	}
	return s + ": " + t.Text
}

// asked is the sentence of what an operator asked for.
func asked(t Told, what string) string {
	s := strings.TrimPrefix(string(t.Replica)+" "+what, " ")
	if t.By != "" {
		s += " by " + t.By
	}
	reason := t.Reason
	if reason == "" && t.Cause != nil {
		reason = t.Cause.Reason
	}
	if reason != "" {
		s += ": " + reason
	}
	return s
}

func causeOf(t Told) quorum.Cause {
	if t.Cause == nil {
		return quorum.Cause{Replica: t.Replica}
	}
	return *t.Cause
}

// gone says what became of a replica.
func gone(c quorum.Cause) string {
	who := string(c.Replica)
	if who == "" {
		return c.Evidence
	}
	switch c.Kind {
	case quorum.CauseStream:
		return who + " died: its connection broke"
	case quorum.CauseSilent:
		return who + " died: it fell silent"
	case quorum.CauseLink:
		return who + " died: link cut, seen by " + names(c.Witnesses)
	case quorum.CauseSuperseded:
		return who + " was started again"
	case quorum.CauseAccused:
		return "the link between " + who + " and " + names(c.Witnesses) + " broke: " + evidence(c)
	case quorum.CauseLeft:
		return because(who+" left", c.Reason)
	case quorum.CauseDrained:
		return because(who+" drained", c.Reason)
	case quorum.CauseEvicted:
		return because(who+" was evicted", c.Reason)
	case quorum.CauseStuck:
		return because(who+" is stuck", c.Evidence)
	case quorum.CauseAway:
		return because(who+" is away", c.Evidence)
	case quorum.CauseRefused:
		return because(who+" is refused", c.Evidence)
	case quorum.CauseApart:
		return because(who+" is kept apart", c.Evidence)
	case quorum.CauseFailed:
		return because("the step of "+who+" failed", strings.TrimPrefix(c.Evidence, "joined: "))
	case quorum.CauseAbsent:
		return who + " did not join in time"
	}
	return because(who+" is gone", c.Evidence)
}

// evidence is what an accuser saw, without who that was.
func evidence(c quorum.Cause) string {
	if _, what, found := strings.Cut(c.Evidence, ": "); found {
		return what
	}
	return c.Evidence
}

func because(s, why string) string {
	if why == "" {
		return s
	}
	return s + ": " + why
}

// formed says what a quorum changed, and what that cost.
func formed(c *quorum.Change) (parts, cost []string) {
	if c == nil {
		return []string{"a quorum was formed"}, nil
	}
	if c.Before == 0 {
		return []string{"first quorum: " + members(c.Members)}, nil
	}
	for _, g := range c.Gone[:min(len(c.Gone), maxNamed)] {
		parts = append(parts, gone(g))
	}
	if more := len(c.Gone) - maxNamed; more > 0 {
		parts = append(parts, fmt.Sprintf("%d more are gone", more))
	}
	// Who left is said above; where all are here still, what broke.
	if len(c.Gone) == 0 && c.Cause.Kind != quorum.CauseUnknown {
		parts = append(parts, gone(c.Cause))
	}
	if len(c.Joined) > 0 {
		parts = append(parts, names(c.Joined)+" joined")
	}
	if c.Known >= shown {
		cost = append(cost, "known after "+span(c.Known))
	}
	again := size(c)
	if c.Reformed > 0 {
		again += " after " + span(c.Reformed)
	}
	cost = append(cost, again)
	return parts, append(cost, step(c)...)
}

// size is how many members there are.
func size(c *quorum.Change) string {
	if c.Members <= c.Before {
		return members(c.Members) + " again"
	}
	return members(c.Members)
}

// step says what became of the step that was cut short, if it was one.
func step(c *quorum.Change) []string {
	switch {
	case c.Before == 0:
	case c.Redone:
		return []string{fmt.Sprintf("step %d done anew", cmp.Or(c.Step, c.Settled.Step))}
	case c.Settled.Counts() && !c.Settled.Standing:
		return []string{fmt.Sprintf("step %d counts", c.Settled.Step)}
	}
	return nil
}

func resumed(c *quorum.Change) (parts, cost []string) {
	if c == nil {
		return []string{"training goes on"}, nil
	}
	parts = []string{"training goes on after " + span(c.Resumed)}
	if c.Lost > 0 {
		cost = []string{span(c.Lost) + " lost"}
	}
	return parts, cost
}

func members(n int) string {
	if n == 1 {
		return "1 member"
	}
	return fmt.Sprintf("%d members", n)
}

// names are "a", "a and b", or "a, b, c and 4 more".
func names(ids []quorum.ReplicaID) string {
	var list []string
	for _, id := range ids[:min(len(ids), maxNamed)] {
		list = append(list, string(id))
	}
	if more := len(ids) - maxNamed; more > 0 {
		list = append(list, fmt.Sprintf("%d more", more))
	}
	switch n := len(list); n {
	case 0:
		return "its peers"
	case 1:
		return list[0]
	default:
		return strings.Join(list[:n-1], ", ") + " and " + list[n-1]
	}
}

// span is a duration as a person says it: 4 ms, 1.24 s, 3 min.
func span(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1e3)
	case d < time.Second:
		return fmt.Sprintf("%.0f ms", d.Seconds()*1e3)
	case d < time.Minute:
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f min", d.Minutes())
}
