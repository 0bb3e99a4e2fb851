package many

import (
	"slices"

	"github.com/skerry-ft/skerry/internal/sim/checker"
	"github.com/skerry-ft/skerry/internal/sim/mix"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/quorum"
)

// This file is what a trainer calls: StartQuorum, a collective, ShouldCommit.

// phase is what a trainer is in, or waits for.
type phase uint8

const (
	starting  phase = iota // StartQuorum, which waits in a process's first quorum
	computing              // its forward pass
	queueing               // a collective waits for its quorum
	reducing               // a collective is under way
	closing                // ShouldCommit waits for the quorum
	balloting              // for the others' ballots
	settling               // for the settlement
)

func (p phase) waits() bool { return p == queueing || p >= reducing && p != closing }

// try is what a replica knows of an attempt at a step, beside the rules.
type try struct {
	phase   phase
	turn    int // rises with each phase: older timers see it
	moves   uint64
	closing bool // ShouldCommit was called
	isCut   bool // its operations lead nowhere
	ops     int64
	x       *exchange // the operation that is under way
	vote    quorum.RankVote
	did     quorum.Resolution
	digest  quorum.Digest

	promise bool // an ok ballot is out, whose outcome it does not know
	was     checker.StepName
	pend    uint64 // its bytes then
}

func (r *replica) enter(p phase) {
	r.phase = p
	r.turn++
	r.moves++
}

// during is do, unless the phase of now has ended by then.
func (r *replica) during(do func()) func() {
	turn := r.turn
	return func() {
		if r.alive && r.turn == turn {
			do()
		}
	}
}

// poke looks again at what the trainer waits for.
func (r *replica) poke() {
	switch r.phase {
	case starting:
		r.started()
	case queueing:
		r.reduce()
	case closing:
		r.close()
	case settling:
		r.settledNow()
	}
}

// begin is StartQuorum.
func (r *replica) begin() {
	waits := r.rank.Blocks()
	r.rank.Begin()
	r.closing, r.isCut = false, r.rank.Void()
	r.need()
	if waits {
		r.enter(starting)
		r.started()
		return
	}
	r.compute()
}

// started goes on behind a StartQuorum that waits.
func (r *replica) started() {
	if r.asking {
		return
	}
	if r.rank.Need() {
		r.rank.Again()
		r.isCut = r.rank.Void()
		r.ask()
		return
	}
	r.rank.Started()
	r.compute()
}

func (r *replica) compute() {
	if _, at, due := r.rank.Compares(); due {
		r.rank.Rested(at, quorum.Digest{Valid: true, Sum: uint32(r.bytes)}, false)
	}
	r.enter(computing)
	r.w.after(r.w.computes(), r.during(func() {
		r.enter(queueing)
		r.reduce()
	}))
}

// cut fails the attempt, and says that its operations lead nowhere any more.
func (r *replica) cut() {
	if _, open := r.rank.Attempt(); !open || r.isCut {
		return
	}
	r.rank.Fail()
	r.rank.Cut()
	r.isCut = true
	r.poke()
}

// reduce gives this replica's gradients, when its quorum is there.
func (r *replica) reduce() {
	switch {
	case r.phase != queueing:
		return
	case r.isCut:
		r.shouldCommit()
		return
	case !r.rank.Usable():
		return
	}
	r.rank.Issue()
	x := r.issue()
	r.enter(reducing)
	if !r.whole {
		r.soon(r.during(r.opFailed))
		return
	}
	if x.came(r) {
		x.finish(r.w.c.reduce(len(x.ballots)), 0, reducing, (*replica).shouldCommit)
	}
}

// opFailed takes in that the collective failed, and with it the group.
func (r *replica) opFailed() {
	r.cut()
	r.fall(r.rank.QuorumID())
	r.shouldCommit()
}

// shouldCommit waits for the quorum first. An attempt that has failed needs none.
func (r *replica) shouldCommit() {
	r.closing = true
	r.rank.Close()
	r.enter(closing)
	r.close()
}

func (r *replica) close() {
	if r.phase != closing || r.asking && !r.isCut {
		return
	}
	if v, none := r.rank.WithoutBallot(); none {
		r.votes(v)
		return
	}
	own := r.rank.Ballot(r.rank.HealedBeside())
	if !r.whole {
		v := r.rank.WithoutGroup()
		r.fall(own.QuorumID)
		r.votes(v)
		return
	}
	r.ballot(own)
}

