package torchft_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
	"github.com/skerry-ft/skerry/manager/torchft"
)

// startProxy runs a proxy before these servers, and connects to it.
func startProxy(t *testing.T, servers ...string) torchftpb.LighthouseServiceClient {
	t.Helper()
	p, err := torchft.NewProxy(torchft.ProxyConfig{Lighthouse: servers, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	conn, err := grpc.NewClient(p.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("run the proxy: %v", err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return torchftpb.NewLighthouseServiceClient(conn)
}

// joinBy asks for a quorum through a proxy.
func joinBy(ctx context.Context, c torchftpb.LighthouseServiceClient, id string) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := c.Quorum(ctx, &torchftpb.LighthouseQuorumRequest{Requester: &torchftpb.QuorumMember{ReplicaId: id, Address: "http://" + id, StoreAddress: id + ":1", WorldSize: 1}})
		done <- err
	}()
	return done
}

// joined waits until a replica's join waits at the server that leads.
func joined(t *testing.T, l *lighthousetest.Server, id string) {
	t.Helper()
	for began := time.Now(); time.Since(began) < 30*time.Second; <-time.After(10 * time.Millisecond) {
		st, err := l.Lighthouse.Status(t.Context())
		if err != nil {
			continue
		}
		for _, j := range st.Jobs {
			for _, r := range j.Replicas {
				if r.ReplicaID == id && r.WaitingMs > 0 {
					return
				}
			}
		}
	}
	t.Fatalf("%s has not joined", id)
}

// A call that waits is answered though the server that it waits at dies, the
// leader among them, and another one after it.
func TestProxyHoldsCallsOverDeaths(t *testing.T) {
	t.Parallel()
	c := lighthousetest.StartCluster(t, 3, lighthousetest.Options{Timing: "slow",
		Change: func(_ int, c *lighthouse.Config) { c.Rules.MinReplicas = 2 }})
	leader := c.Leader()
	servers := []string{c.Servers[leader].Addr} // the first that is asked is the leader
	for _, i := range c.Followers() {
		servers = append(servers, c.Servers[i].Addr)
	}
	proxy := startProxy(t, servers...)
	ctx := limited(t)
	for range 2 {
		a := joinBy(ctx, proxy, "a")
		joined(t, c.Servers[c.Leader()], "a")
		killed := c.Leader()
		c.Stop(killed)
		b := joinBy(ctx, proxy, "b")
		for _, call := range []<-chan error{a, b} {
			if err := <-call; err != nil {
				t.Errorf("a call over the leader's death: %v", err)
			}
		}
		c.Restart(killed)
	}
}

// A server that takes connections and says nothing is left when a beat finds it
// silent, and the calls that wait there go with it.
func TestProxyLeavesASilentServer(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	l := lighthousetest.Start(t, nil)
	proxy := startProxy(t, silent.Addr().String(), l.Addr)
	ctx := limited(t)
	call := joinBy(ctx, proxy, "a")
	if _, err := proxy.Heartbeat(ctx, &torchftpb.LighthouseHeartbeatRequest{ReplicaId: "a"}); err != nil {
		t.Errorf("beat: %v", err)
	}
	if err := <-call; err != nil {
		t.Errorf("join: %v", err)
	}
}

// What no server can answer ends with the caller's deadline; what one refuses is
// refused at once.
func TestProxyEndsCalls(t *testing.T) {
	t.Parallel()
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	// Either side's timer may be first: of the client's the proxy hears that the call was
	// cancelled, and grpc's client may report that.
	err := <-joinBy(short, startProxy(t, "127.0.0.1:1", "127.0.0.1:2"), "a")
	if code := status.Code(err); code != codes.DeadlineExceeded && code != codes.Canceled {
		t.Errorf("no server: %v, want that its time is over", err)
	}
	l := lighthousetest.Start(t, nil)
	if err := <-joinBy(limited(t), startProxy(t, l.Addr), ""); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "replica_id") {
		t.Errorf("no id: %v, want InvalidArgument about replica_id", err)
	}
	if _, err := torchft.NewProxy(torchft.ProxyConfig{Listen: "nowhere", Job: "a/b"}); err == nil ||
		!strings.Contains(err.Error(), "Lighthouse") || !strings.Contains(err.Error(), "Listen") || !strings.Contains(err.Error(), "Job") {
		t.Errorf("a bad config: %v", err)
	}
}

// A manager beats while one of its ranks is connected, and not for dead ones.
func TestBeatsEndWithTheRanks(t *testing.T) {
	t.Parallel()
	l := lighthousetest.Start(t, nil)
	silence := func() time.Duration {
		st, err := l.Lighthouse.Status(t.Context())
		if err != nil || len(st.Jobs) == 0 || len(st.Jobs[0].Replicas) == 0 {
			return -1
		}
		return time.Duration(st.Jobs[0].Replicas[0].SilenceMs) * time.Millisecond
	}
	within := func(what string, ok func() bool) {
		t.Helper()
		for began := time.Now(); !ok(); <-time.After(10 * time.Millisecond) {
			if time.Since(began) > 30*time.Second {
				t.Fatalf("%s: silence %v", what, silence())
			}
		}
	}
	r := start(t, func(c *torchft.Config) { c.ReplicaID, c.Lighthouse = "r:u", []string{l.Addr} })
	if got := silence(); got >= 0 {
		t.Errorf("it beats, silence %v, before a rank came", got)
	}
	for range 2 { // a rank that comes again is beaten for again
		conn, err := grpc.NewClient(strings.TrimPrefix(r.server.Address(), "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		conn.Connect()
		within("beats with a rank", func() bool { s := silence(); return s >= 0 && s < 500*time.Millisecond })
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		within("silence without ranks", func() bool { return silence() > time.Second })
	}
}
