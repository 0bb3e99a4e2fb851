package pgtest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
)

// A member of an in-memory group is killed; the other learns who it was.
func ExampleMemory() {
	network := pgtest.NewMemory()
	a, b := network.Backend(), network.Backend()
	config := func(rank int) pg.Config {
		return pg.Config{
			StoreAddress: "anywhere/1", ReplicaIDs: []string{"a", "b"}, Rank: rank, Cluster: "c", QuorumID: 1,
		}
	}
	ready := make(chan error)
	go func() { ready <- b.Configure(context.Background(), config(1)) }()
	fmt.Println(a.Configure(context.Background(), config(0)), <-ready)

	work := pg.NewGroup(a).BarrierAsync()
	b.Kill()
	<-work.Done()
	lost, _ := errors.AsType[*pg.OpError](work.Err())
	fmt.Println(lost.PeerID, errors.Is(lost, pg.ErrPeerLost))
	// Output:
	// <nil> <nil>
	// b true
}
