package quorum_test

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// dumb is a second implementation of deciding, written from docs/PROTOCOL.md
// and torchft's quorum_compute alone. It keeps the list of all facts ever heard and
// computes everything from it, each time, with nested loops: slow, and simple
// enough to be read beside the page. The fuzz tests feed it and Machine with
// the same facts and compare the decisions.
type dumb struct {
	cfg   quorum.Config
	kind  quorum.ClientKind
	begun time.Time
	facts []fact
	clock time.Time

	deaths map[quorum.ReplicaID][]time.Time // of this decision: since when it is lost, after each fact
	lifted []lift                           // likewise: when the lighthouse saw again
	unseen []quorum.ReplicaID               // likewise: whom it doubts that it does not see
}

// lift is when most were heard again that had fallen silent together, and for how
// long they were not heard.
type lift struct {
	at time.Time
	by time.Duration
}

// fact is one thing that the lighthouse heard, or did.
type fact struct {
	what   factWhat
	at     time.Time
	id     quorum.ReplicaID
	pos    quorum.Position
	join   quorum.Join
	number uint64
	by     quorum.ReplicaID // accuser
	formed *quorum.Quorum
	answer []quorum.Answered

	settled []quorum.Settlement
}

type factWhat uint8

const (
	fOpen factWhat = iota
	fBeat
	fJoin
	fWithdraw
	fBroken
	fBrokenWithServer
	fAccuse
	fReply
	fFormed
)

// dumbAnswer is what is compared.
type dumbAnswer struct {
	Ready        bool
	Members      []quorum.ReplicaID
	Positions    []quorum.Position
	Participants []quorum.ReplicaID
	Settled      []quorum.Settlement // new ones
	NewID        bool
	Why          string // for people
}

func (d *dumb) add(f fact) { d.facts = append(d.facts, f) }

// last is the last quorum formed, and the index of that fact.
func (d *dumb) last() (*quorum.Quorum, int) {
	for i, f := range slices.Backward(d.facts) {
		if f.what == fFormed {
			return f.formed, i
		}
	}
	return nil, -1
}

func isMember(q *quorum.Quorum, id quorum.ReplicaID) bool {
	return q != nil && slices.ContainsFunc(q.Members, func(m quorum.Member) bool { return m.ReplicaID == id })
}

// ids lists every replica ever heard of, sorted.
func (d *dumb) ids() []quorum.ReplicaID {
	var out []quorum.ReplicaID
	for _, f := range d.facts {
		if f.id != "" && !slices.Contains(out, f.id) {
			out = append(out, f.id)
		}
	}
	slices.Sort(out)
	return out
}

// waiting is the join of id that is not answered, withdrawn, or gone with its
// session (§4.1), and since when it has waited in the present window.
func (d *dumb) waiting(id quorum.ReplicaID) (*quorum.Join, time.Time) {
	var j *quorum.Join
	var since time.Time
	for i := range d.facts {
		f := &d.facts[i]
		switch {
		case f.what == fJoin && f.id == id:
			if j == nil {
				since = f.at
			}
			j = &f.join
		case f.what == fWithdraw && f.id == id && j != nil && f.number >= j.Number:
			j = nil
		case f.what == fFormed:
			since = f.at
			for _, a := range f.answer {
				if a.ReplicaID == id && j != nil && a.Number == j.Number {
					j = nil
				}
			}
		case f.what == fBroken && f.id == id && !d.memberAt(id, i):
			j = nil
		}
		if j != nil && d.kind == quorum.KindSkerry && d.lostAfter(id, i) && !d.openAt(id, i) {
			j = nil
		}
	}
	return j, since
}

// after is the time up to which the facts up to index i are all there are.
func (d *dumb) after(i int) time.Time {
	if i+1 < len(d.facts) {
		return d.facts[i+1].at
	}
	return d.clock
}

// memberAt says that id was in the last quorum when fact i came.
func (d *dumb) memberAt(id quorum.ReplicaID, i int) bool {
	for _, f := range slices.Backward(d.facts[:i+1]) {
		if f.what == fFormed {
			return isMember(f.formed, id)
		}
	}
	return false
}

// openAt says that id's session was open after fact i.
func (d *dumb) openAt(id quorum.ReplicaID, i int) bool {
	for _, f := range slices.Backward(d.facts[:i+1]) {
		if f.id == id && f.what == fOpen {
			return true
		}
		if f.id == id && (f.what == fBroken || f.what == fBrokenWithServer) {
			return false
		}
	}
	return false
}

