package sim

import (
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/internal/sim/checker"
	"github.com/skerry-ft/skerry/internal/sim/mix"
	"github.com/skerry-ft/skerry/quorum"
)

// rank is one rank of a replica: its manager, around the rules, and its trainer. This
// file is how it comes to the quorum that it wishes for; trainer.go is its steps.
type rank struct {
	quorum.Rank

	m     *member
	g     int
	name  string // for people and checkers
	bytes uint64 // of its part of the state
	line  int    // whose bytes descend from which flipped bit; 0: from none

	request *request
	heal    *healing
	plan    quorum.Assignment
	members []string // of the newest answer taken, for the checkers
	away    bool     // a quorum fell, and it did not join for its trainer

	group  int     // rises whenever the group is configured or breaks; old timers see it
	whole  bool    // the group is configured and not broken
	peers  []*rank // in it
	hellos []int64 // newest, by member index
	ops    int64   // issued in the group, ballots included
	boxes  []*box

	try    try
	phase  phase
	turn   int // rises with each phase; old timers see it
	moves  uint64
	moved  int64 // when its trainer called something
	leftAt int64 // when it ended its newest attempt
	rested rested

	promise bool             // an ok ballot is out, whose outcome it does not know
	was     checker.StepName // which
	pend    uint64           // its bytes then

	armed [faultKinds]bool // what goes wrong the next time
	ends  phase            // at which phase its trainer's ctx ends; idle: at none
}

// rested is what StartQuorum summed up of the state.
type rested struct {
	at     quorum.Position
	digest quorum.Digest
	due    bool
}

func newRank(m *member, g int) *rank {
	r := &rank{Rank: quorum.NewRank(m.w.o.rank(m.index, g)), m: m, g: g, name: m.id}
	if g > 0 {
		r.name = fmt.Sprintf("%s/%d", m.id, g)
	}
	if m.w.o.InitSync {
		r.bytes = mix.Of(uint64(len(m.w.members)), 7, uint64(g))
	}
	return r
}

// request works the wish for another quorum, until its group is ready.
type request struct {
	sync           bool               // StartQuorum waits: a heal comes before the collectives
	forbid, shrink bool               // the state is not to be healed, no newcomer let in
	out            *quorum.RankReport // that waits for its reply
	taken          bool               // out was taken back
	awaits         uint64             // the attempt whose vote comes first; 0: none
	round          int                // rises with each try; old timers see it
	began          int64              // the newest round
	pause          time.Duration
}

// strikes says that a fault which waits for its occasion at r strikes now.
func (r *rank) strikes(kind FaultKind) bool {
	hit := r.armed[kind] && !r.m.w.calm
	r.armed[kind] = r.armed[kind] && !hit
	return hit
}

// need requests the next quorum if this rank has none, and no request either.
func (r *rank) need() {
	if r.Need() {
		r.wish()
	}
}

// wish starts to work a new wish.
func (r *rank) wish() {
	q := &request{sync: r.Syncs(), forbid: r.strikes(FaultHeal), shrink: r.strikes(FaultShrink)}
	r.request = q
	r.m.soon(func() { r.pursue(q) })
}

// pursue reports, once.
func (r *rank) pursue(q *request) {
	if r.request != q || q.out != nil {
		return
	}
	q.round, q.began, q.awaits = q.round+1, r.m.w.now, 0
	if !r.Asks() && r.goAway() {
		r.request = nil
		r.Drop()
		r.requested()
		return
	}
	rep := r.Report(quorum.ReportOptions{ShrinkOnly: q.shrink, Sync: q.sync && !q.forbid})
	p := &rep
	q.out, q.taken = p, false
	r.m.toServer(r.g, func() { r.m.report(r.g, p) })
	r.watchTrainer(q)
}

// watchTrainer ends a round whose trainer is gone: it takes its report back, or waits no
// longer for its vote.
func (r *rank) watchTrainer(q *request) {
	round := q.round
	wait := max(opDeadline-time.Duration(r.m.w.now-r.moved), 100*time.Millisecond)
	r.m.after(wait, func() {
		switch {
		case r.request != q || q.round != round || q.out == nil && q.awaits == 0:
		case r.gone() && !r.Asks():
			r.stop()
		default:
			r.watchTrainer(q)
		}
	})
}

