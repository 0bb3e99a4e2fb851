package quorum

import (
	"cmp"
	"time"
)

// ReplicaID names one incarnation of a replica group: "name:uuid", or a bare
// name. It is never reused.
type ReplicaID string

// ClientKind says whether a job's members are ours or torchft's. The first
// join of a job fixes it (ErrKind for the other).
type ClientKind uint8

// The kinds of client.
const (
	KindUnset   ClientKind = iota
	KindSkerry             // sessions, ballots, facts; joins only on change
	KindTorchft            // joins every step with a step alone
)

// Position says which committed state a replica holds. Equal steps committed
// by different quorums are different bytes. The zero value is the start. A replica that begins
// from a file is where the file says, with quorum 0 if that names a step alone (§4.5).
type Position struct {
	Cluster  string // cluster id; empty before the first commit
	Step     int64  // number of committed updates
	QuorumID int64  // id of the quorum that committed Step; 0 before the first
}

// Compare orders positions by step, then quorum id.
func (p Position) Compare(o Position) int {
	if c := cmp.Compare(p.Step, o.Step); c != 0 {
		return c
	}
	return cmp.Compare(p.QuorumID, o.QuorumID)
}

// Digest sums up what one group rank reduced in one step, or a slice of its state.
// It equals another only if both fields do; Valid false means that there is none.
type Digest struct {
	Valid bool
	Sum   uint32
}

// FactKind is what a member knows of the step that was under way when its
// quorum fell.
type FactKind uint8

// The facts of PROTOCOL.md §1.
const (
	NoFact    FactKind = iota // was not a member of that quorum, or never balloted: weighs as refused if it was a member
	Committed                 // committed it, with Digests
	Prepared                  // all its ranks balloted ok with Digests, outcome unknown
	GaveUp                    // was prepared, and its gradients are gone
	Refused                   // some rank never balloted ok, or saw not-ok or another digest
)

// Fact is one member's word on the contested step (Step, QuorumID): Step is
// the step it would have become (position's step + 1), QuorumID the quorum it
// ran in. Digests is by group rank, for Committed and Prepared. A member at 4@3 whose ballots
// for the next step were lost says prepared 5@3; whatever quorum settles that, the step is 5@3.
type Fact struct {
	Kind     FactKind
	Step     int64
	QuorumID int64
	Digests  []Digest
}

// about says that f is about that step of that quorum. Both numbers count: one step of two
// quorums is two steps, with bytes of their own (§1).
func (f *Fact) about(step, quorumID int64) bool { return f.Step == step && f.QuorumID == quorumID }

// Member is a replica as it describes itself in a join, and as it stands in a
// quorum (there, Position is the one after settlement).
type Member struct {
	ReplicaID      ReplicaID
	Address        string // URL of its manager server
	StoreAddress   string // host:port of its store
	GroupWorldSize int
	Position       Position
	// Torn says that the replica's ranks are at different positions. Position is
	// none then: the replica heals, gives its state to no other, and its word on
	// a step counts for nothing.
	Torn bool `json:",omitempty"`
	// Differs says that its bytes are not those of the others at its position: it
	// heals from one whose are, and counts for one at its position only where there
	// is none. See JudgeBallots.
	Differs        bool `json:",omitempty"`
	ShrinkOnly     bool
	InitSync       bool // at step 0, all take the state of one replica
	Sync           bool // heals before its collectives, so participates though it heals
	FixedWorldSize int  // participants at most this many, the rest are spares; 0: all participate
	CommitFailures int64
	Data           string // opaque JSON, delivered to every member

	// Seat is where a member of a large quorum stood first; zero: at its rank in
	// this one. The ledger has none.
	Seat Seat `json:"-"`
}

// JoinKind says why a member joins. A fall ends the quorum, and what its sender knows of the
// step under way is told to the other members at once; it leads to a new id (§4.7). An
// ask ends nothing: it is answered when all members have asked, and while it waits its
// sender runs no step (§3.2).
type JoinKind uint8

// The kinds of join.
const (
	JoinStep JoinKind = iota // torchft: every step
	JoinFall                 // no standing quorum here (also a newcomer's); ends the member's last quorum
	JoinAsk                  // change wanted and all committed; the quorum stands until answered
)

// LastAnswer is the newest answer a member has had. It restores the last
// quorum after a ledger was lost, and lets a new leader answer again.
type LastAnswer struct {
	Cluster  string // may be empty: then the cluster is found from the positions
	QuorumID int64
	Round    int64
	Members  []Member // sorted by ReplicaID, as in the answer

	// Part stands for the members, of an answer that was a view.
	Part *AnswerPart
}

