package bench

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/store"
	"github.com/skerry-ft/skerry/train/spawn"
)

// ranks is our contestant: n processes and the store they met in.
type ranks struct {
	*lineClient

	kind     transportKind
	procs    []*spawn.Process
	tasks    io.Closer // rank 0's standard input: its end ends all
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
func startRanks(ctx context.Context, n int, kind transportKind) (*ranks, error) {
	t, err := openTLS(kind.tls)
	if err != nil {
		return nil, err
	}
	address, endStore, err := serveStore(store.ServerConfig{TLS: t})
	if err != nil {
		return nil, err
	}
	r := &ranks{kind: kind, endStore: endStore}
	args, err := json.Marshal(rankArgs{Store: address + "/bench", Transport: kind.transport, Child: kind.child, TLS: kind.tls})
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	taskR, taskW, err := os.Pipe() // of the system: a task to a rank that has ended is an error
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	defer taskR.Close() // rank 0 has its own
	outR, outW := io.Pipe()
	r.lineClient = newLineClient(taskW, outR)
	r.tasks = taskW
	for rank := range n {
		o := spawn.Options{Args: args, Stderr: os.Stderr}
		if rank == 0 {
			o.Stdin, o.Stdout = taskR, outW
		}
		p, err := spawn.Start(spawn.Worker{Name: WorkerAllReduce, Rank: rank, WorldSize: n}, o)
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		r.procs = append(r.procs, p)
	}
	go func() { // ends with rank 0, which Close sees to
		<-r.procs[0].Done()
		outW.Close()
	}()
	return r, nil
}

// transportKind is one way to run our ranks.
type transportKind struct {
	impl      string
	transport tcp.Transport
	child     childKind
	tls       *store.TLSFiles // nil: in the clear
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
func ourTransports() []transportKind {
	return []transportKind{{impl: "skerry", transport: tcp.TransportAuto}, {impl: "skerry-tcp", transport: tcp.TransportTCP}}
}

// Impl names us.
func (r *ranks) Impl() string { return r.kind.impl }

// Close tells the workers to end, kills those that do not, and ends the store.
func (r *ranks) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), workersEnd)
	defer cancel()
	var errs []error
	if r.tasks != nil {
		errs = append(errs, r.tasks.Close())
	}
	for _, p := range r.procs {
		errs = append(errs, p.Wait(ctx))
		p.Kill()
	}
	return errors.Join(append(errs, r.endStore())...)
}
