package quorum_test

import (
	"cmp"
	"slices"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// dumb is a second implementation of deciding, written from docs/PROTOCOL.md
// and facts/torchft.md alone. It keeps the list of all facts ever heard and
// computes everything from it, each time, with nested loops: slow, and simple
// enough to be read beside the page. The fuzz tests feed it and Machine with
// the same facts and compare the decisions.
type dumb struct {
	cfg   quorum.Config
	kind  quorum.ClientKind
	facts []fact
	clock time.Time
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
	Settlement   quorum.Settlement
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
// sender (§4.1).
func (d *dumb) waiting(id quorum.ReplicaID) (quorum.Join, bool) {
	var j *quorum.Join
	for i := range d.facts {
		f := &d.facts[i]
		switch {
		case f.what == fJoin && f.id == id:
			j = &f.join
		case f.what == fWithdraw && f.id == id && j != nil && f.number >= j.Number:
			j = nil
		case f.what == fFormed && slices.ContainsFunc(f.answer, func(a quorum.Answered) bool {
			return a.ReplicaID == id && j != nil && a.Number == j.Number
		}):
			j = nil
		}
		next := d.clock
		if i+1 < len(d.facts) {
			next = d.facts[i+1].at
		}
		if j != nil && d.lostBefore(id, i, next) {
			j = nil
		}
	}
	if j == nil {
		return quorum.Join{}, false
	}
	return *j, true
}

// joinedSince says that id has joined since its session opened.
func (d *dumb) joinedSince(id quorum.ReplicaID) bool {
	joined := false
	for _, f := range d.facts {
		if f.id == id && f.what == fOpen {
			joined = false
		}
		if f.id == id && f.what == fJoin {
			joined = true
		}
	}
	return joined
}

// lost says that id is known dead now (§6).
func (d *dumb) lost(id quorum.ReplicaID) bool {
	return d.lostBefore(id, len(d.facts)-1, d.clock)
}

// lostBefore says that at some time up to t, with the facts up to index n, id
// was known dead, and has not opened a session since.
func (d *dumb) lostBefore(id quorum.ReplicaID, n int, t time.Time) bool {
	lost := false
	for i := 0; i <= n; i++ {
		if d.facts[i].id == id && d.facts[i].what == fOpen {
			lost = false
		}
		next := t
		if i < n {
			next = d.facts[i+1].at
		}
		lost = lost || d.deadAt(id, i, next)
	}
	return lost
}

// deadAt weighs the evidence against id with the facts up to index n at t: two
// witnesses, or one for the grace period, or silence.
func (d *dumb) deadAt(id quorum.ReplicaID, n int, t time.Time) bool {
	var seen, broken time.Time
	var accused []time.Time
	var by []quorum.ReplicaID
	heard := false
	for _, f := range d.facts[:n+1] {
		switch {
		case f.what == fFormed:
			accused, by = nil, nil // accusations are about one quorum
			if isMember(f.formed, id) && !heard {
				seen, heard = f.at, true
			}
		case f.what == fAccuse && f.id == id:
			if !slices.Contains(by, f.by) {
				accused, by = append(accused, f.at), append(by, f.by)
			}
		case f.id != id:
		case f.what == fOpen:
			seen, heard, broken, accused, by = f.at, true, time.Time{}, nil, nil
		case f.what == fBeat, f.what == fJoin:
			seen, heard = f.at, true
		case f.what == fReply:
			seen, heard, accused, by = f.at, true, nil, nil
		case f.what == fBroken:
			broken = f.at
		}
	}
	if !heard {
		return false
	}
	since, witnesses := time.Time{}, len(by)
	if len(accused) > 0 {
		since = accused[0]
	}
	silent := t.Sub(seen) >= d.cfg.SuspectAfter
	if silent || !broken.IsZero() {
		witnesses++ // the lighthouse's own eyes: one witness, however it sees it
		own := broken
		if own.IsZero() || silent && seen.Add(d.cfg.SuspectAfter).Before(own) {
			own = seen.Add(d.cfg.SuspectAfter)
		}
		if since.IsZero() || own.Before(since) {
			since = own
		}
	}
	return witnesses >= 2 || witnesses == 1 && t.Sub(since) >= d.cfg.Grace ||
		t.Sub(seen) >= d.cfg.HeartbeatTimeout
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
		if f.what == fFormed && f.formed.Settlement.Outcome != quorum.NothingToSettle &&
			f.formed.Settlement.Step == step && f.formed.Settlement.QuorumID == quorumID {
			return f.formed.Settlement, true
		}
	}
	return quorum.Settlement{}, false
}

// discarded says that a settlement took position p away.
func (d *dumb) discarded(p quorum.Position) bool {
	s, ok := d.settled(p.Step, p.QuorumID)
	return ok && s.Outcome == quorum.Discard
}

// decide is PROTOCOL §4.8.
func (d *dumb) decide(now time.Time) dumbAnswer {
	d.clock = now
	if d.kind == quorum.KindTorchft {
		return d.decideTorchft(now)
	}
	var joined []quorum.Join
	for _, id := range d.ids() {
		if j, ok := d.waiting(id); ok && !d.lost(id) {
			joined = append(joined, j)
		}
	}
	if len(joined) == 0 {
		return dumbAnswer{Why: "nobody joined"}
	}
	if why := d.windowClosed(now, joined); why != "" {
		return dumbAnswer{Why: why}
	}
	chosen := d.candidates(joined)
	if len(chosen) < d.cfg.MinReplicas || len(chosen) == 0 {
		return dumbAnswer{Why: "too few"}
	}
	if why := d.outvoted(chosen); why != "" {
		return dumbAnswer{Why: why}
	}
	if why := d.stragglers(now, joined); why != "" {
		return dumbAnswer{Why: why}
	}
	if why := d.holderMissing(chosen); why != "" {
		return dumbAnswer{Why: why}
	}
	s, wait := d.settle(joined)
	if wait {
		return dumbAnswer{Why: "settlement waits"}
	}
	return d.answer(chosen, s)
}

// candidates drops who was not in the last quorum, if one asks for shrinking
// only.
func (d *dumb) candidates(joined []quorum.Join) []quorum.Join {
	q, _ := d.last()
	if q == nil || !slices.ContainsFunc(joined, func(j quorum.Join) bool { return j.Member.ShrinkOnly }) {
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
	asking := 0
	for _, j := range joined {
		if isMember(q, j.Member.ReplicaID) {
			asking++
		}
	}
	switch {
	case asking == 0:
		return "the quorum stands"
	case asking < len(d.liveLast()):
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
	for i := from + 1; i < len(d.facts); i++ {
		f := d.facts[i]
		if f.what == fJoin && f.join.Kind == quorum.JoinFall && isMember(q, f.id) {
			return f.at
		}
		next := d.clock
		if i+1 < len(d.facts) {
			next = d.facts[i+1].at
		}
		for _, m := range q.Members {
			if d.lostBefore(m.ReplicaID, i, next) {
				return next
			}
		}
	}
	return time.Time{}
}

// outvoted is Q5.
func (d *dumb) outvoted(chosen []quorum.Join) string {
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
	if !whole && 2*len(chosen) <= live {
		return "no majority"
	}
	return ""
}

// stragglers is §4.4's closing of the window.
func (d *dumb) stragglers(now time.Time, joined []quorum.Join) string {
	q, _ := d.last()
	begun := d.windowBegan()
	if q != nil && len(d.liveLast()) > 0 {
		for _, id := range d.ids() {
			if _, ok := d.waiting(id); d.live(id) && !ok && now.Sub(begun) < d.cfg.JoinTimeout {
				return "stragglers"
			}
		}
		return ""
	}
	if now.Sub(begun) >= d.cfg.JoinTimeout {
		return ""
	}
	for _, id := range d.ids() {
		if open, at := d.session(id); open {
			if _, ok := d.waiting(id); !ok {
				return "an open session has not joined"
			}
			if now.Sub(at) < d.cfg.HeartbeatTimeout {
				return "sessions still open"
			}
		}
	}
	return ""
}

// session says whether id's session is open, and since when.
func (d *dumb) session(id quorum.ReplicaID) (bool, time.Time) {
	open, at := false, time.Time{}
	for _, f := range d.facts {
		if f.id != id {
			continue
		}
		switch f.what {
		case fOpen:
			open, at = true, f.at
		case fBroken, fBrokenWithServer:
			open = false
		}
	}
	return open && !d.lost(id), at
}

// windowBegan is when the window opened: the quorum fell, or the oldest join
// that waits came.
func (d *dumb) windowBegan() time.Time {
	if at := d.fellAt(); !at.IsZero() && len(d.liveLast()) > 0 {
		return at
	}
	var first time.Time
	for _, id := range d.ids() {
		j, ok := d.waiting(id)
		if !ok {
			continue
		}
		for _, f := range d.facts {
			if f.what == fJoin && f.id == id && f.join.Number == j.Number {
				if first.IsZero() || f.at.Before(first) {
					first = f.at
				}
				break
			}
		}
	}
	return first
}

// holderMissing is §4.5.
func (d *dumb) holderMissing(chosen []quorum.Join) string {
	top := quorum.Position{}
	for _, j := range chosen {
		if p := j.Member.Position; p.Compare(top) > 0 && !d.discarded(p) {
			top = p
		}
	}
	for _, id := range d.ids() {
		if p := d.told(id); d.live(id) && !d.discarded(p) && p.Compare(top) > 0 {
			return "waiting for holder"
		}
	}
	return ""
}

// answer makes the quorum of the chosen.
func (d *dumb) answer(chosen []quorum.Join, s quorum.Settlement) dumbAnswer {
	a := dumbAnswer{Ready: true, Settlement: s}
	q, _ := d.last()
	slices.SortFunc(chosen, func(x, y quorum.Join) int { return cmp.Compare(x.Member.ReplicaID, y.Member.ReplicaID) })
	top := quorum.Position{}
	for _, j := range chosen {
		p := d.positionAfter(j, s)
		a.Members = append(a.Members, j.Member.ReplicaID)
		a.Positions = append(a.Positions, p)
		if p.Compare(top) > 0 && !d.discarded(p) {
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
	for i, j := range chosen {
		atStart := j.Member.InitSync && top.Step == 0
		if (a.Positions[i] == top || j.Member.Sync || atStart) && len(a.Participants) < limit {
			a.Participants = append(a.Participants, j.Member.ReplicaID)
		}
	}
	a.NewID = a.NewID || q == nil || !slices.EqualFunc(a.Members, q.Members, func(id quorum.ReplicaID, m quorum.Member) bool {
		return id == m.ReplicaID
	})
	return a
}

// positionAfter is where j's member stands once everything settled is carried
// out (§4.6).
func (d *dumb) positionAfter(j quorum.Join, now quorum.Settlement) quorum.Position {
	f, p := j.Fact, j.Member.Position
	if f.Kind != quorum.Prepared {
		return p
	}
	s, ok := d.settled(f.Step, f.QuorumID)
	if now.Step == f.Step && now.QuorumID == f.QuorumID && now.Outcome != quorum.NothingToSettle {
		s, ok = now, true
	}
	if ok && s.Outcome == quorum.Forward && slices.Equal(s.Digests, f.Digests) {
		return quorum.Position{Cluster: clusterOf(p), Step: f.Step, QuorumID: f.QuorumID}
	}
	return p
}

func clusterOf(quorum.Position) string { return "x" }