// again tries a request anew after a pause, which grows.
func (r *rank) again(q *request) {
	if q.round++; r.m.w.now-q.began >= int64(maxPause) {
		q.pause = min(q.pause, firstPause)
	}
	q.awaits = 0
	round, pause := q.round, q.pause
	q.pause = min(max(firstPause, 2*pause), maxPause)
	r.m.after(pause, func() {
		if q.round == round {
			r.pursue(q)
		}
	})
}

// stop ends the round of the request under way: its wish has changed.
func (r *rank) stop() {
	q := r.request
	switch {
	case q == nil:
	case q.out == nil:
		r.again(q)
	case !q.taken:
		q.taken = true
		p := q.out
		r.m.toServer(r.g, func() { r.m.takeBack(r.g, p) })
	}
}

// replied takes the reply to a report. One that was given before the report was taken
// back is taken up.
func (r *rank) replied(p *quorum.RankReport, rep reply) {
	q := r.request
	if q == nil || q.out != p {
		return
	}
	q.out = nil
	switch {
	case rep.q != nil:
		r.accept(q, rep)
	case rep.first:
		r.votesFirst(q, rep)
	case rep.withdrawn:
		r.again(q)
	case r.Unanswered():
		r.fulfilled(q)
	default:
		r.again(q)
	}
}

// votesFirst fails the attempt that a sibling has ended, and waits until this rank has
// voted on it, too.
func (r *rank) votesFirst(q *request, rep reply) {
	r.CatchUp(rep.next)
	if !r.Trying(rep.attempt) {
		r.again(q)
		return
	}
	q.awaits = rep.attempt
	r.try.siblingEnded = true
	r.cut("a sibling has ended it")
	r.poke()
}

// accept takes up an answer.
func (r *rank) accept(q *request, rep reply) {
	w := r.m.w
	in := r.Quorum()
	fell := in != nil && rep.q.ID == in.ID && !r.Standing()
	if !w.mutant.noCatchUp {
		r.CatchUp(rep.next)
	}
	t, err := r.Take(r.m.rid(), rep.q, rep.voidAttempt)
	if !t.Left || t.Settled.Forward {
		r.settled(t.Settled) // who leaves is told of what was settled last, and no more
	}
	switch {
	case t.Left && r.Draining() != "":
		r.breaks()
		r.request = nil
		r.m.after(w.between(20*time.Millisecond, 400*time.Millisecond), func() { r.m.exit("drained") })
		return
	case err != nil:
		w.fail("Q4", "%s is answered with %d.%d: %v", r.name, rep.q.ID, rep.q.Round, err)
		return
	}
	if t.Void {
		r.cut("its operations are lost")
	}
	if t.Fell {
		r.again(q)
		return
	}
	if fell {
		w.fail("Q2", "%s fell from quorum %d and uses it again", r.name, rep.q.ID)
		return
	}
	if t.Shared != nil {
		r.try.failed = true
	}
	r.plan = *r.Assignment()
	if f := w.mutant.onPlan; f != nil {
		f(rep.q, &r.plan)
	}
	q.pause = min(q.pause, firstPause) // it was let in
	r.members = names(rep.q)
	w.check.TookAnswer(r.name, r.m.id, rep.q)
	w.note("%s takes up %d.%d at %v, heals=%t void=%t wrong=%t, settled %+v", r.name, rep.q.ID, rep.q.Round, r.Position(), r.Behind(), t.Void, t.Wrong, t.Settled)
	r.poke()
	for _, n := range t.Early {
		r.onNotice(n)
	}
	switch {
	case t.Wrong:
		r.again(q)
	case !r.Standing(): // an early word ended it, and stopped the request
	case t.Fresh:
		r.configure(q)
	case !r.whole:
		r.fall(rep.q.ID, "its group is broken")
	default:
		r.Configured()
		r.healIfBehind(q)
	}
}

// settled rolls the bytes of the promised step forward, or discards them.
func (r *rank) settled(s quorum.Settled) {
	if !s.Known {
		return
	}
	if !s.Forward {
		r.discards()
		return
	}
	r.m.w.note("%s rolls forward to %v", r.name, r.Position())
	r.committed(r.was, r.pend, nil)
}

// discards drops what the rank has promised.
func (r *rank) discards() {
	if r.promise {
		r.m.w.check.Discarded(r.m.id, r.g, len(r.m.ranks), r.was, r.pend)
	}
	r.promise = false
}

// breaks takes the promise back, which is not the same.
func (r *rank) breaks() {
	if r.promise {
		r.m.w.check.HoldsPromise(r.m.id, r.g, r.was, false)
	}
	r.promise = false
}