// joinedSince says that id has joined in this session. A session ends when its
// stream breaks; a member's only when it is lost.
func (d *dumb) joinedSince(id quorum.ReplicaID) bool {
	joined := false
	for i, f := range d.facts {
		switch {
		case f.id == id && f.what == fJoin:
			joined = true
		case f.id == id && f.what == fBroken && !d.memberAt(id, i):
			joined = false
		}
		if joined && d.lostAfter(id, i) && !d.openAt(id, i) {
			joined = false
		}
	}
	return joined
}

// lost says that id is known dead now (§6).
func (d *dumb) lost(id quorum.ReplicaID) bool { return d.lostAfter(id, len(d.facts)-1) }

// lostAfter says that id was known dead at some time between fact i and the
// next one, and gave no sign of life in between.
func (d *dumb) lostAfter(id quorum.ReplicaID, i int) bool {
	return i >= 0 && !d.lostSince(id, i).IsZero()
}

// lostSince is when id became known dead, as it stands after fact i; zero if it
// is not.
func (d *dumb) lostSince(id quorum.ReplicaID, i int) time.Time {
	if len(d.deaths) == 0 {
		d.lives()
	}
	if d.deaths[id] == nil {
		return time.Time{}
	}
	return d.deaths[id][i]
}

// life is what speaks for and against one replica.
type life struct {
	seen, broken, accused time.Time
	by                    []quorum.ReplicaID // who has accused it in this quorum: an accuser counts once
	lost                  bool
	since                 time.Time
}

// lives walks through all facts and weighs the evidence: both kinds of witness, or
// one for the grace period, or silence. The lighthouse's sight is one kind, however
// it sees; peers are the other, however many. The sight alone counts for nothing
// where most fell silent together (§6).
func (d *dumb) lives() {
	all := map[quorum.ReplicaID]*life{}
	for _, id := range d.ids() {
		d.deaths[id] = make([]time.Time, len(d.facts))
	}
	of := func(id quorum.ReplicaID) *life {
		if all[id] == nil {
			all[id] = &life{}
		}
		return all[id]
	}
	joined := false
	for i, f := range d.facts {
		if first := f.what == fJoin && !joined; first && d.kind == quorum.KindSkerry {
			// It fixes the kind of client: who is not there then may be of the other.
			maps.DeleteFunc(all, func(id quorum.ReplicaID, _ *life) bool { return !d.openAt(id, i) })
		}
		joined = joined || f.what == fJoin
		d.lifts(all, f)
		if f.what == fFormed {
			for _, l := range all {
				l.accused, l.by = time.Time{}, nil // accusations are about one quorum
			}
			for _, m := range f.formed.Members {
				if l := of(m.ReplicaID); l.seen.IsZero() {
					l.seen = f.at
				}
			}
		} else if f.id != "" {
			of(f.id).hear(f)
		}
		for _, t := range []time.Time{f.at, d.after(i)} { // by this very fact, and when the next one comes
			if !d.someDead(all, t) {
				continue
			}
			blind := d.blind(all, t)
			for _, l := range all {
				if !l.lost && d.dead(t, l, blind) {
					l.lost, l.since = true, t
				}
			}
		}
		for id, l := range all {
			if l.lost {
				d.deaths[id][i] = l.since
			}
		}
	}
	blind := d.blind(all, d.clock)
	for id, l := range all {
		if blind && d.unheard(d.clock, l) && l.accused.IsZero() {
			d.unseen = append(d.unseen, id)
		}
	}
}

// someDead says that somebody is dead at t if the lighthouse is not blind. Where
// nobody is it does not matter whether it is, which takes most of the time to find.
func (d *dumb) someDead(all map[quorum.ReplicaID]*life, t time.Time) bool {
	for _, l := range all {
		if !l.lost && d.dead(t, l, false) {
			return true
		}
	}
	return false
}

// hear takes in a fact about a replica.
func (l *life) hear(f fact) {
	switch f.what {
	case fAccuse:
		if !slices.Contains(l.by, f.by) && !l.lost && l.accused.IsZero() {
			l.accused = f.at
		}
		l.by = append(l.by, f.by)
	case fOpen:
		l.seen, l.broken, l.accused, l.lost = f.at, time.Time{}, time.Time{}, false
	case fBeat, fJoin:
		l.seen, l.lost = f.at, false
	case fReply:
		l.seen, l.accused, l.lost = f.at, time.Time{}, false
	case fBroken:
		l.broken = f.at
	case fBrokenWithServer:
		l.seen = f.at
	}
}

