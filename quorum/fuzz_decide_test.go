package quorum_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// choices draws small numbers, from a seed or from a fuzzer's bytes.
type choices interface{ next(n int) int }

type seeded struct{ *rand.Rand }

func (s seeded) next(n int) int { return s.IntN(n) }

type fromBytes struct{ b []byte }

func (f *fromBytes) next(n int) int {
	if len(f.b) == 0 {
		return 0
	}
	v := int(f.b[0]) % n
	f.b = f.b[1:]
	return v
}

// duel feeds the same facts to Machine and to dumb and compares what they
// decide. It drives replicas that are loosely modelled on the real ones, but
// may also contradict each other, as broken ones would.
type duel struct {
	c    choices
	now  time.Time
	m    *quorum.Machine
	d    *dumb
	kind quorum.ClientKind
	reps []*duelist
	log  []string
	form int

	accused map[string]bool // pairs: a link that breaks twice is Q9's, not the dumb one's
}

// duelist is one replica of a duel.
type duelist struct {
	id      quorum.ReplicaID
	open    bool
	fell    bool // has joined with fall since its last answer
	torn    bool // its ranks are at different positions, until it heals
	differs bool // its bytes are not those of the others, until it heals
	pos     quorum.Position
	last    []quorum.Digest
	in      *quorum.Quorum
	fact    quorum.Fact
	join    *quorum.Join
	next    uint64
	shape   quorum.Member
}

func newDuel(c choices, kind quorum.ClientKind) *duel {
	cfg := quorum.DefaultConfig()
	cfg.MinReplicas = 1 + c.next(3)
	cfg.JoinTimeout = time.Duration(1+c.next(4)) * time.Second
	cfg.StuckAfter = 0
	now := time.Unix(1_700_000_000, 0)
	d := &duel{
		c: c, now: now, kind: kind,
		m:       quorum.New(now, cfg, quorum.NewLedger("x", "default", 0)),
		d:       &dumb{cfg: cfg, kind: kind, begun: now},
		accused: map[string]bool{},
	}
	for i := range 2 + c.next(4) {
		r := &duelist{id: quorum.ReplicaID(rune('a' + i)), next: 1}
		r.shape = quorum.Member{
			ReplicaID: r.id, GroupWorldSize: 1, Sync: c.next(2) == 0,
			Address: "http://" + string(r.id), StoreAddress: string(r.id) + ":1",
		}
		d.reps = append(d.reps, r)
	}
	d.note("%d replicas, min %d, join timeout %v", len(d.reps), cfg.MinReplicas, cfg.JoinTimeout)
	return d
}

func (d *duel) note(format string, args ...any) {
	d.log = append(d.log, d.now.Sub(time.Unix(1_700_000_000, 0)).String()+" "+fmt.Sprintf(format, args...))
}

// run plays n rounds and returns what the two disagree about.
func (d *duel) run(n int) error {
	for range n {
		if err := d.round(); err != nil {
			return err
		}
		d.probes()
		if err := d.compare(); err != nil {
			return err
		}
	}
	return nil
}

// compare asks both, and lets the decision be formed, mostly at once.
func (d *duel) compare() error {
	got, want := d.m.Decide(d.now), d.d.decide(d.now)
	if !got.Ready && !want.Ready {
		return nil
	}
	if got.Ready && got.Reason.Code == quorum.ReasonRepeat {
		d.repeat(got)
		return nil
	}
	if g := d.answerOf(got); !sameAnswer(g, want) {
		return fmt.Errorf("decisions differ\n got  %+v (%v)\n want %+v", g, got.Reason, want)
	}
	if d.c.next(4) > 0 {
		d.formed(got)
	}
	return nil
}

// answerOf puts a decision into the form that is compared.
func (d *duel) answerOf(x quorum.Decision) dumbAnswer {
	a := dumbAnswer{Ready: x.Ready}
	if !x.Ready {
		return a
	}
	a.Settled = x.Command(0, quorum.Token{}, 1).Settled
	for _, m := range x.Quorum.Members {
		a.Members = append(a.Members, m.ReplicaID)
		a.Positions = append(a.Positions, m.Position)
	}
	a.Participants = x.Quorum.Participants
	last := d.m.Last()
	a.NewID = last == nil || x.Quorum.ID != last.ID
	return a
}

