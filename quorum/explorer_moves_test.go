package quorum_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// moveKind is a kind of thing that can happen next.
type moveKind uint8

const (
	mvDeliver   moveKind = iota // the next message reaches who
	mvJoin                      // who joins with fall
	mvAsk                       // who joins with ask
	mvWithdraw                  // who's ask is withdrawn, unanswered
	mvGiveUp                    // who's deadline ends its prepared claim
	mvBreak                     // who's group breaks, for a peer is gone
	mvStep                      // who's quorum runs a step with result pick
	mvCrash                     // who dies; its stream breaks
	mvRestart                   // who comes back as a new incarnation
	mvCut                       // who's session breaks, with all that is under way on it
	mvReconnect                 // who's session opens again
	mvBeat                      // the lighthouse hears who's position
	mvLeader                    // the lighthouse starts again from its ledger
	mvTime                      // time passes until something shows
	mvKinds
)

var moveNames = [mvKinds]string{
	"deliver to", "fall-join of", "ask-join of", "withdraw of", "give-up of", "break at",
	"step of", "crash of", "restart of", "cut of", "reconnect of", "beat of",
	"lighthouse restart", "time",
}

// move is one of a world's next steps. Who and Pick mean the same in every
// world, so that a trace can be repeated and shortened.
type move struct {
	Kind moveKind
	Who  quorum.ReplicaID
	Pick int   // mvStep: the outcome
	Mask uint8 // mvStep: the members whose heal fails
}

func (v move) String() string {
	s := moveNames[v.Kind]
	if v.Who != "" {
		s += " " + string(v.Who)
	}
	return s
}

// moves lists what can happen next in w.
func (x *explorer) moves(w *world) []move {
	var out []move
	add := func(ok bool, k moveKind, who quorum.ReplicaID) {
		if ok {
			out = append(out, move{Kind: k, Who: who})
		}
	}
	for i := range w.Reps {
		r := &w.Reps[i]
		if !r.Up {
			add(w.Left.Restarts > 0 && w.rep(r.ID+"2") == nil, mvRestart, r.ID)
			continue
		}
		needs := r.Join == nil && !r.Stand()
		add(len(r.Inbox) > 0, mvDeliver, r.ID)
		add(r.Conn && needs, mvJoin, r.ID)
		add(r.Conn && r.Stand() && r.Ask() && r.Join == nil, mvAsk, r.ID)
		add(w.Left.Withdraws > 0 && r.Ask() && (r.Join != nil || !r.Conn), mvWithdraw, r.ID)
		add(w.Left.GiveUps > 0 && !r.Stand() && r.prepared(), mvGiveUp, r.ID)
		add(x.broken(w, r), mvBreak, r.ID)
		add(w.Left.Crashes > 0, mvCrash, r.ID)
		add(w.Left.Cuts > 0 && r.Conn, mvCut, r.ID)
		add(!r.Conn, mvReconnect, r.ID)
		add(r.Conn && r.Join == nil && w.Told[r.ID] != r.Pos(), mvBeat, r.ID)
		out = append(out, x.stepMoves(w, r)...)
	}
	add(w.Left.Leaders > 0 && w.Formed > 0, mvLeader, "")
	add(true, mvTime, "")
	return out
}

// broken says that r stands in a quorum that cannot step again.
func (x *explorer) broken(w *world, r *replica) bool {
	return r.Stand() && slices.ContainsFunc(w.members(r.In()), func(m *replica) bool {
		return m != r && w.gone(r, m)
	})
}

// stepMoves lists the outcomes of a step of r's quorum, if r is its first
// member and all are ready.
func (x *explorer) stepMoves(w *world, r *replica) []move {
	if !r.Stand() || r.In().Members[0].ReplicaID != r.ID || !w.stands(r.In()) || w.Left.Steps == 0 {
		return nil
	}
	var out []move
	for mask := range uint8(1 << len(r.In().Members)) {
		if mask != 0 && (w.Left.Unhealed == 0 || !x.canStayUnhealed(w, r.In(), mask)) {
			continue
		}
		for pick, o := range x.outcomes[outcomeKey{len(r.In().Members), mask}] {
			if !o.allCommit() && w.Left.Breaks == 0 || o.odd() && w.Left.Odds == 0 {
				continue
			}
			out = append(out, move{Kind: mvStep, Who: r.ID, Pick: pick, Mask: mask})
		}
	}
	return out
}

