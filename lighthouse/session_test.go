package lighthouse_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
	"github.com/skerry-ft/skerry/quorum"
)

func minReplicas(n int) func(*lighthouse.Config) {
	return func(c *lighthouse.Config) { c.Rules.MinReplicas = n }
}

// form opens sessions for all ids and has them form the first quorum.
func form(t testing.TB, addr string, ids ...quorum.ReplicaID) ([]*replica, quorum.Quorum) {
	t.Helper()
	conn := dial(t, addr)
	var all []*replica
	for _, id := range ids {
		r, _ := open(t, conn, hello(id))
		all = append(all, r)
	}
	var last quorum.Quorum
	for _, r := range all {
		r.join(quorum.JoinFall, nil)
	}
	for i, r := range all {
		q := r.answer(1)
		if i > 0 {
			if d := cmp.Diff(last, q); d != "" {
				t.Fatalf("members were told different quorums (-%s +%s):\n%s", all[i-1].id, r.id, d)
			}
		}
		last = q
	}
	return all, last
}

// formIn is form with whoever leads the cluster, which may change meanwhile: a
// busy machine stalls the leader. The members' first try then counts for nothing.
func formIn(t testing.TB, c *lighthousetest.Cluster, ids ...quorum.ReplicaID) (leader int, all []*replica, q quorum.Quorum) {
	t.Helper()
	c.Eventually("the leader forms a quorum", func() error {
		for _, r := range all {
			r.kill()
		}
		leader, all = c.Leader(), nil
		conn := dial(t, c.Servers[leader].Addr)
		for _, id := range ids {
			r := rawOpen(t, conn)
			r.id = id
			all = append(all, r)
			if err := r.greet(hello(id)); err != nil {
				return err
			}
		}
		for _, r := range all {
			r.join(quorum.JoinFall, nil)
		}
		for i, r := range all {
			told, err := r.tryAnswer(1)
			if err != nil {
				return err
			}
			if d := cmp.Diff(q, told); i > 0 && d != "" {
				t.Fatalf("members were told different quorums (-%s +%s):\n%s", all[i-1].id, r.id, d)
			}
			q = told
		}
		return nil
	})
	return leader, all, q
}

func TestReplicasFormAQuorum(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, minReplicas(3))
		_, q := form(t, l.Addr, "c", "a", "b")
		if got, want := memberIDs(q), []quorum.ReplicaID{"a", "b", "c"}; !slices.Equal(got, want) {
			t.Errorf("members %v, want %v", got, want)
		}
		if q.Token == (quorum.Token{}) || q.Cluster == "" || q.CreatedMs == 0 || q.ID == 0 || q.Job != "default" {
			t.Errorf("quorum lacks its token, cluster, time, id or job: %+v", q)
		}
		if q.ID < q.CreatedMs-patience.Milliseconds() {
			t.Errorf("first id %d of a new ledger, want one that starts at Unix milliseconds %d", q.ID, q.CreatedMs)
		}
	})
}

func TestWelcomeSaysWhatAReplicaMustKnow(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, nil)
		_, w := open(t, dial(t, l.Addr), hello("a"))
		want := quorum.DefaultConfig()
		if w.Cluster == "" || w.BeatInterval != lighthouse.DefaultBeatInterval ||
			w.HeartbeatTimeout != want.HeartbeatTimeout || w.JoinTimeout != want.JoinTimeout {
			t.Errorf("welcome %+v", w)
		}
		if !slices.Equal(w.Servers, []string{l.Addr}) {
			t.Errorf("servers %v, want %v", w.Servers, l.Addr)
		}
	})
}

