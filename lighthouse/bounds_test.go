package lighthouse_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
	"github.com/skerry-ft/skerry/quorum"
)

func impatient(c *lighthouse.Config) { c.HelloTimeout = 100 * time.Millisecond }

// Whoever does not say what he is in time is cut, on every layer.
func TestSilenceIsCut(t *testing.T) {
	t.Parallel()
	l := lighthousetest.Start(t, impatient)
	for name, text := range map[string]string{
		"nothing":        "",
		"half a method":  "GE",
		"half a preface": "PRI * HT",
		"half a header":  "GET / HTTP/1.1\r\nX-Slow: ",
		"half a body":    "POST /jobs/a/replicas/b/drain HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n1",
		"no settings":    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", l.Addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := conn.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
			if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			_, err = io.Copy(io.Discard, conn)
			if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
				t.Errorf("still open after %v", patience)
			}
		})
	}
}

func TestSessionWithoutHelloIsCut(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, impatient)
		r := rawOpen(t, dial(t, l.Addr))
		if err := r.end(); status.Code(err) != codes.Aborted || !strings.Contains(err.Error(), "hello") {
			t.Errorf("silent session ended with %v, want Aborted for want of a hello", err)
		}
		if st, err := l.Lighthouse.Status(t.Context()); err != nil || len(st.Jobs) != 0 {
			t.Errorf("it left %d jobs, %v", len(st.Jobs), err)
		}
	})
}

func TestFirstMessageMustBeAHello(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, nil)
		for _, first := range []*skerrypb.Up{
			{},
			{Message: &skerrypb.Up_Beat{}},
			{Message: &skerrypb.Up_Join{}},
			{Message: &skerrypb.Up_Leaving{}},
		} {
			r := rawOpen(t, dial(t, l.Addr))
			r.send(first)
			down := r.next("refusal", func(*skerrypb.Down) bool { return true })
			err := wire.RefusalError(down.GetRefused())
			if !errors.Is(err, quorum.ErrInvalid) || !strings.Contains(err.Error(), "want a hello") {
				t.Errorf("%v first: %v, want quorum.ErrInvalid that wants a hello", first, down)
			}
			if err := r.end(); !errors.Is(err, io.EOF) {
				t.Errorf("stream ended with %v, want io.EOF", err)
			}
		}
	})
}

// A crowd beats more slowly and is waited for longer, and gets its pace back
// step by step when it has gone.
func TestCrowdBeatsSlowly(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, nil)
		all, _ := form(t, l.Addr, "a")
		a := all[0]
		timing := func(scale int) {
			t.Helper()
			rules := quorum.DefaultConfig()
			down := a.next("timing", func(d *skerrypb.Down) bool { return d.GetTiming() != nil })
			got, err := wire.TimingFromProto(down.GetTiming())
			want := wire.Timing{
				BeatInterval:     lighthouse.DefaultBeatInterval * time.Duration(scale),
				HeartbeatTimeout: rules.HeartbeatTimeout * time.Duration(scale),
				JoinTimeout:      rules.JoinTimeout,
			}
			if err != nil || got != want {
				t.Fatalf("timing %+v, %v; want %+v", got, err, want)
			}
		}
		// Four thousand sessions may beat every 200 ms.
		l.Lighthouse.Crowd(3_900)
		timing(2)
		l.Lighthouse.Crowd(3_900)
		timing(4)
		l.Lighthouse.Crowd(-7_800)
		timing(2) // not 1 at once: a still beats every 400 ms
		timing(1)
		if st := replicaStatus(t, l, "a"); st.State != "live" {
			t.Errorf("a is %s (%s), want live", st.State, st.Why)
		}
	})
}