// canStayUnhealed says that all members in mask have to heal, and some other
// member has not.
func (x *explorer) canStayUnhealed(w *world, q *quorum.Quorum, mask uint8) bool {
	ms := w.members(q)
	top := w.source(ms, maxPosition(q))
	for i, m := range ms {
		if mask>>i&1 == 1 && (top == nil || m.Pos() == top.Pos()) {
			return false
		}
	}
	return true
}

// source is the member whose state the others heal from: one at the highest
// position, which is at least at. Nil if there is none.
func (w *world) source(ms []*replica, at quorum.Position) *replica {
	var best *replica
	for _, m := range ms {
		if m.Pos().Compare(at) >= 0 && (best == nil || m.Pos().Compare(best.Pos()) > 0) {
			best = m
		}
	}
	return best
}

// maxPosition is the highest position in a quorum's list.
func maxPosition(q *quorum.Quorum) quorum.Position {
	return slices.MaxFunc(q.Members, func(a, b quorum.Member) int {
		return a.Position.Compare(b.Position)
	}).Position
}

// apply makes v happen in w. The error is a violation.
func (x *explorer) apply(w *world, v move) error {
	w.Idle = false
	r := w.rep(v.Who)
	var err error
	switch v.Kind {
	case mvDeliver:
		m := r.Inbox[0]
		r.Inbox = r.Inbox[1:]
		r.heard()
		if m.Answer != nil {
			err = x.take(w, r, m)
		} else {
			w.hear(r, m.Notice)
		}
	case mvJoin, mvAsk:
		err = x.join(w, r)
	case mvWithdraw:
		w.Left.Withdraws--
		x.withdraw(w, r)
		if r.each((*quorum.Rank).Unanswered) {
			r.each((*quorum.Rank).Fulfil)
		}
	case mvGiveUp:
		w.Left.GiveUps--
		x.withdraw(w, r)
		r.Pend = 0
		if !x.mangle.keepsClaim {
			r.each(func(k *quorum.Rank) bool { _, settled := k.GiveUp(); return settled })
		}
	case mvBreak:
		err = x.breakGroup(w, r)
	case mvStep:
		err = x.step(w, r.In(), v)
	case mvTime:
		err = x.pass(w)
	default:
		err = x.fault(w, r, v)
	}
	if err != nil {
		return err
	}
	if err := x.lighthouse(w); err != nil {
		return err
	}
	w.purge()
	return nil
}

// purge drops notices that would change nothing where they are going, now or
// later: a quorum that fell for a replica falls once.
func (w *world) purge() {
	for i := range w.Reps {
		r := &w.Reps[i]
		r.Inbox = slices.DeleteFunc(r.Inbox, func(m message) bool {
			return m.Notice != nil && !r.cares(m.Notice) && !r.answerComes(m.Notice.QuorumID)
		})
	}
}

// cares says that n would change something at r.
func (r *replica) cares(n *quorum.Notice) bool {
	switch {
	case r.In() == nil || n.QuorumID < r.In().ID:
		return false
	case n.Kind == quorum.NoticeWanted:
		return r.Stand() && !r.Wants()
	}
	return r.Stand()
}

// answerComes says that r is still to hear the answer with that id.
func (r *replica) answerComes(id int64) bool {
	return slices.ContainsFunc(r.Inbox, func(m message) bool { return m.Answer != nil && m.Answer.ID == id })
}

// fault applies the moves that are nobody's intention.
func (x *explorer) fault(w *world, r *replica, v move) error {
	switch v.Kind {
	case mvCrash:
		w.Left.Crashes--
		x.cut(w, r, "process died")
		r.Up, r.Join, r.Pend = false, nil, 0
		r.fall()
	case mvRestart:
		w.Left.Restarts--
		w.Reps = append(w.Reps, newReplica(r.ID+"2", x.ranks))
	case mvCut:
		w.Left.Cuts--
		x.cut(w, r, "stream broke")
	case mvReconnect:
		return x.hello(w, r)
	case mvBeat:
		return x.beat(w, r)
	case mvLeader:
		w.Left.Leaders--
		w.LH = quorum.New(w.Now, w.Cfg, x.ledger(w))
		clear(w.LHJoins)
		clear(w.Since)
		clear(w.Lost)
		clear(w.Told)
		for i := range w.Reps {
			w.Reps[i].Conn, w.Reps[i].Inbox = false, nil
		}
	}
	return nil
}