// committed makes a step's bytes this rank's. others are those whose ballots say so;
// none if it was told.
func (r *rank) committed(s checker.StepName, bytes uint64, others []string) {
	w := r.m.w
	r.bytes, r.promise = bytes, false
	if others == nil {
		others = []string{r.m.id}
		w.check.RolledForward(s)
	}
	w.check.Committed(r.m.id, r.g, s, w.o.Ranks, others, bytes)
	if r.g == 0 {
		w.committed()
	}
}

// fulfilled ends a request whose group is ready, if its quorum still stands.
func (r *rank) fulfilled(q *request) {
	if r.request != q {
		return
	}
	if !r.Fulfil() {
		r.again(q)
		return
	}
	r.request = nil
	r.requested()
}

// requested looks at what waited for the request: the trainer, and a group that broke
// meanwhile.
func (r *rank) requested() {
	if !r.whole && r.Grouped() {
		r.fall(r.QuorumID(), "its group broke while it asked")
	}
	r.poke()
}

// onNotice does what a notice means.
func (r *rank) onNotice(n quorum.Notice) {
	if f := r.m.w.mutant.onNotice; f != nil && f(n) {
		return
	}
	if r.Hear(n) == quorum.HeardFall {
		r.fall(n.QuorumID, "notice: "+n.Reason)
	}
}

// fall ends the standing quorum, if it is quorum id: everything pending in its group
// fails, and the next one is asked for, beside the forward pass if need be.
func (r *rank) fall(id int64, why string) {
	if !r.Fall(id) {
		return
	}
	r.m.w.note("%s leaves quorum %d: %s; prepared=%t", r.name, id, why, r.Prepared())
	_, open := r.Attempt()
	switch {
	case r.request != nil:
		r.stop()
	case r.try.closing:
		if !r.Sealed() && open {
			r.cut(why)
		}
	case r.Blocks():
		if open {
			r.cut(why)
		}
		r.awaitStart(id)
	case r.goAway():
	default:
		r.need()
	}
	r.abort()
	for _, o := range r.peers {
		r.m.w.send(r.m, o.m, func() { o.peerBroke(r, id) })
	}
	r.poke()
}

// awaitStart makes this rank away if its trainer does not come to the StartQuorum that
// joins for it.
func (r *rank) awaitStart(id int64) {
	if r.request != nil || !r.In(id) || r.Standing() || r.goAway() {
		return
	}
	wait := max(opDeadline-time.Duration(r.m.w.now-r.moved), 100*time.Millisecond)
	r.m.after(wait, func() { r.awaitStart(id) })
}

// gone says that this rank stops joining for its trainer (L1).
func (r *rank) gone() bool {
	return quorum.TrainerAway(time.Duration(r.m.w.now-r.moved), opDeadline, r.phase.calls())
}

// goAway makes this rank join no more until its trainer moves, if it is gone.
func (r *rank) goAway() bool {
	if !r.gone() {
		return false
	}
	if !r.away {
		r.away = true
		r.tellAway(true)
		r.m.w.note("%s is away", r.name)
	}
	return true
}

func (r *rank) tellAway(away bool) {
	r.m.toServer(r.g, func() {
		h := &r.m.hub
		h.away[r.g] = away && h.pending[r.g] == nil
	})
}

// move notes that the trainer calls something. One that was away is asked for again.
func (r *rank) move() {
	r.moves++
	r.moved = r.m.w.now
	if !r.away {
		return
	}
	r.away = false
	r.tellAway(false)
	if _, open := r.Attempt(); open && r.Quorum() != nil {
		r.need()
	}
}

// waitsForOthers is what a beat says.
func (r *rank) waitsForOthers() bool {
	return r.request != nil || r.phase.waits(len(r.m.ranks))
}

// accuse tells the lighthouse whose link broke, or who is odd. Ranks above 0 say so in
// their reports.
func (r *rank) accuse(a quorum.Accusation) {
	if r.Accuse(a) && r.g == 0 {
		r.m.accuse(a)
	}
}

// linkBroke is a first cause: it accuses.
func (r *rank) linkBroke(o *rank) {
	if r.Quorum() == nil || !r.Standing() || !r.isPeer(o) || r.helloOf(o.m) > r.QuorumID() {
		return
	}
	r.accuse(quorum.Accusation{By: r.m.rid(), Against: o.m.rid(), QuorumID: r.QuorumID(), Evidence: "link broke"})
	r.broke("link to " + o.name + " broke")
}
