package chaos

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/internal/portlease"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/train/spawn"
)

// The world of a soak: three servers, and five replicas that count, of which three must take
// part in a step. So while at most two of them are disturbed, one that has the newest state is
// well.
const (
	worldServers  = 3
	worldReplicas = 5
	worldMin      = 3
	mayDisturb    = worldReplicas - worldMin
	worldSteps    = 50 // are committed at least before a world ends
)

// hostOf is where each replica is; server i is on host i.
var hostOf = [worldReplicas]int{0, 0, 1, 1, 2}

// settling bounds how long a replica that nothing disturbs any more may take to commit a
// step. It is no measure of speed.
const settling = 2 * patience

// world is that, and what is wrong with it at the moment. It is used by one goroutine, but
// for saw.
type world struct {
	*cluster

	rng      *rand.Rand
	seed     uint64
	builds   []programs
	hosts    *hosts // nil: all are on loopback
	guarded  bool
	gossip   string // key file
	addrs    []string
	servers  []*server
	replicas []*replica
	births   map[[2]int]int64  // of each incarnation of a replica: a monotonic time
	missing  map[string]string // what this machine cannot do, by what a mishap needs, and why

	alone   string // the mishap that bears no other, until all have settled; or ""
	undoing []undo
	began   time.Time
	leading atomic.Int64 // the server that said so last
	stats   legStats
	before  int64     // steps that runs before this one committed
	run     int       // how often all replicas have died: what was committed in each run is judged by itself
	wellAt  time.Time // when all were last
	log     *os.File

	unchecked bool // whether what was told of quorums fits into one order is not known
}

// server is a lighthouse server's place.
type server struct {
	proc *spawn.Process
	build,
	starts int
	busy bool // a mishap has it
	disk string
	wall *testkit.Wall
	slow *starving
}

// replica is a replica's place.
type replica struct {
	proc     *spawn.Process
	build    int
	baby     bool
	busy     bool  // a mishap has it
	since    int64 // it is well since, and has not committed: a monotonic time; 0: it has
	why      string
	taken    time.Time
	wall     *testkit.Wall
	slow     *starving
	memory   *tight
	lastStep int64 // these two are guarded by the cluster's lock
	lastAt   int64
}

// undo is what ends a mishap.
type undo struct {
	at    time.Time
	ready func() bool // not before this, too, if there is one
	do    func()
}

// monotonic is a time that all processes of this machine share, and that no jump moves.
func monotonic() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err) // this clock is always there
	}
	return now.Nano()
}

// newWorld makes one from a seed, and waits until all train.
func newWorld(t *testing.T, seed uint64, builds []programs, log *os.File) *world {
	t.Helper()
	c := &cluster{t: t, mark: "SKERRY_CHAOS=" + uuid.NewString(), tmp: filepath.Join(t.TempDir(), "tmp"), o: options{
		replicas: worldReplicas, drill: true, minReplicas: worldMin, stepTime: 20 * time.Millisecond, stepTimeout: 5 * time.Second,
	}}
	c.mu.changed = make(chan struct{})
	c.trainers, c.started = make([]*spawn.Process, worldReplicas), make([]int, worldReplicas)
	if err := os.Mkdir(c.tmp, 0o755); err != nil {
		t.Fatal(err)
	}
	w := &world{cluster: c, rng: rand.New(rand.NewPCG(seed, 2)), seed: seed, builds: builds, missing: map[string]string{}, births: map[[2]int]int64{}, log: log}
	w.furnish()
	w.began, w.wellAt = time.Now(), time.Now()
	t.Cleanup(w.endWorld) // before what they live in goes
	for i := range worldServers {
		w.startServer(i)
	}
	for i := range worldReplicas {
		w.startReplica(i, nil)
	}
	w.awaitFor(settling, "every replica has committed a step", func() bool { return w.unsettled() == "" })
	w.began = time.Now()
	w.stats.from = monotonic()
	return w
}