func sameAnswer(a, b dumbAnswer) bool {
	key := func(s quorum.Settlement) string { return fmt.Sprint(s.QuorumID, s.Step, s.Outcome, s.Digests) }
	byKey := func(x, y quorum.Settlement) int { return strings.Compare(key(x), key(y)) }
	sa, sb := slices.Clone(a.Settled), slices.Clone(b.Settled)
	slices.SortFunc(sa, byKey)
	slices.SortFunc(sb, byKey)
	return a.Ready == b.Ready && a.NewID == b.NewID &&
		slices.Equal(a.Members, b.Members) && slices.Equal(a.Positions, b.Positions) &&
		slices.Equal(a.Participants, b.Participants) &&
		slices.EqualFunc(sa, sb, func(x, y quorum.Settlement) bool { return key(x) == key(y) })
}

// formed forms a decision and lets the answered members take it.
func (d *duel) formed(x quorum.Decision) {
	q := d.m.Form(d.now, x, quorum.Token{1}, 1)
	d.form++
	d.d.add(fact{
		what: fFormed, at: d.now, formed: &q, answer: x.Answers,
		settled: x.Command(0, quorum.Token{}, 1).Settled,
	})
	d.note("formed %d.%d %v settlement %+v (%v)", q.ID, q.Round, idsOf(&q), q.Settlement, x.Reason)
	for _, a := range x.Answers {
		r := d.rep(a.ReplicaID)
		if r.join == nil || r.join.Number != a.Number {
			continue
		}
		d.twice(r)
		r.join = nil
		i := slices.IndexFunc(q.Members, func(m quorum.Member) bool { return m.ReplicaID == r.id })
		if i < 0 {
			continue
		}
		if p := q.Members[i].Position; p != r.pos {
			r.pos, r.last = p, r.fact.Digests
		}
		r.in, r.fact, r.fell = &q, quorum.Fact{}, false
	}
}

// twice says an answered join again, sometimes: it is refused, and the dumb
// implementation is not told.
func (d *duel) twice(r *duelist) {
	if d.kind != quorum.KindSkerry || !r.open || d.c.next(4) > 0 {
		return
	}
	d.note("again %s #%d", r.id, r.join.Number)
	if err := d.m.Join(d.now, *r.join); !errors.Is(err, quorum.ErrStaleJoin) {
		panic(fmt.Sprintf("join %d of %s came twice: %v, want %v", r.join.Number, r.id, err, quorum.ErrStaleJoin))
	}
}

// repeat lets members have the last answer again.
func (d *duel) repeat(x quorum.Decision) {
	q := d.m.Form(d.now, x, quorum.Token{1}, 1)
	d.d.add(fact{what: fFormed, at: d.now, formed: &q, answer: x.Answers})
	d.note("repeated %d.%d to %v", q.ID, q.Round, x.Answers)
	for _, a := range x.Answers {
		r := d.rep(a.ReplicaID)
		r.join, r.in, r.fell = nil, &q, false
	}
}

func (d *duel) rep(id quorum.ReplicaID) *duelist {
	i := slices.IndexFunc(d.reps, func(r *duelist) bool { return r.id == id })
	return d.reps[i]
}

// round does one thing.
func (d *duel) round() error {
	r := d.reps[d.c.next(len(d.reps))]
	if d.kind == quorum.KindTorchft {
		return d.roundTorchft(r)
	}
	if !r.open {
		if d.c.next(3) > 0 {
			return d.open(r)
		}
		return d.pass(1 + d.c.next(4))
	}
	switch d.c.next(12) {
	case 0, 1:
		return d.pass(1 + d.c.next(8))
	case 2:
		return d.beat(r)
	case 3:
		d.note("broken %s", r.id)
		d.m.Broken(d.now, r.id, "reset", false)
		d.d.add(fact{what: fBroken, at: d.now, id: r.id})
		r.open = false
	case 4:
		return d.accuse(r)
	case 5:
		return d.withdraw(r)
	case 6, 7:
		d.step(r)
	default:
		return d.joins(r)
	}
	return nil
}

// pass lets time go by; those who are open beat, but for a silent one.
func (d *duel) pass(n int) error {
	silent := d.c.next(3 * len(d.reps)) // mostly nobody
	for range n {
		d.now = d.now.Add(100 * time.Millisecond)
		for i, r := range d.reps {
			if !r.open || i == silent {
				continue
			}
			if err := d.beat(r); err != nil {
				return err
			}
			d.probes()
		}
	}
	d.note("time, silent %d", silent)
	return nil
}

