package history

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/quorum"
)

// book is the history: what every replica asked and was told, and when. It is
// safe for concurrent use.
type book struct {
	began time.Time

	mu  sync.Mutex
	ops []porcupine.Operation
}

func (b *book) now() int64 { return int64(time.Since(b.began)) }

func (b *book) add(op porcupine.Operation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ops = append(b.ops, op)
}

// arena is where replicas train: a step is over when all members of its quorum
// are there, or one leaves. It is safe for concurrent use.
type arena struct {
	mu    sync.Mutex
	rng   *rand.Rand
	steps map[stepKey]*meeting
}

type stepKey struct{ quorum, round, step int64 }

type meeting struct {
	there map[string]bool
	wants bool                       // somebody wants a change
	facts map[string]quorum.FactKind // once it is over
	over  chan struct{}
}

// meet enters a step, and returns what to wait for.
func (a *arena) meet(k stepKey, id string, members []quorum.Member, wants bool) *meeting {
	a.mu.Lock()
	defer a.mu.Unlock()
	m := a.steps[k]
	if m == nil {
		m = &meeting{there: map[string]bool{}, over: make(chan struct{})}
		a.steps[k] = m
	}
	m.there[id] = true
	m.wants = m.wants || wants
	if m.facts == nil && len(m.there) == len(members) {
		m.facts = map[string]quorum.FactKind{}
		lost := a.rng.IntN(32) == 0 // some ballots do not arrive
		for _, o := range members {
			m.facts[string(o.ReplicaID)] = quorum.Committed
			if lost && a.rng.IntN(2) == 0 {
				m.facts[string(o.ReplicaID)] = quorum.Prepared
			}
		}
		close(m.over)
	}
	return m
}

// leave ends a step that not all have entered, and says what became of it.
func (a *arena) leave(m *meeting, id string) (kind quorum.FactKind, wants bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if m.facts == nil {
		m.facts = map[string]quorum.FactKind{}
		close(m.over)
	}
	if f, ok := m.facts[id]; ok {
		return f, m.wants
	}
	return quorum.Refused, m.wants
}

// replica is one incarnation. Its goroutine owns it.
type replica struct {
	id      string
	client  int
	book    *book
	arena   *arena
	servers *servers
	deaths  chan string // of its peers

	pos    quorum.Position
	fact   quorum.Fact
	in     *quorum.Quorum
	stands bool
	ask    bool
	wants  bool // was told that a change is wanted
	number uint64
	asked  int64 // when its join was first sent; 0: none waits
	kind   quorum.JoinKind
	said   place
}

// run trains until ctx ends, through whatever server answers.
func (r *replica) run(ctx context.Context) {
	for try := r.client; ctx.Err() == nil; try++ {
		r.session(ctx, r.servers.addr(try))
		select {
		case <-ctx.Done():
		case <-time.After(30 * time.Millisecond):
		}
	}
}

