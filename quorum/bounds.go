package quorum

import (
	"cmp"
	"time"
)

// Bounds on what peers may send, and on what is kept. What is over a bound is
// refused with ErrInvalid, which names the value and the bound; what is kept is
// cut at the old end.
const (
	// Known are more replicas than can be in a quorum: beside the members those that only beat
	// or copy a state, and those that are lost and still shown (ForgetAfter). Where there is no
	// room the lost go first (recordOf); then a new one is refused with ErrFull.
	MaxMembers = 16_384     // replicas in one quorum
	MaxPending = 16_384     // joins that wait at one time
	MaxKnown   = 3 * 16_384 // replicas that are remembered at one time

	// Sizes of what a replica says of itself. Of 64 KiB of data internal/wire takes a quarter
	// from our own clients, and all of it from torchft's.
	MaxIDBytes        = 256      // a replica id, job or cluster name
	MaxAddressBytes   = 1024     // a manager's or a store's address
	MaxDataBytes      = 64 << 10 // Member.Data
	MaxGroupWorldSize = 4096     // ranks of one replica, hence digests in a fact
	MaxAccusations    = 64       // accusations carried by one message
	MaxEvidenceBytes  = 512      // an accusation's evidence, a reason

	// MaxStep bounds steps and quorum ids: each is exact in every JSON reader. An id above it
	// would lift the floor for the next one beyond what members can read (§4.7).
	MaxStep = 1 << 53

	// What the ledger keeps of each kind, for raft's snapshots hold it: the newest. A member
	// that was prepared, and comes back after so many later settlements, finds no word on its
	// step: it stays where it is, and heals from those ahead of it. An evicted id that has
	// fallen out of its list is refused no more.
	MaxSettled      = 64   // settlements that the ledger keeps
	MaxHistory      = 256  // history entries that the ledger keeps
	MaxGone         = 1024 // drained, and evicted, ids that the ledger keeps
	MaxHistoryNames = 256  // replicas that each list of a history entry names

	MaxProbationAfter = 1000 // Config.ProbationAfter

	// What waits for a shell that reads it, and what a person reads: where there is more, the
	// newer half of the events stays, and the rest of a list is a number.
	maxEvents = 4096 // events between two reads
	maxNamed  = 8    // replicas that a reason names before it counts
)

// Times that are no configuration.
const (
	// SupersedeAfter is how long nothing may come from an old incarnation, after
	// the newcomer's join, until the newcomer takes its place (§4.1), or beatsMissed
	// beats if they come more rarely than by default, see Machine.Beats.
	SupersedeAfter = 300 * time.Millisecond
	// beatsMissed is how many beats of the old incarnation the newcomer waits for.
	beatsMissed = 3
	// LinkRetryAfter is how long two members are kept apart (Q9) whose link broke
	// in two quorums running, or could not be made, and of which neither can tell
	// whether it holds again; it doubles each time, up to LinkRetryMax.
	LinkRetryAfter = time.Minute
	LinkRetryMax   = time.Hour
	// LinkMendAfter is how long they are kept apart the second time though they
	// say that their link holds; the first time they meet at once, and later it
	// doubles, up to LinkRetryMax.
	LinkMendAfter = 2 * time.Second
	// linkForgotten is after how long without a break a link counts as good.
	linkForgotten = 10 * time.Minute
	// ForgetAfter is how long a replica that is gone stays on the status page. A member of the
	// last quorum, or one whose stream is open, stays longer, see forgettable.
	ForgetAfter = time.Minute

	// probePeers is how many peers of a suspect are asked to bear witness by
	// their progress. One would do; three survive a second fault.
	probePeers = 3
)

// validateID checks a replica id.
func validateID(what string, id ReplicaID) error {
	// No id stands for no replica in the rules: others("") are all members, an Event without one is
	// about the quorum.
	if id == "" {
		return invalidf("%s is empty", what)
	}
	if len(id) > MaxIDBytes {
		return invalidf("%s has %d bytes, want at most %d", what, len(id), MaxIDBytes)
	}
	// Ids stand in log lines and on terminals.
	for i := 0; i < len(id); i++ {
		if id[i] < 0x20 || id[i] == 0x7f {
			return invalidf("%s has the control byte %#x at %d", what, id[i], i)
		}
	}
	return nil
}

// validatePosition checks a position's sizes. Whether its quorum id can have been issued is asked
// by checkIssued, which knows the ledger.
func validatePosition(what string, p Position) error {
	if len(p.Cluster) > MaxIDBytes {
		return invalidf("%s.Cluster has %d bytes, want at most %d", what, len(p.Cluster), MaxIDBytes)
	}
	return cmp.Or(validateNumber(what+".Step", p.Step), validateNumber(what+".QuorumID", p.QuorumID))
}

func validateNumber(what string, n int64) error {
	// Above 2^53 readers of JSON round: pages and tools would show two ids as one.
	if n < 0 || n > MaxStep {
		return invalidf("%s = %d, want 0 to %d", what, n, int64(MaxStep))
	}
	return nil
}

func validateBytes(what, s string, limit int) error {
	if len(s) > limit {
		return invalidf("%s has %d bytes, want at most %d", what, len(s), limit)
	}
	return nil
}

// validateMember checks a replica's word about itself, or a list that it brings.
func validateMember(m Member) error {
	// §5: its ranks are at several. Any one of them would make it a donor, and a holder (Q10).
	if m.Torn && m.Position != (Position{}) {
		return invalidf("position = %v of a torn replica, want none", m.Position)
	}
	return boundMember(&m)
}

