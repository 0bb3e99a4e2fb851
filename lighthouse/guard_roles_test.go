package lighthouse_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
	"github.com/skerry-ft/skerry/quorum"
)

// joined opens a session in a job, or says why there is none.
func joined(t testing.TB, conn *grpc.ClientConn, job string, id quorum.ReplicaID) (*replica, error) {
	t.Helper()
	r := rawOpen(t, conn)
	return r, r.greet(wire.Hello{Job: job, Hello: quorum.Hello{ReplicaID: id, Client: quorum.KindSkerry}})
}

// denied says whether err is a denial that says want.
func denied(err error, want string) bool {
	return err != nil && strings.Contains(err.Error(), "Unauthenticated") && strings.Contains(err.Error(), want)
}

// roleCall is a call, and which of TestRoles' certificates may make it.
type roleCall struct {
	name string
	call func(conn *grpc.ClientConn) error
	may  string
}

func roleCalls(ctx context.Context) []roleCall {
	vision := metadata.AppendToOutgoingContext(ctx, wire.JobMetadata, "vision")
	beat := &torchftpb.LighthouseHeartbeatRequest{ReplicaId: "torchft"}
	rpc := func(f func(skerrypb.LighthouseClient) error) func(*grpc.ClientConn) error {
		return func(conn *grpc.ClientConn) error { return f(skerrypb.NewLighthouseClient(conn)) }
	}
	return []roleCall{
		{"info", rpc(func(c skerrypb.LighthouseClient) error { return second(c.Info(ctx, &skerrypb.InfoRequest{})) }),
			"lighthouse replica operator bound"},
		{"jobs", rpc(func(c skerrypb.LighthouseClient) error { return second(c.Jobs(ctx, &skerrypb.JobsRequest{})) }),
			"lighthouse replica operator"},
		{"history", rpc(func(c skerrypb.LighthouseClient) error {
			return second(c.History(ctx, &skerrypb.HistoryRequest{Job: "text"}))
		}), "lighthouse replica operator"},
		{"history of the default job", rpc(func(c skerrypb.LighthouseClient) error { return second(c.History(ctx, &skerrypb.HistoryRequest{})) }),
			"lighthouse replica operator"},
		{"history of its job", rpc(func(c skerrypb.LighthouseClient) error {
			return second(c.History(ctx, &skerrypb.HistoryRequest{Job: "vision"}))
		}), "lighthouse replica operator bound"},
		{"a launcher's question", rpc(func(c skerrypb.LighthouseClient) error {
			return second(c.Wanted(ctx, &skerrypb.WantedRequest{Job: "vision", Nodes: 1}))
		}), "lighthouse replica operator bound"},
		{"evict", rpc(func(c skerrypb.LighthouseClient) error {
			return second(c.Evict(ctx, &skerrypb.EvictRequest{Job: "vision", ReplicaId: "a"}))
		}), "lighthouse operator"},
		{"drain", rpc(func(c skerrypb.LighthouseClient) error {
			return second(c.Drain(ctx, &skerrypb.DrainRequest{Job: "vision", ReplicaId: "a"}))
		}), "lighthouse operator"},
		{"kill", rpc(func(c skerrypb.LighthouseClient) error {
			return second(c.KillReplica(ctx, &skerrypb.KillReplicaRequest{Job: "vision", ReplicaId: "a"}))
		}), "lighthouse operator"},
		{"rules", rpc(func(c skerrypb.LighthouseClient) error {
			return second(c.Configure(ctx, &skerrypb.ConfigureRequest{Job: "vision"}))
		}), "lighthouse operator"},
		{"delete", rpc(func(c skerrypb.LighthouseClient) error {
			return second(c.DeleteJob(ctx, &skerrypb.DeleteJobRequest{Job: "vision"}))
		}), "lighthouse operator"},
		{"members", func(conn *grpc.ClientConn) error {
			return second(skerrypb.NewClusterClient(conn).Members(ctx, &skerrypb.MembersRequest{}))
		}, "lighthouse replica operator bound"},
		{"remove", func(conn *grpc.ClientConn) error {
			return second(skerrypb.NewClusterClient(conn).Remove(ctx, &skerrypb.RemoveRequest{RaftId: "x"}))
		}, "lighthouse operator"},
		{"introduce", func(conn *grpc.ClientConn) error {
			return second(skerrypb.NewClusterClient(conn).Introduce(ctx, &skerrypb.IntroduceRequest{}))
		}, "lighthouse"},
		{"torchft's heartbeat", func(conn *grpc.ClientConn) error {
			return second(torchftpb.NewLighthouseServiceClient(conn).Heartbeat(ctx, beat))
		}, "lighthouse replica"},
		{"torchft's heartbeat in its job", func(conn *grpc.ClientConn) error {
			return second(torchftpb.NewLighthouseServiceClient(conn).Heartbeat(vision, beat))
		}, "lighthouse replica bound"},
	}
}

