package tcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/store"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/spawn"
)

// rankWorker is a process that is one rank. It reads orders as JSON lines from
// its standard input and answers each with one line.
const rankWorker = "tcp-rank"

// order is what a rank is to do: serve (be the store), configure, storm (all-reduces one after the
// other until one fails), steps (see steps), check (one all-reduce whose result is looked at), or
// inspect (whether the buffer of the last storm is as it was poisoned).
type order struct {
	Do     string
	Store  string
	Listen string // serve
	Q      int64
	IDs    []string
	Rank   int
	Bytes  int
	Pass   bool // storm: point-to-point around the ranks, instead of all-reduces
	Poison bool // storm: spoil the buffer right after the failure, and watch it
	Steps  int  // steps: how many
	Opt    rankOptions
}

// rankOptions are those Options that a test chooses; they count in the first order.
type rankOptions struct {
	Transport   Transport
	RingBytes   int
	Jitter      bool // at every access that a wake-up hangs on
	BeatTimeout time.Duration
	Streams     int
	ShareDir    string
	Interfaces  []string
}

// answer is what became of it, and what the process holds.
type answer struct {
	Err      string
	Culprit  string // replica id
	Peer     int
	First    bool // this rank saw it by itself
	Op       string
	Seq      uint64
	At       int64 // when it failed, on the host's monotonic clock
	Poisoned int   // elements that no rank has sent
	Gap      int64 // ns: the longest step
	Files    int
	Maps     int // of lanes
	Routines int
	Lanes    int
	Store    string           // where it serves
	Said     string           // warnings
	Traffic  map[string]int64 // bytes that each interface has sent
}

// hostClock is the same in all processes of a host.
func hostClock() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err)
	}
	return t.Nano()
}

func serveRank(ctx context.Context, w spawn.Worker) error {
	in, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	in.Buffer(nil, 1<<20)
	var b *Backend
	var log said
	var kept []float32 // the poisoned buffer of the last storm
	for in.Scan() {
		var o order
		if err := json.Unmarshal(in.Bytes(), &o); err != nil {
			return err
		}
		if o.Do == "serve" {
			address, end, err := serveStore(ctx, o.Listen)
			if err != nil {
				return err
			}
			defer end()
			if err := out.Encode(answer{Store: address}); err != nil {
				return err
			}
			continue
		}
		if o.Do == "limit" {
			a := answer{}
			if err := limitMemory(o.Bytes); err != nil {
				a.Err = err.Error()
			}
			if err := out.Encode(a); err != nil {
				return err
			}
			continue
		}
		if b == nil {
			b = New(Options{
				Transport: o.Opt.Transport, BeatTimeout: o.Opt.BeatTimeout,
				Streams: o.Opt.Streams, Interfaces: o.Opt.Interfaces, ShareDir: o.Opt.ShareDir,
				RingBytes: o.Opt.RingBytes, hook: jitter(o.Opt.Jitter),
				Logger: zerolog.New(&log).Level(zerolog.WarnLevel),
			})
			defer b.Close()
		}
		if o.Do == "inspect" {
			a := answer{}
			if err := stillPoisoned(kept); err != nil {
				a.Err = err.Error()
			}
			if err := out.Encode(a); err != nil {
				return err
			}
			continue
		}
		a, buf := obey(ctx, b, &o, out)
		if o.Poison && buf != nil {
			kept = buf
		}
		a.Said = log.String()
		if err := out.Encode(a); err != nil {
			return err
		}
	}
	return in.Err()
}

// serveStore runs a store at host until end is called.
func serveStore(ctx context.Context, host string) (address string, end func(), err error) {
	s, err := store.NewServer(store.ServerConfig{Listen: net.JoinHostPort(host, "0"), Open: true})
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { s.Run(ctx) })
	return s.Addr(), func() { cancel(); s.Close(); wg.Wait() }, nil
}

