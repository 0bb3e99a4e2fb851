package training

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/pg/tcp"
)

// TestTrainerWithoutTheToken: it ends with one error that says what to set, and those
// that have the token train on as if it had never come: no quorum falls, no step is
// discarded.
func TestTrainerWithoutTheToken(t *testing.T) {
	t.Parallel()
	out := &logged{}
	token := guard.RandomSecret()
	b := guardedLighthouse(t, guard.Options{Token: token}, out)
	join := func(name string) *trainer {
		return start(t, b, name, func(cfg *manager.Config) { cfg.Guard.Token = token })
	}
	one, two := join("one"), join("two")
	reach(t, 5, one, two)
	testkit.Eventually(t, "they train together", func() bool { return one.m.NumParticipants() == 2 })
	discards := one.m.Stats().Discards + two.m.Stats().Discards
	quorum := one.m.QuorumID()

	three := start(t, b, "three", nil)
	select {
	case err := <-three.done:
		if !errors.Is(err, manager.ErrRefused) || !strings.Contains(err.Error(), "SKERRY_TOKEN_FILE") || !strings.Contains(err.Error(), b.addr) {
			t.Errorf("it ended with %v, want ErrRefused, which server said so, and what to set", err)
		}
		three.done <- err
	case <-time.After(patience):
		t.Error("it does not end")
	}
	reach(t, 20, one, two)
	agree(t, one, two)
	if got := one.m.QuorumID(); got != quorum {
		t.Errorf("quorum %d, want %d: the one that stood", got, quorum)
	}
	if got := one.m.Stats().Discards + two.m.Stats().Discards; got != discards {
		t.Errorf("%d steps were discarded", got-discards)
	}
}

// TestAnotherJobsReplica: with the certificate of another job, and the token, a
// replica gets no step of this job's: no session, no manager, no donor answers it.
func TestAnotherJobsReplica(t *testing.T) {
	t.Parallel()
	c, out := guardtest.New(t), &logged{}
	b := guardedLighthouse(t, c.Options(t, guard.Lighthouse, "lighthouse"), out)
	vision := func(cfg *manager.Config) {
		cfg.Job, cfg.Guard = "vision", c.PartyOptions(t, guard.Party{Role: guard.Replica, Job: "vision"}, "vision")
	}
	one := start(t, b, "one", vision)
	reach(t, 5, one)
	text := c.PartyOptions(t, guard.Party{Role: guard.Replica, Job: "text"}, "text")
	own := manager.Config{ReplicaID: "x", Lighthouse: []string{b.addr}, Job: "vision", Guard: text, Backend: tcp.New(tcp.Options{})}
	if _, err := manager.New(own); err == nil || !strings.Contains(err.Error(), `bound to job "text"`) {
		t.Errorf("a manager with another job's certificate: %v", err)
	}
	ask := func(o guard.Options, job string) (string, error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		addr := strings.TrimPrefix(one.m.Address(), "https://")
		options := guardtest.Open(t, o).DialOptions(guard.Party{Role: guard.Replica, Job: job}, addr)
		conn, err := grpc.NewClient("passthrough:///"+addr, append(wire.DialOptions(), options...)...)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		out, err := skerrypb.NewManagerClient(conn).CheckpointMetadata(ctx, &skerrypb.CheckpointMetadataRequest{})
		return out.GetMetadata(), err
	}
	sibling := c.PartyOptions(t, guard.Party{Role: guard.Replica, Job: "vision"}, "sibling")
	donor, err := ask(sibling, "vision")
	if err != nil {
		t.Fatalf("a replica of the job asks where the model is: %v", err)
	}
	if _, err := ask(text, ""); err == nil || !strings.Contains(err.Error(), `bound to job "text"`) {
		t.Errorf("a replica of another job asks where the model is: %v", err)
	}
	if _, err := ask(sibling, "text"); err == nil || !strings.Contains(err.Error(), "and this is job") {
		t.Errorf("a replica of another job takes this manager for one of its own: %v", err)
	}
	get := func(o guard.Options) (int, error) {
		g := guardtest.Open(t, o)
		client := &http.Client{Timeout: patience, Transport: &http.Transport{
			DisableKeepAlives: true, DialTLSContext: g.TLS.DialOver(new(net.Dialer).DialContext, guard.Party{Role: guard.Replica}, patience),
		}}
		resp, err := client.Get(donor + "/v1/manifest?version=any")
		if err != nil {
			return 0, err
		}
		return resp.StatusCode, resp.Body.Close()
	}
	if code, err := get(sibling); err != nil || code == http.StatusOK {
		t.Errorf("a replica of the job asks a donor without the quorum's token: %d, %v; want an answer that denies it", code, err)
	}
	if code, err := get(text); err == nil {
		t.Errorf("a donor answers a replica of another job: %d", code)
	}
	if code, err := get(c.Options(t, guard.Operator, "operator")); err == nil {
		t.Errorf("a donor answers an operator: %d", code)
	}
	reach(t, 5, one)
}
