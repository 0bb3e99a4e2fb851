package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/portlease"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse/internal/network"
	"github.com/skerry-ft/skerry/quorum"
)

// testNode is a node that runs without a lighthouse around it, and answers others.
type testNode struct {
	*Node
	cfg  Config
	stop func()
}

// idle leads, and does nothing with it.
type idle struct{}

func (idle) Establish(context.Context, *Ledger, uint64) error { return nil }
func (idle) Revoke()                                          {}

// startNode runs a node on loopback until stop is called, or the test ends.
func startNode(t testing.TB, change func(*Config)) *testNode {
	t.Helper()
	slow := Timings()["slow"]
	cfg := Config{Network: network.Machine(),
		Options: Options{RaftAddress: "127.0.0.1:0", GossipAddress: "127.0.0.1:0", StableFor: 300 * time.Millisecond},
		Raft:    RaftOptions{Heartbeat: slow.Heartbeat, Election: slow.Election, Lease: slow.Heartbeat}, // a busy machine deposes nobody
		Listen:  portlease.ForTest(t, 1)[0], HelloTimeout: testkit.Patience, Guard: new(guard.Guard), Log: zerolog.Nop(), Sampled: zerolog.Nop(),
	}
	change(&cfg)
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Addr, cfg.Listen = listener.Addr(), listener.Addr().String()
	cfg.Options, cfg.Raft = cfg.Options.WithDefaults(cfg.Listen), cfg.Raft.WithDefaults(cfg.Several())
	if problems := errors.Join(cfg.Options.Validate(cfg.DataDir), cfg.Raft.Validate()); problems != nil {
		t.Fatal(problems)
	}
	node, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	rpc := grpc.NewServer(wire.ServerOptions()...)
	skerrypb.RegisterClusterServer(rpc, node.Service())
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	if err := node.Start(); err != nil {
		t.Fatal(errors.Join(err, node.Close()))
	}
	running.Go(func() {
		if err := rpc.Serve(listener); err != nil {
			t.Errorf("serve %s: %v", cfg.Listen, err)
		}
	})
	running.Go(func() {
		if err := node.Run(ctx, idle{}); err != nil {
			t.Errorf("run %s: %v", cfg.Listen, err)
		}
		rpc.Stop()
	})
	n := &testNode{Node: node, cfg: cfg, stop: sync.OnceFunc(func() {
		cancel()
		running.Wait()
		if err := node.Close(); err != nil {
			t.Errorf("close %s: %v", cfg.Listen, err)
		}
	})}
	t.Cleanup(n.stop)
	return n
}

// leads waits until a node leads, and returns its ledger.
func leads(t testing.TB, n *testNode) *Ledger {
	t.Helper()
	testkit.EventuallyNil(t, n.cfg.Listen+" leads", func() error {
		if l := n.Ledger(); l == nil || !l.leads() || l.Cluster() == "" {
			return ErrNotLeader
		}
		return nil
	})
	return n.Ledger()
}

// fillLedger writes n commands: rules of a job of its own.
func fillLedger(t testing.TB, l *Ledger, n int) {
	t.Helper()
	rules := quorum.DefaultConfig()
	for i := range n {
		rules.MinReplicas = 1 + i%100
		if err := l.Apply(Command{Kind: CommandConfigure, Job: "filler", UnixMs: 1, Config: &rules}); err != nil {
			t.Fatal(err)
		}
	}
}

// compact takes a snapshot, and returns where the log begins then.
func compact(l *Ledger) (uint64, error) {
	if err := l.raft.Snapshot().Error(); err != nil {
		return 0, err
	}
	return l.disk.FirstIndex()
}

// ledgerText is what a ledger holds, encoded.
func ledgerText(l *Ledger) string {
	if l == nil {
		return ""
	}
	snap, err := l.state.Snapshot()
	if err != nil {
		return err.Error()
	}
	return string(snap.(snapshot))
}

// Three nodes found a cluster. What the leader writes all hold; a server that does
// not lead refuses to write and to answer for the leader; and when the leadership is
// handed over, all name the next leader, with the same ledger.
func TestNodesFoundReplicateAndHandOver(t *testing.T) {
	t.Parallel()
	var nodes []*testNode
	for i := range 3 {
		nodes = append(nodes, startNode(t, func(cfg *Config) {
			cfg.DataDir, cfg.Expect = t.TempDir(), 3
			if i > 0 {
				cfg.Join = []string{nodes[0].cfg.Listen}
			}
		}))
	}
	led := func() *testNode {
		t.Helper()
		var leader *testNode
		testkit.EventuallyNil(t, "all know one leader", func() error {
			for _, n := range nodes {
				addr, self, ok := n.Leader()
				if self {
					leader = n
				}
				if !ok || leader != nil && addr != leader.Address() || len(n.Servers()) != 3 {
					return fmt.Errorf("%s: leader %q, %t, servers %q", n.Address(), addr, ok, n.Servers())
				}
			}
			if leader == nil {
				return ErrNotLeader
			}
			return nil
		})
		return leader
	}
	leader := led()
	first := leads(t, leader)
	fillLedger(t, first, 3)
	if err := first.Confirm(first.raft.CurrentTerm(), "filler", quorum.Quorum{}); err != nil {
		t.Errorf("the leader does not confirm that it leads: %v", err)
	}
	if err := first.Confirm(first.raft.CurrentTerm()+1, "filler", quorum.Quorum{}); !errors.Is(err, ErrNotLeader) {
		t.Errorf("confirmed in a term that is not its own: %v", err)
	}
	other := nodes[(slices.Index(nodes, leader)+1)%3]
	testkit.EventuallyNil(t, "all hold what was written", func() error { return same(ledgerText(first), ledgerText(other.Ledger())) })
	if err := other.Ledger().Apply(Command{Kind: CommandForget, Job: "filler"}); !errors.Is(err, ErrNotLeader) {
		t.Errorf("written by a server that does not lead: %v", err)
	}
	if _, err := other.Service().Members(t.Context(), &skerrypb.MembersRequest{}); !errors.Is(wire.FromStatus(err), wire.ErrNoLeader) {
		t.Errorf("members, of a server that does not lead: %v, want wire.ErrNoLeader", err)
	}
	changed := other.Changed()
	if _, err := leader.Service().TransferLeader(t.Context(), &skerrypb.TransferLeaderRequest{To: other.Address()}); err != nil {
		t.Fatal(err)
	}
	<-changed
	leads(t, other)
	if next := led(); next != other {
		t.Errorf("%s leads, want %s", next.Address(), other.Address())
	}
	if err := first.Apply(Command{Kind: CommandForget, Job: "filler"}); !errors.Is(err, ErrNotLeader) {
		t.Errorf("written by the last leader: %v", err)
	}
	if d := same(ledgerText(other.Ledger()), ledgerText(first)); d != nil {
		t.Error(d)
	}
}