// obey does what it was told; of a storm it gives the buffer too.
func obey(ctx context.Context, b *Backend, o *order, out *json.Encoder) (a answer, buf []float32) {
	g := pg.NewGroup(b)
	var err error
	switch o.Do {
	case "configure":
		err = g.Configure(ctx, pg.Config{
			StoreAddress: fmt.Sprintf("%s/skerry/test/default/%d/0", o.Store, o.Q),
			ReplicaIDs:   o.IDs, Rank: o.Rank, Cluster: "test", QuorumID: o.Q, GroupWorldSize: 1,
			Token: []byte("a token of sixteen"), Timeout: testTimeout,
		})
	case "storm":
		buf = make([]float32, o.Bytes/4)
		a.Poisoned, a.At, err = storming(ctx, g, o, buf, out)
	case "steps":
		a.Gap, err = steps(ctx, g, o)
	case "check":
		a.Poisoned, err = reduceOnes(ctx, g, o, make([]float32, o.Bytes/4))
	}
	if err != nil {
		a.Err = err.Error()
		if e, ok := errors.AsType[*pg.OpError](err); ok {
			a.Culprit, a.Peer, a.First, a.Op, a.Seq = e.PeerID, e.Peer, e.First, e.Op.String(), e.Seq
		}
	}
	a.count(b)
	return a, buf
}

// storming says that it has begun, and reduces until it fails, back to back: a rank
// that is busy between ops would learn of a failure only at its next one.
func storming(
	ctx context.Context, g *pg.Group, o *order, buf []float32, out *json.Encoder,
) (poisoned int, at int64, err error) {
	if poisoned, err = reduceOnes(ctx, g, o, buf); err != nil {
		return poisoned, hostClock(), err
	}
	err = out.Encode(answer{Poisoned: poisoned}) // begun: from now on it is always in an op
	same := slices.Clone(buf)
	for err == nil {
		if o.Pass {
			sent := g.SendAsync(tensor.Of(same), pg.Envelope{Peer: (o.Rank + 1) % len(o.IDs)})
			_, err = g.Recv(ctx, tensor.Of(buf), pg.Envelope{Peer: (o.Rank + len(o.IDs) - 1) % len(o.IDs)})
			if failed := g.Wait(ctx, sent); err == nil {
				err = failed
			}
			continue
		}
		err = g.AllReduce(ctx, tensor.Of(buf), tensor.Max) // of equal numbers: changes nothing
	}
	at = hostClock()
	if o.Poison {
		poisoned = foreign(buf, float32(o.Q), len(o.IDs))
		err = errors.Join(err, untouched(buf))
	}
	return poisoned, at, err
}

// foreign counts what is not the sum of quorum q.
func foreign(buf []float32, q float32, n int) (count int) {
	want := float32(n*(n-1)/2) + float32(n)*q
	for _, v := range buf {
		if v != want {
			count++
		}
	}
	return count
}

// untouched fills a buffer whose op has failed, and looks for a while whether
// anything else appears in it.
func untouched(buf []float32) error {
	poison(buf)
	for range 3 {
		runtime.Gosched()
		if err := stillPoisoned(buf); err != nil {
			return err
		}
	}
	return nil
}

func stillPoisoned(buf []float32) error {
	for i, v := range buf {
		if v != poisonValue {
			return fmt.Errorf("element %d of a failed op became %v", i, v)
		}
	}
	return nil
}

// reduceOnes adds up rank+quorum over all ranks, and counts what is not the sum,
// so that a byte of another epoch is seen.
func reduceOnes(ctx context.Context, g *pg.Group, o *order, buf []float32) (int, error) {
	for i := range buf {
		buf[i] = float32(o.Rank) + float32(o.Q)
	}
	if err := g.AllReduce(ctx, tensor.Of(buf), tensor.Sum); err != nil {
		return 0, err
	}
	return foreign(buf, float32(o.Q), len(o.IDs)), nil
}