// Join is a replica's word that it wants to be in the next quorum. It is idempotent: the
// same Number replaces itself, a higher one replaces lower ones, a lower one is
// refused (ErrStaleJoin).
type Join struct {
	Member      Member
	Client      ClientKind
	Kind        JoinKind
	Number      uint64
	LastDigests []Digest // of the last committed step, by group rank
	Fact        Fact     // about the step under way

	// Last says in which quorum the replica ran, and so of which its fact is (§4.2); whether
	// the last answer was lost on its way to it (§4.3); and restores a lost ledger.
	Last        *LastAnswer
	Accusations []Accusation

	Fall Fall // of a join of kind JoinFall
}

// Fall is why a rank's quorum fell, in its own words, for people; and how long ago it found
// that out. Of one that was told of it by others both are zero.
type Fall struct {
	Why  string
	Ago  time.Duration
	Void bool // its attempt at a step went with it, and is made anew
}

// Accusation is one witness's word against a member of its quorum. Only first
// causes accuse: a link closed by an abort never does.
type Accusation struct {
	By       ReplicaID
	Against  ReplicaID
	QuorumID int64
	Evidence string

	// Unreachable says that By could not connect to Against at all: their link is
	// cut, whoever else lives. By goes on trying, and says what comes of it: see
	// LinkReport.
	Unreachable bool `json:",omitempty"`

	// Kind says of what it is accused; that of zero is a link that broke.
	Kind AccusationKind `json:",omitempty"`
}

// LinkReport is a replica's word on whether it reaches another one, with which it
// is in no quorum because it could not.
type LinkReport struct {
	By       ReplicaID
	To       ReplicaID
	Holds    bool
	Evidence string // why it does not reach it
}

// Hello opens a session.
type Hello struct {
	ReplicaID ReplicaID
	Client    ClientKind
	Position  Position
	Last      *LastAnswer

	Accusations []Accusation
}

// Phase is what a trainer is doing, for stuck detection and the status page.
type Phase uint8

// The phases of a member.
const (
	PhaseIdle        Phase = iota // between two steps, or before the first: outside, it is not stuck
	PhaseJoining                  // its join is out, or a rank of it waits for the others' reports
	PhaseConfiguring              // its process groups are made for a new quorum
	PhaseHealing                  // it takes a state, from before it joins (§5) or in a quorum
	PhaseTraining                 // it computes, or its operations are under way
	PhaseBalloting                // its ballot is next, or out
	PhaseSettling                 // it is prepared, and waits for the settlement (§2.6)
	PhaseDraining                 // an operator asked it to go
)

// Beat says that a replica is alive, and how far it is.
type Beat struct {
	Position Position
	QuorumID int64
	Ballots  uint64 // ballots passed in QuorumID
	Phase    Phase
	Progress uint64 // rises whenever the trainer does anything at all, and with each part of a heal
	// Waits says that the replica waits for others and cannot go on without
	// them: an op of its is under way, its ballot is out, it joins, configures,
	// heals, or awaits a settlement. A replica that computes does not wait.
	Waits bool
	// Away says that the replica does not join, because its trainer has not moved
	// for longer than a step may wait; see TrainerAway.
	Away bool
	// For people, as of late: how long a step of its takes beside waiting, and how long it
	// waits in one; bytes that its heals have brought, of how many; attempts discarded.
	Own, Wait                       time.Duration
	HealBytes, HealTotal, Discarded uint64
}

// Outcome is what became of a contested step.
type Outcome uint8

// The outcomes.
const (
	NothingToSettle Outcome = iota
	Forward                 // everybody who was prepared commits it
	Discard                 // everybody aborts it
)

// Settlement decides one contested step, once (C6).
//
//	step 5 of quorum 3, Forward               those that were prepared for it commit it
//	step 5 of quorum 3, Forward, Standing     members stood on it, and left; step 6 of quorum 3
//	                                          may yet be settled
//	step 5 of quorum 3, Discard               it is tried again, as step 5 of a later quorum
type Settlement struct {
	Outcome  Outcome
	Step     int64
	QuorumID int64
	Digests  []Digest // of the forwarded step, by group rank
	// Standing says that the step was not contested: members that stand on it
	// moved to a new quorum, and later steps of its quorum may yet be settled.
	Standing bool `json:",omitempty"`
}

// Settles says that there was a step to settle.
func (s Settlement) Settles() bool { return s.Outcome != NothingToSettle }

// Counts says that the step was committed by it.
func (s Settlement) Counts() bool { return s.Outcome == Forward }

// about is Fact.about, of a settlement.
func (s *Settlement) about(step, quorumID int64) bool {
	return s.Step == step && s.QuorumID == quorumID
}

// Token is the secret of one quorum.
type Token [16]byte

// String hides the token: what prints a quorum does not show it.
func (t Token) String() string {
	if t == (Token{}) {
		return ""
	}
	return "(secret)"
}

