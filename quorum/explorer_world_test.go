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
	Dropped   map[stepOf]bool                      // steps that a prepared member discarded; no search comes to C5's second exception
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
	Conn  bool          // its session
	Ever  bool          // has had a session
	Ranks []quorum.Rank // all at one position
	Bytes uint64
	Was   stepOf // the step that is prepared, or for which it was behind
	Pend  uint64 // its bytes
	Join  *quorum.Join
	Next  uint64
	Sent  uint64 // ballots
	Inbox []message
}

// newReplica returns a replica that has just started.
func newReplica(id quorum.ReplicaID, ranks int) replica {
	r := replica{ID: id, Up: true, Next: 1}
	for g := range ranks {
		r.Ranks = append(r.Ranks, quorum.NewRank(quorum.RankConfig{
			GroupRank: g, GroupWorldSize: ranks, Sync: true, NoInitSync: true,
		}))
	}
	return r
}

// first is the rank that speaks for what all have in common.
func (r *replica) first() *quorum.Rank { return &r.Ranks[0] }

func (r *replica) Pos() quorum.Position { return r.first().Position() }

// In is the newest answer taken, and Stand whether it stands, as far as r knows.
func (r *replica) In() *quorum.Quorum { return r.first().Quorum() }
func (r *replica) Stand() bool        { return r.first().Standing() }

// Ask says that r stands, and asks or is due to ask before its next step.
func (r *replica) Ask() bool { return r.first().Asks() }

// Wants says that r's ballots want a change.
func (r *replica) Wants() bool { return r.first().Wanted() != "" }

// prepared says that all ranks have promised a step whose outcome they do not know.
func (r *replica) prepared() bool {
	return !r.each(func(k *quorum.Rank) bool { return !k.Prepared() })
}

// each does f to every rank, and says whether f said so of any.
func (r *replica) each(f func(k *quorum.Rank) bool) bool {
	any := false
	for g := range r.Ranks {
		any = f(&r.Ranks[g]) || any
	}
	return any
}

// message is on its way from the lighthouse to a replica.
type message struct {
	Answer frozen
	Number uint64
	Notice *quorum.Notice
}

// newWorld returns n replicas that have just started.
func newWorld(n, ranks int, cfg quorum.Config, b budget) *world {
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
		w.Reps = append(w.Reps, newReplica(quorum.ReplicaID(rune('a'+i)), ranks))
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
		if !r.Up || !r.first().Usable() || r.In().ID != q.ID || r.In().Round != q.Round {
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
	case x.In() != nil && x.In().ID == r.In().ID:
		return !x.Stand() || x.In().Round > r.In().Round
	case x.In() != nil && x.In().ID > r.In().ID:
		return true
	}
	coming := func(m message) bool {
		return m.Answer != nil && m.Answer.ID == r.In().ID && x.Join != nil && x.Join.Number == m.Number
	}
	return !slices.ContainsFunc(x.Inbox, coming)
}

// hello opens r's session.
func (x *explorer) hello(w *world, r *replica) error {
	r.Conn, r.Ever = true, true
	r.heard()
	h := quorum.Hello{ReplicaID: r.ID, Client: quorum.KindSkerry, Position: r.Pos(), Last: r.first().LastAnswer()}
	x.mangle.position(&h.Position)
	if err := w.LH.Open(w.Now, h); err != nil {
		return fmt.Errorf("open refused: %w", err)
	}
	w.Told[r.ID] = r.Pos()
	if r.Join != nil {
		return x.send(w, r)
	}
	return nil
}

// join makes r's next join of its ranks' reports, and sends it.
func (x *explorer) join(w *world, r *replica) error {
	r.each((*quorum.Rank).Need)
	reports := make([]quorum.RankReport, len(r.Ranks))
	for g := range r.Ranks {
		reports[g] = r.Ranks[g].Report(quorum.ReportOptions{Sync: true})
	}
	j, err := quorum.MergeReports(quorum.Member{
		ReplicaID: r.ID, Address: "http://" + string(r.ID), StoreAddress: string(r.ID) + ":1",
		GroupWorldSize: len(r.Ranks),
	}, reports)
	if err != nil {
		return fmt.Errorf("reports of %s refused: %w", r.ID, err)
	}
	j.Number, j.Last = r.Next, r.first().LastAnswer()
	r.Join = &j
	r.Next++
	return x.send(w, r)
}

