package quorum_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// world is one state of the explorer's small world: the lighthouse's real
// Machine, and the replicas as PROTOCOL §2 to §4 has them behave. It is plain
// data, copied and hashed by reflection.
type world struct {
	Now     time.Time
	LH      *quorum.Machine
	Cfg     quorum.Config
	Reps    []replica // never shrinks: a restart adds an incarnation
	Left    budget
	Idle    bool                             // time has passed, and nothing came of it
	Formed  int                              // quorums formed so far, rounds included
	LHJoins map[quorum.ReplicaID]quorum.Join // joins delivered, neither answered nor withdrawn
	Lost    map[quorum.ReplicaID]bool        // known dead, by the machine's own word
	Since   map[quorum.ReplicaID]bool        // joined in this session of the lighthouse

	// What has happened, for the checkers.
	IDs       map[int64][]quorum.ReplicaID         // member list by quorum id
	HighID    int64                                // of all formed
	HighRound int64                                // of HighID
	Bytes     map[quorum.Position]uint64           // bytes of each position ever held
	Committed map[stepOf]uint64                    // steps that anyone committed
	Settled   map[stepOf]quorum.Settlement         // what the ledger said
	Excused   map[stepOf]bool                      // discarded with nothing but gave-ups in sight
	Dropped   map[stepOf]bool                      // steps that a prepared member discarded
	Attempts  map[stepOf]int                       // how often a step was run in a quorum
	Told      map[quorum.ReplicaID]quorum.Position // newest position that the lighthouse was told
}

// stepOf names a contested step.
type stepOf struct{ Step, QuorumID int64 }

// budget bounds the faults, and so the search.
type budget struct {
	Quorums   int // decisions formed
	Crashes   int
	Restarts  int
	Cuts      int // sessions broken
	Breaks    int // steps that do not end well
	Odds      int // odd reductions
	GiveUps   int
	Withdraws int // asks withdrawn though the lighthouse is up
	Leaders   int // lighthouse restarts from the ledger
	Unhealed  int // heals that fail
	Steps     int
}

// replica is one incarnation.
type replica struct {
	ID    quorum.ReplicaID
	Up    bool
	Conn  bool // its session
	Ever  bool // has had a session
	Pos   quorum.Position
	Bytes uint64
	Last  []quorum.Digest // of the last committed step
	In    frozen          // newest answer taken
	Stand bool            // In stands, as far as it knows
	Ask   bool            // stands, and is due to ask before its next step
	Wants bool            // was told that a change is wanted
	Again bool            // a change is wanted, once the lighthouse was heard again
	Fact  quorum.Fact
	Pend  uint64 // bytes of the prepared step
	Join  *quorum.Join
	Next  uint64
	Sent  uint64 // ballots
	Inbox []message
}

// message is on its way from the lighthouse to a replica.
type message struct {
	Answer frozen
	Number uint64
	Notice *quorum.Notice
}

// newWorld returns n replicas that have just started.
func newWorld(n int, cfg quorum.Config, b budget) *world {
	start := time.Unix(1_700_000_000, 0)
	w := &world{
		Now: start, Cfg: cfg, Left: b,
		LH:        quorum.New(start, cfg, quorum.NewLedger("x", "default", 0)),
		LHJoins:   map[quorum.ReplicaID]quorum.Join{},
		Lost:      map[quorum.ReplicaID]bool{},
		Since:     map[quorum.ReplicaID]bool{},
		IDs:       map[int64][]quorum.ReplicaID{},
		Bytes:     map[quorum.Position]uint64{{}: 0},
		Committed: map[stepOf]uint64{},
		Settled:   map[stepOf]quorum.Settlement{},
		Excused:   map[stepOf]bool{},
		Dropped:   map[stepOf]bool{},
		Attempts:  map[stepOf]int{},
		Told:      map[quorum.ReplicaID]quorum.Position{},
	}
	for i := range n {
		w.Reps = append(w.Reps, replica{ID: quorum.ReplicaID(rune('a' + i)), Up: true, Next: 1})
	}
	return w
}

func (w *world) rep(id quorum.ReplicaID) *replica {
	for i := range w.Reps {
		if w.Reps[i].ID == id {
			return &w.Reps[i]
		}
	}
	return nil
}

// members returns r's fellow members in the quorum it is in, itself included,
// by replica rank.
func (w *world) members(q *quorum.Quorum) []*replica {
	out := make([]*replica, len(q.Members))
	for i, m := range q.Members {
		out[i] = w.rep(m.ReplicaID)
	}
	return out
}

