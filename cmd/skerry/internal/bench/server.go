package bench

import (
	"bytes"
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
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/raft"

	"github.com/skerry-ft/skerry/internal/portlease"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/train/spawn"
)

// WorkerLighthouse is the name under which main registers LighthouseWorker.
const WorkerLighthouse = "bench-lighthouse"

// serverLimit bounds the wait for a server to be ready, or for a leader.
const serverLimit = 30 * time.Second

// voter is one server of a cluster.
type voter struct {
	ID      string `json:"id"`
	Address string `json:"address"` // for RPC and HTTP
	Raft    string `json:"raft"`
}

// serverArgs go to a server process.
type serverArgs struct {
	Listen      string  `json:"listen"`
	DataDir     string  `json:"data_dir"` // empty: in memory
	MinReplicas int     `json:"min_replicas"`
	Voters      []voter `json:"voters"` // none: a server alone
	Fast        bool    `json:"fast"`   // raft's timing
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
	if len(args.Voters) > 0 {
		transport, err := raft.NewTCPTransport(args.Voters[w.Rank].Raft, nil, 2, time.Second, io.Discard)
		if err != nil {
			return fmt.Errorf("listen for raft: %w", err)
		}
		defer transport.Close() //nolint:errcheck // the process ends
		cfg.Raft.Transport, cfg.Raft.LocalID = transport, raft.ServerID(args.Voters[w.Rank].ID)
		for _, v := range args.Voters {
			cfg.Raft.Servers = append(cfg.Raft.Servers, raft.Server{ID: raft.ServerID(v.ID), Address: raft.ServerAddress(v.Raft)})
		}
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
	procs []*spawn.Process // nil: killed
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
	var voters []voter
	for i := range o.count {
		args := serverArgs{Listen: "127.0.0.1:0", MinReplicas: o.minReplicas, Fast: o.fast}
		if o.durable {
			args.DataDir = filepath.Join(dir, strconv.Itoa(i))
		}
		if s.lease != nil {
			ports := s.lease.Addrs[2*i:]
			args.Listen = ports[0]
			voters = append(voters, voter{ID: "server-" + strconv.Itoa(i), Address: ports[0], Raft: ports[1]})
		}
		s.args = append(s.args, args)
	}
	s.procs, s.addrs = make([]*spawn.Process, o.count), make([]string, o.count)
	for i := range s.args {
		s.args[i].Voters = voters
		if err := s.start(ctx, i); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	if _, err := s.leader(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// firstLine hands the first line on.
type firstLine struct {
	once sync.Once
	line chan []byte
	buf  bytes.Buffer
}

// Write looks for the end of the first line.
func (f *firstLine) Write(p []byte) (int, error) {
	f.buf.Write(p)
	if line, err := bytes.NewBuffer(f.buf.Bytes()).ReadBytes('\n'); err == nil {
		f.once.Do(func() { f.line <- line })
	}
	return len(p), nil
}

// start starts one server process and waits until it listens.
func (s *servers) start(ctx context.Context, i int) error {
	args, err := json.Marshal(s.args[i])
	if err != nil {
		return err
	}
	first := &firstLine{line: make(chan []byte, 1)}
	p, err := spawn.Start(spawn.Worker{Name: WorkerLighthouse, Rank: i, WorldSize: len(s.args)}, spawn.Options{Args: args, Stdout: first})
	if err != nil {
		return err
	}
	s.procs[i] = p
	ctx, cancel := context.WithTimeout(ctx, serverLimit)
	defer cancel()
	select {
	case line := <-first.line:
		return json.Unmarshal(line, &s.addrs[i])
	case <-p.Done():
		return fmt.Errorf("lighthouse server %d ended: %s", i, p.TailStderr())
	case <-ctx.Done():
		return fmt.Errorf("lighthouse server %d does not listen: %w", i, context.Cause(ctx))
	}
}

// kill is SIGKILL, and returns when the process is gone.
func (s *servers) kill(i int) {
	s.procs[i].Kill()
	<-s.procs[i].Done()
	s.procs[i] = nil
}

// pids are those of the servers that run.
func (s *servers) pids() []int {
	var pids []int
	for _, p := range s.procs {
		if p != nil {
			pids = append(pids, p.PID())
		}
	}
	return pids
}

// leader waits until exactly one server leads, and returns its index.
func (s *servers) leader(ctx context.Context) (int, error) {
	deadline := time.Now().Add(serverLimit)
	for {
		leads := -1
		for i, p := range s.procs {
			if p == nil {
				continue
			}
			if v, err := s.metric(ctx, i, "skerry_lighthouse_leader"); err == nil && v == 1 {
				leads = i
			}
		}
		if leads >= 0 {
			return leads, nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return 0, errors.Join(errors.New("no lighthouse server leads"), context.Cause(ctx))
		}
		time.Sleep(5 * time.Millisecond)
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
	for line := range strings.Lines(string(all)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("server %s has no metric %s", s.addrs[i], name)
}

// Close ends the processes and removes their data.
func (s *servers) Close() error {
	for _, p := range s.procs {
		if p != nil {
			p.Kill()
			<-p.Done()
		}
	}
	s.http.CloseIdleConnections()
	err := os.RemoveAll(s.dir)
	if s.lease != nil {
		err = errors.Join(err, s.lease.Close())
	}
	return err
}

// clockTick is the unit of times in /proc: USER_HZ, 100 a second on every Linux
// that Go runs on.
const clockTick = 10 * time.Millisecond

// cpuOf is the time that a process has used, its user and system time.
func cpuOf(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may hold anything; state is the field after it.
	_, rest, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')'):]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("read /proc/%d/stat: %d fields", pid, len(fields))
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * clockTick, errors.Join(err1, err2)
}

// memoryOf is a process's resident memory in MiB: now, and at most so far.
func memoryOf(pid int) (now, most float64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		kib, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64) // other lines are no numbers
		switch name {
		case "VmRSS":
			now = kib / 1024
		case "VmHWM":
			most = kib / 1024
		}
	}
	return now, most, nil
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
