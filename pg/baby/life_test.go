package baby

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/spawn"
)

// withoutInit makes the test binary a program whose main lacks the line.
const withoutInit = "SKERRY_BABY_TEST_WITHOUT_INIT"

// startUninitialised is the life of that program.
func startUninitialised() {
	b, err := New(Options{Backend: patient})
	if err == nil {
		err = b.Warm(context.Background())
	}
	fmt.Println(err)
}

// A program without the one line is told so when it needs a child.
func TestInitMissing(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), withoutInit+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "baby.Init() called at the top of main") {
		t.Errorf("a program without Init said %q (%v), want what is missing", out, err)
	}
}

// All that is pending fails at once when the child dies, with how it died, its
// last words, and nobody else's.
func TestDeathNamesItself(t *testing.T) {
	t.Parallel()
	w := pair(t, Options{})
	b := w.Members[0].Backend.(*Backend)
	pid := stopChild(t, b) // so that all stays pending
	var pending []*pg.Work
	for range 50 {
		pending = append(pending, w.Groups[0].AllReduceAsync(tensor.New(tensor.Float32, 10), tensor.Sum))
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	allEnded(t, pending, 0)
	for i, work := range pending {
		e, ok := errors.AsType[*ChildError](work.Err())
		if !ok || e.PID != pid || e.Signal != syscall.SIGKILL || e.Why != "" {
			t.Fatalf("op %d: %v, want the end of child %d by SIGKILL, not ours", i, work.Err(), pid)
		}
		if text := e.Error(); !strings.Contains(text, fmt.Sprint("child ", pid)) || !strings.Contains(text, "killed by SIGKILL") {
			t.Fatalf("op %d: %q, want the child and its signal named", i, text)
		}
		if o, ok := errors.AsType[*pg.OpError](work.Err()); !ok || o.Op != pg.KindAllReduce || o.Rank != 0 {
			t.Fatalf("op %d: %v, want the op's name in it", i, work.Err())
		}
	}
	if n := b.Active(); n != 0 {
		t.Errorf("%d ops active, want none", n)
	}
}

// A Go crash of the child is in the error, though its stacks are long.
func TestCrashNamesItself(t *testing.T) {
	t.Parallel()
	b, g := alone(t, Options{})
	pid := mustChild(t, b)
	if err := syscall.Kill(pid, syscall.SIGSEGV); err != nil {
		t.Fatal(err)
	}
	err := brokenBy(t, b)
	if e, ok := errors.AsType[*ChildError](err); !ok || e.Code != 2 || !strings.Contains(e.Stderr, "SIGSEGV") {
		t.Errorf("group broken by %v, want exit status 2 and SIGSEGV in the last words", err)
	}
	if err := g.Barrier(t.Context()); !errors.Is(err, pg.ErrAborted) {
		t.Errorf("op after it: %v, want ErrAborted", err)
	}
}

// A child that does not end is told, waited for, and killed; Configure does not
// wait for that.
func TestClingyChild(t *testing.T) {
	t.Parallel()
	w := pgtest.NewWorld(t, pgtest.StartStore(t))
	const grace = 300 * time.Millisecond
	b := newBaby(t, Options{Backend: clingy, Grace: grace})
	m := w.Join("solo", b)
	w.Configure(m)
	old := mustChild(t, b)
	c, _ := b.current()
	w.Configure(m)
	if now := mustChild(t, b); now == old {
		t.Error("Configure kept the child")
	}
	select {
	case <-c.gone:
	case <-time.After(grace + pgtest.PromptBound):
		t.Fatalf("child %d is there after its grace", old)
	}
	if err := syscall.Kill(old, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d: %v, want none", old, err)
	}
	c.mu.Lock()
	why := c.mu.why
	c.mu.Unlock()
	if !strings.Contains(why, grace.String()) {
		t.Errorf("killed because %q, want its grace named", why)
	}
}

// Inside and outside agree about a deadline: the child ends the op when it has
// passed, and lives.
func TestDeadlinesAgree(t *testing.T) {
	t.Parallel()
	w := pair(t, Options{slack: pgtest.Bound}) // the child may be late, too
	b := w.Members[0].Backend.(*Backend)
	pid := mustChild(t, b)
	start := time.Now()
	work := w.Groups[0].Submit(stormOp(pg.KindBarrier, 0, 0)) // the other rank does not come
	ctx, cancel := context.WithTimeout(t.Context(), pgtest.Bound)
	defer cancel()
	err := work.Wait(ctx)
	if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took < stormLimit {
		t.Errorf("barrier without a peer: %v after %v, want its deadline of %v to pass", err, took, stormLimit)
	}
	if _, ok := errors.AsType[*ChildError](err); ok {
		t.Errorf("the child was killed for it: %v", err)
	}
	if now, ok := b.Child(); !ok || now != pid {
		t.Errorf("child is %d (%v), want %d", now, ok, pid)
	}
}

// One ping that is not answered in time, as on a loaded host, does not cost a child
// its slack at a deadline; several do.
func TestSilenceAtTheDeadline(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for silent, why := range map[time.Duration]string{
		0: "", 3 * pingEvery: "", silentAtDeadline: "silent", time.Second: "silent",
	} {
		c := &child{opt: &Options{Silence: time.Minute}}
		c.mu.pending = map[uint64]*pending{1: {op: &pg.Op{Kind: pg.KindBarrier}, deadline: now}}
		if silent > 0 {
			c.mu.watch.asked = now.Add(-silent)
		}
		if got := c.overdueLocked(now); why == "" && got != "" || !strings.Contains(got, why) {
			t.Errorf("silent for %v at the deadline: %q, want %q", silent, got, why)
		}
		if got := c.overdueLocked(now.Add(Slack)); got == "" {
			t.Errorf("silent for %v, and %v beyond the deadline: not overdue", silent, Slack)
		}
	}
}

// A trainer's and a supervisor's workers in TestParentDies.
const (
	trainerWorker    = "baby test trainer"
	supervisorWorker = "baby test supervisor"
)

// trainer configures a Baby with a spare, prints their process ids, and waits.
func trainer(ctx context.Context, w spawn.Worker) error {
	b, err := New(Options{Backend: patient, Spare: true})
	if err != nil {
		return err
	}
	defer b.Close()
	if err := b.Configure(ctx, pg.Config{
		StoreAddress: string(w.Args), ReplicaIDs: []string{"solo"}, Cluster: "c", QuorumID: 1, GroupWorldSize: 1,
	}); err != nil {
		return err
	}
	if err := b.Warm(ctx); err != nil {
		return err
	}
	child, _ := b.Child()
	fmt.Println(os.Getpid(), child, b.sparePID())
	<-ctx.Done()
	return nil
}

// supervisor starts a trainer and waits.
func supervisor(ctx context.Context, w spawn.Worker) error {
	p, err := spawn.Start(spawn.Worker{Name: trainerWorker, WorldSize: 1, Args: w.Args}, spawn.Options{Stdout: os.Stdout})
	if err != nil {
		return err
	}
	return p.Wait(ctx)
}

// Children and spares go with their parent, whatever it dies of, and with their
// parent's parent.
func TestParentDies(t *testing.T) {
	t.Parallel()
	address := pgtest.StartStore(t)
	for name, sig := range map[string]syscall.Signal{
		trainerWorker: syscall.SIGKILL, supervisorWorker: syscall.SIGKILL, trainerWorker + " crashes": syscall.SIGSEGV,
	} {
		r, out := io.Pipe()
		p, err := spawn.Start(spawn.Worker{
			Name: strings.TrimSuffix(name, " crashes"), WorldSize: 1, Args: []byte(address + "/" + strings.ReplaceAll(name, " ", "-")),
		}, spawn.Options{Stdout: out})
		if err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(r).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		pids := strings.Fields(line)
		if len(pids) != 3 {
			t.Fatalf("%s printed %q", name, line)
		}
		if err := p.Signal(sig); err != nil {
			t.Fatal(err)
		}
		<-p.Done()
		r.Close()
		for i, what := range []string{"trainer", "child", "spare"} {
			awaitGone(t, name+": "+what, pids[i])
		}
	}
}

// awaitGone waits until a process that is not ours has ended. Who adopted it may
// not have reaped it.
func awaitGone(t *testing.T, what, pid string) {
	t.Helper()
	if _, err := strconv.Atoi(pid); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(pgtest.PromptBound)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if _, state, _ := strings.Cut(string(stat), ") "); err != nil || strings.HasPrefix(state, "Z") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: process %s outlives its parent", what, pid)
		}
		<-tick.C
	}
}

