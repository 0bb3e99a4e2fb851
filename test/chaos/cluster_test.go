package chaos

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/internal/procs"
	"github.com/skerry-ft/skerry/train/spawn"
)

// patience bounds every wait for something that must happen. It is no measure
// of speed: only a hang reaches it.
const patience = 60 * time.Second

// options says how a cluster starts.
type options struct {
	replicas   int // 0: 4
	steps      int64
	stepTime   time.Duration // 0: 20 ms
	ballastMiB int
	durable    bool

	checkpointEvery int64 // 0: trainers keep none

	smallDisk bool // of some megabytes, for checkpoints

	baby    bool // trainers' backends run in children
	guarded bool // all have certificates, and the operators' token

	// Of drills: their trainers count, see counter, and may end by themselves.
	drill       bool
	begin       int // how many replicas are started; 0: all
	minReplicas int
	stuckAfter  time.Duration
	stepTimeout time.Duration // 0: 20 s
	tune        func(a *workerArgs, index int)
}

// cluster is a lighthouse and trainers, each a process.
type cluster struct {
	t    *testing.T
	o    options
	mark string // in the environment of every process of this cluster
	tmp  string // their TMPDIR
	data string
	addr string

	checkpoints string // the folder of the trainers', or ""
	creds       *guardtest.Cluster
	disk        string // of the checkpoints

	light    *spawn.Process
	trainers []*spawn.Process
	started  []int // incarnations so far, by index

	mu struct {
		sync.Mutex

		reports []report
		changed chan struct{} // closed and replaced with every report
	}
}

// start runs a lighthouse and all trainers.
func start(t *testing.T, o options) *cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("chaos scenarios take seconds each: run without -short")
	}
	if o.replicas == 0 {
		o.replicas = 4
	}
	if o.stepTime == 0 {
		o.stepTime = 20 * time.Millisecond
	}
	if o.stepTimeout == 0 {
		o.stepTimeout = 20 * time.Second
	}
	c := &cluster{t: t, o: o, mark: "SKERRY_CHAOS=" + uuid.NewString(), tmp: filepath.Join(t.TempDir(), "tmp")}
	c.mu.changed = make(chan struct{})
	c.trainers, c.started = make([]*spawn.Process, o.replicas), make([]int, o.replicas)
	if err := os.Mkdir(c.tmp, 0o755); err != nil {
		t.Fatal(err)
	}
	if o.checkpointEvery > 0 {
		c.disk = t.TempDir()
		if o.smallDisk {
			c.disk = smallDisk(t)
		}
		c.checkpoints = filepath.Join(c.disk, "checkpoints")
	}
	if o.durable {
		c.data = filepath.Join(t.TempDir(), "data")
	}
	if o.guarded {
		c.creds = guardtest.New(t)
	}
	t.Cleanup(c.endAll)
	c.startLighthouse("127.0.0.1:0")
	for i := range o.replicas {
		if o.begin == 0 || i < o.begin {
			c.startTrainer(i)
		}
	}
	return c
}

// endAll kills what a failed test has left.
func (c *cluster) endAll() {
	for _, p := range append([]*spawn.Process{c.light}, c.trainers...) {
		if p != nil {
			p.Kill()
		}
	}
}

func (c *cluster) spawn(name string, index int, a workerArgs, out *lines) *spawn.Process {
	c.t.Helper()
	args, err := json.Marshal(a)
	if err != nil {
		c.t.Fatal(err)
	}
	o := spawn.Options{Args: args, Stdout: out, Env: append(c.credentials(name, index), c.mark, "TMPDIR="+c.tmp)}
	if a.Verbose {
		o.Stderr = os.Stderr
	}
	if *logs != "" {
		f, err := os.Create(filepath.Join(*logs, strings.ReplaceAll(
			fmt.Sprintf("%s-%s-%d.%d", c.t.Name(), name, index, c.started[index]), "/", "-")))
		if err != nil {
			c.t.Fatal(err)
		}
		c.t.Cleanup(func() { f.Close() }) // written to until the process has been reaped
		o.Stderr = f
	}
	p, err := spawn.Start(spawn.Worker{Name: name, Rank: index, WorldSize: c.o.replicas}, o)
	if err != nil {
		c.t.Fatal(err)
	}
	return p
}

// credentials are those of a process, as its environment.
func (c *cluster) credentials(name string, index int) []string {
	if c.creds == nil {
		return nil
	}
	role := guard.Replica
	if name == lighthouseWorker {
		role = guard.Lighthouse
	}
	g := c.creds.Options(c.t, role, fmt.Sprintf("%s-%d-%d", name, index, c.started[index]))
	return []string{
		guard.EnvTLSCA + "=" + g.TLSCA, guard.EnvTLSCert + "=" + g.TLSCert, guard.EnvTLSKey + "=" + g.TLSKey, guard.EnvTokenFile + "=" + g.TokenFile,
	}
}

// startLighthouse starts one and waits until it listens.
func (c *cluster) startLighthouse(listen string) {
	c.t.Helper()
	before := c.count(listening)
	c.light = c.spawn(lighthouseWorker, 0, workerArgs{
		Listen: listen, DataDir: c.data, Verbose: *verbose || *logs != "", MinReplicas: c.o.minReplicas,
		StuckAfter: c.o.stuckAfter, Guarded: c.o.guarded,
	},
		&lines{each: func(r report) { c.add(r, -1, 0) }})
	c.await("lighthouse listens", func() bool { return c.count(listening) > before })
	c.each(func(r report) {
		if r.Kind == listening {
			c.addr = r.Addr
		}
	})
}

