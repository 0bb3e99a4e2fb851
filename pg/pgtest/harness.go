package pgtest

import (
	"context"
	"slices"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/store"
	"github.com/skerry-ft/skerry/tensor"
)

// Harness tells the suite how to make a backend, and what it can do.
type Harness struct {
	// New makes an unconfigured backend. The suite closes it.
	New func(t *testing.T) pg.Backend

	// StoreAddress gives "host:port" of a rendezvous store that lives until t
	// ends. Nil means a store.Server of the suite's own.
	StoreAddress func(t *testing.T) string

	// Kinds and DTypes are what the backend has; nil means all. Kinds that
	// are left out must give pg.ErrUnsupported.
	Kinds  []pg.Kind
	DTypes []tensor.DType

	// MaxWorldSize is the largest group to test; 0 means 5.
	MaxWorldSize int

	// NoDigests says that ballots carry no valid digest.
	NoDigests bool

	// Except names cases that the backend cannot keep, with the reason, which is
	// printed in their place.
	Except map[string]string

	// Kill breaks a backend's links as SIGKILL of its process would, without
	// a word to the peers. Nil skips the cases that need it.
	Kill func(b pg.Backend)

	// Corrupt makes the backend flip a bit of its next result that all ranks
	// share, before it is digested. Nil skips the cases that need it.
	Corrupt func(b pg.Backend)
}

// Run checks a backend that has every kind and dtype.
func Run(t *testing.T, newBackend func(t *testing.T) pg.Backend) {
	RunWith(t, Harness{New: newBackend})
}

// RunWith checks a backend.
func RunWith(t *testing.T, h Harness) {
	h = h.withDefaults()
	for _, c := range suite() {
		t.Run(c.name, func(t *testing.T) {
			if c.ranks > h.MaxWorldSize {
				t.Skipf("needs %d ranks, backend has at most %d", c.ranks, h.MaxWorldSize)
			}
			if reason := h.Except[c.name]; reason != "" {
				t.Skip(reason)
			}
			for _, k := range c.needs {
				if !slices.Contains(h.Kinds, k) {
					t.Skipf("backend has no %v", k)
				}
			}
			c.run(t, h)
		})
	}
}

// testCase is one rule of the contract.
type testCase struct {
	name  string
	ranks int // the least world size it needs
	needs []pg.Kind
	run   func(t *testing.T, h Harness)
}

func suite() []testCase {
	return []testCase{
		{"Life", 1, nil, testLife},
		{"Reductions", 1, []pg.Kind{pg.KindAllReduce}, testReductions},
		{"BigReductions", 1, []pg.Kind{pg.KindAllReduce}, testBigReductions},
		{"Coalesced", 3, []pg.Kind{pg.KindAllReduce}, testCoalesced},
		{"Reduce", 1, []pg.Kind{pg.KindReduce}, testReduce},
		{"ReduceScatter", 1, []pg.Kind{pg.KindReduceScatter}, testReduceScatter},
		{"Broadcast", 1, []pg.Kind{pg.KindBroadcast}, testBroadcast},
		{"AllGather", 1, []pg.Kind{pg.KindAllGather}, testAllGather},
		{"Gather", 1, []pg.Kind{pg.KindGather}, testGather},
		{"Scatter", 1, []pg.Kind{pg.KindScatter}, testScatter},
		{"AllToAll", 1, []pg.Kind{pg.KindAllToAll}, testAllToAll},
		{"Barrier", 3, []pg.Kind{pg.KindBarrier}, testBarrier},
		{"PointToPoint", 2, []pg.Kind{pg.KindSend, pg.KindRecv}, testPointToPoint},
		{"AnySource", 4, []pg.Kind{pg.KindSend, pg.KindRecv}, testAnySource},
		{"Batches", 3, []pg.Kind{pg.KindBatch, pg.KindSend, pg.KindRecv, pg.KindAllReduce}, testBatches},
		{"Seeds", 4, pg.Kinds(), testSeeds},
		{"Uneven", 2, []pg.Kind{pg.KindAllGather}, testUneven},
		{"Multi", 3, []pg.Kind{pg.KindAllReduce, pg.KindReduce, pg.KindBatch}, testMulti},
		{"MonitoredBarrier", 4, []pg.Kind{pg.KindSend, pg.KindRecv}, testMonitoredBarrier},
		{"Subgroups", 4, []pg.Kind{pg.KindAllReduce, pg.KindAllGather}, testSubgroups},
		{"SubgroupFails", 3, []pg.Kind{pg.KindAllReduce, pg.KindAllGather}, testSubgroupFails},
		{"Order", 3, []pg.Kind{pg.KindAllReduce, pg.KindBroadcast}, testOrder},
		{"Ballot", 1, []pg.Kind{pg.KindBallot, pg.KindAllReduce}, testBallot},
		{"BallotCorrupt", 3, []pg.Kind{pg.KindBallot, pg.KindAllReduce}, testBallotCorrupt},
		{"BallotBroken", 3, []pg.Kind{pg.KindBallot}, testBallotBroken},
		{"InvalidOp", 2, []pg.Kind{pg.KindAllReduce}, testInvalidOp},
		{"Unsupported", 2, nil, testUnsupported},
		{"Mismatch", 2, []pg.Kind{pg.KindAllReduce, pg.KindBroadcast}, testMismatch},
		{"Round", 2, []pg.Kind{pg.KindAllReduce}, testRound},
		{"Abort", 4, []pg.Kind{pg.KindAllReduce}, testAbort},
		{"AbortOtherEpoch", 2, []pg.Kind{pg.KindAllReduce}, testAbortOtherEpoch},
		{"Cancel", 3, []pg.Kind{pg.KindAllReduce}, testCancel},
		{"Deadline", 3, []pg.Kind{pg.KindAllReduce}, testDeadline},
		{"PeerCloses", 3, []pg.Kind{pg.KindAllReduce}, testPeerCloses},
		{"PeerKilled", 3, []pg.Kind{pg.KindAllReduce}, testPeerKilled},
		{"Reconfigure", 5, []pg.Kind{pg.KindAllReduce}, testReconfigure},
		{"UsedPrefix", 2, nil, testUsedPrefix},
		{"ConfigureEnds", 2, nil, testConfigureEnds},
		{"AbortStress", 3, []pg.Kind{pg.KindAllReduce}, testAbortStress},
		{"Poison", 3, []pg.Kind{
			pg.KindAllReduce, pg.KindAllGather, pg.KindReduceScatter, pg.KindAllToAll, pg.KindSend, pg.KindRecv,
		}, testPoison},
		{"Token", 2, []pg.Kind{pg.KindAllReduce}, testToken},
		{"CloseEnds", 2, nil, testCloseEnds},
		{"Leaks", 3, []pg.Kind{pg.KindAllReduce}, testLeaks},
	}
}

// storeAddress gives the store of a case.
func (h Harness) storeAddress(t *testing.T) string {
	t.Helper()
	if h.StoreAddress != nil {
		return h.StoreAddress(t)
	}
	return StartStore(t)
}

// StartStore serves a store on loopback until t ends and returns its address.
func StartStore(t testing.TB) string {
	t.Helper()
	server, err := store.NewServer(store.ServerConfig{})
	if err != nil {
		t.Fatalf("start store: %v", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("store: %v", err)
		}
	})
	return server.Addr()
}
