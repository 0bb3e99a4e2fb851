package quorum

// attempt is what the rules know of one try at a step, from StartQuorum to the end
// of ShouldCommit. What belongs to one attempt never touches the next.
type attempt struct {
	number  uint64 // rises with every Begin
	open    bool
	failed  bool // it will be discarded
	cut     bool // and none of its operations is issued any more
	void    bool // as the replica's server says, or because the siblings are past it
	late    bool // it failed before the quorum came that is standing now
	healed  bool // a state was loaded beside its collectives
	sealed  bool // its ballot is out, or was
	voted   bool // its vote is with the replica's tally
	ops     int  // issued, ever
	opsHere int  // issued in the group that is configured now

	rest   rest
	shares *Shares // what its trainer was told; nil: it has not asked

	own  Ballot   // the one that is out
	at   int      // the replica rank that gave it
	size int      // of that quorum
	lost bool     // the exchange did not give it back: what was reduced is not known
	vote RankVote // on the same step
}

// Begin opens the next attempt. One that a sibling has made void before this rank began
// it is void here too, see Void.
func (r *Rank) Begin() {
	number := r.next()
	void := number == r.voidAttempt
	r.attempt = attempt{number: number, open: true, void: void, failed: void, cut: void}
}

// next is the number of the attempt after the newest one.
func (r *Rank) next() uint64 { return max(r.attempt.number+1, r.siblings) }

// CatchUp notes in which attempt the replica's other ranks are, see Polls.Next: the
// next one of this rank, which hung while they tried again, is that. (It voted on
// attempts that were past for ever, one behind the others, who waited for its votes:
// each step ended by a settlement.)
func (r *Rank) CatchUp(attempt uint64) { r.siblings = max(r.siblings, attempt) }

// overtaken says that the siblings have ended the open attempt, on which this rank has
// yet to vote: it can come to nothing any more. (It gave a ballot in it, which the others
// took for one on the next attempt and committed; its vote counted for nothing, so it
// waited for a settlement, for which its sibling had to report, who waited for its vote.)
func (r *Rank) overtaken() bool {
	a := &r.attempt
	return a.open && !a.sealed && !a.voted && a.number < r.siblings
}

// Again takes back that the open attempt has failed: its StartQuorum begins it anew,
// and nothing of it had begun. What failed was a wait, a quorum that fell before
// the attempt could begin in it, or the trainer. A void one stays void.
func (r *Rank) Again() {
	a := &r.attempt
	if a.void {
		return
	}
	a.failed, a.cut, a.late, a.shares = false, false, false, nil
}

// Void says that the open attempt is void for the whole replica: a rank of it gives no
// ballot, for the operations that it issued went with the quorum that fell, and no other
// replica of the next quorum knows of them. All ranks discard it, and that quorum stands.
// No rank can begin the attempt anew by itself, or have it at all if it was between two
// when a sibling lost its operations. (It met the others in an attempt that its sibling did not
// have, and the replica's ranks were one attempt apart from then on.)
func (r *Rank) Void() bool { return r.attempt.void }

// Issued counts the operations of the newest attempt. The others have met them: it
// cannot begin anew.
func (r *Rank) Issued() int { return r.attempt.ops }

// Attempt is the number of the newest attempt, and whether it is open.
func (r *Rank) Attempt() (number uint64, open bool) { return r.attempt.number, r.attempt.open }

// Trying says whether an attempt is the open one.
func (r *Rank) Trying(number uint64) bool { return r.attempt.open && r.attempt.number == number }

// Issue notes an operation that reaches the group.
func (r *Rank) Issue() {
	r.attempt.ops++
	r.attempt.opsHere++
}

// Fail marks the open attempt as one to be discarded.
func (r *Rank) Fail() {
	if r.attempt.open {
		r.attempt.failed = true
	}
}

// Cut fails the open attempt, and says that none of its operations is issued any more.
func (r *Rank) Cut() {
	r.Fail()
	r.attempt.cut = r.attempt.open
}

// Shares says whose data count in a step: this replica's index among the
// participants (-1: it heals, or is a spare), and how many there are.
type Shares struct{ Rank, Count int }

// Shares are those of the newest quorum.
func (r *Rank) Shares() Shares { return Shares{r.assign.ParticipantRank, r.assign.Divisor} }

// ShareOut tells the open attempt its shares, and holds it to them.
func (r *Rank) ShareOut() Shares {
	s := r.Shares()
	r.attempt.shares = &s
	return s
}

// sharedOut fails the open attempt if the quorum just taken up has other shares than
// those that it was told: else data that were shared out among three would be
// averaged over two. One whose ballot was given is settled already.
func (r *Rank) sharedOut() *Shares {
	a := &r.attempt
	if !a.open || a.sealed || a.shares == nil || *a.shares == r.Shares() {
		return nil
	}
	a.failed = true
	return a.shares
}

// Blocks says whether a step waits for its quorum before the forward pass: then a
// replica that heals does so first, and takes part. A process's first quorum is
// such, and step 0 while replicas still have different states (else each would
// compute its first gradients from a state of its own).
func (r *Rank) Blocks() bool {
	return r.cfg.Sync || !r.everReady || !r.cfg.NoInitSync && r.position.Step == 0
}

// Syncs says whether a heal comes before the collectives, and this replica takes
// part at once. The others wait for it then. One that has copied a state ahead
// heals beside its first step instead: else every member would wait for every
// newcomer's whole transfer.
func (r *Rank) Syncs() bool { return r.cfg.Sync || r.Blocks() && !r.ahead }

// Started notes that a StartQuorum has ended well.
func (r *Rank) Started() { r.everReady = true }

// EverStarted says whether a StartQuorum has ever ended well.
func (r *Rank) EverStarted() bool { return r.everReady }

// CopyAhead notes that a state begins to be copied before the first join.
func (r *Rank) CopyAhead() { r.ahead = true }

// SetAside notes that what was copied is no part of the state any more.
func (r *Rank) SetAside() { r.ahead = false }

// Close ends the computation of the open attempt: its ballot comes next, and what
// was settled before is not about it.
func (r *Rank) Close() { r.settlement = settlementOpen }