func (x *explorer) ledger(w *world) quorum.Ledger {
	l := w.LH.Ledger()
	if x.mangle.onLedger != nil && l.Last != nil {
		last := *l.Last
		l.Last = &last
		x.mangle.onLedger(&l)
	}
	return *deepCopy(x.cp, &l)
}

func (x *explorer) cut(w *world, r *replica, why string) {
	if r.Conn {
		if last := w.LH.Last(); last == nil || !isMember(last, r.ID) {
			delete(w.Since, r.ID) // its session is over, and its join with it
			delete(w.LHJoins, r.ID)
		}
		w.LH.Broken(w.Now, r.ID, why, false)
	}
	r.Conn, r.Inbox = false, nil
}

// withdraw takes r's join back; the word is lost if its session is down.
func (x *explorer) withdraw(w *world, r *replica) {
	if r.Join == nil {
		return
	}
	if r.Conn {
		w.LH.Withdraw(w.Now, r.ID, r.Join.Number)
		if j, ok := w.LHJoins[r.ID]; ok && j.Number == r.Join.Number {
			delete(w.LHJoins, r.ID)
		}
	}
	if !x.mangle.takesWithdrawn {
		r.Join = nil
	}
}

// beat tells the lighthouse how far r is.
func (x *explorer) beat(w *world, r *replica) error {
	b := quorum.Beat{Position: r.Pos(), Ballots: r.Sent, Progress: r.Sent, Phase: quorum.PhaseTraining}
	if r.In() != nil {
		b.QuorumID = r.In().ID
	}
	x.mangle.position(&b.Position)
	if err := w.LH.Beat(w.Now, r.ID, b); err != nil {
		return fmt.Errorf("beat of %s refused: %w", r.ID, err)
	}
	w.Told[r.ID] = r.Pos()
	return nil
}

// breakGroup is r's link to a peer that is gone: r accuses it if it is dead,
// for then r has seen a first cause.
func (x *explorer) breakGroup(w *world, r *replica) error {
	q := r.In()
	r.fall()
	for _, m := range w.members(q) {
		if m.Up || !r.Conn {
			continue
		}
		a := quorum.Accusation{By: r.ID, Against: m.ID, QuorumID: q.ID, Evidence: "connection reset"}
		if err := w.LH.Accuse(w.Now, a); err != nil && x.strictAccuse {
			return fmt.Errorf("accusation of %s by %s refused: %w", m.ID, r.ID, err)
		}
	}
	return nil
}

// step runs one step of q with the outcome that v picks.
func (x *explorer) step(w *world, q *quorum.Quorum, v move) error {
	o := x.outcomes[outcomeKey{len(q.Members), v.Mask}][v.Pick]
	w.Left.Steps--
	if !o.allCommit() {
		w.Left.Breaks--
	}
	if o.odd() {
		w.Left.Odds--
	}
	if v.Mask != 0 {
		w.Left.Unhealed--
	}
	ms, top := w.members(q), maxPosition(q)
	source := w.source(ms, top)
	if source == nil {
		return fmt.Errorf("C4: nobody in quorum %d.%d is at its position %v", q.ID, q.Round, top)
	}
	at, bytes := source.Pos(), source.Bytes
	s := stepOf{at.Step + 1, q.ID}
	w.Attempts[s]++
	for i, m := range ms {
		if err := x.healAt(w, m, source, at, bytes, v.Mask>>i&1 == 1); err != nil {
			return err
		}
	}
	wants := slices.ContainsFunc(ms, func(m *replica) bool { return m.Wants() }) || v.Mask != 0
	for i, m := range ms {
		good := mix(m.Bytes, uint64(q.ID), uint64(q.Round), uint64(s.Step), uint64(w.Attempts[s]))
		if err := x.finish(w, m, s, o[i], good, wants); err != nil {
			return err
		}
	}
	return nil
}