// A stream that breaks and a peer's word are two witnesses: the members are
// told at once, and the next quorum is without the dead.
func TestDeadReplicaIsLostAndLeftOut(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, minReplicas(2))
		all, first := form(t, l.Addr, "a", "b", "c")
		a, b, c := all[0], all[1], all[2]
		c.kill()
		accusation := quorum.Accusation{By: "somebody else", Against: "c", QuorumID: first.ID, Evidence: "connection reset"}
		a.send(&skerrypb.Up{Message: &skerrypb.Up_Accuse{Accuse: wire.AccusationToProto(accusation)}})
		for _, r := range []*replica{a, b} {
			lost := r.next("notice that c is lost", func(d *skerrypb.Down) bool { return d.GetLost() != nil }).GetLost()
			if lost.GetReplicaId() != "c" || lost.GetQuorumId() != first.ID {
				t.Errorf("%s was told %v", r.id, lost)
			}
		}
		fact := func(j *quorum.Join) {
			j.Fact = quorum.Fact{Kind: quorum.Refused, Step: 1, QuorumID: first.ID}
			j.Last = &quorum.LastAnswer{QuorumID: first.ID, Round: first.Round, Members: first.Members}
		}
		na, nb := a.join(quorum.JoinFall, fact), b.join(quorum.JoinFall, fact)
		second := a.answer(na)
		if d := cmp.Diff(second, b.answer(nb)); d != "" {
			t.Errorf("a and b differ:\n%s", d)
		}
		if got, want := memberIDs(second), []quorum.ReplicaID{"a", "b"}; !slices.Equal(got, want) || second.ID <= first.ID {
			t.Errorf("second quorum %d has members %v, want %v and an id above %d", second.ID, got, want, first.ID)
		}
		history, err := skerrypb.NewLighthouseClient(dial(t, l.Addr)).History(t.Context(), &skerrypb.HistoryRequest{})
		if err != nil {
			t.Fatal(err)
		}
		newest := history.GetEntries()[0]
		if !slices.Equal(newest.GetLeft(), []string{"c"}) || len(newest.GetAccusations()) != 1 ||
			newest.GetAccusations()[0].GetBy() != "a" {
			t.Errorf("history says %v, want that c left, accused by a (whatever name a gave)", newest)
		}
	})
}

func TestLeavingIsNoDeath(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, minReplicas(2))
		all, _ := form(t, l.Addr, "a", "b")
		all[1].leave()
		if err := all[1].end(); !errors.Is(err, io.EOF) {
			t.Errorf("stream ended with %v, want io.EOF", err)
		}
		testkit.Eventually(t, "b left", func() bool {
			st, err := l.Lighthouse.Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return slices.ContainsFunc(st.Jobs[0].Events, func(e api.Note) bool { return strings.HasPrefix(e.Text, "left b") })
		})
	})
}

func TestNewerSessionReplacesTheOlder(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, nil)
		conn := dial(t, l.Addr)
		old, _ := open(t, conn, hello("a"))
		newer, _ := open(t, conn, hello("a"))
		if err := old.end(); status.Code(err) != codes.Aborted {
			t.Errorf("older session ended with %v, want Aborted", err)
		}
		q := newer.answer(newer.join(quorum.JoinFall, nil))
		if len(q.Members) != 1 {
			t.Errorf("members %v", memberIDs(q))
		}
		if st := replicaStatus(t, l, "a"); st.State != "live" || !st.Session {
			t.Errorf("a is %s, session %v; want live with a session", st.State, st.Session)
		}
	})
}

func replicaStatus(t testing.TB, l *lighthousetest.Server, id string) lighthouse.ReplicaStatus {
	t.Helper()
	st, err := l.Lighthouse.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range st.Jobs {
		for _, r := range j.Replicas {
			if r.ReplicaID == id {
				return r
			}
		}
	}
	return lighthouse.ReplicaStatus{}
}

