package lighthouse_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
	"github.com/skerry-ft/skerry/quorum"
)

// asked is the outcome of a quorum call.
type asked struct {
	q   *torchftpb.Quorum
	err error
}

// ask makes a quorum call as torchft's client does.
func ask(ctx context.Context, c torchftpb.LighthouseServiceClient, id string, step int64) <-chan asked {
	return askWith(ctx, c, &torchftpb.QuorumMember{
		ReplicaId: id, Address: "http://" + id, StoreAddress: id + ":1", Step: step, WorldSize: 1})
}

func askWith(ctx context.Context, c torchftpb.LighthouseServiceClient, m *torchftpb.QuorumMember) <-chan asked {
	out := make(chan asked, 1)
	go func() {
		resp, err := c.Quorum(ctx, &torchftpb.LighthouseQuorumRequest{Requester: m})
		out <- asked{resp.GetQuorum(), err}
	}()
	return out
}

// get waits for the outcome of a call that should succeed.
func get(t testing.TB, what string, c <-chan asked) *torchftpb.Quorum {
	t.Helper()
	select {
	case a := <-c:
		if a.err != nil {
			t.Fatalf("%s: %v", what, a.err)
		}
		return a.q
	case <-time.After(patience):
		t.Fatalf("%s: no answer within %v", what, patience)
		return nil
	}
}

func participants(q *torchftpb.Quorum) []string {
	var ids []string
	for _, m := range q.GetParticipants() {
		ids = append(ids, m.GetReplicaId())
	}
	return ids
}

func torchft(t testing.TB, l *lighthousetest.Server) (context.Context, torchftpb.LighthouseServiceClient) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	t.Cleanup(cancel)
	return ctx, torchftpb.NewLighthouseServiceClient(dial(t, l.Addr))
}

// Two replicas form a quorum; while nothing changes the id stays and nothing is
// written; one falls silent, and the other goes on alone under a higher id.
func TestTorchftClients(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, func(c *lighthouse.Config) {
			c.Rules.MinReplicas = 1
			c.TorchftHeartbeatTimeout = 500 * time.Millisecond
		})
		ctx, c := torchft(t, l)
		for _, id := range []string{"a", "b"} {
			if _, err := c.Heartbeat(ctx, &torchftpb.LighthouseHeartbeatRequest{ReplicaId: id}); err != nil {
				t.Fatal(err)
			}
		}
		qa, qb := ask(ctx, c, "a", 0), ask(ctx, c, "b", 0)
		first := get(t, "a", qa)
		if got := participants(first); !slices.Equal(got, []string{"a", "b"}) {
			t.Fatalf("first quorum has %v, want a and b", got)
		}
		if other := get(t, "b", qb); other.GetQuorumId() != first.GetQuorumId() {
			t.Errorf("a is in quorum %d, b in %d", first.GetQuorumId(), other.GetQuorumId())
		}
		if m := first.GetParticipants()[1]; m.GetAddress() != "http://b" || m.GetStoreAddress() != "b:1" || m.GetWorldSize() != 1 {
			t.Errorf("b's facts changed on their way: %v", m)
		}
		if first.GetCreated().AsTime().IsZero() {
			t.Error("quorum has no time")
		}
		for step := range int64(20) {
			qa, qb := ask(ctx, c, "a", step), ask(ctx, c, "b", step)
			get(t, "b", qb)
			if again := get(t, "a", qa); again.GetQuorumId() != first.GetQuorumId() {
				t.Fatalf("step %d: quorum %d, want %d as before", step, again.GetQuorumId(), first.GetQuorumId())
			}
		}
		heartbeats(t, ctx, c, "a")
		alone := get(t, "a alone", ask(ctx, c, "a", 20))
		if got := participants(alone); !slices.Equal(got, []string{"a"}) || alone.GetQuorumId() <= first.GetQuorumId() {
			t.Errorf("quorum %d has %v, want a alone under an id above %d", alone.GetQuorumId(), got, first.GetQuorumId())
		}
	})
}

// heartbeats sends a replica's heartbeats until the test ends, as torchft's
// client does beside its calls.
func heartbeats(t testing.TB, ctx context.Context, c torchftpb.LighthouseServiceClient, id string) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if _, err := c.Heartbeat(ctx, &torchftpb.LighthouseHeartbeatRequest{ReplicaId: id}); err != nil && ctx.Err() == nil {
				t.Errorf("heartbeat of %s: %v", id, err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// What a newer torchft tells its members comes through, though we cannot read
// it: its process groups cannot reconfigure without.
func TestTorchftUnknownFieldsArePassedOn(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, minReplicas(2))
		ctx, c := torchft(t, l)
		handle := func(id string) []byte {
			return protowire.AppendString(protowire.AppendTag(nil, 100, protowire.BytesType), "handle of "+id)
		}
		for range 2 { // a new quorum, and the same again
			var calls []<-chan asked
			for _, id := range []string{"a", "b"} {
				m := &torchftpb.QuorumMember{ReplicaId: id}
				wire.AddExtra(m, handle(id))
				calls = append(calls, askWith(ctx, c, m))
			}
			for _, call := range calls {
				for _, m := range get(t, "a member", call).GetParticipants() {
					extra, err := wire.ExtraFromTorchft(m)
					if err != nil || !slices.Equal(extra, handle(m.GetReplicaId())) {
						t.Errorf("%s comes with %q, error %v; want its handle", m.GetReplicaId(), extra, err)
					}
				}
			}
		}
	})
}

