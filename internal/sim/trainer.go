package sim

import (
	"time"

	"github.com/skerry-ft/skerry/internal/sim/mix"
	"github.com/skerry-ft/skerry/quorum"
)

// This file is what a rank's trainer calls, and what its manager does then:
// StartQuorum, WaitParticipants, collectives, ShouldCommit. Whatever it waits for is
// looked at again by poke, and ends by a deadline, or with the trainer's ctx.

// phase is what a trainer is in, or waits for.
type phase uint8

const (
	idle      phase = iota // between two calls
	starting               // in StartQuorum
	sharing                // in WaitParticipants
	computing              // its forward pass
	hanging                // it moves no more
	queueing               // a collective waits for its quorum
	reducing               // a collective is under way
	closing                // ShouldCommit waits for the quorum
	mending                // and for the state
	balloting              // for the others' ballots
	voting                 // for its siblings' votes
	settling               // for the settlement
	leaving                // it ends an attempt for which it did not wait
	phases
)

// calls says that the trainer is in a call: then it is the trainer that waits.
func (p phase) calls() bool { return p != idle && p != computing && p != hanging }

// waits says that it waits for others, as the beats of a replica of so many ranks say.
func (p phase) waits(ranks int) bool {
	return p == queueing || p == reducing || p == balloting || p == settling || p == voting && ranks > 1
}

// try is what a rank's goroutines know of an attempt, beside the rules.
type try struct {
	waiting      bool // its StartQuorum waits, or gave up waiting
	closing      bool // ShouldCommit was called, and has not returned
	failed       bool
	cut          bool // its operations are not worth issuing
	siblingEnded bool // a sibling has ended it: this rank has only to vote
	ended        bool // the trainer's ctx has
	told         *quorum.Shares
	vote         quorum.RankVote
	did          quorum.Resolution
	lines        []int  // of the ballots
	sum          uint64 // what was reduced
	odd          bool   // and it is not what the others reduced: a fault
	box          *box   // of its ballot
	yes          bool   // all that it heard there was a yes
	none         bool   // the backend gave no list of ballots
}

// enter begins a phase, which ends by a deadline; 0: by none.
func (r *rank) enter(p phase, limit time.Duration, late func()) {
	r.phase = p
	r.turn++
	if limit > 0 {
		r.m.after(limit, r.during(late))
	}
	if r.ends == p && p != idle && !r.m.w.calm {
		r.ends = idle
		r.m.after(r.m.w.between(0, 30*time.Millisecond), r.during(r.endCtx))
	}
}

// during is do, unless the phase of now has ended by then.
func (r *rank) during(do func()) func() {
	turn := r.turn
	return func() {
		if r.turn == turn {
			do()
		}
	}
}

// poke looks again at what the trainer waits for.
func (r *rank) poke() {
	switch r.phase {
	case starting:
		r.ready()
	case sharing:
		r.shareOut()
	case queueing:
		r.reduce()
	case closing:
		r.close()
	case mending:
		r.mend()
	case settling:
		r.settledNow()
	}
}

// nextIn is when the trainer's next call comes.
func (r *rank) nextIn(d time.Duration, call func()) {
	r.enter(idle, 0, nil)
	r.m.after(d, r.during(call))
}

// start is StartQuorum.
func (r *rank) start() {
	if d := r.m.ailment.joins - r.m.w.now; d > 0 {
		r.nextIn(time.Duration(d), r.start)
		return
	}
	if r.strikes(FaultLag) {
		d := r.m.w.between(opDeadline/4, 2*opDeadline)
		r.m.w.note("the trainer of %s does nothing for %v", r.name, d)
		r.nextIn(d, r.start)
		return
	}
	r.move()
	if _, open := r.Attempt(); open {
		r.startAgain()
		return
	}
	wait := r.Blocks() || r.promised()
	r.flip()
	r.Begin()
	r.try = try{waiting: wait, failed: r.Void(), cut: r.Void()}
	r.need()
	r.begin()
}