// stands says that all members of q stand in this very answer, and none is
// about to ask: they can run a step.
func (w *world) stands(q *quorum.Quorum) bool {
	for _, r := range w.members(q) {
		if !r.Up || !r.Stand || r.In.ID != q.ID || r.In.Round != q.Round || r.Join != nil || r.Ask {
			return false
		}
	}
	return true
}

// gone says why x will never again step in r's quorum, as its peers' links
// show: it is dead, has left for a newer quorum, or refused this one.
func (w *world) gone(r, x *replica) bool {
	switch {
	case !x.Up:
		return true
	case x.In != nil && x.In.ID == r.In.ID:
		return !x.Stand || x.In.Round > r.In.Round
	case x.In != nil && x.In.ID > r.In.ID:
		return true
	}
	coming := func(m message) bool {
		return m.Answer != nil && m.Answer.ID == r.In.ID && x.Join != nil && x.Join.Number == m.Number
	}
	return !slices.ContainsFunc(x.Inbox, coming)
}

// hello opens r's session.
func (x *explorer) hello(w *world, r *replica) error {
	r.Conn, r.Ever = true, true
	r.heard()
	h := quorum.Hello{ReplicaID: r.ID, Client: quorum.KindSkerry, Position: r.Pos, Last: lastAnswer(r.In)}
	x.mangle.position(&h.Position)
	if err := w.LH.Open(w.Now, h); err != nil {
		return fmt.Errorf("open refused: %w", err)
	}
	w.Told[r.ID] = r.Pos
	if r.Join != nil {
		return x.send(w, r)
	}
	return nil
}

func lastAnswer(q *quorum.Quorum) *quorum.LastAnswer {
	if q == nil {
		return nil
	}
	return &quorum.LastAnswer{QuorumID: q.ID, Round: q.Round, Members: q.Members}
}

// join makes r's next join and sends it.
func (x *explorer) join(w *world, r *replica, kind quorum.JoinKind) error {
	fails := int64(0)
	if r.Fact.Kind == quorum.Refused {
		fails = 1
	}
	r.Join = &quorum.Join{
		Member: quorum.Member{
			ReplicaID: r.ID, Address: "http://" + string(r.ID), StoreAddress: string(r.ID) + ":1",
			GroupWorldSize: x.ranks, Position: r.Pos, Sync: true, CommitFailures: fails,
		},
		Client: quorum.KindSkerry, Kind: kind, Number: r.Next,
		LastDigests: r.Last, Fact: r.Fact, Last: lastAnswer(r.In),
	}
	r.Next++
	return x.send(w, r)
}

// send delivers r's outstanding join.
func (x *explorer) send(w *world, r *replica) error {
	j := *deepCopy(x.cp, r.Join)
	x.mangle.join(&j)
	if err := w.LH.Join(w.Now, j); err != nil {
		return fmt.Errorf("join %d of %s refused: %w", j.Number, r.ID, err)
	}
	w.LHJoins[r.ID], w.Since[r.ID], w.Told[r.ID] = *r.Join, true, r.Pos
	return nil
}

// fall ends r's quorum as r sees it. begun says that it had a step under way
// and knows nothing good of it.
func (r *replica) fall(begun bool) {
	if r.Stand && begun && r.Fact.Kind != quorum.Prepared {
		r.Fact = quorum.Fact{Kind: quorum.Refused, Step: r.Pos.Step + 1, QuorumID: r.In.ID}
	}
	r.Stand, r.Ask, r.Wants, r.Again = false, false, false, false
	if r.Join != nil && r.Join.Kind == quorum.JoinAsk {
		r.Join = nil // the next one replaces it, by its number
	}
}

// heard lets r ask again after an ask that nobody answered (PROTOCOL §3).
func (r *replica) heard() {
	r.Wants, r.Again = r.Wants || r.Again && r.Stand, false
}

// commit moves r to (step, q) with the bytes it has reduced.
func (w *world) commit(r *replica, s stepOf, bytes uint64, d []quorum.Digest) error {
	r.Pos = quorum.Position{Cluster: "x", Step: s.Step, QuorumID: s.QuorumID}
	r.Bytes, r.Last, r.Pend, r.Fact = bytes, d, 0, quorum.Fact{}
	if old, ok := w.Committed[s]; ok && old != bytes {
		return fmt.Errorf("C1: step %v committed with two different bytes", s)
	}
	if w.discarded(r.Pos) {
		return fmt.Errorf("C6: %s commits step %v, which was settled as discarded", r.ID, s)
	}
	if w.Dropped[s] && !w.Excused[s] {
		return fmt.Errorf("C5: %s commits step %v, which a prepared member has discarded", r.ID, s)
	}
	w.Committed[s] = bytes
	return w.hold(r)
}