// session speaks with one server until the stream ends.
func (r *replica) session(ctx context.Context, addr string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, err := grpc.NewClient("passthrough:///"+addr, append(wire.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }() // nobody reads it
	stream, err := skerrypb.NewLighthouseClient(conn).Session(ctx)
	if err != nil {
		return
	}
	down := make(chan *skerrypb.Down)
	var reader sync.WaitGroup
	defer reader.Wait()
	defer cancel()
	reader.Go(func() {
		defer close(down)
		for {
			d, err := stream.Recv()
			if err != nil {
				return
			}
			select {
			case down <- d:
			case <-ctx.Done():
				return
			}
		}
	})
	h := wire.Hello{Job: "default", GroupWorldSize: 1, Hello: quorum.Hello{
		ReplicaID: quorum.ReplicaID(r.id), Client: quorum.KindSkerry, Position: r.pos, Last: r.last(),
	}}
	_ = stream.Send(&skerrypb.Up{Message: &skerrypb.Up_Hello{Hello: wire.HelloToProto(h)}}) // a broken stream shows when it is read
	r.talk(ctx, stream, down)
}

// compute is how long a step's forward and backward take.
const compute = 3 * time.Millisecond

// talk beats, joins, trains and listens.
func (r *replica) talk(ctx context.Context, stream grpc.BidiStreamingClient[skerrypb.Up, skerrypb.Down], down <-chan *skerrypb.Down) {
	beat := time.NewTicker(100 * time.Millisecond)
	defer beat.Stop()
	open, resend := false, true
	var m *meeting
	var begin <-chan time.Time
	for {
		if open && (!r.stands || r.ask) && (resend || r.asked == 0) {
			r.join(stream, resend)
			resend = false
		}
		if r.stands && !r.ask && m == nil && begin == nil {
			begin = time.After(compute)
		}
		var over chan struct{}
		if m != nil {
			over = m.over
		}
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			b := quorum.Beat{Position: r.pos, Progress: uint64(r.book.now()), Phase: quorum.PhaseTraining, QuorumID: r.quorumID()}
			_ = stream.Send(&skerrypb.Up{Message: &skerrypb.Up_Beat{Beat: wire.BeatToProto(b)}})
		case id := <-r.deaths:
			if r.stands && slices.ContainsFunc(r.in.Members, func(o quorum.Member) bool { return string(o.ReplicaID) == id }) {
				a := quorum.Accusation{By: quorum.ReplicaID(r.id), Against: quorum.ReplicaID(id), QuorumID: r.in.ID, Evidence: "link broke"}
				_ = stream.Send(&skerrypb.Up{Message: &skerrypb.Up_Accuse{Accuse: wire.AccusationToProto(a)}})
				r.fall(m)
				m = nil
			}
		case <-begin:
			begin = nil
			if r.stands && !r.ask && m == nil {
				m = r.arena.meet(stepKey{r.in.ID, r.in.Round, r.pos.Step + 1}, r.id, r.in.Members, r.wants)
			}
		case <-over:
			kind, wants := r.arena.leave(m, r.id)
			r.stepped(kind)
			r.ask = r.stands && wants
			m = nil
		case d, ok := <-down:
			if !ok {
				return
			}
			open = open || d.GetWelcome() != nil
			if d.GetRefused() != nil && d.GetRefused().GetNumber() == 0 {
				return
			}
			if r.hear(stream, d) {
				r.fall(m)
				m = nil
			}
		}
	}
}

// last is the newest answer, as the lighthouse wants to hear it.
func (r *replica) last() *quorum.LastAnswer {
	if r.in == nil {
		return nil
	}
	return &quorum.LastAnswer{Cluster: r.in.Cluster, QuorumID: r.in.ID, Round: r.in.Round, Members: r.in.Members}
}

// digest is what a step of a quorum reduces to.
func digest(step, id int64) []quorum.Digest {
	return []quorum.Digest{{Valid: true, Sum: uint32(step*1_000_003 + id)}}
}

// join sends the join that waits, or a new one.
func (r *replica) join(stream grpc.BidiStreamingClient[skerrypb.Up, skerrypb.Down], again bool) {
	if r.asked == 0 {
		r.number++
		r.asked, r.said = r.book.now(), place{r.pos.Step, r.pos.QuorumID}
		r.kind = quorum.JoinFall
		if r.stands && r.ask {
			r.kind = quorum.JoinAsk
		}
	} else if !again {
		return
	}
	j := quorum.Join{
		Member: quorum.Member{
			ReplicaID: quorum.ReplicaID(r.id), Address: "http://127.0.0.1:1", StoreAddress: "127.0.0.1:2",
			GroupWorldSize: 1, Position: r.pos,
		},
		Client: quorum.KindSkerry, Kind: r.kind, Number: r.number, Fact: r.fact, Last: r.last(),
	}
	if r.pos.Step > 0 {
		j.LastDigests = digest(r.pos.Step, r.pos.QuorumID)
	}
	if r.fact.Kind == quorum.Refused {
		j.Member.CommitFailures = 1
	}
	_ = stream.Send(&skerrypb.Up{Message: &skerrypb.Up_Join{Join: wire.JoinToProto(j)}}) // a broken stream shows when it is read
}