// unheard says that the lighthouse's sight speaks against a replica.
func (d *dumb) unheard(t time.Time, l *life) bool {
	return !l.lost && !l.seen.IsZero() && (!l.broken.IsZero() || t.Sub(l.seen) >= d.cfg.SuspectAfter)
}

// quiet counts the replicas that are not lost, and the unheard of them, and finds
// when the last of those that nobody accuses was heard.
func (d *dumb) quiet(all map[quorum.ReplicaID]*life, t time.Time) (known, silent int, heard time.Time) {
	for _, l := range all {
		if !l.lost && !l.seen.IsZero() {
			known++
		}
		if d.unheard(t, l) {
			silent++
			if l.accused.IsZero() && l.seen.After(heard) {
				heard = l.seen
			}
		}
	}
	return known, silent, heard
}

// blind says that most replicas fell silent together, and none of them is accused:
// for ten minutes if nobody is heard, else for five heartbeat timeouts.
func (d *dumb) blind(all map[quorum.ReplicaID]*life, t time.Time) bool {
	known, silent, heard := d.quiet(all, t)
	together := 0
	for _, l := range all {
		if d.unheard(t, l) && l.accused.IsZero() && heard.Sub(l.seen) <= d.cfg.SuspectAfter {
			together++
		}
	}
	limit := 5 * d.cfg.HeartbeatTimeout
	if silent == known {
		limit = 10 * time.Minute
	}
	return together >= 2 && 2*together > known && t.Before(heard.Add(limit))
}

// lifts: one of those who were silent is heard, or anybody where nobody was. What
// was not heard meanwhile is held against nobody.
func (d *dumb) lifts(all map[quorum.ReplicaID]*life, f fact) {
	if f.what != fOpen && f.what != fBeat && f.what != fJoin && f.what != fReply || !d.blind(all, f.at) {
		return
	}
	known, silent, heard := d.quiet(all, f.at)
	if l := all[f.id]; l == nil || l.seen.IsZero() || l.lost {
		if silent < known {
			return
		}
	} else if !d.unheard(f.at, l) {
		return
	}
	l := lift{f.at, f.at.Sub(heard)}
	d.lifted = append(d.lifted, l)
	shift := func(t *time.Time) {
		if !t.IsZero() {
			*t = l.shift(*t)
		}
	}
	for _, l := range all {
		shift(&l.seen)
		shift(&l.broken)
		shift(&l.accused)
	}
}

// shift puts a time before the lift off.
func (l lift) shift(t time.Time) time.Time {
	if t = t.Add(l.by); t.After(l.at) {
		return l.at
	}
	return t
}

// shifted is since when something waits, less the times in which the lighthouse saw
// nobody that might have come.
func (d *dumb) shifted(t time.Time) time.Time {
	if len(d.deaths) == 0 {
		d.lives()
	}
	for _, l := range d.lifted {
		if !t.IsZero() && !t.After(l.at) {
			t = l.shift(t)
		}
	}
	return t
}

// dead weighs the evidence at the time t.
func (d *dumb) dead(t time.Time, l *life, blind bool) bool {
	if l.seen.IsZero() {
		return false
	}
	sight := l.broken
	if missed := l.seen.Add(d.cfg.SuspectAfter); !t.Before(missed) && (sight.IsZero() || missed.Before(sight)) {
		sight = missed
	}
	switch {
	case !sight.IsZero() && !l.accused.IsZero():
		return true
	case !l.accused.IsZero() && t.Sub(l.accused) >= d.cfg.Grace:
		return true
	case blind && l.accused.IsZero():
		return false
	case !sight.IsZero() && t.Sub(sight) >= d.cfg.Grace:
		return true
	}
	return t.Sub(l.seen) >= d.cfg.HeartbeatTimeout
}

// live is PROTOCOL §1's word.
func (d *dumb) live(id quorum.ReplicaID) bool {
	q, _ := d.last()
	return (isMember(q, id) || d.joinedSince(id)) && !d.lost(id)
}

// told is the newest position that id stated, or that the last quorum has it
// at.
func (d *dumb) told(id quorum.ReplicaID) quorum.Position {
	var p quorum.Position
	for _, f := range d.facts {
		switch {
		case f.what == fFormed:
			for _, m := range f.formed.Members {
				if m.ReplicaID == id {
					p = m.Position
				}
			}
		case f.id == id && (f.what == fOpen || f.what == fBeat):
			p = f.pos
		case f.id == id && f.what == fJoin:
			p = f.join.Member.Position
		}
	}
	return p
}