// TestRoles: which role may make which call. All have the token.
func TestRoles(t *testing.T) {
	t.Parallel()
	c := guardtest.New(t)
	l := lighthousetest.Start(t, func(cfg *lighthouse.Config) { cfg.Guard = c.Options(t, guard.Lighthouse, "server") })
	conns := map[string]*grpc.ClientConn{}
	for name, p := range map[string]guard.Party{
		"lighthouse": {Role: guard.Lighthouse}, "replica": {Role: guard.Replica}, "operator": {Role: guard.Operator},
		"bound": {Role: guard.Replica, Job: "vision"}, "none": {},
	} {
		conns[name] = guarded(t, guardtest.Open(t, c.PartyOptions(t, p, name)), l.Addr)
	}
	for _, tc := range roleCalls(t.Context()) {
		for name, conn := range conns {
			may := strings.Contains(" "+tc.may+" ", " "+name+" ")
			if err := tc.call(conn); may == (status.Code(err) == codes.Unauthenticated) {
				t.Errorf("%s by %s: %v, want it allowed: %v", tc.name, name, err, may)
			}
		}
	}
	for name, want := range map[string]string{
		"operator": "has role operator, want replica", "none": "has no role", "bound": `bound to job "vision"`, "replica": "",
	} {
		_, err := joined(t, conns[name], "text", quorum.ReplicaID(name))
		if ok := want == "" && err == nil || want != "" && denied(err, want); !ok {
			t.Errorf("session by %s: %v, want %q", name, err, want)
		}
	}
	if _, err := joined(t, conns["bound"], "vision", "b"); err != nil {
		t.Errorf("session in its job: %v", err)
	}
}

// TestRolesOverHTTP: a certificate that is shown must be right; the token stands for
// one that is not.
func TestRolesOverHTTP(t *testing.T) {
	t.Parallel()
	c := guardtest.New(t)
	l := lighthousetest.Start(t, func(cfg *lighthouse.Config) { cfg.Guard = c.Options(t, guard.Lighthouse, "server") })
	at := "https://" + l.Addr
	bearer := []string{"Authorization", "Bearer " + string(c.Token.Reveal())}
	for _, tc := range []struct {
		name         string
		party        guard.Party
		read, change int // with the token; 404: there is no such replica
	}{
		{"operator", guard.Party{Role: guard.Operator}, 200, 404},
		{"replica", guard.Party{Role: guard.Replica}, 200, 401},
		{"bound", guard.Party{Role: guard.Replica, Job: "vision"}, 401, 401},
		{"none", guard.Party{}, 401, 401},
	} {
		b := browser(t, guardtest.Open(t, c.PartyOptions(t, tc.party, tc.name)))
		if got := request(t, b, "GET", at+"/status.json", nil); got != tc.read {
			t.Errorf("%s reads: %d, want %d", tc.name, got, tc.read)
		}
		if got := request(t, b, "POST", at+"/jobs/default/replicas/a/drain", nil, bearer...); got != tc.change {
			t.Errorf("%s changes: %d, want %d", tc.name, got, tc.change)
		}
	}
}