// send delivers r's outstanding join.
func (x *explorer) send(w *world, r *replica) error {
	j := *deepCopy(x.cp, r.Join)
	x.mangle.join(&j, r)
	if err := w.LH.Join(w.Now, j); err != nil {
		return fmt.Errorf("join %d of %s refused: %w", j.Number, r.ID, err)
	}
	w.LHJoins[r.ID], w.Since[r.ID], w.Told[r.ID] = *r.Join, true, r.Pos()
	return nil
}

// fall ends r's quorum as r sees it.
func (r *replica) fall() {
	if !r.each(func(k *quorum.Rank) bool { return k.Fall(k.QuorumID()) }) {
		return
	}
	if r.Join != nil && r.Join.Kind == quorum.JoinAsk {
		r.Join = nil // the next one replaces it, by its number
	}
}

// heard lets r ask again after an ask that nobody answered (PROTOCOL §3).
func (r *replica) heard() {
	r.each(func(k *quorum.Rank) bool { k.HearAgain(); return false })
}

// committed checks that r, whose ranks have, commits a step with the bytes it has
// reduced.
func (w *world) committed(r *replica, s stepOf, bytes uint64) error {
	r.Bytes, r.Pend = bytes, 0
	if old, ok := w.Committed[s]; ok && old != bytes {
		return fmt.Errorf("C1: step %v committed with two different bytes", s)
	}
	if w.discarded(r.Pos()) {
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
	if old, ok := w.Bytes[r.Pos()]; ok && old != r.Bytes {
		return fmt.Errorf("C1: %s is at %v with bytes %x, others had %x", r.ID, r.Pos(), r.Bytes, old)
	}
	w.Bytes[r.Pos()] = r.Bytes
	return nil
}

// drops checks that r may discard the step that it has prepared.
func (w *world) drops(r *replica, s stepOf, bytes uint64) error {
	if b, ok := w.Committed[s]; ok && b == bytes && !w.Excused[s] {
		return fmt.Errorf("C5: %s prepared step %v, somebody committed it, and it discards", r.ID, s)
	}
	w.Dropped[s] = true
	return nil
}

// take applies an answer at r (PROTOCOL §2.6, §4.6).
func (x *explorer) take(w *world, r *replica, m message) error {
	if r.Join == nil || r.Join.Number != m.Number {
		if !x.mangle.takesWithdrawn {
			return nil // refused: it was withdrawn, or replaced
		}
	}
	q := x.mangle.known(m.Answer, r.Pos())
	if r.In() != nil && q.ID == r.In().ID && !r.Stand() {
		return fmt.Errorf("D13: %s fell from quorum %d and is told to use it again", r.ID, q.ID)
	}
	if r.In() != nil && (q.ID < r.In().ID || q.ID == r.In().ID && q.Round < r.In().Round) {
		return fmt.Errorf("Q1: %s is in %d.%d and gets %d.%d", r.ID, r.In().ID, r.In().Round, q.ID, q.Round)
	}
	promised, was, forward := r.prepared(), r.Was, false
	var early []quorum.Notice
	for g := range r.Ranks {
		t, err := r.Ranks[g].Take(r.ID, q, 0)
		if err != nil {
			return fmt.Errorf("Q4: %s is answered with quorum %d: %w", r.ID, q.ID, err)
		}
		forward, early = forward || t.Settled.Forward, t.Early
	}
	r.Join = nil
	switch after := r.first().Assignment().Position; {
	case forward:
		if err := w.committed(r, was, r.Pend); err != nil {
			return fmt.Errorf("answer %d.%d: %w", q.ID, q.Round, err)
		}
	case after != r.Pos():
		return fmt.Errorf("C1: %s is at %v, and quorum %d.%d has it at %v", r.ID, r.Pos(), q.ID, q.Round, after)
	case promised:
		if err := w.drops(r, was, r.Pend); err != nil {
			return fmt.Errorf("answer %d.%d: %w", q.ID, q.Round, err)
		}
	}
	r.Pend = 0
	r.each((*quorum.Rank).Configured)
	r.each((*quorum.Rank).Fulfil)
	for _, n := range early {
		w.hear(r, &n)
	}
	return nil
}

// discarded says that the step which led to p was settled as discarded.
func (w *world) discarded(p quorum.Position) bool {
	s, ok := w.Settled[stepOf{p.Step, p.QuorumID}]
	return ok && s.Outcome == quorum.Discard
}

// hear applies a notice at r (PROTOCOL §3).
func (w *world) hear(r *replica, n *quorum.Notice) {
	if r.each(func(k *quorum.Rank) bool { return k.Hear(*n) == quorum.HeardFall }) {
		r.fall()
	}
}
