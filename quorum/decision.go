package quorum

import "fmt"

// ReasonCode names why a decision is ready, or why not yet. What ends the wait for one that
// is not ready:
//
//	nobody            a join
//	stands            a member's ask or fall, or its loss
//	members           the asks of those that are named; unanswered, the asks are withdrawn
//	quiet             a heartbeat timeout without another session, or the join timeout
//	too few           more joins
//	no majority       joins of the live replicas that are missing, or their loss
//	stragglers        the same, or the join timeout
//	incarnation       the silence of the older one for SupersedeAfter or three beats, or its word
//	holder            the holder's join, or loss, or that it is stuck
//	settlement        the same, of those that are named
//	pause             time: PauseMax at most, or what the job's budget takes
//	doubt             a word of those that are not heard; a few heartbeat timeouts, or blindMost
type ReasonCode uint8

// The reasons of a decision.
const (
	ReasonNobody      ReasonCode = iota // nobody has joined
	ReasonStands                        // the last quorum stands, and no member wants another
	ReasonMembers                       // change wanted: not all live members have asked yet
	ReasonQuiet                         // first quorum: replicas are still arriving
	ReasonTooFew                        // fewer than MinReplicas (Q3)
	ReasonNoMajority                    // not more than half of the live replicas (Q5)
	ReasonStragglers                    // live replicas have not joined, the join timeout has not passed
	ReasonIncarnation                   // waiting for an old incarnation to fall silent (§4.1)
	ReasonHolder                        // waiting for holder: none that joined is at the highest position (Q10)
	ReasonSettlement                    // none of those present knows what became of the contested step (C5)
	ReasonRepeat                        // ready: the last answer again, to who has not had it
	ReasonFast                          // ready: torchft's fast quorum
	ReasonAll                           // ready: all live replicas have joined (Q8)
	ReasonTimeout                       // ready: the join timeout has passed
	ReasonPause                         // the quorums before it committed nothing: a pause that grows (§6a)
	ReasonDoubt                         // most are out of sight, and the lighthouse doubts that (§6)
)

var reasonNames = [...]string{
	"nobody joined", "quorum stands", "waiting for members", "waiting for quiet", "too few replicas",
	"no majority", "waiting for stragglers", "waiting for old incarnation to fall silent",
	"waiting for holder", "waiting for settlement", "repeat", "fast quorum", "all joined", "join timeout",
	"pause after quorums without a commit", "own sight doubted",
}

// String is the reason's name as pages and logs show it.
func (c ReasonCode) String() string {
	if int(c) < len(reasonNames) {
		return reasonNames[c]
	}
	return fmt.Sprintf("reason %d", uint8(c))
}

// Reason is a code for programs and a text for people.
type Reason struct {
	Code ReasonCode
	Text string
}

// String is "code: text".
func (r Reason) String() string {
	if r.Text == "" {
		return r.Code.String()
	}
	return r.Code.String() + ": " + r.Text
}

// Answered names a join that a decision answers.
type Answered struct {
	ReplicaID ReplicaID
	Number    uint64
}

// Decision is what Decide found. It is a value. Inputs may come between Decide
// and Form, while raft writes the command; another Form may not.
//
//	not ready              its Reason is shown; the shell looks again with the next input, or at Wake
//	ready, not Changed     a check of leadership, then Form, then the answers (§4.4)
//	ready, Changed         Entry, which raft writes, then Form, then the answers
type Decision struct {
	Ready   bool
	Changed bool       // the ledger must be written before anyone is told
	Reason  Reason     // why ready, or why not yet
	Quorum  Quorum     // if Ready; Token and CreatedMs are those of the last answer if it is repeated or keeps its id, else zero
	Answers []Answered // the joins that this answers, sorted

	follows     Formed // FollowsID, FollowsRound and Client for the command
	settled     []Settlement
	notes       []string
	change      string // the change that it answers
	accusations []Accusation
	base        *Quorum // the ledger's last
	fallen      bool    // the last quorum had fallen
	joiners     uint64  // Machine.joiners then
}

// Command is what raft replicates for a changed decision: the quorum, and in the same entry
// what it settles (§4.6). In two entries, a leader that died between them would leave a
// quorum whose members obey a settlement that the next leader makes anew (C6).
func (d Decision) Command(term uint64, t Token, createdMs int64) Formed {
	f := d.follows
	f.Term = term
	f.Quorum = d.Quorum
	f.Quorum.CreatedMs = createdMs
	// One that keeps its id keeps its token: its groups were made with that.
	if f.Quorum.Token == (Token{}) {
		f.Quorum.Token = t
	}
	f.Settled = d.settled
	f.Accusations = d.accusations
	return f
}

// Entry is Command for the log (§4.9): it says what differs from the quorum that it
// follows.
func (d Decision) Entry(term uint64, t Token, createdMs int64) Formed {
	return d.Command(term, t, createdMs).Against(d.base)
}
