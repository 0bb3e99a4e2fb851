package failover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/skerry-ft/skerry/internal/paralleltest"
	"github.com/skerry-ft/skerry/internal/portlease"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/cluster"
	"github.com/skerry-ft/skerry/train/spawn"
)

// patience bounds every wait for something that must happen; only a hang
// reaches it.
const patience = 60 * time.Second

const lighthouseWorker = "failover-lighthouse"

// testsAtOnce is how many tests run at a time, unless -parallel says otherwise: they
// wait for elections rather than compute.
const testsAtOnce = 3

func TestMain(m *testing.M) {
	enterNetNS()
	spawn.Register(lighthouseWorker, serve)
	spawn.Init()
	paralleltest.AtOnce(testsAtOnce)
	os.Exit(m.Run())
}

// serverArgs is what the test tells a server's process.
type serverArgs struct {
	Listen, DataDir string
	Join            []string
	Expect          int // 0: joins, and never votes
	Timing          string
	Verbose         bool
	NetNS           string // "": this process's
}

// serve is the process of one server.
func serve(ctx context.Context, w spawn.Worker) error {
	var a serverArgs
	if err := json.Unmarshal(w.Args, &a); err != nil {
		return err
	}
	cfg := lighthouse.DefaultConfig()
	cfg.Listen, cfg.DataDir, cfg.Guard.Open = a.Listen, a.DataDir, true
	host, _, err := net.SplitHostPort(a.Listen)
	if err != nil {
		return err
	}
	cfg.Cluster.RaftAddress, cfg.Cluster.GossipAddress = net.JoinHostPort(host, "0"), net.JoinHostPort(host, "0")
	cfg.Cluster.Expect, cfg.Cluster.Join, cfg.Cluster.NonVoter = a.Expect, a.Join, a.Expect == 0
	timing := cluster.Timings()[a.Timing]
	cfg.Raft.Heartbeat, cfg.Raft.Election, cfg.Raft.Lease = timing.Heartbeat, timing.Election, timing.Lease
	// Servers and replicas share this machine, and whatever else runs on it: what
	// is asked here is what a failover does, not how fast a busy machine is.
	cfg.Rules.HeartbeatTimeout, cfg.Rules.Grace, cfg.Rules.SuspectAfter = 4*time.Second, 4*time.Second, 2*time.Second
	cfg.Rules.ProbationAfter = 0 // who comes and goes here does so on purpose
	level := zerolog.ErrorLevel
	if a.Verbose {
		level = zerolog.InfoLevel
	}
	cfg.Log = zerolog.New(os.Stderr).Level(level).With().Timestamp().Str("server", a.Listen).Logger()
	s, err := lighthouse.New(cfg)
	if err != nil {
		return err
	}
	return s.Run(ctx)
}

// servers are the processes of a cluster, and a forwarder beside them that
// never votes.
type servers struct {
	t     *testing.T
	args  []serverArgs // the voters', then the forwarder's
	procs []*spawn.Process
}

// startServers runs three voters and a forwarder, and waits for a leader.
func startServers(t *testing.T, timing string) *servers {
	t.Helper()
	if testing.Short() {
		t.Skip("failover scenarios take seconds each: run without -short")
	}
	const voters = 3
	c := &servers{t: t}
	addrs := portlease.ForTest(t, voters+1)
	for i, addr := range addrs {
		a := serverArgs{
			Listen: addr, DataDir: filepath.Join(t.TempDir(), fmt.Sprint("server-", i)),
			Join: addrs[:voters], Timing: timing, Verbose: *verbose,
		}
		if i < voters {
			a.Expect = voters
		}
		c.args = append(c.args, a)
		c.procs = append(c.procs, nil)
	}
	t.Cleanup(c.end)
	for i := range c.args {
		c.start(i)
	}
	for i := range c.args {
		c.awaitServing(i)
	}
	return c
}

// end kills what runs.
func (c *servers) end() {
	for _, p := range c.procs {
		if p != nil {
			p.Kill()
			<-p.Done()
		}
	}
}