// GoString hides the token too.
func (t Token) GoString() string { return "quorum.Token(" + t.String() + ")" }

// Quorum is one answer: an id, a round and a member list. Values are
// immutable once made.
type Quorum struct {
	Cluster      string
	Job          string
	ID           int64
	Round        int64
	Members      []Member    // sorted by ReplicaID; index = replica rank
	Participants []ReplicaID // sorted; their number is the divisor
	Settlement   Settlement
	Token        Token
	Reason       string // why it was formed, for people
	CreatedMs    int64  // Unix milliseconds by the leader's wall clock; set by the shell

	// View stands for the lists in an answer to a member of a large quorum. The
	// machine and the ledger have lists.
	View *View `json:",omitempty"`
}

// Config is a job's rules. Times are durations of the leader's own clock. [DefaultConfig]
// has the values that suit our own clients; Validate says what may stand beside what.
type Config struct {
	// MinReplicas is how many members a quorum has at least (Q3), 1 or more. Too high: the
	// job stops with the first deaths. Too low: it goes on with fewer than can train well.
	MinReplicas int
	// MaxReplicas is how many it has at most, members of the last one first (§4.8); 0:
	// MaxMembers. Who is one too many waits, and counts for the majority all the same (Q5).
	MaxReplicas int
	// JoinTimeout is how long an open window waits for stragglers (§4.4, Q6); 10 s. Too
	// short: a replica that is slow to join is left out, and costs one more quorum to be let
	// in. Too long: one that lives and does not join holds up all others for as long.
	JoinTimeout time.Duration
	// HeartbeatTimeout is the silence after which a replica is lost (§6), and how long a new
	// leader presumes the members alive; 1 s, 5 s for torchft's clients. Too short: a
	// replica on a busy host costs a step and a quorum. Too long: all wait for the dead, where
	// no peer and no broken stream says so before.
	HeartbeatTimeout time.Duration
	// SuspectAfter is the silence after which the lighthouse's own sight is a witness (§6), at
	// most HeartbeatTimeout; 500 ms. With a peer's word it makes lost at once.
	SuspectAfter time.Duration
	// Grace is how long a suspicion by one witness lasts before it becomes lost (§6); 1 s. In
	// that time the suspect can speak, and its peers step with it. Too short: a member that
	// only the lighthouse cannot see is lost while a step takes longer.
	Grace time.Duration
	// StuckAfter is how long a replica for which others wait may make no progress (L3); 60 s,
	// ten steps if these take longer; 0: for ever. Too short: a trainer that loads its data
	// or evaluates is put out. Too long: one that hangs stops the job for as long.
	StuckAfter time.Duration
	// EvictStuck evicts the stuck, but none that waits. Otherwise one that moves again comes
	// back as a joiner.
	EvictStuck bool

	// ProbationAfter is how many short memberships in a row, each ended by a
	// loss, bring a replica on probation: its next joins wait, twice as long each
	// time. 0: never.
	ProbationAfter int
}

// Notice is a message that the machine wants pushed. Exactly the fields that
// its Kind names are set.
type Notice struct {
	Kind     NoticeKind
	To       []ReplicaID // sorted
	QuorumID int64       // Fallen, Lost, Wanted, Probe: about which quorum
	Fact     Fact        // Fallen: of the member that joined
	About    ReplicaID   // Fallen, Lost: who
	Reason   string
	Cause    CauseKind // Lost: its kind; unknown: the lighthouse does not say
	Number   uint64    // Probe: the probe's; Refused: the join's
}

// NoticeKind is the kind of a Notice.
type NoticeKind uint8

// The notices of PROTOCOL.md §8.
const (
	// NoticeFallen says that a member joined with JoinFall, or that the receiver's quorum was
	// followed without it. The receiver falls too; if Fact is a commit of the step that it is
	// prepared for, with its digest, it commits (§3.1).
	NoticeFallen NoticeKind = iota
	// NoticeLost says that a member is known dead: the receiver aborts its group and falls.
	NoticeLost
	// NoticeWanted says that a joiner waits, a member drains or has healed, or that the rules
	// changed: ballots want a change from now on, and all ask after the step (§3.2).
	NoticeWanted
	// NoticeProbe asks for a reply with Number: the receiver, or one of its peers, is suspect.
	NoticeProbe
	// NoticeDrain asks the receiver to finish its step and go, NoticeEvict puts it out.
	NoticeDrain
	NoticeEvict
	// NoticeRefused takes back a join that was held: another incarnation of the
	// name is alive. Number is the join's, the error is ErrNameInUse.
	NoticeRefused
	// NoticeSibling says that another rank of this replica has left the quorum. Only
	// the replica's server says it, never the lighthouse.
	NoticeSibling
	// NoticeStay takes a drain back.
	NoticeStay
)