func (d *duel) open(r *duelist) error {
	d.note("open %s", r.id)
	h := quorum.Hello{ReplicaID: r.id, Client: d.kind, Position: r.pos, Last: lastAnswer(r.in)}
	if err := d.m.Open(d.now, h); err != nil {
		return fmt.Errorf("open %s: %w", r.id, err)
	}
	d.d.add(fact{what: fOpen, at: d.now, id: r.id, pos: r.pos})
	r.open = true
	if r.join != nil {
		return d.send(r)
	}
	return nil
}

func (d *duel) beat(r *duelist) error {
	b := quorum.Beat{Position: r.pos}
	if r.in != nil {
		b.QuorumID = r.in.ID
	}
	if err := d.m.Beat(d.now, r.id, b); err != nil {
		return fmt.Errorf("beat %s: %w", r.id, err)
	}
	d.d.add(fact{what: fBeat, at: d.now, id: r.id, pos: r.pos})
	return nil
}

// joins makes r join, as it would: with ask only if nothing is wrong.
func (d *duel) joins(r *duelist) error {
	kind := quorum.JoinFall
	if r.in != nil && r.fact.Kind == quorum.NoFact && d.c.next(2) == 0 {
		kind = quorum.JoinAsk
	}
	if r.fell {
		kind = quorum.JoinFall // a quorum that fell does not stand up again
	}
	r.fell = kind == quorum.JoinFall
	if r.in != nil && !r.torn && d.c.next(12) == 0 {
		r.torn, r.differs, r.pos, r.last = true, false, quorum.Position{}, nil
		d.note("%s is torn", r.id)
	}
	if r.in != nil && !r.torn && d.c.next(12) == 0 {
		r.differs = true
		d.note("%s differs", r.id)
	}
	m := r.shape
	m.Position, m.Torn, m.Differs = r.pos, r.torn, r.differs
	m.ShrinkOnly = d.c.next(24) == 0
	if r.fact.Kind == quorum.Refused {
		m.CommitFailures = 1
	}
	r.join = &quorum.Join{
		Member: m, Client: d.kind, Kind: kind, Number: r.next,
		LastDigests: r.last, Fact: r.fact, Last: lastAnswer(r.in),
	}
	r.next++
	return d.send(r)
}

func (d *duel) send(r *duelist) error {
	d.note("join %s #%d kind %d at %d/%d fact %+v last %v shrink %v", r.id, r.join.Number, r.join.Kind,
		r.pos.Step, r.pos.QuorumID, r.join.Fact, r.last, r.join.Member.ShrinkOnly)
	if err := d.m.Join(d.now, *r.join); err != nil {
		return fmt.Errorf("join %s: %w", r.id, err)
	}
	d.d.add(fact{what: fJoin, at: d.now, id: r.id, join: *r.join})
	return nil
}

func (d *duel) withdraw(r *duelist) error {
	if r.join == nil {
		return nil
	}
	d.note("withdraw %s #%d", r.id, r.join.Number)
	d.m.Withdraw(d.now, r.id, r.join.Number)
	d.d.add(fact{what: fWithdraw, at: d.now, id: r.id, number: r.join.Number})
	if r.join.Kind == quorum.JoinFall && r.fact.Kind == quorum.Prepared {
		r.fact.Kind, r.fact.Digests = quorum.GaveUp, nil
	}
	r.join = nil
	return nil
}

// step gives r some result of a step of its quorum.
func (d *duel) step(r *duelist) {
	if r.in == nil || r.join != nil || r.fact.Kind != quorum.NoFact {
		return
	}
	dg := []quorum.Digest{{Valid: true, Sum: uint32(1 + d.c.next(5)/4)}}
	if top := maxPosition(r.in); r.pos.QuorumID != r.in.ID && r.pos != top {
		if d.c.next(4) == 0 {
			r.fact = quorum.Fact{Kind: quorum.GaveUp, Step: top.Step + 1, QuorumID: r.in.ID}
			d.note("%s does not heal: %+v", r.id, r.fact)
			return
		}
		r.pos, r.last, r.torn = top, nil, false
		d.note("%s heals to %v", r.id, r.pos)
	}
	if r.differs {
		if d.c.next(4) == 0 {
			r.fact = quorum.Fact{Kind: quorum.GaveUp, Step: r.pos.Step + 1, QuorumID: r.in.ID}
			d.note("%s does not heal where it is: %+v", r.id, r.fact)
			return
		}
		r.differs = false
		d.note("%s heals where it is, or is right", r.id)
	}
	r.torn = false // at step 0 it is where all are
	f := quorum.Fact{Step: r.pos.Step + 1, QuorumID: r.in.ID}
	switch d.c.next(5) {
	case 0, 1:
		if top := maxPosition(r.in); r.pos.QuorumID == r.in.ID && r.pos.Step > top.Step {
			return // one step of difference is all that members can have
		}
		r.pos = quorum.Position{Cluster: "x", Step: f.Step, QuorumID: f.QuorumID}
		r.last = dg
		d.note("%s commits %d/%d %v", r.id, f.Step, f.QuorumID, dg)
		return
	case 2, 3:
		f.Kind, f.Digests = quorum.Prepared, dg
	case 4:
		f.Kind = quorum.Refused
	}
	r.fact = f
	d.note("%s has fact %+v", r.id, f)
}

