package many

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// replica is one replica of one rank: its half of the rules, and the shell around it.
type replica struct {
	w     *world
	id    quorum.ReplicaID
	rank  quorum.Rank
	polls *quorum.Polls
	alive bool
	bytes uint64 // of its state, made up

	session, opened int   // its stream, and the one on which it has said hello
	up, down        int64 // nothing arrives before what was sent earlier

	asking bool         // it works a need for another quorum
	out    *quorum.Join // that waits for its answer
	number uint64       // of its newest join

	group *group // of its newest quorum
	whole bool   // it is configured and not broken
	try
}

// start brings a replica up under a new id.
func (w *world) start(name, born int) *replica {
	id := quorum.ReplicaID(fmt.Sprintf("replica%05d:%08d-0000-4000-8000-%012d", name, born, name))
	r := &replica{
		w: w, id: id, alive: true, polls: quorum.NewPolls(1),
		rank: quorum.NewRank(quorum.RankConfig{GroupWorldSize: 1, MinReplicas: 1, ParityEvery: quorum.DefaultParityEvery}),
	}
	w.byID[id] = r
	w.all = append(w.all, r)
	if w.lighthouse != nil {
		r.connect()
	}
	r.begin()
	return r
}

// soon does something at once, though not within what led to it.
func (r *replica) soon(do func()) {
	r.w.after(0, func() {
		if r.alive {
			do()
		}
	})
}

// need requests the next quorum, if there is none and no request either.
func (r *replica) need() {
	if r.rank.Need() {
		r.ask()
	}
}

// ask works a new need.
func (r *replica) ask() {
	r.asking = true
	r.soon(r.join)
}

// join says what the replica wants, in place of what it said before.
func (r *replica) join() {
	if !r.asking {
		return
	}
	self := quorum.Member{ReplicaID: r.id, Address: address, StoreAddress: storeAddress, GroupWorldSize: 1}
	j, err := quorum.MergeReports(self, []quorum.RankReport{r.rank.Report(quorum.ReportOptions{Sync: r.rank.Syncs()})})
	if err != nil {
		r.w.fail("%s: %v", r.id, err)
		return
	}
	r.number++
	j.Number, j.Last = r.number, r.rank.LastAnswer()
	r.out = &j
	r.sendJoin()
	if j.Kind == quorum.JoinAsk {
		r.w.after(quorum.DefaultConfig().HeartbeatTimeout, func() { r.unanswered(j.Number) })
	}
}

// unanswered takes back an ask that waited for a heartbeat timeout; training goes on.
func (r *replica) unanswered(number uint64) {
	if !r.alive || r.out == nil || r.out.Number != number {
		return
	}
	r.withdraw()
	if r.rank.Unanswered() {
		r.fulfilled()
		return
	}
	r.join()
}

// answered takes up an answer.
func (r *replica) answered(number uint64, q *quorum.Quorum) {
	if r.out == nil || r.out.Number != number {
		return // its join was replaced, and says that it has not had this answer
	}
	r.out = nil
	t, err := r.rank.Take(r.id, q, 0)
	if err != nil {
		r.w.fail("Q4: %s is answered with %d: %v", r.id, q.ID, err)
		return
	}
	r.settled(t.Settled)
	if t.Fell {
		r.join()
		return
	}
	r.checkTaken(q)
	r.poke()
	for _, n := range t.Early {
		r.notice(n)
	}
	switch {
	case t.Wrong:
		r.join()
	case !r.rank.Standing(): // an early word ended it, and the replica joins again
	case t.Fresh:
		r.configure()
	case !r.whole:
		r.fall(q.ID)
	default:
		r.rank.Configured()
		r.heal()
	}
}

// checkTaken has the checkers look at an answer: a list; or a view, of which all members must have the
// same names.
func (r *replica) checkTaken(q *quorum.Quorum) {
	if q.View == nil {
		r.w.check.TookAnswer(string(r.id), string(r.id), q)
		return
	}
	g, a := r.w.group, r.rank.Assignment()
	switch {
	case g.id != q.ID:
	case g.seats == nil:
		g.seats = a.ReplicaIDs
	case slices.Equal(g.seats, a.ReplicaIDs):
		a.ReplicaIDs = g.seats // one list for all, or n lists of n names lie in memory
	default:
		r.w.fail("Q2: %s has other members in quorum %d than the others", r.id, q.ID)
	}
}