// TestJobsAreApart: a certificate bound to another job opens no session in this one,
// under whichever name, by whichever server, reads nothing of it and puts no member
// of it out, though it has the operators' token.
func TestJobsAreApart(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		c := guardtest.New(t)
		servers := startCluster(t, 3, lighthousetest.Options{Timing: "slow", Change: func(_ int, cfg *lighthouse.Config) {
			cfg.Guard = c.Options(t, guard.Lighthouse, "server")
		}})
		leader, follower := servers.Servers[servers.Leader()], servers.Servers[servers.Followers()[0]]
		member := guardtest.Open(t, c.PartyOptions(t, guard.Party{Role: guard.Replica, Job: "vision"}, "vision"))
		other := guardtest.Open(t, c.PartyOptions(t, guard.Party{Role: guard.Replica, Job: "text"}, "text"))
		a, err := joined(t, guarded(t, member, leader.Addr), "vision", "a")
		if err != nil {
			t.Fatal(err)
		}
		a.join(quorum.JoinFall, nil)
		q := a.answer(1)
		for _, s := range []*lighthousetest.Server{leader, follower} {
			conn := guarded(t, other, s.Addr)
			for _, id := range []quorum.ReplicaID{"a", "evil"} {
				if _, err := joined(t, conn, "vision", id); !denied(err, `bound to job "text", and this is job "vision"`) {
					t.Errorf("session of %s by a replica of another job: %v", id, err)
				}
			}
			client := skerrypb.NewLighthouseClient(conn)
			if _, err := client.History(t.Context(), &skerrypb.HistoryRequest{Job: "vision"}); status.Code(err) != codes.Unauthenticated {
				t.Errorf("history by a replica of another job: %v", err)
			}
			req := &skerrypb.DrainRequest{Job: "vision", ReplicaId: "a"}
			for what, token := range map[string][]byte{"a made-up token": make([]byte, 16), "the quorum's token": q.Token[:]} {
				proof := guard.FixedToken(guard.NewSecret(token)).Prove(skerrypb.Lighthouse_Drain_FullMethodName, guard.Body(req))
				ctx := metadata.AppendToOutgoingContext(t.Context(), guard.MemberMetadata, proof)
				if _, err := client.Drain(ctx, req); status.Code(err) != codes.Unauthenticated {
					t.Errorf("drain with %s: %v, want Unauthenticated", what, err)
				}
			}
			// A replica of the job itself that claims to be a member is asked for its quorum's
			// token, by the leader: that it has the operators', too, makes it no operator.
			proof := guard.FixedToken(guard.RandomSecret()).Prove(skerrypb.Lighthouse_Drain_FullMethodName, guard.Body(req))
			ctx := metadata.AppendToOutgoingContext(t.Context(), guard.MemberMetadata, proof)
			if _, err := skerrypb.NewLighthouseClient(guarded(t, member, s.Addr)).Drain(ctx, req); status.Code(err) != codes.Unauthenticated {
				t.Errorf("drain by a replica that is no member: %v, want Unauthenticated", err)
			}
		}
		operator := skerrypb.NewLighthouseClient(guarded(t, guardtest.Open(t, c.Options(t, guard.Operator, "operator")), leader.Addr))
		history, err := operator.History(t.Context(), &skerrypb.HistoryRequest{Job: "vision"})
		if err != nil || len(history.GetEntries()) != 1 {
			t.Errorf("%d quorums, %v; want the one that stood", len(history.GetEntries()), err)
		}
		assertStands(t, a)
		req := &skerrypb.DrainRequest{Job: "vision", ReplicaId: "a"}
		proof := guard.FixedToken(guard.NewSecret(q.Token[:])).Prove(skerrypb.Lighthouse_Drain_FullMethodName, guard.Body(req))
		ctx := metadata.AppendToOutgoingContext(t.Context(), guard.MemberMetadata, proof)
		if _, err := skerrypb.NewLighthouseClient(guarded(t, member, follower.Addr)).Drain(ctx, req); err != nil {
			t.Errorf("drain of a member by itself: %v", err)
		}
	})
}

// assertStands fails if a has lost its session.
func assertStands(t testing.TB, a *replica) {
	t.Helper()
	select {
	case err := <-a.broke:
		t.Errorf("the member's session ended: %v", err)
	default:
	}
}

