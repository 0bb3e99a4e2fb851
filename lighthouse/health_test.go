package lighthouse_test

import (
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

// TestHealthService: probes are told what /healthz says, without a token, and by name.
func TestHealthService(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		c := startCluster(t, 3, lighthousetest.Options{Timing: "slow", Change: func(_ int, cfg *lighthouse.Config) {
			cfg.Guard = guard.Options{Token: guard.NewSecret([]byte("0123456789abcdef"))}
		}})
		leader, others := c.Leader(), c.Followers()
		asked := func(i int, service string) healthpb.HealthCheckResponse_ServingStatus {
			resp, err := healthpb.NewHealthClient(dial(t, c.Servers[i].Addr)).Check(t.Context(), &healthpb.HealthCheckRequest{Service: service})
			if err != nil {
				t.Fatalf("check %q of server %d: %v", service, i, err)
			}
			return resp.GetStatus()
		}
		for _, i := range []int{leader, others[0]} {
			for _, service := range []string{"", "skerry.v1.Lighthouse", "skerry.v1.Cluster", "torchft.LighthouseService"} {
				testkit.Eventually(t, "server is serving "+service, func() bool { return asked(i, service) == healthpb.HealthCheckResponse_SERVING })
			}
		}
		_, err := healthpb.NewHealthClient(dial(t, c.Servers[leader].Addr)).Check(t.Context(), &healthpb.HealthCheckRequest{Service: "none"})
		if status.Code(err) != codes.NotFound {
			t.Errorf("check of a service that is not there: %v", err)
		}
		watch, err := healthpb.NewHealthClient(dial(t, c.Servers[others[0]].Addr)).Watch(t.Context(), &healthpb.HealthCheckRequest{})
		if err == nil {
			_, err = watch.Recv()
		}
		if status.Code(err) != codes.Unauthenticated {
			t.Errorf("a stream for who shows no token: %v, want Unauthenticated", err)
		}
		c.Stop(leader)
		c.Stop(others[1])
		testkit.Eventually(t, "server is not serving where no majority is left", func() bool {
			return asked(others[0], "") == healthpb.HealthCheckResponse_NOT_SERVING
		})
	})
}

// TestProbesNeedNoCertificate: where all others need one.
func TestProbesNeedNoCertificate(t *testing.T) {
	t.Parallel()
	c := guardtest.New(t)
	l := lighthousetest.Start(t, func(cfg *lighthouse.Config) { cfg.Guard = c.Options(t, guard.Lighthouse, "lighthouse") })
	anonymous := guardtest.Open(t, guard.Options{TLSCA: filepath.Join(c.Dir, "ca.pem")})
	conn := guarded(t, anonymous, l.Addr)
	testkit.Eventually(t, "check without a certificate", func() bool {
		resp, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
		return err == nil && resp.GetStatus() == healthpb.HealthCheckResponse_SERVING
	})
	if _, err := skerrypb.NewLighthouseClient(conn).Info(t.Context(), &skerrypb.InfoRequest{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("info without a certificate: %v, want Unauthenticated", err)
	}
}

// TestReflectionIsAskedFor: it is served where Config.Reflection says so, and nowhere else.
func TestReflectionIsAskedFor(t *testing.T) {
	t.Parallel()
	for _, served := range []bool{false, true} {
		l := start(t, func(cfg *lighthouse.Config) { cfg.Reflection = served })
		// As grpcurl dials: our own clients bound the lists that they read.
		conn, err := grpc.NewClient("passthrough:///"+l.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }() // its calls have ended
		asks, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
		if err == nil {
			err = asks.Send(&reflectionpb.ServerReflectionRequest{
				MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
		}
		if err != nil && served {
			t.Fatal(err)
		}
		resp, err := asks.Recv()
		if !served {
			if status.Code(err) == codes.OK {
				t.Errorf("reflection answers %v, though it was not asked for", resp)
			}
			continue
		}
		var names []string
		for _, s := range resp.GetListServicesResponse().GetService() {
			names = append(names, s.GetName())
		}
		if err != nil || !slices.Contains(names, "skerry.v1.Lighthouse") || !slices.Contains(names, "grpc.health.v1.Health") {
			t.Errorf("services %v, %v", names, err)
		}
	}
}
