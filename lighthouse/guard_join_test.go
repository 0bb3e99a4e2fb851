package lighthouse_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
	"github.com/skerry-ft/skerry/quorum"
)

// TestJoinTokenAtTheLighthouse: who holds a join token joins its job at every server,
// and goes of itself; it does no operator's work, over RPC or HTTP, and joins no other
// job.
func TestJoinTokenAtTheLighthouse(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		c := guardtest.New(t)
		servers := startCluster(t, 3, lighthousetest.Options{Timing: "slow", Change: func(_ int, cfg *lighthouse.Config) {
			cfg.Guard = guard.Options{Token: c.Token}
		}})
		leader, follower := servers.Servers[servers.Leader()], servers.Servers[servers.Followers()[0]]
		token := c.JoinToken(t, "vision")
		member := guardtest.Open(t, guard.Options{Token: token})
		other := guardtest.Open(t, guard.Options{Token: c.JoinToken(t, "text")})
		a, err := joined(t, guarded(t, member, leader.Addr), "vision", "a")
		if err != nil {
			t.Fatal(err)
		}
		a.join(quorum.JoinFall, nil)
		q := a.answer(1)
		for _, s := range []*lighthousetest.Server{leader, follower} {
			for _, tc := range roleCalls(t.Context()) {
				err := tc.call(guarded(t, member, s.Addr))
				// What reads takes no token, so a join token is as good as none.
				want := strings.Contains(tc.may, "replica") && tc.name != "torchft's heartbeat"
				if want == (status.Code(err) == codes.Unauthenticated) {
					t.Errorf("%s with the join token: %v, want it allowed: %v", tc.name, err, want)
				}
				if !want && !strings.Contains(status.Convert(err).Message(), "join") {
					t.Errorf("%s with the join token: %v, want it said what the token is good for", tc.name, err)
				}
			}
			for _, id := range []quorum.ReplicaID{"a", "evil"} {
				if _, err := joined(t, guarded(t, other, s.Addr), "vision", id); !denied(err, `of job "text", and this is job "vision"`) {
					t.Errorf("session of %s with another job's join token: %v", id, err)
				}
			}
			asks := &skerrypb.WantedRequest{Job: "vision", Nodes: 1}
			if _, err := skerrypb.NewLighthouseClient(guarded(t, other, s.Addr)).Wanted(t.Context(), asks); !denied(err, `of job "text", and this is job "vision"`) {
				t.Errorf("a launcher with another job's join token: %v", err)
			}
			if _, err := skerrypb.NewLighthouseClient(dial(t, s.Addr)).Wanted(t.Context(), asks); status.Code(err) != codes.Unauthenticated {
				t.Errorf("a launcher without a token: %v, want Unauthenticated", err)
			}
			bearer := []string{"Authorization", "Bearer " + string(token.Reveal())}
			if got := request(t, browser(t, &guard.Guard{}), "POST", s.URL("/jobs/vision/replicas/a/evict"), nil, bearer...); got != 401 {
				t.Errorf("evict over HTTP with the join token: %d, want 401", got)
			}
		}
		assertStands(t, a)
		req := &skerrypb.DrainRequest{Job: "vision", ReplicaId: "a"}
		proof := guard.FixedToken(guard.NewSecret(q.Token[:])).Prove(skerrypb.Lighthouse_Drain_FullMethodName, guard.Body(req))
		ctx := metadata.AppendToOutgoingContext(t.Context(), guard.MemberMetadata, proof)
		if _, err := skerrypb.NewLighthouseClient(guarded(t, member, follower.Addr)).Drain(ctx, req); err != nil {
			t.Errorf("drain of a member by itself: %v", err)
		}
		cfg := lighthouse.DefaultConfig()
		cfg.Listen, cfg.Guard.Token = "127.0.0.1:0", token
		if _, err := lighthouse.New(cfg); err == nil || !strings.Contains(err.Error(), "a lighthouse needs the operators' token") {
			t.Errorf("a lighthouse with a join token: %v", err)
		}
	})
}

// TestJoinTokenInTheLighthousesFile: a join token that overwrites the operators' token in
// a server's file, as it runs, is not taken: operators and replicas are let in as before.
func TestJoinTokenInTheLighthousesFile(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		c := guardtest.New(t)
		file := filepath.Join(c.Dir, "token")
		var log lockedBuffer
		l := start(t, func(cfg *lighthouse.Config) {
			cfg.Guard, cfg.Log = guard.Options{TokenFile: file}, zerolog.New(&log)
		})
		operator := skerrypb.NewLighthouseClient(guarded(t, guardtest.Open(t, guard.Options{Token: c.Token}), l.Addr))
		if err := os.WriteFile(file, c.JoinToken(t, "vision").Reveal(), 0o600); err != nil {
			t.Fatal(err)
		}
		<-time.After(11 * time.Second) // a file is looked at within ten
		_, err := operator.Evict(t.Context(), &skerrypb.EvictRequest{Job: "vision", ReplicaId: "a"})
		if status.Code(err) == codes.Unauthenticated {
			t.Errorf("an operator's call: %v, want its token still in force", err)
		}
		if said := log.String(); !strings.Contains(said, "not taken") || !strings.Contains(said, `the token is a join token, of job \"vision\"`) {
			t.Errorf("the log does not say why it is not taken: %s", said)
		}
	})
}