// Foreign tensors are copied in and out, tensors of Alloc never.
func TestCopies(t *testing.T) {
	t.Parallel()
	w := pair(t, Options{})
	copied := func() (n int64) {
		for _, m := range w.Members {
			n += m.Backend.(*Backend).mem.copied.Load()
		}
		return n
	}
	const n = 1000
	tensors := make([]tensor.Tensor, 2)
	for rank, m := range w.Members {
		x, err := m.Backend.(*Backend).Alloc(tensor.Float32, n)
		if err != nil {
			t.Fatal(err)
		}
		tensors[rank] = x
	}
	reduce := func(of func(rank int) tensor.Tensor) {
		w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
			return g.AllReduce(ctx, of(rank), tensor.Sum)
		})
	}
	reduce(func(rank int) tensor.Tensor { return tensors[rank] })
	reduce(func(rank int) tensor.Tensor { return tensors[rank].Slice(n/4, n/2) })
	if got := copied(); got != 0 {
		t.Errorf("%d bytes of shared memory copied, want none", got)
	}
	reduce(func(int) tensor.Tensor { return tensor.New(tensor.Float32, n) })
	if got, want := copied(), int64(2*2*4*n); got != want {
		t.Errorf("%d bytes of foreign memory copied, want %d: in and out of both ranks", got, want)
	}
}
