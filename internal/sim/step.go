package sim

import (
	"slices"
	"time"

	"github.com/skerry-ft/skerry/internal/sim/checker"
	"github.com/skerry-ft/skerry/internal/sim/mix"
	"github.com/skerry-ft/skerry/quorum"
)

// box is what came of one operation of a group, whether this rank has issued it or
// not. Lists are by replica rank.
type box struct {
	key     checker.StepName
	mine    opKind // what this rank calls; 0: it has not yet
	kinds   opKind // what was called by anybody
	grads   []uint64
	ballots []*quorum.Ballot
	came    int
	lines   []int // of those who told a state with their ballot; -1: none
}

// opKind is a bit for each kind of operation.
type opKind uint8

const (
	opReduce opKind = 1 << iota
	opBallot
)

// stepMessage is what a rank sends to its peers in an operation: its gradients, or
// its ballot.
type stepMessage struct {
	from *rank
	rank int // replica rank
	size int // of the quorum
	key  checker.StepName
	odd  bool // of another collective
	grad uint64
	vote *quorum.Ballot
	line int // with a ballot that tells a state: the sender's
}

func (s *stepMessage) kind() opKind {
	if s.vote != nil {
		return opBallot
	}
	return opReduce
}

func (r *rank) box(k checker.StepName, size int) *box {
	for _, b := range r.boxes {
		if b.key == k {
			return b
		}
	}
	b := &box{key: k}
	r.boxes = append(r.boxes, b)
	b.grads, b.ballots, b.lines = make([]uint64, size), make([]*quorum.Ballot, size), slices.Repeat([]int{checker.NoLine}, size)
	return b
}

// put notes what a member sent.
func (b *box) put(s *stepMessage) {
	b.kinds |= s.kind()
	if s.vote != nil {
		if b.ballots[s.rank] == nil {
			b.came++
		}
		b.ballots[s.rank], b.lines[s.rank] = s.vote, s.line
		return
	}
	if b.grads[s.rank] == 0 {
		b.came++
	}
	b.grads[s.rank] = s.grad | carried
}

// carried marks a gradient that came, so that zero is one too.
const carried = 1 << 63

// receive takes a step's message. One of a higher round ends the lower one.
func (r *rank) receive(s *stepMessage) {
	if s.key.QuorumID < r.QuorumID() {
		return
	}
	b := r.box(s.key, s.size)
	if s.rank >= len(b.grads) {
		return // an id with two lists: the checkers say so
	}
	b.put(s)
	if r.mismatches(s, b) {
		return
	}
	if r.In(s.key.QuorumID) && s.key.Round > r.Quorum().Round && r.Standing() && r.request == nil {
		r.broke(s.from.name + " is in a later round")
		return
	}
	r.done(b)
}

// mismatches says that a peer called something else than this rank in its place. Both
// say so of each other.
func (r *rank) mismatches(s *stepMessage, b *box) bool {
	odd := s.vote == nil && s.odd != r.m.ailment.odd
	if !r.In(s.key.QuorumID) || !r.Standing() || !odd && (b.mine == 0 || b.mine == b.kinds) {
		return false
	}
	if !odd {
		r.m.w.check.CalledOdd(r.name, s.from.name, b.key)
	}
	r.accuse(quorum.Accusation{
		By: r.m.rid(), Against: s.from.m.rid(), QuorumID: r.QuorumID(), Evidence: "called something else", Kind: quorum.AccusedOdd,
	})
	r.broke(s.from.name + " called something else")
	return true
}

// issue issues this rank's next operation. Its name says no step: members that are
// behind do not know it.
func (r *rank) issue(kind opKind) *box {
	q := r.Quorum()
	r.ops++
	b := r.box(checker.StepName{QuorumID: q.ID, Round: q.Round, Try: r.ops}, len(q.Members))
	b.mine = kind
	return b
}

func (r *rank) sendAll(s *stepMessage, b *box) {
	b.put(s)
	for _, o := range r.peers {
		r.m.w.sendStep(r.m, o, s)
	}
}

