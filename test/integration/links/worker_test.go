package links

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/store"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/spawn"
)

const workerName = "links-rank"

// order is what a rank is to do: serve (the store), configure, reduce (so many
// times, or until one fails).
type order struct {
	Do      string
	Address string // this rank's own, without a port
	Store   string
	Quorum  int64
	IDs     []string
	Rank    int
	Bytes   int
	Times   int
	Within  time.Duration // configure

	BeatTimeout time.Duration
}

// answer is what became of it.
type answer struct {
	Store   string
	Err     string
	Culprit string // replica id
	Peer    int
	First   bool // this rank saw it by itself
	Corrupt bool
	Done    int // reductions with the right result
	Wrong   int // elements that are not the sum, of reductions without an error
	Took    time.Duration
	Lanes   int
}

// limit is the deadline of each op: only a fault reaches it.
const limit = 60 * time.Second

// serveRank is one rank. It reads orders as JSON lines and answers each.
func serveRank(ctx context.Context, _ spawn.Worker) error {
	in, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	in.Buffer(nil, 1<<20)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var b *tcp.Backend
	for in.Scan() {
		var o order
		if err := json.Unmarshal(in.Bytes(), &o); err != nil {
			return err
		}
		var a answer
		if o.Do == "serve" {
			server, err := store.NewServer(store.ServerConfig{Listen: net.JoinHostPort(o.Address, "0"), Open: true})
			if err != nil {
				return err
			}
			done := make(chan error, 1)
			go func() { done <- server.Run(ctx) }()
			defer func() { cancel(); <-done }()
			a.Store = server.Addr()
		} else {
			if b == nil {
				b = tcp.New(tcp.Options{Listen: o.Address, BeatTimeout: o.BeatTimeout, Open: true})
				defer b.Close() //nolint:errcheck // the process ends
			}
			a = obey(ctx, b, &o)
		}
		if err := out.Encode(a); err != nil {
			return err
		}
	}
	return in.Err()
}

func obey(ctx context.Context, b *tcp.Backend, o *order) (a answer) {
	g := pg.NewGroup(b)
	began := time.Now()
	var err error
	switch o.Do {
	case "configure":
		ctx, cancel := context.WithTimeout(ctx, o.Within)
		defer cancel()
		err = g.Configure(ctx, pg.Config{
			StoreAddress: fmt.Sprintf("%s/links/%d", o.Store, o.Quorum), ReplicaIDs: o.IDs, Rank: o.Rank,
			Cluster: "links", QuorumID: o.Quorum, GroupWorldSize: 1, Timeout: limit,
		})
	case "reduce":
		for a.Done < o.Times && err == nil {
			var wrong int
			wrong, err = reduce(ctx, g, o, a.Done)
			a.Wrong += wrong
			if err == nil {
				a.Done++
			}
		}
	}
	a.Took = time.Since(began)
	a.Lanes = b.Stats().Lanes
	if err != nil {
		a.Err, a.Corrupt = err.Error(), errors.Is(err, tcp.ErrCorrupt)
		if e, ok := errors.AsType[*pg.OpError](err); ok {
			a.Culprit, a.Peer, a.First = e.PeerID, e.Peer, e.First
		}
	}
	return a
}

// reduce adds up numbers that depend on the rank, the place and the round, and
// counts what is not the sum.
func reduce(ctx context.Context, g *pg.Group, o *order, round int) (wrong int, err error) {
	x := make([]int64, o.Bytes/8)
	value := func(rank, i int) int64 { return int64(rank+1) * (int64(i) + int64(round)<<32 + o.Quorum) }
	for i := range x {
		x[i] = value(o.Rank, i)
	}
	if err := g.AllReduce(ctx, tensor.Of(x), tensor.Sum); err != nil {
		return 0, err
	}
	n := len(o.IDs)
	for i, got := range x {
		if got != value(n*(n+1)/2-1, i) {
			wrong++
		}
	}
	return wrong, nil
}
