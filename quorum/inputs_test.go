package quorum_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// FuzzInputs: nothing that a peer can send makes the machine panic, and what it
// forms keeps Q1 to Q3 whatever was sent. The seed draws both the calls and
// their lies: positions out of nowhere, answers that never were, digests of any
// number, accusations of anybody.
func FuzzInputs(f *testing.F) {
	for seed := range uint64(40) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		l := newLiar(t, seed)
		for range 200 {
			l.act()
			l.look()
		}
	})
}

type liar struct {
	t       *testing.T
	r       *rand.Rand
	m       *quorum.Machine
	now     time.Time
	kind    quorum.ClientKind
	last    *quorum.Quorum
	members map[int64]string
}

func newLiar(t *testing.T, seed uint64) *liar {
	r := rand.New(rand.NewPCG(seed, 1))
	c := quorum.DefaultConfig()
	c.MinReplicas = 1 + r.IntN(3)
	c.MaxReplicas = []int{0, c.MinReplicas, 5}[r.IntN(3)]
	c.EvictStuck = r.IntN(2) == 0
	now := time.Unix(1_700_000_000, 0)
	return &liar{
		t: t, r: r, now: now, kind: quorum.ClientKind(1 + r.IntN(2)),
		m: quorum.New(now, c, quorum.NewLedger("x", "default", 10)), members: map[int64]string{},
	}
}

func (l *liar) id() quorum.ReplicaID {
	ids := []quorum.ReplicaID{
		"a", "b", "c", "d", "e:00000000-0000-0000-0000-00000000000a", "e:00000000-0000-0000-0000-00000000000b",
		"e:00000000-0000-0000-0000-00000000000c",
	}
	return ids[l.r.IntN(len(ids))]
}

// number is mostly near what is real.
func (l *liar) number() int64 {
	var real int64
	if l.last != nil {
		real = l.last.ID
	}
	return []int64{0, 1, 2, real - 1, real, real, real, real + 1, -1, 1 << 52}[l.r.IntN(10)]
}

func (l *liar) position() quorum.Position {
	return quorum.Position{Cluster: []string{"", "x", "y"}[l.r.IntN(3)], Step: int64(l.r.IntN(4)), QuorumID: l.number()}
}

func (l *liar) digests() []quorum.Digest {
	d := make([]quorum.Digest, l.r.IntN(3))
	for i := range d {
		d[i] = quorum.Digest{Valid: l.r.IntN(2) == 0, Sum: uint32(l.r.IntN(2))}
	}
	return d
}

func (l *liar) answer() *quorum.LastAnswer {
	switch l.r.IntN(5) {
	case 0:
		return nil
	case 2:
		return &quorum.LastAnswer{QuorumID: l.number(), Round: int64(l.r.IntN(3)), Part: &quorum.AnswerPart{
			Self:      quorum.Member{ReplicaID: l.id(), Position: l.position(), Seat: quorum.Seat{QuorumID: l.number(), Rank: l.r.IntN(3)}},
			WorldSize: l.r.IntN(5), Max: l.position(), Heal: l.r.IntN(2) == 0,
		}}
	case 1:
		a := &quorum.LastAnswer{QuorumID: l.number(), Round: int64(l.r.IntN(3))}
		for _, id := range []quorum.ReplicaID{"a", "b", "c", "z"} {
			if l.r.IntN(2) == 0 {
				a.Members = append(a.Members, quorum.Member{ReplicaID: id, Position: l.position()})
			}
		}
		return a
	}
	if l.last == nil {
		return nil
	}
	return &quorum.LastAnswer{Cluster: l.last.Cluster, QuorumID: l.last.ID, Round: l.last.Round, Members: l.last.Members}
}

func (l *liar) accusations() []quorum.Accusation {
	var out []quorum.Accusation
	for range l.r.IntN(3) {
		out = append(out, quorum.Accusation{By: l.id(), Against: l.id(), QuorumID: l.number(), Unreachable: l.r.IntN(3) == 0})
	}
	return out
}

