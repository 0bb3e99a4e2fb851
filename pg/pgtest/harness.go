package pgtest

import (
	"context"
	"slices"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/store"
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
	DTypes []pg.DType

	// MaxWorldSize is the largest group to test; 0 means 5.
	MaxWorldSize int

	// NoDigests says that ballots carry no valid digest.
	NoDigests bool

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
	if h.Kinds == nil {
		h.Kinds = pg.Kinds()
	}
	if h.DTypes == nil {
		h.DTypes = pg.DTypes()
	}
	if h.MaxWorldSize == 0 {
		h.MaxWorldSize = 5
	}
	cases := []struct {
		name  string
		needs []pg.Kind
		run   func(t *testing.T, h Harness)
	}{
		{"Life", nil, testLife},
		{"Reductions", []pg.Kind{pg.KindAllReduce}, testReductions},
		{"BigReductions", []pg.Kind{pg.KindAllReduce}, testBigReductions},
		{"Coalesced", []pg.Kind{pg.KindAllReduce}, testCoalesced},
		{"Reduce", []pg.Kind{pg.KindReduce}, testReduce},
		{"ReduceScatter", []pg.Kind{pg.KindReduceScatter}, testReduceScatter},
		{"Broadcast", []pg.Kind{pg.KindBroadcast}, testBroadcast},
		{"AllGather", []pg.Kind{pg.KindAllGather}, testAllGather},
		{"Gather", []pg.Kind{pg.KindGather}, testGather},
		{"Scatter", []pg.Kind{pg.KindScatter}, testScatter},
		{"AllToAll", []pg.Kind{pg.KindAllToAll}, testAllToAll},
		{"Barrier", []pg.Kind{pg.KindBarrier}, testBarrier},
		{"PointToPoint", []pg.Kind{pg.KindSend, pg.KindRecv}, testPointToPoint},
		{"AnySource", []pg.Kind{pg.KindSend, pg.KindRecv}, testAnySource},
		{"Order", []pg.Kind{pg.KindAllReduce, pg.KindBroadcast}, testOrder},
		{"Ballot", []pg.Kind{pg.KindBallot, pg.KindAllReduce}, testBallot},
		{"BallotCorrupt", []pg.Kind{pg.KindBallot, pg.KindAllReduce}, testBallotCorrupt},
		{"BallotBroken", []pg.Kind{pg.KindBallot}, testBallotBroken},
		{"InvalidOp", []pg.Kind{pg.KindAllReduce}, testInvalidOp},
		{"Unsupported", nil, testUnsupported},
		{"Mismatch", []pg.Kind{pg.KindAllReduce, pg.KindBroadcast}, testMismatch},
		{"Round", []pg.Kind{pg.KindAllReduce}, testRound},
		{"Abort", []pg.Kind{pg.KindAllReduce}, testAbort},
		{"AbortOtherEpoch", []pg.Kind{pg.KindAllReduce}, testAbortOtherEpoch},
		{"Cancel", []pg.Kind{pg.KindAllReduce}, testCancel},
		{"Deadline", []pg.Kind{pg.KindAllReduce}, testDeadline},
		{"PeerCloses", []pg.Kind{pg.KindAllReduce}, testPeerCloses},
		{"PeerKilled", []pg.Kind{pg.KindAllReduce}, testPeerKilled},
		{"Reconfigure", []pg.Kind{pg.KindAllReduce}, testReconfigure},
		{"UsedPrefix", nil, testUsedPrefix},
		{"ConfigureEnds", nil, testConfigureEnds},
		{"Leaks", []pg.Kind{pg.KindAllReduce}, testLeaks},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, k := range c.needs {
				if !slices.Contains(h.Kinds, k) {
					t.Skipf("backend has no %v", k)
				}
			}
			c.run(t, h)
		})
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
func StartStore(t *testing.T) string {
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