// startAgain begins the open attempt anew, which has issued nothing; or ends it.
func (r *rank) startAgain() {
	if r.Issued() > 0 {
		r.try.closing = true
		r.abandon("a StartQuorum without a ShouldCommit")
		return
	}
	if t := &r.try; t.waiting || t.failed && !t.siblingEnded && !r.Void() {
		r.takeBack()
		r.need()
	}
	r.begin()
}

// takeBack takes back that the attempt has failed.
func (r *rank) takeBack() {
	r.Again()
	if r.Void() {
		return
	}
	r.try.failed, r.try.cut, r.try.told = false, false, nil
}

func (r *rank) begin() {
	if !r.try.waiting {
		r.started()
		return
	}
	r.enter(starting, 0, nil)
	r.ready()
}

// promised says whether a heal that is under way was promised to come before the
// collectives.
func (r *rank) promised() bool {
	return r.request != nil && r.request.sync || r.heal != nil && !r.heal.beside
}

// ready goes on when the group is there, and the state, if this rank heals.
func (r *rank) ready() {
	for r.phase == starting {
		if r.Need() {
			r.takeBack()
			r.wish()
		}
		switch {
		case r.try.siblingEnded:
			r.started() // ShouldCommit says so
		case r.request != nil:
			return
		case r.heal != nil:
			if !r.heal.done {
				return
			}
			r.load(r.heal)
		default:
			r.Started()
			r.try.waiting = false
			r.started()
		}
	}
}

// started goes on behind StartQuorum: until the ballot nothing writes to the state.
func (r *rank) started() {
	_, at, due := r.Compares()
	r.rested = rested{at, quorum.Digest{Valid: true, Sum: uint32(r.bytes ^ r.bytes>>32)}, due}
	if r.m.w.o.Shares && r.g == int(r.m.w.o.Seed%uint64(len(r.m.ranks))) {
		r.enter(sharing, opDeadline, func() { r.cut("no quorum came"); r.shareOut() })
		r.shareOut()
		return
	}
	r.compute()
}

// shareOut is WaitParticipants.
func (r *rank) shareOut() {
	switch {
	case r.phase != sharing:
	case r.try.cut:
		r.shouldCommit()
	case r.Usable():
		var s quorum.Shares
		if r.m.w.mutant.sharesNothing {
			s = r.Shares()
		} else {
			s = r.ShareOut()
		}
		r.try.told = &s
		r.compute()
	}
}

// compute runs forward and backward.
func (r *rank) compute() {
	m := r.m
	took := m.w.between(m.w.o.StepTime/2, m.w.o.StepTime) + m.ailment.slow
	if m.slow > m.w.now {
		took *= slowdown
	}
	r.enter(computing, took, func() {
		switch {
		case r.strikes(FaultForget) && !r.m.ailment.hung:
			r.m.w.note("%s forgets its step", r.name)
			r.start()
		default:
			r.exchange()
		}
	})
}

// exchange issues the step's collective, once its quorum is there.
func (r *rank) exchange() {
	if r.hangs(false) {
		return
	}
	r.moved = r.m.w.now
	r.moves++
	if r.strikes(FaultOp) {
		r.m.w.note("a collective of %s fails before it is issued", r.name)
		r.cut("a collective failed")
	}
	r.enter(queueing, opDeadline, func() { r.cut("no quorum came"); r.reduce() })
	r.reduce()
}

// cut fails the attempt, and says that its operations lead nowhere any more.
func (r *rank) cut(why string) {
	if _, open := r.Attempt(); !open {
		return
	}
	if r.m.w.tracing && !r.try.failed {
		n, _ := r.Attempt()
		r.m.w.note("%s fails attempt %d: %s", r.name, n, why)
	}
	r.Fail()
	r.try.failed = true
	if !r.try.cut {
		r.try.cut = true
		r.Cut()
		r.poke()
	}
}

// opFailed takes in that the collective failed, and with it the group.
func (r *rank) opFailed(why string) {
	r.cut(why)
	r.fall(r.QuorumID(), why)
	r.shouldCommit()
}

// reduced goes on behind the collective.
func (r *rank) reduced() {
	if r.hangs(true) {
		return
	}
	if r.strikes(FaultForget) {
		r.m.w.note("%s forgets its ShouldCommit", r.name)
		r.start()
		return
	}
	r.shouldCommit()
}

