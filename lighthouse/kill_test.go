package lighthouse_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
	"github.com/skerry-ft/skerry/quorum"
)

// refusingManager refuses kills in a way of its own.
type refusingManager struct {
	skerrypb.UnimplementedManagerServer
	with error
}

func (m refusingManager) Kill(context.Context, *skerrypb.KillRequest) (*skerrypb.KillResponse, error) {
	return nil, m.with
}

// A manager that refuses a kill is quoted in its own words, without what its transport
// puts around them, to who asks by HTTP and by RPC. In real time: the managers listen on
// loopback.
func TestKillThatTheManagerRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		with error
		code int
	}{
		"takes none":   {status.Error(codes.FailedPrecondition, "this replica takes no kills"), http.StatusConflict},
		"knows us not": {status.Error(codes.Unauthenticated, "no order of a lighthouse"), http.StatusBadGateway},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			managers := grpc.NewServer(grpc.WaitForHandlers(true))
			skerrypb.RegisterManagerServer(managers, refusingManager{with: tc.with})
			address := "http://" + serveManagers(t, managers)
			l := lighthousetest.Start(t, nil)
			conn := dial(t, l.Addr)
			r, _ := open(t, conn, hello("a"))
			r.answer(r.join(quorum.JoinFall, func(j *quorum.Join) { j.Member.Address = address }))
			want := fmt.Sprintf("kill replica a at %s: %s", address, status.Convert(tc.with).Message())
			if code, body := fetch(t, http.MethodPost, l.URL("/jobs/default/replicas/a/kill"), nil); code != tc.code || strings.TrimSpace(body) != want {
				t.Errorf("POST: %d %q, want %d %q", code, body, tc.code, want)
			}
			ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
			defer cancel()
			_, err := skerrypb.NewLighthouseClient(conn).KillReplica(ctx, &skerrypb.KillReplicaRequest{ReplicaId: "a"})
			if s := status.Convert(err); s.Code() != status.Code(tc.with) || s.Message() != want {
				t.Errorf("RPC: %v %q, want %v %q", s.Code(), s.Message(), status.Code(tc.with), want)
			}
		})
	}
}