// count notes what this process holds.
func (a *answer) count(b *Backend) {
	if files, err := os.ReadDir("/proc/self/fd"); err == nil {
		a.Files = len(files)
	}
	if maps, err := os.ReadFile("/proc/self/maps"); err == nil {
		a.Maps = strings.Count(string(maps), "skerry-lane")
	}
	a.Routines, a.Lanes = runtime.NumGoroutine(), b.Stats().Lanes
	a.Traffic = traffic()
}

// traffic is what each interface of this process's host has sent.
func traffic() map[string]int64 {
	const sentBytes = 8 // which of the numbers behind the name
	all := make(map[string]int64)
	raw, err := os.ReadFile("/proc/net/dev")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(raw)) {
		name, numbers, ok := strings.Cut(strings.TrimSpace(line), ":")
		fields := strings.Fields(numbers)
		if !ok || len(fields) <= sentBytes {
			continue
		}
		if n, err := strconv.ParseInt(fields[sentBytes], 10, 64); err == nil {
			all[name] = n
		}
	}
	return all
}

// rankProcess is the test's end of a rank.
type rankProcess struct {
	*spawn.Process

	id      string
	orders  *json.Encoder
	stdin   *os.File
	answers *bufio.Scanner
	stdout  *os.File
}

func startRank(t *testing.T, id string, env ...string) *rankProcess {
	t.Helper()
	inR, inW := pipe(t)
	outR, outW := pipe(t)
	p, err := spawn.Start(spawn.Worker{Name: rankWorker}, spawn.Options{Stdin: inR, Stdout: outW, Stderr: os.Stderr, Env: env})
	if err != nil {
		t.Fatal(err)
	}
	inR.Close()
	outW.Close()
	r := &rankProcess{
		Process: p, id: id, orders: json.NewEncoder(inW), stdin: inW,
		answers: bufio.NewScanner(outR), stdout: outR,
	}
	t.Cleanup(r.end)
	return r
}

// end may be called again.
func (r *rankProcess) end() {
	r.stdin.Close()
	r.Kill()
	<-r.Done()
	r.stdout.Close()
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}

func (r *rankProcess) send(t *testing.T, o order) {
	t.Helper()
	if err := r.orders.Encode(o); err != nil {
		t.Fatalf("%s: send %s: %v", r.id, o.Do, err)
	}
}

func (r *rankProcess) receive(t *testing.T) answer {
	t.Helper()
	if err := r.stdout.SetReadDeadline(time.Now().Add(2 * testTimeout)); err != nil {
		t.Fatal(err)
	}
	var a answer
	if !r.answers.Scan() {
		t.Fatalf("%s: no answer: %v", r.id, errors.Join(r.answers.Err(), io.ErrUnexpectedEOF))
	}
	if err := json.Unmarshal(r.answers.Bytes(), &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// all sends one order to all ranks and wants success; each gets its rank.
func orderAll(t *testing.T, ranks []*rankProcess, o order) []answer {
	t.Helper()
	for _, r := range ranks {
		o.IDs = append(o.IDs, r.id)
	}
	for i, r := range ranks {
		o.Rank = i
		r.send(t, o)
	}
	all := make([]answer, len(ranks))
	for i, r := range ranks {
		all[i] = r.receive(t)
		if all[i].Err != "" || all[i].Poisoned > 0 {
			t.Fatalf("quorum %d: %s by rank %d (%s): %q, %d wrong elements", o.Q, o.Do, i, r.id, all[i].Err, all[i].Poisoned)
		}
	}
	return all
}

// stormAll orders a storm and waits until all have begun.
func stormAll(t *testing.T, ranks []*rankProcess, o order) {
	t.Helper()
	o.Do, o.IDs = "storm", ids(ranks)
	for i, r := range ranks {
		o.Rank = i
		r.send(t, o)
	}
	for _, r := range ranks {
		if a := r.receive(t); a.Err != "" || a.Poisoned > 0 {
			t.Fatalf("%s: first op of the storm: %q, %d wrong elements", r.id, a.Err, a.Poisoned)
		}
	}
}

func (r *rankProcess) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(r.PID(), s); err != nil {
		t.Fatal(err)
	}
}
