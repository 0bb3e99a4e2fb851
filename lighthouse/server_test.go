package lighthouse_test

import (
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
	"github.com/skerry-ft/skerry/quorum"
)

func localConfig() lighthouse.Config {
	cfg := lighthouse.DefaultConfig()
	cfg.Listen = "127.0.0.1:0"
	return cfg
}

func TestPortTakenIsOneClearLine(t *testing.T) {
	t.Parallel()
	first, err := lighthouse.New(localConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := first.Close(); err != nil {
			t.Error(err)
		}
	}()
	cfg := localConfig()
	cfg.Listen = first.Addr().String()
	cfg.DataDir = t.TempDir()
	_, err = lighthouse.New(cfg)
	if err == nil || !strings.Contains(err.Error(), cfg.Listen+" is in use") || strings.Contains(err.Error(), "\n") {
		t.Errorf("second server on %s: %v, want one line that says that it is in use", cfg.Listen, err)
	}
	cfg.Listen = "127.0.0.1:0" // the data dir was given back
	again, err := lighthouse.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

func TestDataDirHoldsOneServer(t *testing.T) {
	t.Parallel()
	cfg := localConfig()
	cfg.DataDir = filepath.Join(t.TempDir(), "made", "on", "demand")
	first, err := lighthouse.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lighthouse.New(cfg); err == nil || !strings.Contains(err.Error(), "in use by another lighthouse") {
		t.Errorf("second server on one data dir: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := lighthouse.New(cfg)
	if err != nil {
		t.Fatalf("after the first has gone: %v", err)
	}
	if err := errors.Join(second.Close(), second.Close()); err != nil {
		t.Error(err)
	}
}

func TestConfigProblemsAreAllNamed(t *testing.T) {
	t.Parallel()
	cfg := lighthouse.DefaultConfig()
	cfg.Listen = "nonsense"
	cfg.Advertise = "nonsense too"
	cfg.Rules.MinReplicas = 0
	cfg.MaxJobs = -1
	cfg.BeatInterval = time.Nanosecond
	cfg.Raft.Lease, cfg.Raft.Heartbeat = 3*time.Second, time.Second
	_, err := lighthouse.New(cfg)
	if err == nil {
		t.Fatal("nonsense was taken")
	}
	for _, want := range []string{`Listen = "nonsense"`, `Advertise = "nonsense too"`, "MinReplicas = 0", "MaxJobs = -1",
		"BeatInterval = 1ns", "Raft.Lease = 3s, want at most Raft.Heartbeat = 1s"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error does not say %q:\n%v", want, err)
		}
	}
	if err := lighthouse.DefaultConfig().Validate(); err != nil {
		t.Errorf("default configuration: %v", err)
	}
}

// A restart on the same data dir keeps the cluster, the last quorum and the
// ids; the members come back, nobody is dead because the lighthouse was away.
func TestRestartOnTheSameDataDir(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		dir := t.TempDir()
		durable := func(c *lighthouse.Config) { c.DataDir, c.Rules.MinReplicas = dir, 2 }
		l := start(t, durable)
		all, first := form(t, l.Addr, "a", "b")
		if err := l.Stop(); err != nil {
			t.Fatal(err)
		}
		for _, r := range all {
			if err := r.end(); status.Code(err) != codes.Unavailable {
				t.Errorf("%s's session ended with %v, want Unavailable", r.id, err)
			}
		}
		l = start(t, durable)
		history, err := skerrypb.NewLighthouseClient(dial(t, l.Addr)).History(t.Context(), &skerrypb.HistoryRequest{})
		if err != nil || len(history.GetEntries()) != 1 || history.GetEntries()[0].GetQuorumId() != first.ID {
			t.Fatalf("history after the restart: %v, %v; want quorum %d", history, err, first.ID)
		}
		conn := dial(t, l.Addr)
		var back []*replica
		for _, id := range []quorum.ReplicaID{"a", "b"} {
			h := hello(id)
			h.Last = &quorum.LastAnswer{Cluster: first.Cluster, QuorumID: first.ID, Round: first.Round, Members: first.Members}
			r, w := open(t, conn, h)
			if w.Cluster != first.Cluster {
				t.Errorf("cluster %s after the restart, want %s", w.Cluster, first.Cluster)
			}
			back = append(back, r)
		}
		for _, id := range []string{"a", "b"} {
			if st := replicaStatus(t, l, id); st.State != "live" || !st.Member {
				t.Errorf("%s is %s, member %v; want a live member", id, st.State, st.Member)
			}
		}
		for _, r := range back {
			r.number = 1
			r.join(quorum.JoinFall, func(j *quorum.Join) {
				j.Fact = quorum.Fact{Kind: quorum.Refused, Step: 1, QuorumID: first.ID}
			})
		}
		second := back[0].answer(2)
		if second.ID <= first.ID || second.Cluster != first.Cluster || len(second.Members) != 2 {
			t.Errorf("next quorum %d of cluster %s with %v, want an id above %d in cluster %s",
				second.ID, second.Cluster, memberIDs(second), first.ID, first.Cluster)
		}
	})
}

// A member that never had the answer gets it from the restarted server again.
func TestRestartRepeatsTheLastAnswer(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		dir := t.TempDir()
		durable := func(c *lighthouse.Config) { c.DataDir, c.Rules.MinReplicas = dir, 2 }
		l := start(t, durable)
		_, first := form(t, l.Addr, "a", "b")
		if err := l.Stop(); err != nil {
			t.Fatal(err)
		}
		l = start(t, durable)
		conn := dial(t, l.Addr)
		h := hello("a")
		h.Last = &quorum.LastAnswer{Cluster: first.Cluster, QuorumID: first.ID, Round: first.Round, Members: first.Members}
		open(t, conn, h)
		b, _ := open(t, conn, hello("b"))
		if got := b.answer(b.join(quorum.JoinFall, nil)); got.ID != first.ID || got.Token != first.Token {
			t.Errorf("b, who lost its answer, got quorum %d, want %d again", got.ID, first.ID)
		}
	})
}

// In memory, a restart is another cluster, so no store prefix is used twice.
func TestMemoryIsAnotherClusterEachTime(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, nil)
		_, first := form(t, l.Addr, "a")
		if err := l.Stop(); err != nil {
			t.Fatal(err)
		}
		l = start(t, nil)
		_, second := form(t, l.Addr, "a")
		if first.Cluster == second.Cluster || second.ID <= first.ID {
			t.Errorf("clusters %s and %s, ids %d and %d; want another cluster and a higher id",
				first.Cluster, second.Cluster, first.ID, second.ID)
		}
	})
}

// The port takes anything without harm.
func TestGarbageOnThePort(t *testing.T) {
	t.Parallel()
	l := lighthousetest.Start(t, nil)
	for _, garbage := range []string{"", "P", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + strings.Repeat("\xff", 100),
		"\x16\x03\x01\x02\x00\x01", strings.Repeat("A", 1<<17), "PRI * HTTP/3.0\r\n"} {
		conn, err := net.Dial("tcp", l.Addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte(garbage)) // the server may hang up half-way
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	_, q := form(t, l.Addr, "a")
	if got := memberIDs(q); !slices.Equal(got, []quorum.ReplicaID{"a"}) {
		t.Errorf("members %v", got)
	}
}