// A job whose ledger another leader has written begins anew, whether it was to
// write a quorum or to repeat the last one: its members come again, and are told
// what the ledger holds.
func TestFencedJobBeginsAnew(t *testing.T) {
	t.Parallel()
	for name, fact := range map[string]quorum.FactKind{"new quorum": quorum.Refused, "old one again": quorum.NoFact} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *virtual) {
				l := start(t, minReplicas(2))
				all, first := form(t, l.Addr, "a", "b")
				behind, err := l.Lighthouse.FormBehind("default")
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range all {
					r.join(quorum.JoinFall, func(j *quorum.Join) {
						if fact != quorum.NoFact {
							j.Fact = quorum.Fact{Kind: fact, Step: 1, QuorumID: first.ID}
						}
					})
				}
				for _, r := range all {
					if err := r.end(); status.Code(err) != codes.Unavailable {
						t.Errorf("%s's session ended with %v, want Unavailable", r.id, err)
					}
				}
				if _, again := form(t, l.Addr, "a", "b"); again.ID != behind || first.ID >= behind {
					t.Errorf("next quorum %d, want %d", again.ID, behind)
				}
			})
		})
	}
}

func TestTorchftCallOutlivesAFencedJob(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, minReplicas(2))
		ctx, c := torchft(t, l)
		a, b := ask(ctx, c, "a", 0), ask(ctx, c, "b", 0)
		first := get(t, "a", a)
		get(t, "b", b)
		behind, err := l.Lighthouse.FormBehind("default")
		if err != nil {
			t.Fatal(err)
		}
		a, b = ask(ctx, c, "a", 0), ask(ctx, c, "b", 0)
		for id, call := range map[string]<-chan asked{"a": a, "b": b} {
			if q := get(t, id, call); q.GetQuorumId() != behind || first.GetQuorumId() >= behind {
				t.Errorf("%s: quorum %d after %d, want %d", id, q.GetQuorumId(), first.GetQuorumId(), behind)
			}
		}
	})
}

func TestDrainEndsAWaitingTorchftCall(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, minReplicas(2))
		ctx, c := torchft(t, l)
		call := ask(ctx, c, "a", 0)
		testkit.Eventually(t, "a has joined", func() bool { return replicaStatus(t, l, "a").State == "joined" })
		operator := skerrypb.NewLighthouseClient(dial(t, l.Addr))
		if _, err := operator.Drain(ctx, &skerrypb.DrainRequest{ReplicaId: "a"}); err != nil {
			t.Fatal(err)
		}
		if a := <-call; status.Code(a.err) != codes.FailedPrecondition || !strings.Contains(a.err.Error(), "drained") {
			t.Errorf("drained replica's call: %v, %v; want FailedPrecondition, drained", a.q, a.err)
		}
	})
}

// Reasons may be long: they are cut, not refused.
func TestLongReasonIsCut(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, nil)
		all, _ := form(t, l.Addr, "a")
		operator := skerrypb.NewLighthouseClient(dial(t, l.Addr))
		long := strings.Repeat("because ", 1000)
		if _, err := operator.Drain(t.Context(), &skerrypb.DrainRequest{ReplicaId: "a", Reason: long}); err != nil {
			t.Fatal(err)
		}
		told := all[0].next("drain notice", func(d *skerrypb.Down) bool { return d.GetDrain() != nil }).GetDrain().GetReason()
		if !strings.HasPrefix(told, "because because") || len(told) > wire.MaxEvidenceBytes {
			t.Errorf("reason of %d bytes: %s", len(told), told)
		}
	})
}

// A joiner waits while the quorum stands: the members are told, and nothing
// ends before they ask.
func TestJoinerMakesMembersAsk(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, minReplicas(2))
		members, first := form(t, l.Addr, "a", "b")
		c, _ := open(t, dial(t, l.Addr), hello("c"))
		joined := c.join(quorum.JoinFall, nil)
		last := &quorum.LastAnswer{Cluster: first.Cluster, QuorumID: first.ID, Round: first.Round, Members: first.Members}
		var asks []uint64
		for _, r := range members {
			wanted := r.next("change wanted", func(d *skerrypb.Down) bool { return d.GetChangeWanted() != nil }).GetChangeWanted()
			if wanted.GetQuorumId() != first.ID || !strings.Contains(wanted.GetReason(), "c joined") {
				t.Errorf("%s was told %v, want that c joined quorum %d", r.id, wanted, first.ID)
			}
		}
		if st, err := l.Lighthouse.Status(t.Context()); err != nil || !st.Jobs[0].Stands || st.Jobs[0].Wanted == "" {
			t.Errorf("job %+v, %v; want a standing quorum, and a change wanted", st.Jobs[0], err)
		}
		for _, r := range members {
			asks = append(asks, r.join(quorum.JoinAsk, func(j *quorum.Join) { j.Last = last }))
		}
		second := c.answer(joined)
		if got, want := memberIDs(second), []quorum.ReplicaID{"a", "b", "c"}; !slices.Equal(got, want) {
			t.Errorf("members %v, want %v", got, want)
		}
		for i, r := range members {
			if d := cmp.Diff(second, r.answer(asks[i])); d != "" {
				t.Errorf("%s and c differ:\n%s", r.id, d)
			}
		}
	})
}