// TestJoinsNeedTheToken: without it nobody opens a session, under a member's name, to
// say its goodbye, or under another, to be told the quorum's token; nor joins as
// torchft's clients do.
func TestJoinsNeedTheToken(t *testing.T) {
	t.Parallel()
	c := guardtest.New(t)
	o := guard.Options{TokenFile: filepath.Join(c.Dir, "token")}
	l := lighthousetest.Start(t, func(cfg *lighthouse.Config) { cfg.Guard = o })
	a, _ := open(t, guarded(t, guardtest.Open(t, o), l.Addr), hello("a"))
	a.join(quorum.JoinFall, nil)
	a.answer(1)
	for _, g := range []*guard.Guard{{}, {Token: guard.FixedToken(guard.RandomSecret())}} {
		conn := guarded(t, g, l.Addr)
		for _, id := range []quorum.ReplicaID{"a", "evil"} {
			r, err := joined(t, conn, "default", id)
			if !denied(err, "SKERRY_TOKEN_FILE") {
				t.Errorf("session of %s: %v, want a denial that says what to set", id, err)
			}
			leaving := &skerrypb.Up{Message: &skerrypb.Up_Leaving{Leaving: &skerrypb.Leaving{Why: "put out"}}}
			_ = r.stream.Send(leaving) // what comes of it shows below
		}
		client := torchftpb.NewLighthouseServiceClient(conn)
		_, err := client.Heartbeat(t.Context(), &torchftpb.LighthouseHeartbeatRequest{ReplicaId: "a"})
		if status.Code(err) != codes.Unauthenticated {
			t.Errorf("torchft's heartbeat: %v, want Unauthenticated", err)
		}
		_, err = client.Quorum(t.Context(), &torchftpb.LighthouseQuorumRequest{Requester: &torchftpb.QuorumMember{ReplicaId: "evil"}})
		if status.Code(err) != codes.Unauthenticated {
			t.Errorf("torchft's join: %v, want Unauthenticated", err)
		}
	}
	st, err := l.Lighthouse.Status(t.Context())
	if err != nil || len(st.Jobs) != 1 || !st.Jobs[0].Stands || len(st.Jobs[0].Replicas) != 1 {
		t.Errorf("status %+v, %v; want the quorum standing, with a alone", st.Jobs, err)
	}
	assertStands(t, a)
}

// TestOpenJoins: with them torchft's clients join without the token, which is said in
// the status, and nothing else is allowed.
func TestOpenJoins(t *testing.T) {
	t.Parallel()
	c := guardtest.New(t)
	l := lighthousetest.Start(t, func(cfg *lighthouse.Config) {
		cfg.Guard, cfg.OpenJoins = guard.Options{Token: c.Token}, true
	})
	conn := dial(t, l.Addr)
	if _, err := joined(t, conn, "ours", "a"); err != nil {
		t.Errorf("a session: %v", err)
	}
	beat := &torchftpb.LighthouseHeartbeatRequest{ReplicaId: "b"}
	if _, err := torchftpb.NewLighthouseServiceClient(conn).Heartbeat(t.Context(), beat); err != nil {
		t.Errorf("torchft's heartbeat: %v", err)
	}
	if _, err := skerrypb.NewLighthouseClient(conn).Wanted(t.Context(), &skerrypb.WantedRequest{Job: "ours", Nodes: 1}); err != nil {
		t.Errorf("a launcher's question: %v", err)
	}
	_, err := skerrypb.NewLighthouseClient(conn).Evict(t.Context(), &skerrypb.EvictRequest{Job: "ours", ReplicaId: "a"})
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("evict: %v, want Unauthenticated", err)
	}
	_, body := fetch(t, "GET", l.URL("/status.json"), nil)
	var st lighthouse.Status
	if err := json.Unmarshal([]byte(body), &st); err != nil || !st.OpenJoins {
		t.Errorf("the status does not say that joins are open: %v", err)
	}
	if _, page := fetch(t, "GET", l.URL("/assets/main.js"), nil); !strings.Contains(page, "open_joins") {
		t.Error("the page does not show it")
	}
}