// A replica that does not read is cut, and nobody waits for it.
func TestSlowConsumerIsCut(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, nil)
		conn := dial(t, l.Addr)
		stream, err := skerrypb.NewLighthouseClient(conn).Session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(&skerrypb.Up{Message: &skerrypb.Up_Hello{Hello: wire.HelloToProto(wire.Hello{
			GroupWorldSize: 1, Hello: quorum.Hello{ReplicaID: "deaf"}})}}); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil { // the welcome, the last that it reads
			t.Fatal(err)
		}
		// Each of these is refused with a message that nobody reads.
		refused := &skerrypb.Up{Message: &skerrypb.Up_Join{Join: wire.JoinToProto(quorum.Join{
			Member: quorum.Member{ReplicaID: "deaf", GroupWorldSize: 1}, Kind: quorum.JoinStep, Number: 1})}}
		var sending sync.WaitGroup
		defer sending.Wait()
		sending.Go(func() { // ends with the stream
			for stream.Send(refused) == nil {
			}
		})
		// The server lets go of it at once. The replica learns of that when it
		// reads again: what was sent before comes first.
		testkit.Eventually(t, "the deaf replica has no session", func() bool { return !replicaStatus(t, l, "deaf").Session })
		for err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != codes.Aborted || !strings.Contains(err.Error(), "does not read") {
			t.Errorf("stream ended with %v, want Aborted: does not read", err)
		}
		other, _ := open(t, conn, hello("b"))
		other.answer(other.join(quorum.JoinFall, nil))
	})
}