// hold checks C1 whenever a replica comes to a position.
func (w *world) hold(r *replica) error {
	if old, ok := w.Bytes[r.Pos]; ok && old != r.Bytes {
		return fmt.Errorf("C1: %s is at %v with bytes %x, others had %x", r.ID, r.Pos, r.Bytes, old)
	}
	w.Bytes[r.Pos] = r.Bytes
	return nil
}

// discard drops r's prepared step.
func (w *world) discard(r *replica) error {
	if r.Fact.Kind == quorum.Prepared {
		s := stepOf{r.Fact.Step, r.Fact.QuorumID}
		if b, ok := w.Committed[s]; ok && b == r.Pend && !w.Excused[s] {
			return fmt.Errorf("C5: %s prepared step %v, somebody committed it, and it discards", r.ID, s)
		}
		w.Dropped[s] = true
	}
	r.Fact, r.Pend = quorum.Fact{}, 0
	return nil
}

// take applies an answer at r (PROTOCOL §2.6, §4.6).
func (x *explorer) take(w *world, r *replica, m message) error {
	if r.Join == nil || r.Join.Number != m.Number {
		if !x.mangle.takesWithdrawn {
			return nil // refused: it was withdrawn, or replaced
		}
	}
	q := m.Answer
	if r.In != nil && q.ID == r.In.ID && !r.Stand {
		return fmt.Errorf("D13: %s fell from quorum %d and is told to use it again", r.ID, q.ID)
	}
	if r.In != nil && (q.ID < r.In.ID || q.ID == r.In.ID && q.Round < r.In.Round) {
		return fmt.Errorf("Q1: %s is in %d.%d and gets %d.%d", r.ID, r.In.ID, r.In.Round, q.ID, q.Round)
	}
	i := slices.IndexFunc(q.Members, func(m quorum.Member) bool { return m.ReplicaID == r.ID })
	if i < 0 {
		return fmt.Errorf("Q4: %s is answered with quorum %d without it", r.ID, q.ID)
	}
	if err := x.settle(w, r, q.Members[i].Position); err != nil {
		return fmt.Errorf("answer %d.%d: %w", q.ID, q.Round, err)
	}
	r.In, r.Stand, r.Join = q, true, nil
	r.Ask, r.Wants, r.Again = false, false, false
	return nil
}

// settle lets r roll forward or discard, as its position after settlement
// says.
func (x *explorer) settle(w *world, r *replica, after quorum.Position) error {
	f := r.Fact
	if f.Kind == quorum.Prepared && after.Step == f.Step && after.QuorumID == f.QuorumID {
		return w.commit(r, stepOf{f.Step, f.QuorumID}, r.Pend, f.Digests)
	}
	if !x.mangle.same(after, r.Pos) {
		return fmt.Errorf("C1: %s is at %v, and the quorum has it at %v", r.ID, r.Pos, after)
	}
	return w.discard(r)
}

// discarded says that the step which led to p was settled as discarded.
func (w *world) discarded(p quorum.Position) bool {
	s, ok := w.Settled[stepOf{p.Step, p.QuorumID}]
	return ok && s.Outcome == quorum.Discard
}

// hear applies a notice at r (PROTOCOL §3). One about a newer quorum than r's
// says that r's was replaced: r was to be in it, or it would not be addressed.
func (w *world) hear(r *replica, n *quorum.Notice) error {
	if r.In == nil || n.QuorumID < r.In.ID {
		return nil
	}
	switch n.Kind {
	case quorum.NoticeWanted:
		r.Wants = r.Wants || r.Stand
	case quorum.NoticeLost:
		r.fall(false)
	case quorum.NoticeFallen:
		match := r.commits(n.Fact)
		r.fall(false)
		if match {
			r.Join = nil // it speaks of a claim that is settled now
			return w.commit(r, stepOf{n.Fact.Step, n.Fact.QuorumID}, r.Pend, r.Fact.Digests)
		}
	}
	return nil
}

// commits says that f is the commit of the step that r prepared.
func (r *replica) commits(f quorum.Fact) bool {
	return f.Kind == quorum.Committed && r.Fact.Kind == quorum.Prepared &&
		f.Step == r.Fact.Step && f.QuorumID == r.Fact.QuorumID && slices.Equal(f.Digests, r.Fact.Digests)
}
