package lighthouse

import (
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/lighthouse/cluster"
	"github.com/skerry-ft/skerry/lighthouse/internal/answer"
	"github.com/skerry-ft/skerry/quorum"
)

var manyReplicas = flag.Int("lighthouse.many", quorum.MaxListed+64, "replicas of TestManyTrain; above quorum.MaxListed they are told views")

// many is a job of replicas of one rank, in virtual time: the machine, the ledger
// and the answers of a lighthouse, and of each replica the production member,
// quorum.Rank and quorum.Polls. All that they say to each other goes through its
// encoding; only the group and what it reduces are stand-ins.
type many struct {
	t       *testing.T
	m       *quorum.Machine
	ledger  quorum.Ledger
	now     time.Time
	members map[quorum.ReplicaID]*oneOfMany
	order   []*oneOfMany // by id
	formed  answered
}

// oneOfMany is a replica.
type oneOfMany struct {
	id     quorum.ReplicaID
	rank   quorum.Rank
	polls  *quorum.Polls
	number uint64 // of its newest join
	joined bool   // it waits for its answer
	asks   bool
	step   int64 // that its bytes are of
}

// answered is what one change came to.
type answered struct {
	members, entry, up, down int           // bytes, but for members
	server                   time.Duration // what the lighthouse's side took
}

// newLedger is the ledger of a job that is new.
func newLedger() quorum.Ledger { return quorum.NewLedger("c1", "j", 1_764_000_000_000) }

func startMany(t *testing.T, n int) *many {
	t.Helper()
	now := time.UnixMilli(1_764_000_000_000)
	config := quorum.DefaultConfig()
	config.MinReplicas = n - 1
	w := &many{
		t: t, ledger: newLedger(), now: now, members: make(map[quorum.ReplicaID]*oneOfMany),
		m: quorum.New(now, config, quorum.NewLedger("c1", "j", now.UnixMilli())),
	}
	for i := range n {
		w.start(fmt.Sprintf("replica%05d:00000000-0000-4000-8000-%012d", 2*i, i))
	}
	return w
}

// start opens a replica's session, and lets it join.
func (w *many) start(id string) *oneOfMany {
	w.t.Helper()
	r := &oneOfMany{id: quorum.ReplicaID(id), rank: quorum.NewRank(quorum.RankConfig{GroupWorldSize: 1, MinReplicas: 1}), polls: quorum.NewPolls(1)}
	w.members[r.id] = r
	w.order = append(w.order, r)
	slices.SortFunc(w.order, func(a, b *oneOfMany) int {
		if a.id < b.id {
			return -1
		}
		return 1
	})
	w.open(r)
	r.rank.Need()
	w.join(r)
	return r
}