// boundMember checks a member's sizes and numbers.
func boundMember(m *Member) error {
	if err := cmp.Or(
		validateID("replica id", m.ReplicaID), validateBytes("address", m.Address, MaxAddressBytes),
		validateBytes("store address", m.StoreAddress, MaxAddressBytes), validateBytes("data", m.Data, MaxDataBytes),
	); err != nil {
		return err
	}
	// 0 says that it does not tell: any group rank may ask then, see Assign.
	if m.GroupWorldSize < 0 || m.GroupWorldSize > MaxGroupWorldSize {
		return invalidf("group world size = %d, want 0 to %d", m.GroupWorldSize, MaxGroupWorldSize)
	}
	if m.FixedWorldSize < 0 || m.FixedWorldSize > MaxMembers {
		return invalidf("fixed world size = %d, want 0 to %d", m.FixedWorldSize, MaxMembers)
	}
	return cmp.Or(validateNumber("commit failures", m.CommitFailures), validatePosition("position", m.Position))
}

func validateFact(f Fact) error {
	// Its step and quorum may be any within bounds: a fact about no contested step weighs
	// nothing (§4.2).
	if f.Kind > Refused {
		return invalidf("fact kind = %d, want at most %d", f.Kind, Refused)
	}
	return cmp.Or(validateNumber("fact step", f.Step), validateNumber("fact quorum id", f.QuorumID),
		validateDigests("fact digests", f.Digests))
}

// validateDigests checks their number only: a list that lacks some differs from one that has all,
// and no step is settled forward by two that differ (C1).
func validateDigests(what string, d []Digest) error {
	if len(d) > MaxGroupWorldSize {
		return invalidf("%s: %d, want at most %d", what, len(d), MaxGroupWorldSize)
	}
	return nil
}

func validateLast(l *LastAnswer) error {
	// A newcomer has had no answer.
	if l == nil {
		return nil
	}
	if err := cmp.Or(
		validateNumber("last answer's quorum id", l.QuorumID), validateNumber("last answer's round", l.Round), validatePart(l.Part),
	); err != nil {
		return err
	}
	if len(l.Members) > MaxMembers {
		return invalidf("last answer has %d members, want at most %d", len(l.Members), MaxMembers)
	}
	// Each as if it came from the member itself: by restore the list becomes the last quorum.
	for i, m := range l.Members {
		if err := validateMember(m); err != nil {
			return err
		}
		// A rank is an index, and lists are compared one by one (Q2): in another order it would
		// be another quorum.
		if i > 0 && l.Members[i-1].ReplicaID >= m.ReplicaID {
			return invalidf("last answer's members are not sorted by replica id at %d", i)
		}
	}
	// §5: no lighthouse forms one, for nobody in it could give the others a state.
	if len(l.Members) > 0 && !anyWhole(l.Members) {
		return invalidf("last answer: all its %d members are torn", len(l.Members))
	}
	return validateBytes("last answer's cluster", l.Cluster, MaxIDBytes)
}

func validateAccusations(as []Accusation) error {
	if len(as) > MaxAccusations {
		return invalidf("%d accusations, want at most %d", len(as), MaxAccusations)
	}
	// One that is malformed refuses the whole message, for its sender is at fault; one about a
	// quorum that is gone is good, and dropped later (accuseAll).
	for _, a := range as {
		if err := validateAccusation(a); err != nil {
			return err
		}
	}
	return nil
}

func validateAccusation(a Accusation) error {
	if err := cmp.Or(validateID("accuser", a.By), validateID("accused", a.Against)); err != nil {
		return err
	}
	if a.Kind > AccusedDiffers {
		return invalidf("accusation kind = %d, want at most %d", a.Kind, AccusedDiffers)
	}
	// §6a: that a heal failed, or that its state differs, only the replica itself can say; that
	// its link broke, only another.
	if (a.By == a.Against) != a.Kind.ofItself() {
		return invalidf("%q accuses %q of kind %d, want of itself kinds %d and %d alone",
			a.By, a.Against, a.Kind, AccusedUnhealed, AccusedDiffers)
	}
	return cmp.Or(validateNumber("accusation's quorum id", a.QuorumID), validateBytes("evidence", a.Evidence, MaxEvidenceBytes))
}

func validateLinkReport(r LinkReport) error {
	if err := cmp.Or(validateID("reporter", r.By), validateID("other end", r.To)); err != nil {
		return err
	}
	// Q9: by it the replica would be kept apart from itself, and be let into no quorum.
	if r.By == r.To {
		return invalidf("%q reports a link to itself", r.By)
	}
	return validateBytes("evidence", r.Evidence, MaxEvidenceBytes)
}

func validateJoin(j Join) error {
	// §1: torchft's clients join every step; ours by a fall or an ask.
	switch {
	case j.Client == KindTorchft && j.Kind == JoinStep:
	case j.Client == KindSkerry && (j.Kind == JoinFall || j.Kind == JoinAsk):
	default:
		return invalidf("client kind %d with join kind %d", j.Client, j.Kind)
	}
	if err := cmp.Or(
		validateMember(j.Member), validateFact(j.Fact), validateDigests("last digests", j.LastDigests), validateLast(j.Last),
		validateBytes("why it fell", j.Fall.Why, MaxEvidenceBytes),
	); err != nil {
		return err
	}
	if j.Fall.Ago < 0 {
		return invalidf("it fell %v ago, want 0 or more", j.Fall.Ago)
	}
	// Whether they fit the quorum is asked when they are taken, see Accuse.
	return validateAccusations(j.Accusations)
}