// startTrainer starts the next incarnation of replica i.
func (c *cluster) startTrainer(i int) {
	c.t.Helper()
	c.started[i]++
	incarnation := c.started[i]
	a, name := c.trainerArgs(), trainerWorker
	if c.o.drill {
		name = counterWorker
	}
	if c.o.tune != nil {
		c.o.tune(&a, i)
	}
	c.trainers[i] = c.spawn(name, i, a, &lines{each: func(r report) { c.add(r, i, incarnation) }})
}

func (c *cluster) trainerArgs() workerArgs {
	return workerArgs{
		Lighthouse: c.addr, Replicas: c.o.replicas, Steps: c.o.steps, StepTime: c.o.stepTime,
		Checkpoints: c.checkpoints, CheckpointEvery: c.o.checkpointEvery,
		BallastMiB: c.o.ballastMiB, StepTimeout: c.o.stepTimeout, MinReplicas: c.o.minReplicas,
		Verbose: *verbose || *logs != "", Baby: c.o.baby, Guarded: c.o.guarded,
	}
}

// kill sends SIGKILL to trainers and reaps them.
func (c *cluster) kill(which ...int) {
	c.t.Helper()
	for _, i := range which {
		c.signal(c.trainers[i], syscall.SIGKILL)
	}
	for _, i := range which {
		<-c.trainers[i].Done()
	}
}

// cut ends the connections between two trainers, and tells whether there were any. Both
// processes live.
func (c *cluster) cut(a, b int) bool {
	c.t.Helper()
	if !c.mayCut() {
		return false
	}
	table, err := procs.Read()
	if err != nil {
		c.t.Fatal(err)
	}
	h, err := procs.Open(c.trainers[a].PID())
	if err != nil {
		c.t.Fatal(err)
	}
	defer h.Close()
	links := table.Between(h.PID, c.trainers[b].PID(), nil)
	for _, link := range links {
		if err := h.Shutdown(link); err != nil && !errors.Is(err, net.ErrClosed) {
			c.t.Fatal(err)
		}
	}
	return len(links) > 0
}

// mayCut tells whether the kernel lets this process into its trainers.
func (c *cluster) mayCut() bool {
	h, err := procs.Open(c.trainers[0].PID())
	if err != nil {
		c.t.Fatal(err)
	}
	defer h.Close()
	return h.MayTrace() == nil
}

func (c *cluster) signal(p *spawn.Process, s syscall.Signal) {
	c.t.Helper()
	if err := p.Signal(s); err != nil {
		c.t.Fatalf("send %v to pid %d: %v", s, p.PID(), err)
	}
}

func (c *cluster) add(r report, index, incarnation int) {
	r.index, r.incarnation = index, incarnation
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.reports = append(c.mu.reports, r)
	close(c.mu.changed)
	c.mu.changed = make(chan struct{})
}

// each calls f for every report so far, in the order in which they came.
func (c *cluster) each(f func(report)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.mu.reports {
		f(r)
	}
}

func (c *cluster) count(kind string) int {
	n := 0
	c.each(func(r report) {
		if r.Kind == kind {
			n++
		}
	})
	return n
}

// step is the highest step that any trainer, or the given one, has committed.
func (c *cluster) step(which ...int) int64 {
	var high int64
	c.each(func(r report) {
		if r.Kind == committed && (len(which) == 0 || r.index == which[0]) {
			high = max(high, r.Step)
		}
	})
	return high
}

// await waits until ok says true after some report.
func (c *cluster) await(what string, ok func() bool) {
	c.t.Helper()
	over := time.After(patience)
	for {
		c.mu.Lock()
		changed := c.mu.changed
		c.mu.Unlock()
		if ok() {
			return
		}
		if err := c.failed(); err != nil {
			c.t.Fatalf("while waiting until %s: %v", what, err)
		}
		select {
		case <-changed:
		case <-over:
			c.t.Fatalf("waited %v until %s; last reports:\n%s", patience, what, c.tail())
		}
	}
}

func (c *cluster) awaitStep(step int64, which ...int) {
	c.t.Helper()
	c.await(fmt.Sprintf("step %d was committed by %v", step, which), func() bool { return c.step(which...) >= step })
}

// awaitMore waits for some steps beyond those there are now.
func (c *cluster) awaitMore(steps int64, which ...int) {
	c.t.Helper()
	c.awaitStep(min(c.step()+steps, c.o.steps), which...)
}

// failed is how a process ended that nobody killed, or nil.
func (c *cluster) failed() error {
	if c.o.drill {
		return nil
	}
	for _, p := range append([]*spawn.Process{c.light}, c.trainers...) {
		if p == nil {
			continue
		}
		select {
		case <-p.Done():
			exit, ok := errors.AsType[*spawn.ExitError](p.Wait(c.t.Context()))
			if ok && exit.Signal == 0 {
				return exit
			}
		default:
		}
	}
	return nil
}

// tail is the end of what was reported, and what the processes said last.
func (c *cluster) tail() string {
	var b strings.Builder
	c.mu.Lock()
	last := c.mu.reports[max(0, len(c.mu.reports)-25):]
	for _, r := range last {
		fmt.Fprintf(&b, "  replica %d/%d: %s step %d %s\n", r.index, r.incarnation, r.Kind, r.Step, r.Text)
	}
	c.mu.Unlock()
	for i, p := range c.trainers {
		if p == nil {
			continue
		}
		fmt.Fprintf(&b, "  replica %d stderr: %s\n", i, p.TailStderr())
	}
	return b.String()
}

// lines splits a worker's output into reports.
type lines struct {
	rest []byte
	each func(report)
}

func (l *lines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte{'\n'})
		if !found {
			return len(p), nil
		}
		l.rest = rest
		var r report
		if json.Unmarshal(line, &r) == nil {
			l.each(r)
		}
	}
}