// reduce sends this rank's gradients to everybody, when its quorum is there.
func (r *rank) reduce() {
	switch {
	case r.phase != queueing:
		return
	case r.try.cut:
		r.shouldCommit()
		return
	case !r.Usable():
		return
	}
	r.Issue()
	b := r.issue(opReduce)
	if r.g == 0 {
		r.m.w.attempted(b.key)
	}
	grad := uint64(0) // the identity, of one that does not participate
	if r.plan.ParticipantRank >= 0 && !r.Behind() {
		grad = r.m.w.rng.Uint64() >> 1
	}
	id := r.QuorumID()
	r.enter(reducing, opDeadline, func() {
		r.m.w.late(r, "step", opDeadline)
		r.abort()
		r.fall(id, "a collective took too long")
	})
	if !r.whole {
		r.m.soon(func() { r.opFailed("its group is broken") })
		return
	}
	r.sendAll(&stepMessage{from: r, size: len(b.grads), rank: r.plan.ReplicaRank, key: b.key, odd: r.m.ailment.odd, grad: grad}, b)
	if r.mixedUp(b) {
		return
	}
	r.done(b)
}

// mixedUp looks whether others have called something else in this rank's place before.
func (r *rank) mixedUp(b *box) bool {
	if b.mine == b.kinds {
		return false
	}
	for _, o := range r.Quorum().Members {
		if o.ReplicaID != r.m.rid() {
			from := r.m.w.byID[o.ReplicaID].ranks[r.g]
			return r.mismatches(&stepMessage{from: from, key: b.key, odd: r.m.ailment.odd}, b)
		}
	}
	return false
}

// done goes on when all have sent what this rank waits for.
func (r *rank) done(b *box) {
	if b.came < len(b.grads) || b.mine != b.kinds {
		return
	}
	switch {
	case r.phase == reducing && b.mine == opReduce && r.isNow(b):
		sum := mix.Of(uint64(b.key.QuorumID), uint64(b.key.Round), uint64(b.key.Try), uint64(r.g))
		for _, grad := range b.grads {
			sum = mix.Of(sum, grad)
		}
		if r.strikes(FaultOdd) {
			r.m.w.note("%s reduces %v oddly", r.name, b.key)
			sum++
			r.try.odd = true
		}
		r.try.sum = sum
		r.drop(b)
		r.reduced()
	case r.phase == balloting && b.mine == opBallot && r.isNow(b):
		r.judge(false)
	}
}

// isNow says that an operation is this rank's newest.
func (r *rank) isNow(b *box) bool {
	q := r.Quorum()
	return b.key.QuorumID == q.ID && b.key.Round == q.Round && b.key.Try == r.ops
}

func (r *rank) drop(b *box) {
	r.boxes = slices.DeleteFunc(r.boxes, func(o *box) bool { return o == b })
}

// ballot exchanges this rank's ballot for the others'. The backend may refuse it, or
// lose what comes: then there is no list of ballots at all.
func (r *rank) ballot(own quorum.Ballot) {
	w := r.m.w
	sealed := own
	if w.mutant.sealsOK {
		sealed.Reduced = own.OK // others count it all the same
	}
	r.Seal(sealed)
	b := r.issue(opBallot)
	r.try.box = b
	own.Digest = quorum.Digest{Valid: true, Sum: uint32(r.try.sum)}
	if f := w.mutant.onBallot; f != nil {
		f(&own)
	}
	line := checker.NoLine
	if !r.Behind() && !own.Healed {
		line = r.line
	}
	if own.Unhealed && !r.try.failed {
		w.check.Promised(r.m.id, b.key, r.g)
	}
	if r.Prepared() {
		w.check.Promised(r.m.id, b.key, r.g)
		r.promise, r.was = true, b.key
		r.was.Step = own.Position.Step + 1
		// With other bytes at one rank the replica can keep nothing that the others
		// commit without its ballots, whatever its other ranks hold.
		if !r.try.odd {
			w.check.HoldsPromise(r.m.id, r.g, r.was, true)
		}
		r.pend = mix.Of(r.bytes, r.try.sum)
	}
	r.enter(balloting, opDeadline, func() {
		w.late(r, "ballot", opDeadline)
		r.abort()
	})
	s := &stepMessage{from: r, size: len(b.grads), rank: r.plan.ReplicaRank, key: b.key, vote: &own, line: line}
	switch {
	case r.strikes(FaultRefuse):
		w.note("the ballot of %s is refused by its backend", r.name)
		r.try.none = true
		r.abort()
		return
	case r.strikes(FaultDeaf):
		w.note("%s hears no ballot", r.name)
		r.try.none = true
		r.sendAll(s, b)
		r.m.after(w.between(0, w.o.DelayMax), r.abort)
		return
	}
	r.sendAll(s, b)
	if r.mixedUp(b) {
		return
	}
	r.done(b)
}

