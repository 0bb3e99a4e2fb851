package checker

import (
	"slices"
	"strings"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// account is what a leader was told of one replica.
type account struct {
	id       string
	member   bool
	session  bool
	joined   bool
	waits    bool // its join is neither answered nor withdrawn
	fall     bool // and is a fall
	number   uint64
	says     quorum.FactKind // of the step under way
	about    Position
	heard    time.Duration
	brokenAt time.Duration // 0: it did not break
	accused  time.Duration // in the last quorum, 0: it was not
	at, from Position      // from: where its newest join is
	lost     bool          // the machine has said so
	stuck    bool
	away     bool
	draining bool
	evicted  bool
	torn     bool // its ranks are at different positions, so its join says
	shrink   bool // and that no newcomer is to be let in
	excused  bool // it left, was evicted or superseded: its loss needs no witness
}

func (a *account) live() bool {
	return (a.member || a.joined) && !a.lost && !a.stuck && !a.away && !a.draining && !a.evicted
}

// Book is what one machine was told since it was made: the checkers' own notes
// for what depends on that (Q3 to Q5, Q7 to Q10, C4, and that no replica is lost
// without a witness). Times are of the leader's clock.
type Book struct {
	c       *Checker
	config  quorum.Config
	began   time.Duration
	last    *formedView
	all     map[string]*account
	order   []*account
	fell    bool
	fellAt  int64         // of the world's time
	fellBy  time.Duration // of the leader's
	highest Position
	doubted time.Duration // when it said last that it doubts its sight, or does no more
	owes    bool          // that the highest position fell is to be said
	settled map[Position]Settled
	strikes map[[2]string][]int64       // quorums in which a link broke
	apart   map[[2]string]time.Duration // until when
	mends   map[[2]string]time.Duration // since when neither end says any more that it does not reach the other
	words   map[word]bool               // accusations that were heard
	blocked map[[2]string]bool          // the first did not reach the second, and has not taken it back
	refused map[string]refusal          // by name
}

// refusal is what was said of a name that is kept out for a while.
type refusal struct {
	times int
	until time.Duration
}

// refuse notes that a replica is kept out: 2 s the first time, then twice as long.
func (b *Book) refuse(now time.Duration, id string) {
	name, _, _ := strings.Cut(id, ":")
	r := b.refused[name]
	r.until = now + min(quorum.RefusedFirst<<min(r.times, 16), quorum.RefusedMax)
	r.times++
	b.refused[name] = r
}

// isRefused says that a replica may be kept out; what was said to an earlier leader is
// soft.
func (b *Book) isRefused(now time.Duration, id string) bool {
	name, _, _ := strings.Cut(id, ":")
	return now < b.refused[name].until
}

// NewBook begins the book of a machine that is made from a ledger.
func (c *Checker) NewBook(now time.Duration, config quorum.Config, l quorum.Ledger) *Book {
	b := &Book{
		c: c, config: config, began: now, all: map[string]*account{}, settled: map[Position]Settled{},
		strikes: map[[2]string][]int64{}, apart: map[[2]string]time.Duration{},
		blocked: map[[2]string]bool{}, refused: map[string]refusal{}, words: map[word]bool{}, mends: map[[2]string]time.Duration{},
	}
	if l.Last != nil {
		f := viewOfQuorum(l.Last)
		b.setLast(now, &f)
		for _, v := range f.settled {
			b.settled[v.Position] = v // by a leader before, whatever one that comes back says of it
		}
	}
	for _, id := range l.Evicted {
		a := b.of(now, string(id))
		a.evicted, a.excused = true, true
		b.falls(now, a.member)
	}
	for _, id := range l.Drained {
		b.of(now, string(id)).draining = true
	}
	return b
}

// Config are the rules that the machine was told last.
func (b *Book) Config() quorum.Config { return b.config }

// Waits says that a replica's join waits, and that nothing speaks against a quorum with it.
func (b *Book) Waits(id string) bool {
	a := b.all[id]
	return a != nil && a.waits && !a.lost && !a.draining && !a.evicted
}

func (b *Book) of(now time.Duration, id string) *account {
	a := b.all[id]
	if a == nil {
		a = &account{id: id, heard: now}
		b.all[id] = a
		b.order = append(b.order, a)
	}
	return a
}

func (b *Book) setLast(now time.Duration, f *formedView) {
	b.last, b.fell = f, false
	for _, a := range b.order {
		a.member, a.accused = false, 0
	}
	for i, id := range f.members {
		a := b.of(now, id)
		a.member, a.at = true, f.at[i]
		b.saw(f.at[i])
	}
}

// falls notes that the last quorum fell, if it did.
func (b *Book) falls(now time.Duration, did bool) {
	if did && !b.fell {
		b.fell, b.fellAt, b.fellBy = true, b.c.clock(), now
	}
}

func (b *Book) saw(p Position) {
	if p.Above(b.highest) {
		b.highest = p
	}
}

// Heard notes that a replica said something.
func (b *Book) Heard(now time.Duration, id string) { b.hears(now, id) }

func (b *Book) hears(now time.Duration, id string) *account {
	a := b.of(now, id)
	a.heard = now
	return a
}

// Opened notes a session, with where its replica says that it stands.
func (b *Book) Opened(now time.Duration, id string, position quorum.Position) {
	a, at := b.hears(now, id), PositionOf(position)
	a.session, a.brokenAt, a.accused, a.at = true, 0, 0, at
	a.waits = a.waits && a.from == at // else it has taken its join back, and that word is on its way
	b.saw(at)
}

// Beat notes a heartbeat.
func (b *Book) Beat(now time.Duration, id string, position quorum.Position) {
	a, at := b.hears(now, id), PositionOf(position)
	a.at = at
	b.saw(at)
}

// Joined notes a join.
func (b *Book) Joined(now time.Duration, j *quorum.Join) {
	a := b.hears(now, string(j.Member.ReplicaID))
	a.joined, a.waits, a.number, a.from = true, true, j.Number, PositionOf(j.Member.Position)
	a.fall, a.torn, a.shrink = j.Kind == quorum.JoinFall, j.Member.Torn, j.Member.ShrinkOnly
	a.at, a.says, a.about = a.from, j.Fact.Kind, Position{j.Fact.Step, j.Fact.QuorumID}
	if a.torn {
		a.says = quorum.NoFact // its word on a step weighs nothing
	}
	b.saw(a.at)
	b.falls(now, a.fall && a.member && b.last != nil && j.Last != nil && j.Last.QuorumID == b.last.ID)
}

// Withdrew notes that a join is taken back.
func (b *Book) Withdrew(id string, number uint64) {
	if a := b.all[id]; a != nil && a.waits && a.number == number {
		a.waits = false
	}
}

// LinkReported keeps Q9's account of what is said of a link beside the quorums.
func (b *Book) LinkReported(now time.Duration, by, to string, holds bool) {
	x, y := b.all[by], b.all[to]
	if x == nil || y == nil || !x.session || y.lost {
		return
	}
	pair := [2]string{min(by, to), max(by, to)}
	if holds {
		if delete(b.blocked, [2]string{by, to}); !b.blocked[[2]string{to, by}] {
			b.mends[pair] = now // they may meet, at once or later
			delete(b.apart, pair)
		}
		return
	}
	if x.member && y.member && b.last != nil && !b.fell {
		return
	}
	b.blocked[[2]string{by, to}] = true
	b.apart[pair] = max(b.apart[pair], now+quorum.LinkRetryAfter)
	if x.member && y.member && b.last != nil {
		b.strikes[pair] = append(b.strikes[pair], b.last.ID)
	}
}

// Accused keeps Q9's account: a link that broke in two quorums, or could not be made
// in one.
func (b *Book) Accused(now time.Duration, by, against string, id int64, unreachable bool) {
	if b.last == nil || b.last.ID != id {
		return
	}
	x, y := b.all[by], b.all[against]
	if x == nil || y == nil || !x.member || !y.member {
		return
	}
	said := word{by, against, id}
	if b.words[said] {
		return // it says so by its stream, and in its joins
	}
	b.words[said] = true
	if y.accused == 0 {
		y.accused = now
	}
	pair := [2]string{min(by, against), max(by, against)}
	old := b.strikes[pair]
	again := len(old) > 0 && old[len(old)-1] == id
	if !again {
		b.strikes[pair] = append(old, id)
	}
	if unreachable {
		b.blocked[[2]string{by, against}] = true
	}
	if unreachable || !again && len(old) > 0 {
		b.apart[pair] = now + quorum.LinkRetryAfter
	}
}

// Broken notes that a session broke; withServer: with the server that carried it.
func (b *Book) Broken(now time.Duration, id string, withServer bool) {
	a := b.all[id]
	if a == nil || !a.session {
		return
	}
	a.session = false
	if withServer {
		a.heard = now
		return
	}
	a.brokenAt = now
	if !a.member {
		a.waits, a.joined = false, false
	}
}

// Doubted notes that the leader was descheduled, and is late by so much in what it heard.
func (b *Book) Doubted(now, late time.Duration) {
	for _, a := range b.order {
		a.heard = min(now, a.heard+late)
	}
}

// Configured notes that the rules are others.
func (b *Book) Configured(c quorum.Config) { b.config = c }

// Left notes that a replica has said that it goes.
func (b *Book) Left(now time.Duration, id string) {
	a := b.of(now, id)
	b.c.gone(id)
	a.excused, a.waits, a.joined, a.session, a.lost = true, false, false, false, true
	b.falls(now, a.member)
}

// Happened takes what the machine says happened. That a replica is lost must have its
// reasons.
func (b *Book) Happened(now time.Duration, e quorum.Event) {
	b.owes = b.owes && e.Kind != quorum.EventPositionFell
	if e.Kind == quorum.EventDoubted {
		b.doubted = now
	}
	if e.ReplicaID == "" {
		return
	}
	a := b.of(now, string(e.ReplicaID))
	switch e.Kind {
	case quorum.EventLost, quorum.EventStuck, quorum.EventDraining, quorum.EventEvicted, quorum.EventSuperseded, quorum.EventWithdrawn:
		b.c.gone(a.id)
	}
	switch e.Kind {
	case quorum.EventLost:
		if why := b.unwitnessed(now, a); why != "" {
			b.c.fail("witness", "%s is called lost (%s), though it was %s", a.id, e.Text, why)
		}
		a.lost = true
		b.falls(now, a.member)
		if !a.session {
			a.waits, a.joined = false, false
		}
	case quorum.EventReturned, quorum.EventOpened:
		a.lost, a.excused, a.accused = false, false, 0
	case quorum.EventSuperseded:
		a.excused = true
	case quorum.EventStuck:
		a.stuck = true
		b.falls(now, a.member) // it ends the quorum
	case quorum.EventAway:
		a.away = true
	case quorum.EventRefused:
		b.refuse(now, a.id)
	case quorum.EventCleared:
		a.stuck, a.accused = false, 0
		a.away = a.away && e.Text != "its trainer moves again"
	case quorum.EventDraining:
		a.draining = true
		if !a.member {
			a.waits, a.joined = false, false
		}
	case quorum.EventStays:
		a.draining = false
	case quorum.EventEvicted:
		a.evicted, a.excused, a.lost, a.waits = true, true, true, false
		b.falls(now, a.member)
	case quorum.EventWithdrawn:
		a.waits = false
		if strings.HasPrefix(e.Text, "name in use") {
			a.joined = false
		}
	case quorum.EventForgotten:
		delete(b.all, a.id)
		b.order = slices.DeleteFunc(b.order, func(o *account) bool { return o == a })
	}
}

// unwitnessed says why a replica's loss is not justified: it needs two kinds of
// witness, or one for a grace period, or silence for a heartbeat timeout.
func (b *Book) unwitnessed(now time.Duration, a *account) string {
	silence := now - a.heard
	missed := silence >= b.config.SuspectAfter
	switch {
	case a.excused, silence >= b.config.HeartbeatTimeout:
		return ""
	case a.accused > 0 && (a.brokenAt > 0 || missed):
		return ""
	}
	since := now
	if a.brokenAt > 0 {
		since = min(since, a.brokenAt)
	}
	if a.accused > 0 {
		since = min(since, a.accused)
	}
	if missed {
		since = min(since, a.heard+b.config.SuspectAfter)
	}
	if now-since >= b.config.Grace {
		return ""
	}
	return "heard " + silence.String() + " ago and suspect for " + (now - since).String()
}

// word is an accusation.
type word struct {
	by, against string
	id          int64
}