// voters are the addresses of the servers that vote.
func (c *servers) voters() []string {
	var all []string
	for _, a := range c.args {
		if a.Expect > 0 {
			all = append(all, a.Listen)
		}
	}
	return all
}

// forwarder is the address of the server that never votes.
func (c *servers) forwarder() string { return c.args[len(c.args)-1].Listen }

func (c *servers) start(i int) {
	c.t.Helper()
	args, err := json.Marshal(c.args[i])
	if err != nil {
		c.t.Fatal(err)
	}
	o := spawn.Options{Args: args, Stdout: io.Discard}
	if *verbose {
		o.Stderr = os.Stderr
	}
	if name := c.args[i].NetNS; name != "" {
		o.Env = append(o.Env, envNetNS+"="+name)
	}
	c.procs[i], err = spawn.Start(spawn.Worker{Name: lighthouseWorker, Rank: i, WorldSize: len(c.args)}, o)
	if err != nil {
		c.t.Fatal(err)
	}
}

// kill sends SIGKILL and reaps.
func (c *servers) kill(i int) {
	c.t.Helper()
	c.signal(i, syscall.SIGKILL)
	<-c.procs[i].Done()
}

func (c *servers) signal(i int, s syscall.Signal) {
	c.t.Helper()
	select {
	case <-c.procs[i].Done():
		c.t.Fatalf("server %d ended by itself: %v", i, c.procs[i].Wait(c.t.Context()))
	default:
	}
	if err := c.procs[i].Signal(s); err != nil {
		c.t.Fatalf("send %v to server %d: %v", s, i, err)
	}
}

// stop stops server i, and returns when it has: until all of its threads have seen
// the signal, some of a busy machine's go on, and answer.
func (c *servers) stop(i int) {
	c.t.Helper()
	c.signal(i, syscall.SIGSTOP)
	testkit.EventuallyNil(c.t, "the server is stopped", func() error {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", c.procs[i].PID()))
		if err == nil && len(threads) == 0 {
			err = errors.New("it is gone")
		}
		for _, thread := range threads {
			text, readErr := os.ReadFile(thread)
			if _, state, ok := strings.Cut(string(text), ") "); !ok || !strings.HasPrefix(state, "T") {
				err = errors.Join(err, readErr, fmt.Errorf("%s: %.20s", thread, state))
			}
		}
		return err
	})
}

// info asks one server who leads.
func (c *servers) info(ctx context.Context, i int) (*skerrypb.InfoResponse, error) {
	conn, err := grpc.NewClient("passthrough:///"+c.args[i].Listen,
		append(wire.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		return nil, err
	}
	defer conn.Close() //nolint:errcheck // nothing is lost with it
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return skerrypb.NewLighthouseClient(conn).Info(ctx, &skerrypb.InfoRequest{})
}

// awaitServing waits until a server serves calls, its own or the leader's.
func (c *servers) awaitServing(i int) {
	c.t.Helper()
	testkit.EventuallyNil(c.t, fmt.Sprintf("server %d serves", i), func() error {
		select {
		case <-c.procs[i].Done():
			c.t.Fatalf("server %d ended by itself: %v", i, c.procs[i].Wait(c.t.Context()))
		default:
		}
		_, err := c.info(c.t.Context(), i)
		return err
	})
}

// leader waits until a voter leads, and returns its index. down is one that is
// not to be asked.
func (c *servers) leader(down int) int {
	c.t.Helper()
	leader := -1
	testkit.EventuallyNil(c.t, "a server leads", func() error {
		asked := (down + 1) % len(c.voters())
		info, err := c.info(c.t.Context(), asked)
		if err != nil {
			return err
		}
		for i, a := range c.args {
			if a.Listen == info.GetLeader() && i != down {
				leader = i
				return nil
			}
		}
		return fmt.Errorf("server %d says that %q leads", asked, info.GetLeader())
	})
	return leader
}