// A call that its caller gave up leaves no join behind.
func TestTorchftCancelLeavesNoGhost(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, minReplicas(2))
		ctx, c := torchft(t, l)
		short, cancel := context.WithCancel(ctx)
		gone := ask(short, c, "ghost", 0)
		testkit.Eventually(t, "ghost has joined", func() bool { return replicaStatus(t, l, "ghost").State == "joined" })
		cancel()
		if a := <-gone; status.Code(a.err) != codes.Canceled {
			t.Fatalf("cancelled call returned %v, %v", a.q, a.err)
		}
		testkit.Eventually(t, "ghost's join is withdrawn", func() bool { return replicaStatus(t, l, "ghost").State != "joined" })
		deadline, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		// Either side's timer may be first. The server says of its own what torchft's does. Of the
		// client's it hears that the call was cancelled, and grpc's client may report that.
		a := <-ask(deadline, c, "b", 0)
		if code := status.Code(a.err); code != codes.DeadlineExceeded && code != codes.Canceled {
			t.Fatalf("b alone of at least two got %v, %v; want that its time is over", a.q, a.err)
		}
	})
}

// A deadline that passes at the server is told torchft's clients in the words of
// torchft's server; servers and our own clients get the plain code.
func TestTorchftTimeout(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, nil)
		late := func(context.Context, any) (any, error) { return nil, wire.StatusError(context.DeadlineExceeded) }
		hopped := metadata.NewIncomingContext(t.Context(), metadata.Pairs("skerry-hop", "1"))
		for _, tc := range []struct {
			ctx    context.Context
			method string
			want   codes.Code
		}{
			{t.Context(), torchftpb.LighthouseService_Quorum_FullMethodName, codes.Canceled},
			{hopped, torchftpb.LighthouseService_Quorum_FullMethodName, codes.DeadlineExceeded},
			{t.Context(), skerrypb.Lighthouse_Info_FullMethodName, codes.DeadlineExceeded},
		} {
			err := l.Lighthouse.Unary(tc.ctx, tc.method, late)
			if status.Code(err) != tc.want || tc.want == codes.Canceled && status.Convert(err).Message() != "Timeout expired" {
				t.Errorf("%s: %v, want %v", tc.method, err, tc.want)
			}
		}
	})
}

// The newest call of a replica counts; older ones are answered with it, and too
// many are ended.
func TestTorchftRepeatedCalls(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, minReplicas(2))
		ctx, c := torchft(t, l)
		first := ask(ctx, c, "a", 0)
		testkit.Eventually(t, "a has joined", func() bool { return replicaStatus(t, l, "a").State == "joined" })
		var later []<-chan asked
		for range 8 {
			later = append(later, ask(ctx, c, "a", 0))
		}
		if a := <-first; status.Code(a.err) != codes.Aborted {
			t.Errorf("oldest of nine calls: %v, %v; want Aborted", a.q, a.err)
		}
		get(t, "b", ask(ctx, c, "b", 0))
		for _, one := range later {
			get(t, "one of a's calls", one)
		}
	})
}

func TestTorchftInvalidArguments(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, nil)
		ctx, c := torchft(t, l)
		for name, m := range map[string]*torchftpb.QuorumMember{
			"no requester":  nil,
			"no id":         {},
			"negative step": {ReplicaId: "a", Step: -1},
			"huge world":    {ReplicaId: "a", WorldSize: 1 << 40},
			"long address":  {ReplicaId: "a", Address: string(make([]byte, wire.MaxAddressBytes+1))},
		} {
			if _, err := c.Quorum(ctx, &torchftpb.LighthouseQuorumRequest{Requester: m}); status.Code(err) != codes.InvalidArgument {
				t.Errorf("%s: %v, want InvalidArgument", name, err)
			}
		}
		if _, err := c.Heartbeat(ctx, &torchftpb.LighthouseHeartbeatRequest{}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("heartbeat of nobody: %v, want InvalidArgument", err)
		}
		named := metadata.AppendToOutgoingContext(ctx, wire.JobMetadata, "a/b")
		if _, err := c.Heartbeat(named, &torchftpb.LighthouseHeartbeatRequest{ReplicaId: "a"}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("job a/b: %v, want InvalidArgument", err)
		}
	})
}