// settled is what was settled about (step, quorum id).
func (d *dumb) settled(step, quorumID int64) (quorum.Settlement, bool) {
	for _, f := range d.facts {
		for _, s := range f.settled {
			if s.Step == step && s.QuorumID == quorumID {
				return s, true
			}
		}
	}
	return quorum.Settlement{}, false
}

// decide is PROTOCOL §4.8.
func (d *dumb) decide(now time.Time) dumbAnswer {
	d.clock, d.deaths, d.lifted, d.unseen = now, map[quorum.ReplicaID][]time.Time{}, nil, nil
	if d.kind == quorum.KindTorchft {
		return d.decideTorchft(now)
	}
	var joined []quorum.Join
	for _, id := range d.ids() {
		if j, _ := d.waiting(id); j != nil && !d.lost(id) {
			joined = append(joined, *j)
		}
	}
	if len(joined) == 0 {
		return dumbAnswer{Why: "nobody joined"}
	}
	if why := d.windowClosed(now, joined); why != "" {
		return dumbAnswer{Why: why}
	}
	if slices.ContainsFunc(d.unseen, d.live) {
		return dumbAnswer{Why: "own sight doubted"}
	}
	chosen := d.candidates(joined)
	if len(chosen) < d.cfg.MinReplicas || len(chosen) == 0 {
		return dumbAnswer{Why: "too few"}
	}
	if why := d.outvoted(chosen, joined); why != "" {
		return dumbAnswer{Why: why}
	}
	if why := d.stragglers(now, joined); why != "" {
		return dumbAnswer{Why: why}
	}
	s, wait := d.settle(joined)
	if d.shrinks(joined) && d.holderMissing(chosen, joined, s) != "" {
		chosen = d.withHolder(chosen, joined, s)
	}
	if why := d.holderMissing(chosen, joined, s); why != "" {
		return dumbAnswer{Why: why}
	}
	if wait {
		return dumbAnswer{Why: "settlement waits"}
	}
	a := d.answer(chosen, s)
	if q, _ := d.last(); a.NewID && d.fell() && d.repeats(q, a.Members, a.Positions) &&
		now.Before(d.shifted(d.fellAt()).Add(pause(d.barren()+1))) {
		return dumbAnswer{Why: "pause"}
	}
	return a
}

// repeats says that ids at these positions are q again, and that it committed
// nothing.
func (d *dumb) repeats(q *quorum.Quorum, ids []quorum.ReplicaID, at []quorum.Position) bool {
	if q == nil || !slices.Equal(ids, idsOf(q)) {
		return false
	}
	return !slices.ContainsFunc(at, func(p quorum.Position) bool { return p.Step > maxPosition(q).Step })
}

// barren counts the quorums in a row, before the last, that fell without a commit
// and were followed by the same members.
func (d *dumb) barren() int {
	n, before := 0, -1
	for i, f := range d.facts {
		if f.what != fFormed {
			continue
		}
		if before >= 0 && d.facts[before].formed.ID != f.formed.ID {
			q := d.facts[before].formed
			var at []quorum.Position
			for _, m := range f.formed.Members {
				at = append(at, m.Position)
			}
			switch {
			case d.repeats(q, idsOf(f.formed), at):
				if !d.fallBetween(before, i).IsZero() {
					n++
				}
			case maxPosition(f.formed).Step > maxPosition(q).Step:
				n = 0
			}
		}
		before = i
	}
	return n
}

// pause is what lies between the fall of the n-th quorum in a row that committed
// nothing and the next one.
func pause(n int) time.Duration {
	if n < 2 {
		return 0
	}
	return min(250*time.Millisecond<<min(n-2, 16), 10*time.Second)
}

// candidates drops who was not in the last quorum, if one asks for shrinking
// only.
func (d *dumb) candidates(joined []quorum.Join) []quorum.Join {
	q, _ := d.last()
	shrink := d.shrinks(joined)
	if d.kind == quorum.KindTorchft {
		shrink = q != nil && shrinking(joined)
	}
	if !shrink {
		return joined
	}
	var out []quorum.Join
	for _, j := range joined {
		if isMember(q, j.Member.ReplicaID) {
			out = append(out, j)
		}
	}
	return out
}