func (l *liar) join() quorum.Join {
	j := quorum.Join{
		Member: quorum.Member{
			ReplicaID: l.id(), Position: l.position(), ShrinkOnly: l.r.IntN(9) == 0, Sync: l.r.IntN(4) == 0,
			CommitFailures: int64(l.r.IntN(2)),
		},
		Client: l.kind, Kind: quorum.JoinKind(1 + l.r.IntN(2)), Number: uint64(l.r.IntN(40)), LastDigests: l.digests(),
		Fact: quorum.Fact{
			Kind: quorum.FactKind(l.r.IntN(6)), Step: int64(l.r.IntN(5)), QuorumID: l.number(), Digests: l.digests(),
		},
		Last: l.answer(), Accusations: l.accusations(),
	}
	if l.kind == quorum.KindTorchft {
		j.Kind = quorum.JoinStep
	}
	return j
}

// act sends one thing. Errors are the machine's right.
func (l *liar) act() {
	l.now = l.now.Add(time.Duration(l.r.IntN(300)) * time.Millisecond)
	switch l.r.IntN(16) {
	case 0, 1, 2, 3:
		_ = l.m.Join(l.now, l.join())
	case 4, 5:
		_ = l.m.Open(l.now, quorum.Hello{
			ReplicaID: l.id(), Client: l.kind, Position: l.position(), Last: l.answer(), Accusations: l.accusations(),
		})
	case 6, 7, 8:
		b := quorum.Beat{Position: l.position(), QuorumID: l.number(), Ballots: uint64(l.r.IntN(5)), Phase: quorum.Phase(l.r.IntN(9))}
		_ = l.m.Beat(l.now, l.id(), b)
		_ = l.m.Heartbeat(l.now, l.id())
	case 9:
		l.m.Broken(l.now, l.id(), "EOF", l.r.IntN(3) == 0)
	case 10:
		_ = l.m.Accuse(l.now, quorum.Accusation{By: l.id(), Against: l.id(), QuorumID: l.number(), Unreachable: l.r.IntN(3) == 0})
		_ = l.m.Link(l.now, quorum.LinkReport{By: l.id(), To: l.id(), Holds: l.r.IntN(2) == 0})
	case 11:
		l.m.Reply(l.now, l.id(), uint64(l.r.IntN(20)))
	case 12:
		l.m.Withdraw(l.now, l.id(), uint64(l.r.IntN(40)))
	case 13:
		if l.r.IntN(4) == 0 {
			_ = l.m.Drain(l.now, l.id(), "")
		}
		if l.r.IntN(30) == 0 {
			_ = l.m.Evict(l.now, l.id(), "")
		}
	case 14:
		l.m.Leave(l.now, l.id(), "")
	case 15:
		if l.r.IntN(4) == 0 {
			l.m = quorum.New(l.now, l.m.Config(), l.m.Ledger())
		}
		l.now = l.now.Add(time.Duration(l.r.IntN(4)) * time.Second)
	}
}

// look decides, forms, and checks.
func (l *liar) look() {
	l.m.Advance(l.now)
	if w := l.m.Wake(l.now); !w.IsZero() && !w.After(l.now) {
		l.t.Fatalf("Wake names a time gone by")
	}
	d := l.m.Decide(l.now)
	l.m.Status(l.now)
	for _, n := range l.m.Notices() {
		_ = n.String()
	}
	for _, e := range l.m.Events() {
		_ = e.String()
	}
	if !d.Ready || l.r.IntN(3) == 0 {
		return
	}
	before := l.m.Ledger().HighestID
	q := l.m.Form(l.now, d, quorum.Token{}, 0)
	l.last = &q
	text := ""
	for _, m := range q.Members {
		text += " " + string(m.ReplicaID)
		if a, err := quorum.Assign(&q, m.ReplicaID, 0); err != nil || a.Heal && len(a.Sources) == 0 {
			l.t.Fatalf("assignment %+v, %v", a, err)
		}
	}
	if len(q.Members) < l.m.Config().MinReplicas {
		l.t.Fatalf("Q3: %d members", len(q.Members))
	}
	if known, ok := l.members[q.ID]; ok && d.Reason.Code != quorum.ReasonRepeat && known != text {
		l.t.Fatalf("Q2: quorum %d has%s, and had%s", q.ID, text, known)
	} else if !ok && d.Changed && q.ID <= before {
		l.t.Fatalf("Q1: new quorum %d, %d was seen", q.ID, before)
	}
	l.members[q.ID] = text
}