// What is malformed is refused with the field, the value and the bound.
func TestMalformedMessagesAreRefused(t *testing.T) {
	t.Parallel()
	l := lighthousetest.Start(t, nil)
	conn := dial(t, l.Addr)
	for _, tc := range []struct {
		name  string
		hello *skerrypb.SessionHello
		then  *skerrypb.Up
		want  string
	}{
		{"no id", &skerrypb.SessionHello{GroupWorldSize: 1}, nil, "hello.replica_id"},
		{"no ranks", &skerrypb.SessionHello{ReplicaId: "x"}, nil, "hello.group_world_size"},
		{"bad job", &skerrypb.SessionHello{ReplicaId: "x", GroupWorldSize: 1, Job: "a/b"}, nil, "hello.job"},
		{"negative step", nil, &skerrypb.Up{Message: &skerrypb.Up_Beat{Beat: &skerrypb.Beat{
			Position: &skerrypb.Position{Step: -1}}}}, "beat.position.step = -1"},
		{"empty message", nil, &skerrypb.Up{}, "in an open session"},
		{"second hello", nil, &skerrypb.Up{Message: &skerrypb.Up_Hello{}}, "in an open session"},
		{"another's join", nil, &skerrypb.Up{Message: &skerrypb.Up_Join{Join: wire.JoinToProto(quorum.Join{
			Member: quorum.Member{ReplicaID: "y", GroupWorldSize: 1}, Kind: quorum.JoinFall})}}, `join of replica "y"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := rawOpen(t, conn)
			if tc.hello == nil {
				tc.hello = &skerrypb.SessionHello{ReplicaId: "x", GroupWorldSize: 1, Job: strings.ReplaceAll(tc.name, " ", "-")[:6]}
			}
			if strings.Contains(tc.hello.GetJob(), "'") {
				tc.hello.Job = "quoted"
			}
			r.send(&skerrypb.Up{Message: &skerrypb.Up_Hello{Hello: tc.hello}})
			if tc.then != nil {
				r.send(tc.then)
			}
			down := r.next("refusal", func(d *skerrypb.Down) bool { return d.GetRefused() != nil })
			err := wire.RefusalError(down.GetRefused())
			if !errors.Is(err, quorum.ErrInvalid) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("refused with %v, want quorum.ErrInvalid that says %q", err, tc.want)
			}
			if err := r.end(); !errors.Is(err, io.EOF) {
				t.Errorf("stream ended with %v, want io.EOF after the refusal", err)
			}
		})
	}
}

// A replica that drains says so every half second until it is out. Only the first
// time is written: a job of a thousand that was told to end wrote 2,000 entries a
// second. What it is told, and hears, is the same each time.
func TestDrainIsWrittenOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, nil)
		all, _ := form(t, l.Addr, "a", "b")
		operator := skerrypb.NewLighthouseClient(dial(t, l.Addr))
		drain := func(id string) uint64 {
			before := l.Lighthouse.Entries()
			resp, err := operator.Drain(t.Context(), &skerrypb.DrainRequest{ReplicaId: id, Reason: "SIGTERM"})
			if err != nil || resp.GetAlone() {
				t.Fatal(resp, err)
			}
			return l.Lighthouse.Entries() - before
		}
		if got := drain("a"); got != 1 {
			t.Errorf("the first drain wrote %d entries, want 1", got)
		}
		all[0].next("drain notice", func(d *skerrypb.Down) bool { return d.GetDrain() != nil })
		for range 20 {
			if got := drain("a"); got != 0 {
				t.Fatalf("a drain that is known wrote %d entries, want none", got)
			}
		}
		if _, err := operator.Drain(t.Context(), &skerrypb.DrainRequest{ReplicaId: "nobody"}); status.Code(err) != codes.NotFound {
			t.Errorf("drain of an unknown replica: %v, want NotFound", err)
		}
	})
}

func TestDrainAndEvict(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, minReplicas(1))
		all, first := form(t, l.Addr, "a", "b", "c")
		operator := skerrypb.NewLighthouseClient(dial(t, l.Addr))
		if _, err := operator.Drain(t.Context(), &skerrypb.DrainRequest{ReplicaId: "a", Reason: "maintenance"}); err != nil {
			t.Fatal(err)
		}
		told := all[0].next("drain notice", func(d *skerrypb.Down) bool { return d.GetDrain() != nil })
		if got := told.GetDrain().GetReason(); got != "maintenance" {
			t.Errorf("drain reason %q", got)
		}
		for _, r := range all[1:] {
			wanted := r.next("change wanted", func(d *skerrypb.Down) bool { return d.GetChangeWanted() != nil })
			if got := wanted.GetChangeWanted().GetQuorumId(); got != first.ID {
				t.Errorf("%s was told about quorum %d, want %d", r.id, got, first.ID)
			}
		}
		if _, err := operator.Evict(t.Context(), &skerrypb.EvictRequest{ReplicaId: "b", Reason: "stuck"}); err != nil {
			t.Fatal(err)
		}
		all[1].next("eviction", func(d *skerrypb.Down) bool { return d.GetEvict().GetReason() == "stuck" })
		if got := replicaStatus(t, l, "b").State; got != "evicted" {
			t.Errorf("b is %s, want evicted", got)
		}
		for _, tc := range []struct {
			req  *skerrypb.EvictRequest
			want error
		}{
			{&skerrypb.EvictRequest{ReplicaId: "nobody"}, quorum.ErrUnknown},
			{&skerrypb.EvictRequest{ReplicaId: "a", Job: "none"}, quorum.ErrUnknown},
			{&skerrypb.EvictRequest{ReplicaId: ""}, quorum.ErrInvalid},
			{&skerrypb.EvictRequest{ReplicaId: "a", Job: "a/b"}, quorum.ErrInvalid},
		} {
			_, err := operator.Evict(t.Context(), tc.req)
			if err = wire.FromStatus(err); !errors.Is(err, tc.want) {
				t.Errorf("evict %v: %v, want %v", tc.req, err, tc.want)
			}
		}
	})
}

func TestConfigureChangesRulesAndTiming(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, nil)
		all, _ := form(t, l.Addr, "a")
		operator := skerrypb.NewLighthouseClient(dial(t, l.Addr))
		ms := uint32(300)
		if _, err := operator.Configure(t.Context(), &skerrypb.ConfigureRequest{HeartbeatTimeoutMs: &ms, MinReplicas: new(uint32(2))}); err != nil {
			t.Fatal(err)
		}
		timing := all[0].next("timing", func(d *skerrypb.Down) bool { return d.GetTiming() != nil }).GetTiming()
		if timing.GetHeartbeatTimeoutMs() != ms || timing.GetBeatIntervalMs() != ms/2/5 {
			t.Errorf("timing %v, want a timeout of %d ms and ten beats in it", timing, ms)
		}
		st, err := l.Lighthouse.Status(t.Context())
		if err != nil || st.Jobs[0].MinReplicas != 2 {
			t.Errorf("min replicas %d, error %v; want 2", st.Jobs[0].MinReplicas, err)
		}
		_, err = operator.Configure(t.Context(), &skerrypb.ConfigureRequest{MinReplicas: new(uint32(3)), MaxReplicas: new(uint32(2))})
		if err = wire.FromStatus(err); !errors.Is(err, quorum.ErrInvalid) || !strings.Contains(err.Error(), "MaxReplicas") {
			t.Errorf("nonsense was taken: %v", err)
		}
	})
}

func TestInfoListsJobs(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, func(c *lighthouse.Config) { c.Version = "v1.2.3" })
		conn := dial(t, l.Addr)
		for _, job := range []string{"vision", "speech"} {
			h := hello("a")
			h.Job = job
			open(t, conn, h)
		}
		info, err := skerrypb.NewLighthouseClient(conn).Info(t.Context(), &skerrypb.InfoRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(info.GetJobs(), []string{"speech", "vision"}) || info.GetVersion() != "v1.2.3" || info.GetLeader() != l.Addr {
			t.Errorf("info %v", info)
		}
	})
}

func TestJobsAreBounded(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, func(c *lighthouse.Config) { c.MaxJobs = 1 })
		conn := dial(t, l.Addr)
		a, _ := open(t, conn, hello("a"))
		a.answer(a.join(quorum.JoinFall, nil)) // a job with a quorum makes no room
		r := rawOpen(t, conn)
		h := hello("b")
		h.Job = "another"
		h.GroupWorldSize = 1
		r.send(&skerrypb.Up{Message: &skerrypb.Up_Hello{Hello: wire.HelloToProto(h)}})
		down := r.next("refusal", func(d *skerrypb.Down) bool { return d.GetRefused() != nil })
		if err := wire.RefusalError(down.GetRefused()); !errors.Is(err, quorum.ErrFull) {
			t.Errorf("one job too many: %v, want quorum.ErrFull", err)
		}
	})
}

// A job has no more replicas than it may; other jobs have theirs.
func TestReplicasOfAJobAreBounded(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, func(c *lighthouse.Config) { c.MaxReplicasPerJob = 1 })
		conn := dial(t, l.Addr)
		a, _ := open(t, conn, hello("a"))
		a.answer(a.join(quorum.JoinFall, nil))
		b := rawOpen(t, conn)
		h := hello("b")
		h.GroupWorldSize = 1
		b.send(&skerrypb.Up{Message: &skerrypb.Up_Hello{Hello: wire.HelloToProto(h)}})
		down := b.next("refusal", func(d *skerrypb.Down) bool { return d.GetRefused() != nil })
		err := wire.RefusalError(down.GetRefused())
		if want := fmt.Sprintf("replica %q would be number 2 of its job, want at most 1", h.ReplicaID); !errors.Is(err, quorum.ErrFull) || !strings.Contains(err.Error(), want) {
			t.Errorf("one replica too many: %v, want %s", err, want)
		}
		h.Job = "another"
		open(t, conn, h)
		two := uint32(2)
		_, err2 := skerrypb.NewLighthouseClient(conn).Configure(t.Context(), &skerrypb.ConfigureRequest{MinReplicas: &two})
		if err2 == nil || !strings.Contains(err2.Error(), "MinReplicas = 2, want at most MaxReplicasPerJob = 1") {
			t.Errorf("rules that such a job cannot meet: %v", err2)
		}
	})
}