// judge votes by the ballots that came. Broken says that no more will come.
func (r *rank) judge(broken bool) {
	b := r.try.box
	if r.phase != balloting || b == nil {
		return
	}
	r.enter(closing, 0, nil)
	came, digest := b.ballots, quorum.Digest{Valid: true, Sum: uint32(r.try.sum)}
	if r.try.none {
		came, digest = nil, quorum.Digest{}
	}
	if r.m.w.mutant.keepsUnknown && r.try.none {
		came = make([]*quorum.Ballot, len(b.ballots))
		came[r.plan.ReplicaRank] = b.ballots[r.plan.ReplicaRank]
	}
	own, ballots := r.Gather(came)
	if r.m.w.mutant.onList && len(came) == 0 && own == 0 {
		ballots = ballots[:1]
	}
	judge := quorum.JudgeBallots
	if f := r.m.w.mutant.judge; f != nil {
		judge = f
	}
	v := judge(own, ballots)
	r.m.w.check.NamedDiffering(r.m.id, b.key, b.told(), v.Differ)
	if r.promise && refused(own, ballots) {
		r.m.w.check.HeardRefusal(r.m.id, r.was)
	}
	r.try.lines = slices.Clone(b.lines)
	vote, v := r.Judged(v, digest, broken)
	if slices.Contains(v.Differ, r.plan.ReplicaRank) {
		r.accuse(quorum.Accusation{
			By: r.m.rid(), Against: r.m.rid(), QuorumID: b.key.QuorumID, Evidence: "its state differs", Kind: quorum.AccusedDiffers,
		})
	}
	r.try.yes = v.Yes()
	if r.try.none && !r.Prepared() {
		r.breaks() // it does not know what it has promised
	}
	r.drop(b)
	r.vote(vote)
}

// refused says that no ballots can commit the step: one that came is not ok, or is of
// other bytes than the own one.
func refused(own int, ballots []*quorum.Ballot) bool {
	me := ballots[own]
	return slices.ContainsFunc(ballots, func(b *quorum.Ballot) bool {
		switch {
		case b == nil, b.QuorumID != me.QuorumID, b.Round != me.Round:
			return false
		case b.Healed, b.Unhealed:
			return !b.Reduced || b.Digest != me.Digest
		}
		otherState := b.State.Valid && me.State.Valid && b.State != me.State
		return !b.OK || b.Digest != me.Digest || otherState || !me.Healed && b.Position != me.Position
	})
}

// told are the lines of those who told a state, as far as they are at one position.
func (b *box) told() []int {
	lines, first := slices.Clone(b.lines), -1
	for rank, o := range b.ballots {
		switch {
		case lines[rank] == checker.NoLine:
		case first < 0:
			first = rank
		case o.Position != b.ballots[first].Position:
			lines[rank] = checker.NoLine
		}
	}
	return lines
}

// accuse tells the lighthouse an accusation.
func (m *member) accuse(a quorum.Accusation) {
	m.tell(func(r *leadership, now time.Time) {
		if a.Kind == quorum.AccusedLink {
			r.book.Accused(now.Sub(epochStart), m.id, string(a.Against), a.QuorumID, a.Unreachable)
		}
		if !r.w.mutant.deaf {
			_ = r.m.Accuse(now, a) // what does not fit any more is old news
		}
	})
}