// accuse lets r accuse a fellow member, which may be dead.
func (d *duel) accuse(r *duelist) error {
	q := d.m.Last()
	if q == nil || !isMember(q, r.id) || r.in == nil || r.in.ID != q.ID {
		return nil
	}
	whom := q.Members[d.c.next(len(q.Members))].ReplicaID
	pair := string(min(r.id, whom) + max(r.id, whom))
	if whom == r.id || d.accused[pair] {
		return nil
	}
	d.accused[pair] = true
	d.note("%s accuses %s", r.id, whom)
	a := quorum.Accusation{By: r.id, Against: whom, QuorumID: q.ID, Evidence: "reset"}
	if err := d.m.Accuse(d.now, a); err != nil {
		return fmt.Errorf("accuse: %w", err)
	}
	d.d.add(fact{what: fAccuse, at: d.now, id: whom, by: r.id})
	return nil
}

// probes answers what an open session is asked.
func (d *duel) probes() {
	for again := true; again; {
		again = false
		for _, n := range d.m.Notices() {
			for _, id := range n.To {
				if r := d.rep(id); n.Kind == quorum.NoticeProbe && r.open {
					d.m.Reply(d.now, id, n.Number)
					d.d.add(fact{what: fReply, at: d.now, id: id})
					again = true
				}
			}
		}
	}
	d.m.Events()
}

// roundTorchft does one thing of torchft's clients.
func (d *duel) roundTorchft(r *duelist) error {
	switch d.c.next(4) {
	case 0:
		d.now = d.now.Add(time.Duration(1+d.c.next(6)) * 100 * time.Millisecond)
		d.note("time")
	case 1:
		d.note("heartbeat %s", r.id)
		if err := d.m.Heartbeat(d.now, r.id); err != nil {
			return fmt.Errorf("heartbeat %s: %w", r.id, err)
		}
		d.d.add(fact{what: fBeat, at: d.now, id: r.id})
	default:
		if r.in != nil && d.c.next(3) > 0 {
			r.pos = quorum.Position{Step: r.pos.Step + 1}
		}
		m := r.shape
		m.Position, m.Sync, m.ShrinkOnly = r.pos, false, d.c.next(16) == 0
		m.CommitFailures = int64(d.c.next(8) / 7)
		r.join = &quorum.Join{Member: m, Client: d.kind, Kind: quorum.JoinStep, Number: r.next}
		r.next++
		return d.send(r)
	}
	return nil
}

var duels = flag.Uint64("duels", 300, "how many duels TestDuel runs of each kind of client")

// TestDuel runs seeded duels; a failure prints the seed and the facts.
func TestDuel(t *testing.T) {
	seeds := *duels
	if *full {
		seeds = 100_000
	}
	for _, kind := range []quorum.ClientKind{quorum.KindSkerry, quorum.KindTorchft} {
		t.Run(fmt.Sprintf("kind=%d", kind), func(t *testing.T) {
			t.Parallel()
			formed := 0
			for seed := range seeds {
				d := newDuel(seeded{rand.New(rand.NewPCG(seed, 1))}, kind)
				if err := d.run(60); err != nil {
					t.Fatalf("seed %d: %v\n%s", seed, err, strings.Join(d.log, "\n"))
				}
				formed += d.form
			}
			if formed < int(seeds) {
				t.Errorf("only %d quorums formed in %d duels: the driver drives nothing", formed, seeds)
			}
		})
	}
}

// FuzzDuel lets the fuzzer choose the facts.
func FuzzDuel(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, false)
	f.Fuzz(func(t *testing.T, b []byte, torchft bool) {
		kind := quorum.KindSkerry
		if torchft {
			kind = quorum.KindTorchft
		}
		d := newDuel(&fromBytes{b}, kind)
		if err := d.run(min(len(b), 200)); err != nil {
			t.Fatalf("%v\n%s", err, strings.Join(d.log, "\n"))
		}
	})
}