func (w *many) open(r *oneOfMany) {
	w.t.Helper()
	p := wire.HelloToProto(wire.Hello{
		Job: "j", Address: "http://10.0.0.1:29500", StoreAddress: "10.0.0.1:29501", GroupWorldSize: 1,
		Hello: quorum.Hello{ReplicaID: r.id, Client: quorum.KindSkerry, Position: r.rank.Position(), Last: r.rank.LastAnswer()},
	})
	h, err := wire.HelloFromProto(sent(w, p, &w.formed.up))
	if err == nil {
		err = w.m.Open(w.now, h.Hello)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// sent is a message as it arrives; its bytes are counted.
func sent[M proto.Message](w *many, p M, bytes *int) M {
	w.t.Helper()
	text, err := proto.Marshal(p)
	if err != nil {
		w.t.Fatal(err)
	}
	*bytes += len(text)
	came := p.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(text, came); err != nil {
		w.t.Fatal(err)
	}
	return came.(M)
}

// join sends what the replica wishes for.
func (w *many) join(r *oneOfMany) {
	w.t.Helper()
	self := quorum.Member{ReplicaID: r.id, Address: "http://10.0.0.1:29500", StoreAddress: "10.0.0.1:29501", GroupWorldSize: 1}
	j, err := quorum.MergeReports(self, []quorum.RankReport{r.rank.Report(quorum.ReportOptions{Sync: r.rank.Syncs()})})
	if err != nil {
		w.t.Fatal(err)
	}
	r.number++
	r.joined, j.Number, j.Last = true, r.number, r.rank.LastAnswer()
	p := wire.JoinToProto(j)
	began := time.Now()
	came, err := wire.JoinFromProto(sent(w, p, &w.formed.up))
	if err == nil {
		err = w.m.Join(w.now, came)
	}
	w.formed.server += time.Since(began)
	if err != nil {
		w.t.Fatal(r.id, err)
	}
	w.notices()
}

// notices hands out what the lighthouse pushes. Who hears that its quorum is over
// joins, when all have heard.
func (w *many) notices() {
	for _, n := range w.m.Notices() {
		for _, id := range n.To {
			if r := w.members[id]; r != nil && r.rank.Hear(n) == quorum.HeardFall {
				r.rank.Fall(n.QuorumID)
			}
		}
	}
	w.m.Events()
}

// pass lets time pass; all beat.
func (w *many) pass(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); {
		w.now = w.now.Add(100 * time.Millisecond)
		for _, r := range w.order {
			b := quorum.Beat{Position: r.rank.Position(), QuorumID: r.rank.QuorumID(), Ballots: r.rank.Ballots(), Waits: r.joined}
			if err := w.m.Beat(w.now, r.id, b); err != nil {
				w.t.Fatal(err)
			}
		}
		w.m.Advance(w.now)
	}
	w.notices()
}

// fallen lets all join whose quorum is over, or who ask.
func (w *many) fallen() {
	for _, r := range w.order {
		if !r.joined && (r.rank.Need() || r.asks) {
			r.asks = false
			w.join(r)
		}
	}
}

// change begins to count, and form ends it: it decides, writes, and tells all.
func (w *many) change() { w.formed = answered{} }

func (w *many) form(what string) quorum.Quorum {
	w.t.Helper()
	began := time.Now()
	d := w.m.Decide(w.now)
	if !d.Ready || !d.Changed {
		w.t.Fatalf("%s: no quorum: %v", what, d.Reason)
	}
	entry := d.Entry(1, quorum.Token{1}, w.now.UnixMilli())
	text, err := json.Marshal(cluster.Command{Kind: cluster.CommandFormed, Job: "j", UnixMs: 1_764_000_000_000, Formed: &entry})
	if err != nil {
		w.t.Fatal(err)
	}
	var c cluster.Command
	if err := json.Unmarshal(text, &c); err != nil {
		w.t.Fatal(err)
	}
	if err := w.ledger.ApplyFormed(*c.Formed); err != nil {
		w.t.Fatal(err)
	}
	q := w.m.Form(w.now, d, quorum.Token{1}, w.now.UnixMilli())
	a := answer.New(q, nil)
	w.formed.server += time.Since(began)
	var names []quorum.ReplicaID
	for _, to := range d.Answers {
		r := w.members[to.ReplicaID]
		began := time.Now()
		down := sent(w, a.Down(to)(), &w.formed.down)
		w.formed.server += time.Since(began)
		got, err := wire.AnswerFromProto(down.GetAnswer())
		if err != nil {
			w.t.Fatal(err)
		}
		if _, err := r.rank.Take(r.id, &got, 0); err != nil {
			w.t.Fatal(r.id, err)
		}
		r.joined = false
		if names == nil {
			names = r.rank.Assignment().ReplicaIDs
		} else if !slices.Equal(names, r.rank.Assignment().ReplicaIDs) {
			w.t.Fatalf("%s: %s has another list of members", what, r.id)
		}
	}
	f := &w.formed
	f.members, f.entry = len(q.Members), len(text)
	w.t.Logf("%s: %d members, entry %d bytes, up %d, down %d, the lighthouse worked for %v",
		what, f.members, f.entry, f.up, f.down, f.server.Round(time.Millisecond))
	if got := w.ledger.Last; got == nil || got.ID != q.ID || len(got.Members) != len(q.Members) {
		w.t.Fatalf("%s: the ledger has %+v", what, got)
	}
	w.notices()
	for _, r := range w.order {
		w.configure(r)
	}
	return q
}

// configure meets and heals.
func (w *many) configure(r *oneOfMany) {
	w.t.Helper()
	if !r.rank.Configured() {
		w.t.Fatalf("%s: its quorum fell before it was configured", r.id)
	}
	a := r.rank.Assignment()
	if a.Heal {
		if len(a.Sources) == 0 {
			w.t.Fatalf("%s heals from nobody", r.id)
		}
		donor := w.members[a.Sources[0].ReplicaID]
		r.rank.Healed(a.Max, donor.rank.Batches(), donor.rank.Digest())
		r.step = donor.step
	}
	if !r.rank.Fulfil() {
		w.t.Fatalf("%s wishes for more", r.id)
	}
}

// train makes one step. The ballots of those in lost do not come.
func (w *many) train(lost ...*oneOfMany) {
	w.t.Helper()
	ballots := make([]*quorum.Ballot, len(w.order))
	for _, r := range w.order {
		r.rank.Begin()
		r.rank.Issue()
		own := r.rank.Ballot(r.rank.HealedBeside())
		own.Digest = quorum.Digest{Valid: true, Sum: uint32(own.Position.Step + 1)}
		text := wire.EncodeBallot(own)
		came, err := wire.DecodeBallot(text)
		if err != nil {
			w.t.Fatal(err)
		}
		r.rank.Seal(own)
		if !slices.Contains(lost, r) {
			ballots[r.rank.Assignment().ReplicaRank] = &came
		}
	}
	for _, r := range w.order {
		if slices.Contains(lost, r) {
			continue
		}
		own := r.rank.Assignment().ReplicaRank
		digest := ballots[own].Digest
		vote, _ := r.rank.Judged(quorum.JudgeBallots(own, ballots), digest, false)
		if err := r.polls.Vote(vote); err != nil {
			w.t.Fatal(err)
		}
		r.rank.Voted()
		result, decided := r.polls.Result(vote.Attempt)
		if !decided {
			w.t.Fatalf("%s: the only rank has voted, and nothing is decided", r.id)
		}
		out := r.rank.Resolve(result, vote)
		if out.Commit != (len(lost) == 0) || out.Awaits != (len(lost) > 0) {
			w.t.Fatalf("%s: %+v with %d ballots lost", r.id, out, len(lost))
		}
		if out.Commit {
			r.step++
		}
		if !out.Stands {
			r.rank.Fall(r.rank.QuorumID())
		}
		if r.rank.End(out).Asks {
			r.asks = r.rank.Ask()
		}
	}
}

// agree fails unless all stand at that step, with the bytes of it.
func (w *many) agree(step int64) {
	w.t.Helper()
	for _, r := range w.order {
		if p := r.rank.Position(); p.Step != step || r.step != step || p != w.order[0].rank.Position() {
			w.t.Fatalf("%s is at %v with the bytes of step %d, %s at %v; want step %d",
				r.id, p, r.step, w.order[0].id, w.order[0].rank.Position(), step)
		}
	}
}

// kill ends a replica in the middle of a step: its ballot comes to none. A peer
// accuses it by the name that it knows.
func (w *many) kill(r *oneOfMany) {
	w.t.Helper()
	w.train(r)
	at := r.rank.Assignment().ReplicaRank
	w.order = slices.DeleteFunc(w.order, func(o *oneOfMany) bool { return o == r })
	delete(w.members, r.id)
	by := w.order[0]
	p := wire.AccusationToProto(quorum.Accusation{By: by.id, Against: by.rank.Assignment().ReplicaIDs[at], QuorumID: by.rank.QuorumID(), Evidence: "reset"})
	came, err := wire.AccusationFromProto(sent(w, p, &w.formed.up))
	if err == nil {
		err = w.m.Accuse(w.now, came)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.m.Broken(w.now, r.id, "EOF", false)
	w.notices()
}

// Thousands of replicas train: they commit steps, one of them dies in the middle of
// a step, another one comes and heals, the leader changes, and the ledger is lost.
// What a change costs is bounded: an entry of the log to 4 KiB for each member that
// changed, an answer to 1 KiB.
//
//	go test ./lighthouse -run TestManyTrain -v -args -lighthouse.many 4096
func TestManyTrain(t *testing.T) {
	n := *manyReplicas
	if testing.Short() {
		t.Skip("a million ballots are judged")
	}
	w := startMany(t, n)
	w.pass(1200 * time.Millisecond)
	w.change()
	w.form("all meet")
	for range 3 {
		w.train()
	}
	w.agree(3)

	w.change()
	w.kill(w.order[n/2])
	w.fallen()
	w.form("one dies")
	w.cheap(1)
	w.train()
	// The step under way was promised by all who are left: it was settled forward.
	for _, r := range w.order {
		r.step = r.rank.Position().Step
	}
	w.agree(5)

	w.start(fmt.Sprintf("replica%05d:10000000-0000-4000-8000-000000000000", n/2*2+1))
	w.pass(100 * time.Millisecond)
	newcomer := w.order[len(w.order)/2]
	if newcomer.rank.Quorum() != nil {
		t.Fatal("the newcomer is another one")
	}
	w.order = slices.DeleteFunc(w.order, func(r *oneOfMany) bool { return r == newcomer })
	w.train() // its ballots carry the wish
	w.order = slices.Insert(w.order, len(w.order)/2, newcomer)
	w.change()
	w.fallen()
	w.form("one comes")
	w.cheap(1)
	w.train()
	w.agree(7)

	// Another leader, of the same ledger, and then one without it.
	for _, what := range []string{"the leader changes", "the ledger is lost"} {
		if what == "the ledger is lost" {
			w.ledger = newLedger()
		}
		w.m = quorum.New(w.now, w.m.Config(), w.ledger.Clone())
		w.change()
		for _, r := range w.order {
			w.open(r)
		}
		if last := w.m.Last(); last == nil || last.ID != w.order[0].rank.QuorumID() || len(last.Members) != len(w.order) {
			t.Fatalf("%s: the last quorum is %+v", what, last)
		}
		w.order[7].rank.Fall(w.order[7].rank.QuorumID())
		w.fallen()
		for range 2 { // who heard joins too
			w.fallen()
		}
		before := w.order[0].rank.Assignment().ReplicaIDs
		w.form(what)
		if !slices.Equal(before, w.order[0].rank.Assignment().ReplicaIDs) {
			t.Errorf("%s: members have other names, and no link is kept", what)
		}
		w.train()
	}
	w.agree(9)
}

// cheap checks what the last change cost.
func (w *many) cheap(changed int) {
	w.t.Helper()
	f := w.formed
	if f.entry > changed*4<<10 {
		w.t.Errorf("an entry of %d bytes for %d changed members, want at most 4 KiB each", f.entry, changed)
	}
	if f.members > quorum.MaxListed && f.down > f.members<<10 {
		w.t.Errorf("%d bytes of answers to %d members, want at most 1 KiB each", f.down, f.members)
	}
}
