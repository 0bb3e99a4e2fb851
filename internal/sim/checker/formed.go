package checker

import (
	"slices"
	"strings"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// Decided checks what a leader decides, when it decides, against what it has been
// told.
func (b *Book) Decided(now time.Duration, changed bool, q *quorum.Quorum) {
	f := viewOfQuorum(q)
	if len(f.members) == 0 || changed && len(f.members) < b.config.MinReplicas {
		b.c.fail("Q3", "%v has %d members, min %d", f.Answer, len(f.members), b.config.MinReplicas)
	}
	if !changed {
		return
	}
	b.members(now, f)
	b.majority(now, f)
	b.newcomers(f)
	b.links(now, f)
	b.holder(f)
	for _, v := range f.settled {
		b.settles(v)
	}
}

// formed notes that it was written, and told.
func (b *Book) formed(now time.Duration, f formedView, changed bool, answers []quorum.Answered) {
	if changed {
		top := f.top()
		b.owes = b.highest.Above(top)
		b.highest = top
		said := b.saidSince(answers)
		b.forgetLinks(&f)
		b.setLast(now, &f)
		for a, at := range said {
			a.at = at
		}
		for _, id := range f.members {
			b.falls(now, b.all[id].lost) // while it was written
		}
	} else if b.last != nil && f.Answer == b.last.Answer && len(answers) == len(f.members) {
		b.fell = false
	}
	for _, x := range answers {
		if a := b.all[string(x.ReplicaID)]; a != nil && a.number == x.Number {
			a.waits = false
		}
	}
}

// saidSince is where those stand who have joined anew since they were answered: what
// the answer made of their earlier word may be true of no rank any more. (The answer counted
// on a promise that had been given up while the network kept that word back.)
func (b *Book) saidSince(answers []quorum.Answered) map[*account]Position {
	said := map[*account]Position{}
	for _, x := range answers {
		if a := b.all[string(x.ReplicaID)]; a != nil && a.waits && a.number > x.Number {
			said[a] = a.at
		}
	}
	return said
}

// members checks Q4 and Q7: every member had joined and was live, and none is
// known dead.
func (b *Book) members(now time.Duration, f formedView) {
	for _, id := range f.members {
		a := b.all[id]
		switch {
		case a == nil || !a.waits:
			b.c.fail("Q4", "%s is in %v and has not joined", id, f.Answer)
		case a.evicted:
			b.c.fail("Q7", "%s is in %v and was evicted", id, f.Answer)
		case a.excused && a.lost:
			b.c.fail("Q7", "%s is in %v and has left", id, f.Answer)
		case a.lost:
			b.c.fail("Q7", "%s is in %v and is lost", id, f.Answer)
		case now-max(a.heard, b.doubted) > b.config.HeartbeatTimeout+b.config.Grace+b.c.world.BeatEvery && !b.c.lives(id):
			// One that lives, and was not heard because the leader was stopped or cut
			// off, is not dead: the leader doubts its own sight.
			b.c.fail("Q7", "%s is in %v and was heard %v ago", id, f.Answer, now-a.heard)
		case !a.session && a.brokenAt > 0 && a.accused > 0:
			b.c.fail("Q7", "%s is in %v, its stream broke and a peer accused it", id, f.Answer)
		}
	}
}

// majority checks Q5.
func (b *Book) majority(now time.Duration, f formedView) {
	if b.last != nil && slices.Equal(b.last.members, f.members) {
		return
	}
	if b.last != nil && !slices.ContainsFunc(b.last.members, func(id string) bool { return !slices.Contains(f.members, id) }) {
		return
	}
	out, outMembers := b.out(now, f)
	live := b.Live() - out
	if members, asked := b.shrinks(); asked {
		live = min(live, members-outMembers) // Q6
	}
	if parted := b.parted(now, f); 2*(len(f.members)+parted) <= live {
		b.c.fail("Q5", "%v has %d members, and %d parted from them, of %d live", f.Answer, len(f.members), parted, live)
	}
}

// shrinks counts the live members, and says whether one that has joined wants no newcomers.
func (b *Book) shrinks() (members int, asked bool) {
	for _, a := range b.order {
		if a.member && a.live() {
			members++
			asked = asked || a.waits && a.shrink
		}
	}
	return members, asked && b.last != nil
}

// newcomers checks that none is let in where a member wants none and enough are left, but
// a holder of the highest position, without which none goes on (Q10).
func (b *Book) newcomers(f formedView) {
	fresh := slices.DeleteFunc(slices.Clone(f.members), func(id string) bool { return b.all[id] == nil || b.all[id].member })
	if _, asked := b.shrinks(); !asked || len(f.members)-len(fresh) < b.config.MinReplicas {
		return
	}
	for _, id := range fresh {
		if b.all[id].at != f.top() {
			b.c.fail("Q6", "%s is new in %v, and a member asks that no newcomer is let in", id, f.Answer)
		}
	}
}

// out counts the live replicas, and of these the members, that have joined, and are
// refused: they are let in by none, and count for none.
func (b *Book) out(now time.Duration, f formedView) (n, members int) {
	for _, a := range b.order {
		if a.waits && a.live() && b.isRefused(now, a.id) && !slices.Contains(f.members, a.id) {
			n++
			if a.member {
				members++
			}
		}
	}
	return n, members
}

// parted counts those who have joined, and are kept apart by a bad link from another
// one that has.
func (b *Book) parted(now time.Duration, f formedView) (n int) {
	for _, a := range b.order {
		if !a.waits || !a.live() || slices.Contains(f.members, a.id) {
			continue
		}
		for pair, until := range b.apart {
			o := pair[0]
			if o == a.id {
				o = pair[1]
			}
			if now < until && (pair[0] == a.id || pair[1] == a.id) && b.both(pair) && b.all[o].waits {
				n++
				break
			}
		}
	}
	return n
}

// Live counts PROTOCOL's live replicas.
func (b *Book) Live() int {
	n := 0
	for _, a := range b.order {
		if a.live() {
			n++
		}
	}
	return n
}

// links checks Q9: replicas that could not see each other in two quorums running are not
// put together again, as long as both live, unless there were too few without them
// for the whole join timeout (Q6).
func (b *Book) links(now time.Duration, f formedView) {
	for pair, until := range b.apart {
		if now < until && b.both(pair) && !b.held(pair) && !b.tooFew(now) && slices.Contains(f.members, pair[0]) && slices.Contains(f.members, pair[1]) {
			b.c.fail("Q9", "%s and %s are in %v, and their link broke in the quorums %v", pair[0], pair[1], f.Answer, b.strikes[pair])
		}
	}
}

// forgetLinks drops, when a new quorum is written, what no longer matters. Not when it is decided:
// what is said of the old one meanwhile goes with it, too.
func (b *Book) forgetLinks(f *formedView) {
	if b.last == nil || b.last.ID == f.ID {
		return
	}
	for pair := range b.apart {
		b.forget(pair)
	}
	for pair := range b.mends {
		b.forget(pair)
	}
	for pair := range b.strikes {
		b.forget(pair)
	}
}

// forget drops a link with an end that is gone, and one that has held.
func (b *Book) forget(pair [2]string) {
	if !b.both(pair) || b.held(pair) {
		b.erase(pair)
	}
}

// erase drops all that is known of a link, also whose word it was that it is cut.
func (b *Book) erase(pair [2]string) {
	delete(b.strikes, pair)
	delete(b.apart, pair)
	delete(b.mends, pair)
	delete(b.blocked, pair)
	delete(b.blocked, [2]string{pair[1], pair[0]})
}

// both says that both ends of a link are there.
func (b *Book) both(pair [2]string) bool {
	x, y := b.all[pair[0]], b.all[pair[1]]
	return x != nil && y != nil && !x.lost && !y.lost
}

// held says that the last quorum had both, and their link did not break in it.
func (b *Book) held(pair [2]string) bool {
	ids := b.strikes[pair]
	return b.last != nil && (len(ids) == 0 || ids[len(ids)-1] != b.last.ID) &&
		slices.Contains(b.last.members, pair[0]) && slices.Contains(b.last.members, pair[1])
}

// tooFew says that the join timeout is over, and that those who wait and are kept
// apart from no other are too few by themselves: then Q9 need not hold.
func (b *Book) tooFew(now time.Duration) bool {
	if b.last != nil && (!b.fell || now-b.fellBy < b.config.JoinTimeout-b.c.world.BeatEvery) { // the book heard of it later
		return false
	}
	n := 0
	for _, a := range b.order {
		if !a.waits || !a.live() {
			continue
		}
		parted := false
		for pair, until := range b.apart {
			parted = parted || now < until && (pair[0] == a.id || pair[1] == a.id) && b.both(pair)
		}
		if !parted {
			n++
		}
	}
	return n < b.config.MinReplicas
}

// holder checks Q10: no live replica has told of a position above the quorum's.
func (b *Book) holder(f formedView) {
	top := f.top()
	for _, a := range b.order {
		switch {
		case a.lost || a.evicted || a.stuck, !a.member && !a.joined && !a.session:
			continue
		case a.waits && a.torn: // one of its ranks holds that position, and beats; as a whole it does not
			continue
		}
		if a.at.Above(top) {
			b.c.fail("Q10", "%s is live at %v, and %v is at %v", a.id, a.at, f.Answer, top)
		}
	}
}

// settles checks what §4 of the protocol makes of a contested step: it goes
// forward if a replica present has committed it, and is discarded if one refused it
// and none has.
func (b *Book) settles(v Settled) {
	if old, ok := b.settled[v.Position]; ok && old == v {
		return // it was settled before
	}
	b.settled[v.Position] = v
	committed, refused, prepared := "", "", false
	for _, a := range b.order {
		switch {
		case !a.waits || a.lost || a.evicted:
		case a.at == v.Position:
			committed = a.id
		case a.about == v.Position && a.says == quorum.Refused:
			refused = a.id
		case a.about == v.Position && a.says == quorum.Prepared:
			prepared = true
		}
	}
	switch {
	case !v.Forward && committed != "":
		b.c.fail("C6", "step %v is discarded, and %s has committed it", v.Position, committed)
	case v.Forward && refused != "" && committed == "":
		b.c.fail("C6", "step %v goes forward, %s has refused it, and nobody has committed it", v.Position, refused)
	}
	if !v.Forward && committed == "" && refused == "" && !prepared {
		b.c.excused[v.Position] = true
	}
}

// TurnEnded is the end of a turn in which nothing, or nothing more, was formed. It
// checks Q8, and that a fall of the highest position was told (C4).
func (b *Book) TurnEnded(now time.Duration, reason string) {
	if b.owes {
		b.c.fail("C4", "the highest position fell, and nobody was told")
	}
	if b.last == nil || !b.fell || len(b.strikes)+len(b.apart)+len(b.mends) > 0 {
		return
	}
	waiting, members := 0, 0
	var top, held Position
	for _, a := range b.order {
		if a.lost || a.evicted {
			continue
		}
		switch {
		case a.draining, a.stuck, a.away, b.rivals(a), b.isRefused(now, a.id):
			return // their part is not a matter of who has joined
		case a.waits && !a.session:
			return // it has joined, and no answer reaches it: soon it is back, or lost
		case a.waits:
			waiting++
			if a.member {
				members++
			}
			if a.at.Above(held) {
				held = a.at
			}
		case a.live() || a.session:
			return
		}
		if a.at.Above(top) {
			top = a.at
		}
	}
	if strings.HasPrefix(reason, quorum.ReasonPause.String()) && now-b.fellBy < quorum.PauseMax {
		return // quorums before it committed nothing: a pause, which is bounded
	}
	if b.dark(now) {
		return // most have joined and are not heard: no answer would reach them
	}
	if _, asked := b.shrinks(); asked && members < b.config.MinReplicas && time.Duration(b.c.clock()-b.fellAt) <= 2*b.config.JoinTimeout {
		// Others are let in at the join timeout (Q6), or later by as long as it heard none: a jump of
		// its clock may be that, so the world's counts.
		return
	}
	if members > 0 && waiting >= b.config.MinReplicas && held == top {
		b.c.fail("Q8", "all %d live replicas have joined, and the window stays open: %s", waiting, reason)
	}
}

// dark says that most replicas, and at least two, are not heard, and that none
// accuses them.
func (b *Book) dark(now time.Duration) bool {
	known, silent := 0, 0
	for _, a := range b.order {
		if a.lost {
			continue
		}
		known++
		if a.accused == 0 && (!a.session || now-a.heard >= b.config.SuspectAfter) {
			silent++
		}
	}
	return silent >= 2 && 2*silent > known
}

// rivals says that another incarnation of the name is not known to be gone.
func (b *Book) rivals(a *account) bool {
	name, _, _ := strings.Cut(a.id, ":")
	for _, o := range b.order {
		if n, _, _ := strings.Cut(o.id, ":"); o != a && n == name && !o.lost {
			return true
		}
	}
	return false
}