// shouldCommit waits for the quorum first. An attempt that has failed needs none.
func (r *rank) shouldCommit() {
	r.move()
	r.try.closing = true
	r.Close()
	r.enter(closing, opDeadline, func() { r.cut("no quorum came"); r.close() })
	r.close()
}

func (r *rank) close() {
	if r.phase != closing || r.request != nil && !r.try.cut {
		return
	}
	if r.heal != nil && r.Usable() {
		r.enter(mending, 0, nil)
		r.mend()
		return
	}
	r.exchangeBallots(r.Behind())
}

// mend loads the state that came beside the collectives.
func (r *rank) mend() {
	switch h := r.heal; {
	case r.phase != mending:
	case h != nil && !h.done:
	default:
		if h != nil {
			r.enter(closing, 0, nil) // what the load leads to finds it on its way
			r.load(h)
		}
		r.enter(closing, 0, nil)
		r.exchangeBallots(r.HealedBeside())
	}
}

// exchangeBallots gives this rank's ballot, if it can.
func (r *rank) exchangeBallots(unhealed bool) {
	if r.strikes(FaultCheck) {
		r.Fail()
		r.try.failed = true
	}
	if v, none := r.WithoutBallot(); none && !(r.m.w.mutant.alwaysBallots && r.whole) {
		r.vote(v)
		return
	}
	if r.rested.due {
		r.Rested(r.rested.at, r.rested.digest, false)
	}
	own := r.Ballot(unhealed)
	if !r.whole {
		v := r.WithoutGroup()
		r.fall(own.QuorumID, "its group is broken")
		r.vote(v)
		return
	}
	r.ballot(own)
}

// vote hands in this rank's vote, and waits for the replica's decision. When that
// takes too long, or the trainer's ctx ends, it says that it waits no longer.
func (r *rank) vote(v quorum.RankVote) {
	r.Voted()
	if f := r.m.w.mutant.onVote; f != nil {
		f(&v)
	}
	r.try.vote = v
	r.enter(voting, 0, nil)
	if r.try.ended {
		r.voteLast()
		return
	}
	if len(r.m.ranks) > 1 {
		late := r.strikes(FaultVote) || !r.try.yes && r.strikes(FaultNo)
		r.m.after(voteDeadline, r.during(func() {
			for _, o := range r.m.ranks {
				if n, open := o.Attempt(); (n > v.Attempt || n == v.Attempt && !open) && !late {
					r.m.w.check.WaitedForVote(r.name, v.Attempt, n, o.leftAt)
				}
			}
			r.voteLast()
		}))
		if late {
			r.m.w.note("the vote of %s is late", r.name)
			return
		}
	}
	r.m.toServer(r.g, func() { r.m.voted(v) })
}

// voteLast hands in this rank's vote again, and says that it waits no longer.
func (r *rank) voteLast() {
	v := r.try.vote
	v.Last = true
	r.m.toServer(r.g, func() { r.m.voted(v) })
}

// decided does what the replica's ranks came to.
func (r *rank) decided(attempt uint64, res quorum.TallyResult) {
	if r.phase == leaving {
		r.left()
		return
	}
	if r.phase != voting || r.try.vote.Attempt != attempt {
		return
	}
	if f := r.m.w.mutant.onTally; f != nil {
		f(&res, r.try.vote)
	}
	r.try.did = r.Resolve(res, r.try.vote)
	if r.m.w.tracing {
		r.m.w.note("%s voted %v void=%t broken=%t in attempt %d: outcome %d stands=%t", r.name, r.try.vote.Vote, r.try.vote.Void, r.try.vote.Broken, attempt, res.Outcome, res.Stands)
	}
	switch {
	case r.try.did.Awaits:
		r.settle()
		return
	case r.try.did.Commit:
		r.commits()
	case !r.Prepared():
		r.discards() // it was refused
	}
	r.conclude()
}