// heal fetches the state of the quorum, if the replica is behind it.
func (r *replica) heal() {
	if !r.rank.Behind() {
		r.fulfilled()
		return
	}
	g, a := r.group, *r.rank.Assignment()
	if len(a.Sources) == 0 {
		r.w.fail("%s has no source to heal from", r.id)
		return
	}
	r.w.after(r.w.c.Heal, func() {
		if !r.alive || r.group != g || !r.rank.In(g.id) || !r.rank.Standing() {
			return
		}
		from := slices.IndexFunc(g.members, func(o *replica) bool { return o != nil && o.alive && o.rank.Position() == a.Max })
		if from < 0 {
			return // its donors are gone, and so is the quorum
		}
		donor := g.members[from]
		r.rank.Healed(a.Max, donor.rank.Batches(), donor.rank.Digest())
		r.bytes = donor.bytes
		if r.rank.Position().Step > 0 {
			r.w.check.Reached(string(r.id), 0, r.rank.Position(), r.bytes)
		}
		r.w.res.heals++
		r.fulfilled()
	})
}

// fulfilled ends a request whose group is ready, if its quorum still stands.
func (r *replica) fulfilled() {
	if !r.asking {
		return
	}
	if !r.rank.Fulfil() {
		r.join()
		return
	}
	r.asking = false
	if !r.whole && r.rank.Grouped() {
		r.fall(r.rank.QuorumID())
	}
	r.group.fulfilled()
	r.poke()
}

// fall ends the standing quorum, if it is quorum id: what is pending in its group fails, the peers are
// told, and the next one is asked for.
func (r *replica) fall(id int64) {
	if !r.rank.Fall(id) {
		return
	}
	_, open := r.rank.Attempt()
	switch {
	case r.asking:
		r.soon(r.join)
	case r.closing:
		if !r.rank.Sealed() && open {
			r.cut()
		}
	default:
		r.need()
	}
	r.abort()
	if r.group != nil {
		r.group.aborted(r)
	}
	r.poke()
}

// broke ends the group, and what is pending in it.
func (r *replica) broke() {
	if !r.whole && !r.rank.Standing() {
		return
	}
	pending := r.phase == reducing
	r.abort()
	if pending || !r.asking || !r.rank.Ready() {
		r.fall(r.rank.QuorumID())
	}
}

// abort ends what is pending in the group.
func (r *replica) abort() {
	r.whole = false
	x := r.x
	switch r.phase {
	case reducing:
		r.soon(func() {
			if r.x == x && r.phase == reducing {
				r.opFailed()
			}
		})
	case balloting:
		r.soon(func() {
			if r.x == x {
				r.judge(true)
			}
		})
	}
}

// linkBroke is a first cause: it accuses.
func (r *replica) linkBroke(dead *replica) {
	g := r.group
	if !r.alive || g == nil || !r.rank.In(g.id) || !r.rank.Standing() {
		return
	}
	at, found := slices.BinarySearchFunc(g.ids, dead.id, cmp.Compare)
	if !found {
		return
	}
	name := r.rank.Assignment().ReplicaIDs[at]
	r.w.called[name] = dead.id
	r.accuse(quorum.Accusation{By: r.id, Against: name, QuorumID: g.id, Evidence: "link reset"})
	r.broke()
}

// kill ends a replica as SIGKILL does.
func (w *world) kill(r *replica) {
	r.alive = false
	delete(w.byID, r.id)
	w.all = slices.DeleteFunc(w.all, func(o *replica) bool { return o == r })
	w.res.kills = append(w.res.kills, &kill{id: r.id, at: w.now})
	if g := r.group; g != nil {
		for _, p := range g.members {
			if p != nil && p != r && p.alive {
				w.after(w.between(w.c.Latency, w.c.Detect), func() { p.linkBroke(r) })
			}
		}
	}
	l := w.lighthouse
	if l == nil || r.opened != r.session {
		return
	}
	w.after(w.delay(), func() {
		if !l.over {
			l.broken(r)
		}
	})
}

// computes draws how long a trainer computes.
func (w *world) computes() time.Duration { return w.between(w.o.Step, w.o.Step+w.o.Step/50) }