// healAt brings m to the position at, where from is, unless its heal fails.
func (x *explorer) healAt(w *world, m, from *replica, at quorum.Position, bytes uint64, fails bool) error {
	if m.Pos().Compare(at) > 0 {
		return fmt.Errorf("Q10: %s is at %v, above its quorum's %v", m.ID, m.Pos(), at)
	}
	if fails || x.mangle.same(m.Pos(), at) {
		return w.hold(m)
	}
	m.Bytes = bytes
	for g := range m.Ranks {
		m.Ranks[g].Healed(at, 0, from.Ranks[g].Digest())
	}
	return w.hold(m)
}

// word is what a rank is told of a step that came to a result: its ballots'
// verdict, and its replica's tally.
func (x *explorer) word(res result, wants bool) (quorum.Verdict, quorum.TallyResult) {
	t := quorum.TallyResult{ChangeWanted: wants}
	switch res {
	case resCommit:
		t.Outcome, t.Stands = quorum.TallyCommit, true
		return quorum.Verdict{Vote: quorum.VoteYes}, t
	case resPrepared:
		t.Outcome = quorum.TallyPrepared
		if x.mangle.breaksPromise {
			t.Outcome = quorum.TallyAbort
		}
		return quorum.Verdict{Vote: quorum.VotePrepared}, t
	case resBehind:
		t.Outcome, t.Stands = quorum.TallyBehind, true
		return quorum.Verdict{Vote: quorum.VoteBehind}, t
	}
	t.Outcome = quorum.TallyAbort
	return quorum.Verdict{Vote: quorum.VoteNo, Broken: true}, t
}

// finish takes m's ranks through step s to its result.
func (x *explorer) finish(w *world, m *replica, s stepOf, res memberResult, good uint64, wants bool) error {
	m.Sent++
	bytes := good
	v, told := x.word(res.Res, wants)
	var did quorum.Resolution
	asks := false
	for g := range m.Ranks {
		k := &m.Ranks[g]
		k.Begin()
		k.Issue()
		k.Close()
		k.Seal(k.Ballot(res.Res == resBehind))
		d := quorum.Digest{Valid: true, Sum: uint32(good)}
		if res.Odd>>g&1 == 1 {
			d.Sum++
			bytes = mix(bytes, uint64(g)+1)
		}
		vote, _ := k.Judged(v, d, false)
		did = k.Resolve(told, vote)
		asks = !did.Awaits && k.End(did).Asks || asks
	}
	if !told.Stands {
		m.fall()
	}
	if asks {
		m.each((*quorum.Rank).Ask)
	}
	switch {
	case did.Commit:
		return w.committed(m, s, bytes)
	case did.Awaits:
		m.Was, m.Pend = s, bytes
	case res.Res == resPrepared:
		return w.drops(m, s, bytes)
	case res.Res == resBehind:
		m.Was = s
	}
	return nil
}

// mix hashes numbers into a world's made-up parameter bytes.
func mix(ns ...uint64) uint64 {
	h := uint64(14695981039346656037)
	for _, n := range ns {
		h = (h ^ n) * 1099511628211
		h ^= h >> 29
	}
	return h
}

// tick is how often members beat: seldom, to save work, but often enough that
// nobody is suspect for it.
const tick = 400 * time.Millisecond

// pass lets time go on, with beats of all who can, until the lighthouse has
// something new to say, or nothing can come any more: then the world is idle,
// and need not be visited again.
func (x *explorer) pass(w *world) error {
	before := w.shows()
	limit := w.Cfg.JoinTimeout + w.Cfg.HeartbeatTimeout + w.Cfg.Grace + time.Second
	for end := w.Now.Add(limit); w.Now.Before(end); {
		w.Now = w.Now.Add(tick)
		for i := range w.Reps {
			if r := &w.Reps[i]; r.Up && r.Conn {
				if err := x.beat(w, r); err != nil {
					return err
				}
			}
		}
		if err := x.lighthouse(w); err != nil {
			return err
		}
		if w.shows() != before {
			return nil
		}
	}
	w.Idle = true
	return nil
}

// shown is what can be seen of the lighthouse's mind.
type shown struct {
	said, lost int
	reason     quorum.ReasonCode
}

func (w *world) shows() shown {
	return shown{w.said(), len(w.Lost), w.LH.Decide(w.Now).Reason.Code}
}

// said counts what the lighthouse has said and nobody has heard.
func (w *world) said() int {
	n := w.Formed
	for i := range w.Reps {
		n += len(w.Reps[i].Inbox)
	}
	return n
}