// shrinks says that only members of the last quorum can be chosen: one of them asks
// for it, and they are enough, or the window has not been open for long.
func (d *dumb) shrinks(joined []quorum.Join) bool {
	q, _ := d.last()
	if q == nil || !membersShrink(q, joined) {
		return false
	}
	members := 0
	for _, j := range joined {
		if isMember(q, j.Member.ReplicaID) {
			members++
		}
	}
	first := len(d.liveLast()) == 0
	open := first || d.fell()
	return members >= d.cfg.MinReplicas || !open || d.clock.Sub(d.windowBegan(first)) < d.cfg.JoinTimeout
}

// membersShrink says that a member of q asks for no new members.
func membersShrink(q *quorum.Quorum, joined []quorum.Join) bool {
	return slices.ContainsFunc(joined, func(j quorum.Join) bool {
		return j.Member.ShrinkOnly && isMember(q, j.Member.ReplicaID)
	})
}

// shrinking says that one of torchft's clients asks for no new members.
func shrinking(joined []quorum.Join) bool {
	return slices.ContainsFunc(joined, func(j quorum.Join) bool { return j.Member.ShrinkOnly })
}

// liveLast lists the live members of the last quorum.
func (d *dumb) liveLast() []quorum.ReplicaID {
	q, _ := d.last()
	var out []quorum.ReplicaID
	if q != nil {
		for _, m := range q.Members {
			if !d.lost(m.ReplicaID) {
				out = append(out, m.ReplicaID)
			}
		}
	}
	return out
}

// windowClosed is §4.4: why no decision may be taken yet.
func (d *dumb) windowClosed(now time.Time, joined []quorum.Join) string {
	q, _ := d.last()
	if q == nil || len(d.liveLast()) == 0 {
		return "" // it opened with the first join
	}
	if d.fell() {
		return ""
	}
	asking, told := 0, 0
	for _, j := range joined {
		if isMember(q, j.Member.ReplicaID) {
			asking++
			if d.openAt(j.Member.ReplicaID, len(d.facts)-1) {
				told++ // who cannot be told of a quorum is waited for
			}
		}
	}
	switch {
	case asking == 0:
		return "the quorum stands"
	case told < len(d.liveLast()):
		return "an ask ends no quorum: not all members have asked"
	}
	return ""
}

// fell says that the last quorum has fallen: a member joined with fall since,
// or is lost.
func (d *dumb) fell() bool { return !d.fellAt().IsZero() }

// fellAt is when; zero if it stands.
func (d *dumb) fellAt() time.Time {
	q, from := d.last()
	if q == nil {
		return time.Time{}
	}
	return d.fallBetween(from, len(d.facts))
}

// fallBetween is when the quorum of fact number from fell, before fact number to;
// zero if it stood.
func (d *dumb) fallBetween(from, to int) time.Time {
	q := d.facts[from].formed
	for i := from; i < to; i++ {
		f := d.facts[i]
		if f.what == fJoin && f.join.Kind == quorum.JoinFall && isMember(q, f.id) {
			return f.at
		}
		for _, m := range q.Members {
			if d.lostAfter(m.ReplicaID, i) {
				return d.lostSince(m.ReplicaID, i)
			}
		}
	}
	return time.Time{}
}

// outvoted is Q5. With shrink-only nobody but members of the last quorum can be
// chosen, so they are held against each other.
func (d *dumb) outvoted(chosen, joined []quorum.Join) string {
	q, _ := d.last()
	whole := q != nil
	if q != nil {
		for _, m := range q.Members {
			whole = whole && slices.ContainsFunc(chosen, func(j quorum.Join) bool { return j.Member.ReplicaID == m.ReplicaID })
		}
	}
	live := 0
	for _, id := range d.ids() {
		if d.live(id) {
			live++
		}
	}
	if d.shrinks(joined) {
		live = len(d.liveLast())
	}
	if !whole && 2*len(chosen) <= live {
		return "no majority"
	}
	return ""
}

// stragglers is §4.4's closing of the window.
func (d *dumb) stragglers(now time.Time, joined []quorum.Join) string {
	q, _ := d.last()
	first := q == nil || len(d.liveLast()) == 0
	if now.Sub(d.windowBegan(first)) >= d.cfg.JoinTimeout {
		return ""
	}
	if !first && !d.fell() {
		return "" // an ask: all members are here, and that is all it waits for
	}
	for _, id := range d.ids() {
		j, _ := d.waiting(id)
		if d.live(id) && (j == nil || !d.openAt(id, len(d.facts)-1)) {
			return "stragglers" // or who cannot be told
		}
		if first && j == nil && d.openAt(id, len(d.facts)-1) && !d.lost(id) {
			return "an open session has not joined"
		}
	}
	opened := d.begun
	for _, f := range d.facts {
		if f.what == fOpen {
			opened = f.at
		}
	}
	if first && now.Sub(d.shifted(opened)) < d.cfg.HeartbeatTimeout {
		return "sessions still open"
	}
	return ""
}