// What happens in one job is nothing to another.
func TestJobsAreIsolated(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, nil)
		conn := dial(t, l.Addr)
		in := func(job string) (*replica, quorum.Quorum) {
			h := hello("a") // the same id in both
			h.Job = job
			r, _ := open(t, conn, h)
			return r, r.answer(r.join(quorum.JoinFall, nil))
		}
		vision, q := in("vision")
		speech, other := in("speech")
		if q.Job != "vision" || other.Job != "speech" || q.Token == other.Token || len(q.Members)+len(other.Members) != 2 {
			t.Errorf("quorums %+v and %+v, want one member each and tokens of their own", q, other)
		}
		operator := skerrypb.NewLighthouseClient(conn)
		if _, err := operator.Evict(t.Context(), &skerrypb.EvictRequest{Job: "vision", ReplicaId: "a"}); err != nil {
			t.Fatal(err)
		}
		vision.next("eviction", func(d *skerrypb.Down) bool { return d.GetEvict() != nil })
		st, err := l.Lighthouse.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range st.Jobs {
			if want := map[string]string{"vision": "evicted", "speech": "live"}[j.Job]; j.Replicas[0].State != want {
				t.Errorf("a in %s is %s, want %s", j.Job, j.Replicas[0].State, want)
			}
		}
		speech.number = 7
		next := speech.answer(speech.join(quorum.JoinFall, func(j *quorum.Join) { j.Fact.QuorumID = other.ID }))
		if next.ID <= other.ID {
			t.Errorf("next quorum of speech %d, want one above %d", next.ID, other.ID)
		}
	})
}

// A crowd that starts together ends up together, in one quorum.
func TestCrowdFormsOneQuorum(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		const crowd = 200
		l := start(t, func(c *lighthouse.Config) {
			c.Rules.HeartbeatTimeout = 5 * time.Second // a crowd on a small machine is slow
			c.Log = zerolog.Nop()
		})
		conn := dial(t, l.Addr)
		all := make([]*replica, crowd)
		var opening sync.WaitGroup
		for i := range all {
			opening.Go(func() {
				all[i], _ = open(t, conn, hello(quorum.ReplicaID("replica-"+string(rune('a'+i/26))+string(rune('a'+i%26)))))
				all[i].join(quorum.JoinFall, nil)
			})
		}
		opening.Wait()
		first := all[0].answer(1)
		if len(first.Members) != crowd {
			t.Errorf("%d members, want %d", len(first.Members), crowd)
		}
		for _, r := range all[1:] {
			if q := r.answer(1); q.ID != first.ID || q.Round != first.Round || len(q.Participants) != crowd {
				t.Fatalf("%s: quorum %d.%d with %d participants, want %d.%d with %d",
					r.id, q.ID, q.Round, len(q.Participants), first.ID, first.Round, crowd)
			}
		}
	})
}

