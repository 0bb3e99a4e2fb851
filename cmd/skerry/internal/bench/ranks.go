package bench

import (
	"context"
	"errors"
	"time"

	"github.com/skerry-ft/skerry/cmd/skerry/internal/bench/worker"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/store"
)

// ranks is our contestant: n processes and the store they met in.
type ranks struct {
	*lineClient // of rank 0

	kind     rankKind
	procs    []*worker.Process
	endStore func() error
}

// workersEnd bounds how long workers are given to end by themselves.
const workersEnd = 5 * time.Second

// serveStore serves a store until end, which returns what the server said.
func serveStore(cfg store.ServerConfig) (address string, end func() error, err error) {
	server, err := store.NewServer(cfg)
	if err != nil {
		return "", nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Run(ctx) }()
	return server.Addr(), func() error {
		stop()
		return <-served
	}, nil
}

// startRanks starts n workers, which connect and wait for tasks.
func startRanks(n int, kind rankKind) (*ranks, error) {
	t, err := openTLS(kind.TLS)
	if err != nil {
		return nil, err
	}
	address, endStore, err := serveStore(store.ServerConfig{TLS: t})
	if err != nil {
		return nil, err
	}
	r := &ranks{kind: kind, endStore: endStore}
	kind.Store = address + "/bench"
	for rank := range n {
		p, err := worker.Start(WorkerAllReduce, rank, n, kind)
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		r.procs = append(r.procs, p)
	}
	r.lineClient = newLineClient(r.procs[0].Lines)
	r.takes = kind.takes
	return r, nil
}

// rankKind is one way to run our ranks. Each of them is told what is exported.
type rankKind struct {
	impl  string
	takes time.Duration // of a sample; 0: taskTime

	Store     string // where the ranks meet
	Transport tcp.Transport
	Child     childKind
	TLS       *store.TLSFiles // nil: in the clear
	Storm     int64           // bytes: see stormUntilKilled; 0: serve tasks
}

// childKind says whether the ranks' backends run in children.
type childKind string

const (
	noChild     childKind = ""
	childAlloc  childKind = "alloc"  // tensors of the Baby's own memory
	childCopies childKind = "copies" // tensors that it has to copy
)

// ourTransports are "skerry", as it is by default (shared memory on one host), and
// over loopback TCP as between hosts.
func ourTransports() []rankKind {
	return []rankKind{{impl: "skerry", Transport: tcp.TransportAuto}, {impl: "skerry-tcp", Transport: tcp.TransportTCP}}
}

// Impl names us.
func (r *ranks) Impl() string { return r.kind.impl }

// Close tells the workers to end, kills those that do not, and ends the store.
func (r *ranks) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), workersEnd)
	defer cancel()
	var errs []error
	for rank, p := range r.procs {
		if rank == 0 {
			errs = append(errs, p.In.Close()) // its end ends all
		}
		errs = append(errs, p.Wait(ctx))
		p.End()
	}
	return errors.Join(append(errs, r.endStore())...)
}
