package quorum

// Rank is one rank's half of the protocol: what it holds, what it has been told,
// what it has promised, and what it wants next. Its shell carries messages, runs
// collectives and keeps the time; it asks the Rank what to say, and tells it what
// came.
//
// One attempt at a step, and the answer that may come between two:
//
//	Begin ─▶ Issue… ─▶ Close ─▶ Ballot ─▶ Seal ─▶ Judged ─▶ Resolve ─▶ End
//	                               │ cannot be given                ▲
//	                               ├─▶ WithoutBallot ───────────────┤ the tally's word
//	                               └─▶ Abandon, Missing ────────────┘
//
//	Need, Ask ─▶ Report ─▶ Take ─▶ Configured ─▶ Healed ─▶ Fulfil
//	                        ├─▶ Wrong: falls, and Report again
//	                        └─▶ Left: has drained, the end
//
// Fall may come at any time, and counts once for each quorum. A Rank is plain
// data without clock, lock or I/O, owned by one goroutine; a copy of it that shares
// no slice is another rank in the same state.
type Rank struct {
	cfg RankConfig

	position Position
	batches  int64  // participants of all committed steps
	digest   Digest // of the last committed step

	// In which quorum it is, and whether it needs another one (§3).
	quorum     *Quorum     // the newest answer that was taken up; nil: none
	assign     *Assignment // in it; never written again
	haveID     int64       // the newest answer seen, taken up or not
	haveRound  int64
	standing   bool  // quorum has not fallen
	ready      bool  // its group is configured
	everReady  bool  // a StartQuorum has ended well
	need       need  // of another quorum
	answered   bool  // the need has its answer, whose group is not ready yet
	behind     bool  // the state is not that of the quorum
	outside    bool  // it is by now, but the quorum does not count on it
	differs    bool  // nor that of the others at its position: the ballots said so
	ahead      bool  // a state was begun to be copied, and no heal has succeeded since
	claim      Claim // on the step under way
	settlement settlement

	// What the others are to be told, and the step that is tried (§2).
	wanted      string // why its ballots want a change; empty: they do not
	muted       bool   // an ask went unanswered, and the lighthouse was not heard since
	draining    string // why; empty: it does not drain
	failures    int64  // discarded attempts since the last commit, told to the lighthouse
	discarded   int    // the same, and the void ones
	ballots     uint64 // passed in quorum
	accusations []Accusation
	early       []Notice // about a quorum that is still to be taken up
	attempt     attempt
	siblings    uint64 // the newest attempt in which they are known to be; 0: not known
	voidAttempt uint64 // the newest one known to be void for the whole replica, see Take; 0: none
}

// RankConfig is what a rank is started with.
type RankConfig struct {
	GroupRank      int
	GroupWorldSize int
	MinReplicas    int  // participants below which it gives no ok ballot
	FixedWorldSize int  // see Member
	Sync           bool // always heals before its collectives
	NoInitSync     bool // at step 0 it keeps its own state
	EveryStep      bool // asks after every commit
	ParityEvery    int  // in how many steps states are compared, see ParityDue; 0 or less: never
	ParityWhole    bool // each time all of the state, not a slice
}

// need is what a rank needs of the lighthouse.
type need uint8

const (
	needNothing need = iota
	needFall
	needAsk
)

// settlement is what an answer said of the step that the attempt had promised.
type settlement uint8

const (
	settlementOpen settlement = iota
	settlementForward
	settlementDiscard
)

// NewRank makes a rank that has just started, at no position.
func NewRank(cfg RankConfig) Rank { return Rank{cfg: cfg, assign: &Assignment{}} }

// Start says that a rank which has just started holds the state of a position, say
// from a file.
func (r *Rank) Start(at Position, batches int64) { r.position, r.batches = at, batches }

// Position is where this rank stands.
func (r *Rank) Position() Position { return r.position }

// Batches sums the participants of all committed steps.
func (r *Rank) Batches() int64 { return r.batches }

// Digest is that of the last committed step.
func (r *Rank) Digest() Digest { return r.digest }

// Quorum is the newest answer that was taken up; nil before the first.
func (r *Rank) Quorum() *Quorum { return r.quorum }

// QuorumID is the id of the newest answer that was taken up; 0 before the first.
func (r *Rank) QuorumID() int64 {
	if r.quorum == nil {
		return 0
	}
	return r.quorum.ID
}

// In says whether the newest answer that was taken up is of quorum id.
func (r *Rank) In(id int64) bool { return r.quorum != nil && r.quorum.ID == id }

// InEpoch is In for an epoch: ids of different clusters do not compare, for another ledger
// gave them.
func (r *Rank) InEpoch(cluster string, id int64) bool {
	return r.In(id) && r.quorum.Cluster == cluster
}

// Assignment is this rank's in Quorum. It is not to be written.
func (r *Rank) Assignment() *Assignment { return r.assign }

// LastAnswer is what a hello and a join carry; nil before the first.
func (r *Rank) LastAnswer() *LastAnswer {
	if r.quorum == nil {
		return nil
	}
	return NewLastAnswer(r.quorum)
}

// Standing says that the newest quorum has not fallen, as far as this rank knows.
func (r *Rank) Standing() bool { return r.standing }

// Ready says that the group of the newest quorum was configured, also if that has
// fallen since: its links are there until the next one's.
func (r *Rank) Ready() bool { return r.ready }

// Grouped says that the quorum stands, and its group is configured.
func (r *Rank) Grouped() bool { return r.standing && r.ready }

// Usable says that a step can run: the quorum stands, its group is configured, and
// this rank does not want another one. A rank that asks runs none: were it to begin
// one, the answer to its ask would take its group away in the middle of it.
func (r *Rank) Usable() bool { return r.Grouped() && r.need == needNothing }

// Behind says that this rank's state is not that of its quorum.
func (r *Rank) Behind() bool { return r.behind }

// Ahead says that a state was begun to be copied before the first join, and none
// has been healed since.
func (r *Rank) Ahead() bool { return r.ahead }

// Prepared says that a promise is out whose outcome is not known.
func (r *Rank) Prepared() bool { return r.claim.Prepared() }

// Wanted is why this rank's ballots want a change; empty: they do not.
func (r *Rank) Wanted() string { return r.wanted }

// Draining is why this rank drains; empty: it does not.
func (r *Rank) Draining() string { return r.draining }

// Ballots counts those that were passed in the newest quorum.
func (r *Rank) Ballots() uint64 { return r.ballots }

// Discarded counts the attempts that came to nothing since the last commit.
func (r *Rank) Discarded() int { return r.discarded }

// Accusations are those of members of the newest quorum. They are not to be written.
func (r *Rank) Accusations() []Accusation { return r.accusations }

// Gives says whether others may still heal from this rank in the quorum that
// stands. One that drains stays until they need not.
func (r *Rank) Gives() bool {
	return r.standing && r.assign.Donor && len(r.assign.Healing) > 0 && r.position == r.assign.Max
}

// AwaitsHeals says that members of the quorum heal, and none of its steps has
// committed: an operation may take as long as a heal then.
func (r *Rank) AwaitsHeals() bool {
	return len(r.assign.Healing) > 0 && r.position.Step <= r.assign.Max.Step
}