// The job is the metadata's, or the id's prefix if such a job exists, or the
// default.
func TestTorchftJobs(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, nil)
		ctx, c := torchft(t, l)
		named := metadata.AppendToOutgoingContext(ctx, wire.JobMetadata, "vision")
		get(t, "first of vision", ask(named, c, "a", 0))
		get(t, "id with a slash, no such job", ask(ctx, c, "speech/a", 0))
		jobs := func() map[string][]string {
			st, err := l.Lighthouse.Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			all := make(map[string][]string)
			for _, j := range st.Jobs {
				for _, r := range j.Replicas {
					all[j.Job] = append(all[j.Job], r.ReplicaID)
				}
			}
			return all
		}
		if got := jobs(); !slices.Equal(got["vision"], []string{"a"}) || !slices.Equal(got["default"], []string{"speech/a"}) {
			t.Errorf("jobs %v, want a in vision and speech/a in default", got)
		}
		if _, err := c.Heartbeat(ctx, &torchftpb.LighthouseHeartbeatRequest{ReplicaId: "vision/b"}); err != nil {
			t.Fatal(err)
		}
		if got := jobs()["vision"]; !slices.Equal(got, []string{"a", "vision/b"}) {
			t.Errorf("vision holds %v, want vision/b too", got)
		}
	})
}

// A job holds one kind of client; each kind finds its own heartbeat timeout.
func TestOneKindOfClientPerJob(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		const timeout = 1500 * time.Millisecond
		l := start(t, func(c *lighthouse.Config) { c.TorchftHeartbeatTimeout = timeout })
		ctx, c := torchft(t, l)
		// The job is begun by a session that never joins, so torchft's may have it.
		ours, _ := open(t, dial(t, l.Addr), hello("ours"))
		get(t, "torchft's join", ask(ctx, c, "theirs", 0))
		late, _ := rawHello(t, l, "late")
		for _, r := range []*replica{ours, late} {
			down := r.next("refusal", func(d *skerrypb.Down) bool { return d.GetRefused() != nil })
			if err := wire.RefusalError(down.GetRefused()); !errors.Is(err, quorum.ErrKind) {
				t.Errorf("%s in torchft's job: %v, want quorum.ErrKind", r.id, err)
			}
		}
		st, err := l.Lighthouse.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got, want := st.Jobs[0].HeartbeatTimeoutMs, timeout.Milliseconds(); got != want {
			t.Errorf("heartbeat timeout %d ms, want torchft's %d", got, want)
		}
	})
}

func TestEvictEndsTorchftCalls(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, minReplicas(2))
		ctx, c := torchft(t, l)
		call := ask(ctx, c, "a", 0)
		testkit.Eventually(t, "a has joined", func() bool { return replicaStatus(t, l, "a").State == "joined" })
		operator := skerrypb.NewLighthouseClient(dial(t, l.Addr))
		if _, err := operator.Evict(ctx, &skerrypb.EvictRequest{ReplicaId: "a", Reason: "by hand"}); err != nil {
			t.Fatal(err)
		}
		if a := <-call; status.Code(a.err) != codes.FailedPrecondition {
			t.Errorf("evicted replica's call: %v, %v; want FailedPrecondition", a.q, a.err)
		}
	})
}

// A hundred replicas that all ask each step get one id per quorum.
func TestHundredReplicas(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		const replicas, steps = 100, 3
		l := start(t, minReplicas(replicas))
		ctx, c := torchft(t, l)
		var all sync.WaitGroup
		var mu sync.Mutex
		ids := make(map[int64]int)
		for i := range replicas {
			all.Go(func() {
				for step := range steps {
					a := <-ask(ctx, c, fmt.Sprintf("replica_%03d", i), int64(step))
					if a.err != nil || len(a.q.GetParticipants()) != replicas {
						t.Errorf("replica %d, step %d: %d participants, error %v", i, step, len(a.q.GetParticipants()), a.err)
						return
					}
					mu.Lock()
					ids[a.q.GetQuorumId()]++
					mu.Unlock()
				}
			})
		}
		all.Wait()
		if len(ids) != 1 {
			t.Errorf("ids and answers %v, want one id: nothing changed", ids)
		}
	})
}

// rawHello opens a session whose answer the caller awaits.
func rawHello(t testing.TB, l *lighthousetest.Server, id quorum.ReplicaID) (*replica, wire.Hello) {
	t.Helper()
	r := rawOpen(t, dial(t, l.Addr))
	r.id = id
	h := hello(id)
	h.GroupWorldSize = 1
	r.send(&skerrypb.Up{Message: &skerrypb.Up_Hello{Hello: wire.HelloToProto(h)}})
	return r, h
}