func TestRestartKeepsWhoWasPutOut(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		dir := t.TempDir()
		durable := func(c *lighthouse.Config) { c.DataDir, c.Rules.MinReplicas = dir, 3 }
		l := start(t, durable)
		form(t, l.Addr, "a", "b", "c")
		operator := skerrypb.NewLighthouseClient(dial(t, l.Addr))
		if _, err := operator.Drain(t.Context(), &skerrypb.DrainRequest{ReplicaId: "a"}); err != nil {
			t.Fatal(err)
		}
		if _, err := operator.Evict(t.Context(), &skerrypb.EvictRequest{ReplicaId: "b"}); err != nil {
			t.Fatal(err)
		}
		if _, err := operator.Configure(t.Context(), &skerrypb.ConfigureRequest{MinReplicas: new(uint32(1))}); err != nil {
			t.Fatal(err)
		}
		if err := l.Stop(); err != nil {
			t.Fatal(err)
		}
		l = start(t, durable)
		testkit.Eventually(t, "a drains still", func() bool { return replicaStatus(t, l, "a").State == "draining" })
		b, _ := rawHello(t, l, "b")
		down := b.next("refusal", func(*skerrypb.Down) bool { return true })
		if err := wire.RefusalError(down.GetRefused()); !errors.Is(err, quorum.ErrEvicted) {
			t.Errorf("evicted b after the restart: %v, want quorum.ErrEvicted", down)
		}
		if st, err := l.Lighthouse.Status(t.Context()); err != nil || st.Jobs[0].MinReplicas != 1 {
			t.Errorf("min replicas %d after the restart, %v; want the job's own 1", st.Jobs[0].MinReplicas, err)
		}
	})
}

// What a server tells of itself can be dialled, or is not told; and a port that is
// open to everybody is warned of, once. In real time: it is about addresses of the kernel.
func TestAdvertised(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		listen, advertise string
		want              func(addr string) []string
		warns             int
	}{
		{"127.0.0.1:0", "", func(addr string) []string { return []string{addr} }, 0},
		{":0", "", func(string) []string { return nil }, 1},
		{":0", "head.example:29510", func(string) []string { return []string{"head.example:29510"} }, 1},
	} {
		var log lockedBuffer
		l := lighthousetest.Start(t, func(c *lighthouse.Config) {
			c.Listen, c.Advertise, c.Log = tc.listen, tc.advertise, zerolog.New(&log)
			c.Guard.Open = true
		})
		_, port, err := net.SplitHostPort(l.Addr)
		if err != nil {
			t.Fatal(err)
		}
		conn := dial(t, net.JoinHostPort("127.0.0.1", port))
		_, w := open(t, conn, hello("a"))
		if want := tc.want(l.Addr); !slices.Equal(w.Servers, want) {
			t.Errorf("on %q, advertised as %q, a session is told %v, want %v", tc.listen, tc.advertise, w.Servers, want)
		}
		info, err := skerrypb.NewLighthouseClient(conn).Info(t.Context(), &skerrypb.InfoRequest{})
		if err != nil || !slices.Equal(info.GetServers(), w.Servers) {
			t.Errorf("info lists %v, %v; want %v", info.GetServers(), err, w.Servers)
		}
		if got := strings.Count(log.String(), "unguarded"); got != tc.warns {
			t.Errorf("on %q: %d warnings, want %d:\n%s", tc.listen, got, tc.warns, log.String())
		}
	}
}

// lockedBuffer takes log lines from several goroutines.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// A server with fewer jobs allowed than it has serves all of them, and no more.
func TestFewerJobsAllowedThanThereAre(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		dir := t.TempDir()
		durable := func(c *lighthouse.Config) { c.DataDir = dir }
		l := start(t, durable)
		conn := dial(t, l.Addr)
		for _, job := range []string{"one", "two"} {
			h := hello("a")
			h.Job = job
			r, _ := open(t, conn, h)
			r.answer(r.join(quorum.JoinFall, nil))
		}
		if err := l.Stop(); err != nil {
			t.Fatal(err)
		}
		l = start(t, func(c *lighthouse.Config) { c.DataDir, c.MaxJobs = dir, 1 })
		testkit.Eventually(t, "both jobs are rebuilt", func() bool {
			st, err := l.Lighthouse.Status(t.Context())
			return err == nil && len(st.Jobs) == 2
		})
		third, _ := rawHello(t, l, "a") // in the job "default"
		down := third.next("refusal", func(*skerrypb.Down) bool { return true })
		if err := wire.RefusalError(down.GetRefused()); !errors.Is(err, quorum.ErrFull) {
			t.Errorf("a third job: %v, want quorum.ErrFull", down)
		}
	})
}