// furnish makes what the processes live in, as far as this machine can.
func (w *world) furnish() {
	t := w.t
	t.Helper()
	var err error
	lack := func(what string, err error) {
		if err != nil {
			w.missing[what] = err.Error()
		}
	}
	w.hosts, err = newHosts(t, worldServers)
	lack("hosts", err)
	if err == nil {
		lack("loopback", errors.New("the replicas are on hosts of their own"))
	} else {
		w.hosts, w.addrs = nil, portlease.ForTest(t, worldServers)
	}
	if len(w.builds) < 2 {
		lack("earlier", w.builds[0].alone)
	}
	if w.builds[0].counter == "" {
		lack("clocks", errors.New("no clocks that jump were asked for: -chaos.clocks"))
	}
	w.guarded = w.rng.IntN(2) == 0
	if w.guarded {
		w.creds = guardtest.New(t)
		w.gossip = filepath.Join(t.TempDir(), "gossip.key")
		key := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%032x", w.rng.Uint64())[:32])
		if err := os.WriteFile(w.gossip, []byte(key), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range worldServers {
		s := &server{wall: testkit.NewWall(t)}
		if s.disk, err = newDisk(t, serverDiskMiB); err != nil {
			s.disk = t.TempDir()
			lack("disks", err)
		}
		s.slow, err = newStarving(t)
		lack("processor", err)
		w.servers = append(w.servers, s)
		if w.hosts != nil {
			w.addrs = append(w.addrs, fmt.Sprint(w.hosts.address(i), ":", serverPorts))
		}
	}
	for range worldReplicas {
		r := &replica{wall: testkit.NewWall(t), baby: w.rng.IntN(4) == 0}
		r.slow, err = newStarving(t)
		lack("processor", err)
		r.memory, err = newTight(t)
		lack("memory", err)
		w.replicas = append(w.replicas, r)
	}
	w.draw()
}

// draw chooses the builds that all begin with.
func (w *world) draw() {
	if len(w.builds) < 2 {
		return
	}
	for _, s := range w.servers {
		s.build = w.rng.IntN(2)
	}
	for _, r := range w.replicas {
		r.build = w.rng.IntN(2)
	}
}

// serverDiskMiB is what a server's data takes, its log is reserved at once, and some.
const serverDiskMiB = 96

// endWorld kills what runs.
func (w *world) endWorld() {
	for _, s := range w.servers {
		if s.proc != nil {
			s.proc.Kill()
		}
	}
	w.endAll()
}

// say writes a line to the leg's log.
func (w *world) say(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	fmt.Fprintf(w.log, "%8.3fs step %d: %s\n", time.Since(w.began).Seconds(), w.step(), line)
}

// env is what a process on a host is told by its environment.
func (w *world) env(host int, wall *testkit.Wall) []string {
	env := []string{w.mark, "TMPDIR=" + w.tmp}
	if w.hosts != nil {
		env = append(env, envNetNS+"="+w.hosts.names[host])
	}
	if w.builds[0].counter != "" {
		env = append(env, wall.Env())
	}
	if w.guarded {
		env = append(env, guard.EnvTLSServerName+"=localhost")
	}
	return env
}

// startServer starts server i of its build.
func (w *world) startServer(i int) {
	w.t.Helper()
	s := w.servers[i]
	s.starts++
	host := strings.TrimSuffix(w.addrs[i], fmt.Sprint(":", serverPorts))
	args := []string{
		w.builds[s.build].lighthouse, "--bind", w.addrs[i], "--data-dir", filepath.Join(s.disk, "data"), "--bootstrap-expect", fmt.Sprint(worldServers),
		"--join", strings.Join(w.addrs, ","), "--min-replicas", fmt.Sprint(worldMin), "--probation-after", "0", "--log-level", "info",
		"--join-timeout", "2s", "--stuck-after", "5s",
	}
	if w.hosts == nil {
		host = "127.0.0.1"
	}
	args = append(args, "--raft-address", host+":0", "--gossip-address", host+":0")
	if w.hosts != nil {
		args = args[:len(args)-4]
	}
	if w.guarded {
		args = append(args, "--gossip-key-file", w.gossip)
	} else {
		args = append(args, "--open")
	}
	env := append(w.env(i, s.wall), envProgram+"="+strings.Join(args, argumentsApart))
	s.proc = w.launch(lighthouseWorker, i, s.starts, nil, env, nil)
}

// startReplica starts the next incarnation of replica i; change may make it a bad one.
func (w *world) startReplica(i int, change func(a *workerArgs)) {
	w.t.Helper()
	w.started[i]++
	r, incarnation := w.replicas[i], w.started[i]
	w.births[[2]int{i, incarnation}] = monotonic()
	a := workerArgs{
		Lighthouse: strings.Join(w.addrs, ","), Replicas: worldReplicas, StepTime: w.o.stepTime, StepTimeout: w.o.stepTimeout, MinReplicas: worldMin,
		Verbose: true, Baby: r.baby, Guarded: w.guarded, Open: !w.guarded, counterArgs: counterArgs{Index: i},
	}
	if change != nil {
		change(&a)
	}
	env := w.env(hostOf[i], r.wall)
	if program := w.builds[r.build].counter; program != "" {
		env = append(env, envProgram+"="+program)
	}
	args, err := json.Marshal(a)
	if err != nil {
		w.t.Fatal(err)
	}
	r.proc = w.launch(counterWorker, i, incarnation, args, env, &lines{each: func(l report) { w.saw(l, i, incarnation) }})
	w.trainers[i], r.since = r.proc, monotonic()
}

// launch runs a process whose standard error is in a file of its own.
func (w *world) launch(name string, i, start int, args []byte, env []string, out *lines) *spawn.Process {
	w.t.Helper()
	said, err := os.Create(filepath.Join(filepath.Dir(w.log.Name()), fmt.Sprintf("%s-%d.%d", name, i, start)))
	if err != nil {
		w.t.Fatal(err)
	}
	o := spawn.Options{Args: args, Env: append(env, w.credentials(name, i)...), Stderr: said}
	if name == lighthouseWorker {
		o.Stderr = tap{said, w, i}
	}
	if out != nil {
		o.Stdout = out
	}
	p, err := spawn.Start(spawn.Worker{Name: name, Rank: i, WorldSize: worldReplicas}, o)
	if err != nil {
		w.t.Fatal(err)
	}
	go func() { // until the process has been reaped
		<-p.Done()
		said.Close() //nolint:errcheck // it is for reading when something is wrong
	}()
	return p
}

// nextRun begins one: none of the replicas of the last one is left.
func (w *world) nextRun() {
	w.before += w.step()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.run++
	for _, r := range w.replicas {
		r.lastStep = 0
	}
}

// step is the highest that has been committed in this run.
func (w *world) step() (high int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.replicas {
		high = max(high, r.lastStep)
	}
	return high
}

// wallOf is the clock of server i, or of a replica behind them.
func (w *world) wallOf(i int) *testkit.Wall {
	if i < worldServers {
		return w.servers[i].wall
	}
	return w.replicas[i-worldServers].wall
}

// saw takes a report.
func (w *world) saw(r report, index, incarnation int) {
	r.At, r.run = r.Mono, w.run // the other clock may have been told to jump
	if r.Kind == committed {
		w.mu.Lock()
		w.replicas[index].lastStep, w.replicas[index].lastAt = r.Step, r.Mono
		w.mu.Unlock()
	}
	w.add(r, index, incarnation)
}

// unsettled names the replicas that are well and have yet to commit a step, or is empty. It
// marks those that have.
func (w *world) unsettled() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	for i, r := range w.replicas {
		if r.busy || r.since != 0 && r.lastAt <= r.since {
			names = append(names, fmt.Sprintf("replica %d (%s)", i, r.why))
			continue
		}
		if r.since != 0 {
			w.stats.settled(time.Duration(r.lastAt - r.since))
			r.since, r.why = 0, ""
		}
	}
	return strings.Join(names, ", ")
}

// disturbed is how many replicas a mishap has, or had, and they have not committed since.
func (w *world) disturbed() (n int) {
	for _, r := range w.replicas {
		if r.busy || r.since != 0 {
			n++
		}
	}
	return n
}

// awaitFor waits until ok says true, undoing meanwhile what is to be undone.
func (w *world) awaitFor(limit time.Duration, what string, ok func() bool) {
	w.t.Helper()
	for over := time.Now().Add(limit); !ok(); time.Sleep(5 * time.Millisecond) {
		w.check()
		w.undoDue()
		if time.Now().After(over) {
			w.t.Fatalf("waited %v until %s; %s; the lighthouse says: %s; last reports:\n%s", limit, what, w.unsettled(), w.told(), w.tail())
		}
	}
}

// gaveUp is what a replica ends with that reaches no lighthouse at its start, for as long as a
// step may take: what started it is to start it again.
const gaveUp = "lighthouse unreachable: tried"

// check fails the leg if a process has ended that nothing told to, or a replica that is well
// does not come back.
func (w *world) check() {
	w.t.Helper()
	if late := w.unsettled(); late == "" {
		w.wellAt = time.Now()
	} else if time.Since(w.wellAt) > settling && w.stuck() {
		w.t.Fatalf("for %v no step of %s; the lighthouse says: %s; last reports:\n%s", settling, late, w.told(), w.tail())
	}
	for i, r := range w.replicas {
		if runs(r.proc) || r.busy {
			continue
		}
		err := r.proc.Wait(w.t.Context())
		if r.since == 0 || err == nil || !strings.Contains(err.Error(), gaveUp) {
			w.t.Fatalf("replica %d/%d ended: %v", i, w.started[i], err)
		}
		w.say("replica %d/%d is started again: it reached no server", i, w.started[i])
		w.stats.gaveUp++
		w.startReplica(i, nil)
	}
	for i, s := range w.servers {
		if !runs(s.proc) && !s.busy {
			w.t.Fatalf("server %d ended: %v", i, s.proc.Wait(w.t.Context()))
		}
	}
}

// stuck reports whether a replica that nothing disturbs any more has committed nothing for
// longer than it may take, or one is in a mishap's hands for so long.
func (w *world) stuck() bool {
	for _, r := range w.replicas {
		if r.busy && time.Since(r.taken) > settling || !r.busy && r.since != 0 && time.Duration(monotonic()-r.since) > settling {
			return true
		}
	}
	return false
}

// told is what the servers' logs end with.
func (w *world) told() string {
	var b strings.Builder
	for i, s := range w.servers {
		fmt.Fprintf(&b, "\nserver %d: %s", i, s.proc.TailStderr())
	}
	return b.String()
}

// undoDue ends the mishaps whose time has come.
func (w *world) undoDue() {
	now := time.Now()
	var left []undo
	due := w.undoing
	w.undoing = nil // what is done may add to it
	for _, u := range due {
		if now.Before(u.at) || u.ready != nil && !u.ready() {
			left = append(left, u)
			continue
		}
		u.do()
	}
	w.undoing = append(left, w.undoing...)
	if w.alone != "" && w.unsettled() == "" {
		w.alone = ""
	}
}

// later undoes something after a while.
func (w *world) later(hold time.Duration, do func()) {
	w.undoing = append(w.undoing, undo{at: time.Now().Add(hold), do: do})
}

// between draws a time.
func (w *world) between(a, b time.Duration) time.Duration {
	return a + time.Duration(w.rng.Int64N(int64(b-a)))
}

// end signals a process, and reaps it.
func (w *world) end(p *spawn.Process, s syscall.Signal) {
	w.t.Helper()
	_ = p.Signal(s) // it may have ended by itself
	select {
	case <-p.Done():
	case <-time.After(patience):
		w.t.Fatalf("pid %d did not end within %v of %v", p.PID(), patience, s)
	}
}

// tap passes a server's log on to its file, and notices who leads.
type tap struct {
	file   *os.File
	w      *world
	server int
}

func (p tap) Write(text []byte) (int, error) {
	if bytes.Contains(text, []byte("leadership gained")) {
		p.w.leading.Store(int64(p.server))
	}
	return p.file.Write(text)
}