// commits makes a step that the ballots decided this rank's.
func (r *rank) commits() {
	w := r.m.w
	w.check.SharedOut(r.name, r.try.told, quorum.Shares{Rank: r.plan.ParticipantRank, Count: r.plan.Divisor}, r.was)
	w.check.ComparedStates(r.m.id, r.was, r.try.lines)
	r.committed(r.was, r.pend, r.members)
}

// conclude ends the attempt.
func (r *rank) conclude() {
	did, id := r.try.did, r.try.vote.QuorumID
	e := r.End(did)
	r.leave()
	if e.Asks && !r.m.w.mutant.neverAsks && r.Ask() {
		r.wish()
	}
	if !did.Stands && id != 0 {
		r.fall(id, "tally")
	}
	r.need()
	r.nextIn(0, r.start)
}

// leave closes the attempt.
func (r *rank) leave() {
	r.Leave()
	r.leftAt = r.m.w.now
	r.try.closing, r.try.waiting = false, false
	if q := r.request; q != nil && q.awaits > 0 && q.out == nil {
		r.again(q)
	}
}

// settle waits for the settlement of a step that this rank promised.
func (r *rank) settle() {
	r.fall(r.try.vote.QuorumID, "prepared")
	r.need()
	limit := opDeadline
	if r.strikes(FaultGiveUp) {
		limit = r.m.w.between(0, 1500*time.Millisecond)
	}
	r.enter(settling, limit, func() { r.giveUp(false) })
	if r.try.ended {
		r.giveUp(true)
		return
	}
	r.settledNow()
}

func (r *rank) settledNow() {
	if forward, ok := r.Settled(); ok && r.phase == settling {
		r.try.did.Commit = forward
		r.conclude()
	}
}

// giveUp takes the promise back, for it takes too long, or for the trainer's ctx.
func (r *rank) giveUp(ctx bool) {
	r.m.w.note("%s gives up %v", r.name, r.was)
	if r.m.w.mutant.keepsClaim {
		r.pend = mix.Of(r.pend, 1) // its gradients are gone all the same
		r.conclude()
		return
	}
	forward, ok := r.GiveUp()
	switch {
	case ok:
		r.try.did.Commit = forward
		r.conclude()
		return
	default:
		r.breaks()
		r.stop()
	}
	if ctx {
		r.abandon("its ctx ended")
		return
	}
	r.conclude()
}

// endCtx ends the trainer's ctx in what it waits for.
func (r *rank) endCtx() {
	r.m.w.note("the ctx of %s ends in phase %d", r.name, r.phase)
	switch r.phase {
	case starting:
		r.cut("its ctx ended") // the next StartQuorum waits again
		if r.m.w.rng.IntN(3) == 0 {
			r.nextIn(0, r.shouldCommit)
			return
		}
		r.nextIn(r.m.w.between(0, 50*time.Millisecond), r.start)
	case queueing, reducing, closing, mending:
		r.try.closing = true
		r.Close()
		r.abandon("its ctx ended")
	case balloting:
		r.try.ended = true
		r.abort()
	case voting:
		r.try.ended = true
		r.voteLast()
	case settling:
		r.try.ended = true
		r.giveUp(true)
	}
}

// abandon ends an attempt whose outcome this rank does not wait for.
func (r *rank) abandon(why string) {
	w := r.m.w
	w.note("%s abandons its attempt: %s", r.name, why)
	r.enter(leaving, callDeadline, r.left)
	left, id := r.Abandon(), r.QuorumID()
	r.breaks()
	r.cut(why)
	r.stop()
	if left.Falls && !w.mutant.leavesQuietly {
		r.fall(id, why)
	}
	if !left.Votes || w.mutant.castsNothing {
		r.left()
		return
	}
	v := r.Missing()
	if w.mutant.leavesQuietly && v.Broken {
		v.Void, v.Broken = true, false
	}
	if v.Broken {
		v.Last = true
		r.fall(v.QuorumID, why)
	}
	r.m.toServer(r.g, func() { r.m.voted(v) })
}

// left goes on behind an attempt that was given up.
func (r *rank) left() {
	if r.phase != leaving {
		return
	}
	r.leave()
	r.need()
	r.nextIn(r.m.w.between(0, 20*time.Millisecond), r.start)
}