// windowBegan is when the window opened: the quorum fell, or, with none, the
// oldest join that waits came.
func (d *dumb) windowBegan(first bool) time.Time {
	if !first {
		return d.shifted(d.fellAt())
	}
	var oldest time.Time
	for _, id := range d.ids() {
		j, at := d.waiting(id)
		if at = d.shifted(at); j != nil && !d.lost(id) && (oldest.IsZero() || at.Before(oldest)) {
			oldest = at
		}
	}
	return oldest
}

// answer makes the quorum of the chosen.
func (d *dumb) answer(chosen []quorum.Join, s []quorum.Settlement) dumbAnswer {
	a := dumbAnswer{Ready: true, Settled: s}
	q, _ := d.last()
	slices.SortFunc(chosen, func(x, y quorum.Join) int { return cmp.Compare(x.Member.ReplicaID, y.Member.ReplicaID) })
	top := quorum.Position{}
	for _, j := range chosen {
		p := d.positionAfter(j, s)
		a.Members = append(a.Members, j.Member.ReplicaID)
		a.Positions = append(a.Positions, p)
		if p.Compare(top) > 0 {
			top = p
		}
		if isMember(q, j.Member.ReplicaID) && j.Kind == quorum.JoinFall || j.Member.CommitFailures > 0 {
			a.NewID = true
		}
	}
	limit := len(chosen)
	for _, j := range chosen {
		if j.Member.FixedWorldSize > 0 {
			limit = min(limit, j.Member.FixedWorldSize)
		}
	}
	var members []quorum.Member
	for i, j := range chosen {
		m := j.Member
		m.Position = a.Positions[i]
		members = append(members, m)
	}
	for i, j := range chosen {
		atStart := j.Member.InitSync && top.Step == 0
		level := a.Positions[i] == top && !mustTake(members, i, top)
		if (!j.Member.Torn && (level || atStart) || j.Member.Sync) && len(a.Participants) < limit {
			a.Participants = append(a.Participants, j.Member.ReplicaID)
		}
	}
	a.NewID = a.NewID || q == nil || !slices.EqualFunc(a.Members, q.Members, func(id quorum.ReplicaID, m quorum.Member) bool {
		return id == m.ReplicaID
	})
	if !a.NewID {
		a.Settled = nil // it goes on in the same quorum
	}
	return a
}

// mustTake says that the i-th of members, which is at top, takes another's bytes: its
// own differ, and either somebody at top has bytes that do not, or another of those
// that differ is before it.
func mustTake(members []quorum.Member, i int, top quorum.Position) bool {
	if !members[i].Differs {
		return false
	}
	for k, m := range members {
		if !m.Torn && m.Position == top && (!m.Differs || k < i) {
			return true
		}
	}
	return false
}

// positionAfter is where j's member stands once everything settled is carried
// out (§4.6).
func (d *dumb) positionAfter(j quorum.Join, now []quorum.Settlement) quorum.Position {
	f, p := j.Fact, j.Member.Position
	if j.Member.Torn {
		return p
	}
	find := func(step, id int64) (quorum.Settlement, bool) {
		if s, ok := d.settled(step, id); ok {
			return s, true
		}
		for _, s := range now {
			if s.Step == step && s.QuorumID == id {
				return s, true
			}
		}
		return quorum.Settlement{}, false
	}
	s, ok := find(f.Step, f.QuorumID)
	if f.Kind == quorum.Prepared && ok && s.Outcome == quorum.Forward && slices.Equal(s.Digests, f.Digests) {
		return quorum.Position{Cluster: "x", Step: f.Step, QuorumID: f.QuorumID}
	}
	return p
}

// lastAnswer is what a join carries of the newest answer; nil: there was none.
func lastAnswer(q *quorum.Quorum) *quorum.LastAnswer {
	if q == nil {
		return nil
	}
	return &quorum.LastAnswer{QuorumID: q.ID, Round: q.Round, Members: q.Members}
}
