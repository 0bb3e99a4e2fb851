package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/raft"

	"github.com/skerry-ft/skerry/cmd/skerry/internal/bench/worker"
	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/internal/portlease"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/train/spawn"
)

// WorkerLighthouse is the name under which main registers LighthouseWorker.
const WorkerLighthouse = "bench-lighthouse"

// serverLimit bounds the wait for a server to be ready, or for a leader.
const serverLimit = 30 * time.Second

// serverArgs go to a server process.
type serverArgs struct {
	Listen      string   `json:"listen"`
	DataDir     string   `json:"data_dir"` // empty: in memory
	MinReplicas int      `json:"min_replicas"`
	Raft        []string `json:"raft"` // addresses of all voters; none: a server alone
	Fast        bool     `json:"fast"` // raft's timing
}

// fastTiming is raft's when a failover shall be short: heartbeat and election.
const (
	fastTiming = 100 * time.Millisecond
	fastLease  = 50 * time.Millisecond
)

// LighthouseWorker is one lighthouse server in a process of its own, so that
// its time and memory can be told apart from those of who asks it.
func LighthouseWorker(ctx context.Context, w spawn.Worker) error {
	var args serverArgs
	if err := json.Unmarshal(w.Args, &args); err != nil {
		return fmt.Errorf("read arguments: %w", err)
	}
	cfg := lighthouse.DefaultConfig()
	cfg.Listen, cfg.DataDir, cfg.Rules.MinReplicas = args.Listen, args.DataDir, args.MinReplicas
	cfg.MaxReplicasPerJob = quorum.MaxMembers
	if len(args.Raft) > 0 {
		transport, err := raft.NewTCPTransport(args.Raft[w.Rank], nil, 2, time.Second, io.Discard)
		if err != nil {
			return fmt.Errorf("listen for raft: %w", err)
		}
		defer transport.Close() //nolint:errcheck // the process ends
		for i, addr := range args.Raft {
			id := raft.ServerID(fmt.Sprintf("server-%d", i))
			cfg.Raft.Servers = append(cfg.Raft.Servers, raft.Server{ID: id, Address: raft.ServerAddress(addr)})
		}
		cfg.Raft.Transport, cfg.Raft.LocalID = transport, cfg.Raft.Servers[w.Rank].ID
		if args.Fast {
			cfg.Raft.Heartbeat, cfg.Raft.Election, cfg.Raft.Lease = fastTiming, fastTiming, fastLease
		}
	}
	s, err := lighthouse.New(cfg)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(s.Addr().String()); err != nil {
		return errors.Join(err, s.Close())
	}
	return s.Run(ctx)
}

// servers are lighthouse processes of one cluster.
type servers struct {
	args  []serverArgs
	procs []*worker.Process // nil: killed
	addrs []string
	lease *portlease.Lease // of args; nil: the kernel chose
	dir   string
	http  *http.Client
}

// serverOptions say which servers are wanted.
type serverOptions struct {
	count, minReplicas int
	durable, fast      bool
}

// startServers starts a cluster and waits until one of its servers leads.
func startServers(ctx context.Context, o serverOptions) (*servers, error) {
	dir, err := os.MkdirTemp("", "skerry-bench-")
	if err != nil {
		return nil, err
	}
	s := &servers{dir: dir, http: &http.Client{Timeout: time.Second}}
	if o.count > 1 { // a server that is killed comes back where it was
		if s.lease, err = portlease.Take(2 * o.count); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	for i := range o.count {
		args := serverArgs{Listen: "127.0.0.1:0", MinReplicas: o.minReplicas, Fast: o.fast}
		if o.durable {
			args.DataDir = filepath.Join(dir, strconv.Itoa(i))
		}
		if s.lease != nil {
			args.Listen, args.Raft = s.lease.Addrs[i], s.lease.Addrs[o.count:]
		}
		s.args = append(s.args, args)
	}
	s.procs, s.addrs = make([]*worker.Process, o.count), make([]string, o.count)
	for i := range s.args {
		if err := s.start(ctx, i); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	if _, err := s.leader(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// start starts one server process and waits until it listens.
func (s *servers) start(ctx context.Context, i int) error {
	p, err := worker.Start(WorkerLighthouse, i, len(s.args), s.args[i])
	if err != nil {
		return err
	}
	s.procs[i] = p
	ctx, cancel := context.WithTimeout(ctx, serverLimit)
	defer cancel()
	defer context.AfterFunc(ctx, p.Kill)()
	if err := p.Next(&s.addrs[i]); err != nil {
		return fmt.Errorf("lighthouse server %d does not listen: %w", i, errors.Join(err, context.Cause(ctx)))
	}
	return nil
}

// asked is server i as one that is asked; its end is that of all.
func (s *servers) asked(i int) asked {
	return asked{impl: "skerry", addr: s.addrs[i], pid: s.procs[i].PID(), end: s.Close}
}

// kill is SIGKILL, and returns when the process is gone.
func (s *servers) kill(i int) {
	s.procs[i].End()
	s.procs[i] = nil
}

// leader waits until a server leads, and returns its index.
func (s *servers) leader(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, serverLimit, errors.New("no lighthouse server leads"))
	defer cancel()
	for {
		for i, p := range s.procs {
			if p == nil {
				continue
			}
			if v, err := s.metric(ctx, i, "skerry_lighthouse_leader"); err == nil && v == 1 {
				return i, nil
			}
		}
		if err := backoff.Sleep(ctx, 5*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

// metric reads one of a server's metrics.
func (s *servers) metric(ctx context.Context, i int, name string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.addrs[i]+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	answer, err := s.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(all), "\n"+name+" ")
	var value float64
	if _, err := fmt.Sscan(rest, &value); err != nil {
		return 0, fmt.Errorf("read metric %s of server %s: %w", name, s.addrs[i], err)
	}
	return value, nil
}

// Close ends the processes and removes their data.
func (s *servers) Close() error {
	for _, p := range s.procs {
		if p != nil {
			p.End()
		}
	}
	s.http.CloseIdleConnections()
	err := os.RemoveAll(s.dir)
	if s.lease != nil {
		err = errors.Join(err, s.lease.Close())
	}
	return err
}

// moreFiles raises this process's limit of open files to what it may be: each
// connection is one.
func moreFiles() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	limit.Cur = limit.Max
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}