// stepped takes what became of a step.
func (r *replica) stepped(kind quorum.FactKind) {
	step, id := r.pos.Step+1, r.in.ID
	switch kind {
	case quorum.Committed:
		r.pos = quorum.Position{Cluster: r.in.Cluster, Step: step, QuorumID: id}
		r.fact = quorum.Fact{}
		return
	case quorum.Prepared:
		r.fact = quorum.Fact{Kind: kind, Step: step, QuorumID: id, Digests: digest(step, id)}
	default:
		r.fact = quorum.Fact{Kind: quorum.Refused, Step: step, QuorumID: id}
	}
	r.stands, r.ask = false, false
}

// fall ends the quorum, with what the step under way came to.
func (r *replica) fall(m *meeting) {
	if !r.stands {
		return
	}
	if r.asked != 0 {
		r.asked = 0 // a fall replaces the ask
	}
	switch {
	case m != nil:
		kind, _ := r.arena.leave(m, r.id)
		r.stepped(kind)
	case r.fact.Kind == quorum.NoFact:
		r.fact = quorum.Fact{Kind: quorum.Refused, Step: r.pos.Step + 1, QuorumID: r.in.ID}
	}
	r.stands, r.ask = false, false
}

// hear takes a message; true: the quorum fell.
func (r *replica) hear(stream grpc.BidiStreamingClient[skerrypb.Up, skerrypb.Down], d *skerrypb.Down) bool {
	if a := d.GetAnswer(); a != nil && r.asked != 0 && a.GetNumber() == r.number {
		q, err := wire.AnswerFromProto(a)
		if err != nil {
			r.servers.t.Errorf("%s: %v", r.id, err)
			return false
		}
		r.answered(q)
		return false
	}
	n, ok, err := wire.NoticeFromProto(d)
	switch {
	case err != nil:
		r.servers.t.Errorf("%s: %v", r.id, err)
	case !ok:
	case n.Kind == quorum.NoticeProbe:
		_ = stream.Send(&skerrypb.Up{Message: &skerrypb.Up_ProbeReply{ProbeReply: &skerrypb.ProbeReply{Number: n.Number}}})
	case r.in == nil || n.QuorumID < r.in.ID:
	case n.Kind == quorum.NoticeWanted:
		r.wants = r.wants || r.stands
	case n.Kind == quorum.NoticeLost, n.Kind == quorum.NoticeFallen:
		return r.stands
	}
	return false
}

// answered notes an answer in the history, and takes it.
func (r *replica) answered(q quorum.Quorum) {
	out := outputOf(q)
	at := slices.Index(out.members, r.id)
	r.book.add(porcupine.Operation{
		ClientId: r.client, Input: input{who: r.id, at: r.said}, Call: r.asked, Output: out, Return: r.book.now(),
	})
	r.asked = 0
	if at < 0 || r.in != nil && q.ID == r.in.ID && !r.stands {
		r.servers.t.Errorf("%s: answered with quorum %d of %v", r.id, q.ID, out.members)
		return
	}
	p := q.Members[at].Position
	if p != r.pos && (r.fact.Kind != quorum.Prepared || p.Step != r.fact.Step || p.QuorumID != r.fact.QuorumID) {
		r.servers.t.Errorf("%s: at %v, its quorum has it at %v, %v", r.id, r.pos, p, r.fact)
	}
	for _, m := range q.Members { // whoever is behind heals
		if m.Position.Compare(p) > 0 {
			p = m.Position
		}
	}
	r.pos, r.fact, r.in, r.stands, r.ask, r.wants = p, quorum.Fact{}, &q, true, false, false
}

func (r *replica) quorumID() int64 {
	if r.in == nil {
		return 0
	}
	return r.in.ID
}

func outputOf(q quorum.Quorum) output {
	out := output{id: q.ID, round: q.Round, settled: map[place]string{}}
	for _, m := range q.Members {
		out.members = append(out.members, string(m.ReplicaID))
		out.at = append(out.at, place{m.Position.Step, m.Position.QuorumID})
	}
	if s := q.Settlement; s.Outcome != quorum.NothingToSettle {
		out.settled[place{s.Step, s.QuorumID}] = fmt.Sprint(s.Outcome, s.Digests)
	}
	return out
}