// ballot gives this replica's word on the step to all others.
func (r *replica) ballot(own quorum.Ballot) {
	w := r.w
	x := r.issue()
	sum := mix.Of(uint64(x.key.id), uint64(x.key.round), uint64(x.key.op), uint64(len(x.ballots)))
	r.digest = quorum.Digest{Valid: true, Sum: uint32(sum)}
	text := wire.EncodeBallot(own)
	came, err := wire.DecodeBallot(text)
	if err != nil {
		w.fail("wire: %v", err)
		return
	}
	came.Digest = r.digest // the backend's to carry
	r.rank.Seal(own)
	if r.rank.Prepared() || own.Unhealed {
		w.check.Promised(string(r.id), x.name(0), 0)
	}
	if r.rank.Prepared() {
		r.promise, r.was = true, x.name(own.Position.Step+1)
		r.pend = mix.Of(r.bytes, sum)
		w.check.HoldsPromise(string(r.id), 0, r.was, true)
	}
	r.enter(balloting)
	x.ballots[r.rank.Assignment().ReplicaRank] = &came
	if n := len(x.ballots); x.came(r) {
		w.res.exchanges++
		w.res.ballotBytes += (n - 1) * (len(text) + frameBytes)
		x.finish(w.c.each(n-1, w.c.Ballot)+w.c.Latency, w.c.Latency, balloting, func(r *replica) { r.judge(false) })
	}
}

// judge votes by the ballots that came. Broken says that no more will come: of a member that was killed
// they may be under way, or lost.
func (r *replica) judge(broken bool) {
	if r.phase != balloting {
		return
	}
	x, w := r.x, r.w
	ballots := x.ballots
	if broken {
		ballots = slices.Clone(ballots)
		for _, o := range x.in {
			if at := o.rank.Assignment().ReplicaRank; !o.alive && w.rng.IntN(2) == 0 {
				ballots[at] = nil
			}
		}
	}
	own, list := r.rank.Gather(ballots)
	v := quorum.JudgeBallots(own, list)
	if r.promise && slices.ContainsFunc(list, func(b *quorum.Ballot) bool {
		return b != nil && (b.Digest != r.digest || !b.OK && !b.Healed && !b.Unhealed)
	}) {
		w.check.HeardRefusal(string(r.id), r.was)
	}
	vote, _ := r.rank.Judged(v, r.digest, broken)
	r.votes(vote)
}

// votes hands in the only vote of this replica, which decides.
func (r *replica) votes(v quorum.RankVote) {
	w := r.w
	r.enter(settling)
	r.vote = v
	r.rank.Voted()
	if err := r.polls.Vote(v); err != nil {
		w.fail("C3: %s: %v", r.id, err)
		return
	}
	result, decided := r.polls.ResultFor(v)
	if !decided {
		w.fail("C3: %s: its only rank has voted, and nothing is decided", r.id)
		return
	}
	r.did = r.rank.Resolve(result, v)
	switch {
	case r.did.Awaits:
		r.fall(v.QuorumID)
		r.need()
		r.settledNow()
		return
	case r.did.Commit:
		r.committed(r.group.names)
		w.res.committed(w.now, r)
	case !r.rank.Prepared():
		r.discards()
	}
	r.conclude()
}

// committed makes the bytes of the promised step this replica's.
func (r *replica) committed(members []string) {
	r.bytes, r.promise = r.pend, false
	r.w.check.Committed(string(r.id), 0, r.was, 1, members, r.bytes)
}

// discards drops what the replica has promised.
func (r *replica) discards() {
	if r.promise {
		r.w.check.Discarded(string(r.id), 0, 1, r.was, r.pend)
		r.w.res.discarded++
	}
	r.promise = false
}

// settled rolls the promised step forward, or discards it.
func (r *replica) settled(s quorum.Settled) {
	switch {
	case !s.Known:
	case s.Forward:
		r.w.check.RolledForward(r.was)
		r.committed([]string{string(r.id)})
	default:
		r.discards()
	}
}

func (r *replica) settledNow() {
	if forward, ok := r.rank.Settled(); ok && r.phase == settling {
		r.did.Commit = forward
		r.conclude()
	}
}

// conclude ends the attempt, and begins the next.
func (r *replica) conclude() {
	id := r.vote.QuorumID
	e := r.rank.End(r.did)
	r.rank.Leave()
	r.closing = false
	if e.Asks && r.rank.Ask() {
		r.ask()
	}
	if !r.did.Stands && id != 0 {
		r.fall(id)
	}
	r.need()
	r.enter(computing) // until the next begins
	r.w.after(0, r.during(r.begin))
}
