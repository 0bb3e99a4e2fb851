package nccl

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/baby"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

// ordered is a Baby whose ops wait for the streams of dev in this process.
func ordered(t *testing.T, f *fakes, dev *Device, user func(int) Stream, fault int, out *testkit.Log) *baby.Backend {
	t.Helper()
	order, err := NewOrder(OrderOptions{Devices: []*Device{dev}, UserStream: user})
	if err != nil {
		t.Fatal(err)
	}
	b, err := baby.New(baby.Options{
		Backend: Name,
		Open:    pg.Options{Params: map[string]string{"nccl.library": f.nccl, "nccl.cuda": f.cuda}},
		Env:     []string{fmt.Sprintf("FAKE_NCCL_FAULT=%d", fault), "FAKE_CUDA_REPORT=1"},
		Stderr:  out,
		Order:   order,
		Grace:   pgtest.Bound, // it reports what is open at its end
		Silence: pgtest.Bound,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(b.Close(), order.Close()); err != nil {
			t.Errorf("close: %v", err)
		}
		if made, used := order.Marks(); made != 0 || used != 0 {
			t.Errorf("%d marks are left, %d of them in use", made, used)
		}
	})
	return b
}

// standing makes a stream that stands still until the Work that it returns is
// done.
func standing(t *testing.T, d *Device) (Stream, *pg.Work) {
	t.Helper()
	s, hold := onStream(t, d), pg.NewWork(&pg.Op{Kind: pg.KindBarrier})
	t.Cleanup(func() { hold.Complete(nil) })
	if err := d.Follow(t.Context(), s, hold); err != nil {
		t.Fatal(err)
	}
	return s, hold
}

// An op in a child runs behind the caller's stream, and the caller's stream
// behind the op; Submit and Follow return at once. Nothing that the child opened
// stays open.
func TestBabyFollowsStreams(t *testing.T) {
	t.Parallel()
	f := open(t)
	dev := f.device(t, 0)
	s, hold := standing(t, dev)
	var out testkit.Log
	b := ordered(t, f, dev, func(int) Stream { return s }, wellBehaved, &out)
	w := pgtest.NewWorld(t, pgtest.StartStore(t))
	w.Configure(w.Join("solo", b))
	x := onDeviceOf(t, dev, tensor.Of([]float32{1, 2}))
	mem, _ := x.Memory()
	work := w.Groups[0].Submit(&pg.Op{
		Kind: pg.KindAllReduce, In: []tensor.Tensor{x}, Out: []tensor.Tensor{x}, Reduce: tensor.PreMulSum, Factor: 2,
	})
	if err := dev.Follow(t.Context(), s, work); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the child has the op", func() bool { return b.Active() == 1 })
	// What is written while the stream stands still must be what the op reads.
	if err := mem.CopyFromHost(0, tensor.Of([]float32{5, 6}).Bytes()); err != nil {
		t.Fatal(err)
	}
	if work.Finished() || reached(t, dev, s, 20*time.Millisecond) {
		t.Fatal("the op, or the stream, did not wait")
	}
	hold.Complete(nil)
	if !reached(t, dev, s, time.Minute) {
		t.Fatal("the stream stands still")
	}
	if err := work.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := tensor.Slice[float32](onHost(t, x)); got[0] != 10 || got[1] != 12 {
		t.Errorf("result is %v, want 10 12", got)
	}
	if err := b.Unshare(mem); err != nil {
		t.Error(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if got := out.String(); !strings.Contains(got, "fake cuda: 0 events of others, 0 blocks open") {
		t.Errorf("the child ended with %q, want nothing open", got)
	}
}

// Without an Order, as "baby:nccl" by name is, Submit waits on the host until the
// default stream has written what the op reads.
func TestBabyWithoutOrder(t *testing.T) {
	t.Parallel()
	f := open(t)
	dev := f.device(t, 0)
	b := babyOf(t, f, wellBehaved)
	w := pgtest.NewWorld(t, pgtest.StartStore(t))
	w.Configure(w.Join("solo", b))
	x := onDeviceOf(t, dev, tensor.Of([]float32{1, 2}))
	mem, _ := x.Memory()
	hold := pg.NewWork(&pg.Op{Kind: pg.KindBarrier})
	defer hold.Complete(nil)
	if err := dev.Follow(t.Context(), 0, hold); err != nil { // the default stream stands still
		t.Fatal(err)
	}
	submitted := make(chan *pg.Work)
	go func() {
		submitted <- w.Groups[0].Submit(&pg.Op{
			Kind: pg.KindAllReduce, In: []tensor.Tensor{x}, Out: []tensor.Tensor{x}, Reduce: tensor.PreMulSum, Factor: 2,
		})
	}()
	select {
	case <-submitted:
		t.Fatal("the op did not wait for the default stream")
	case <-time.After(50 * time.Millisecond):
	}
	if err := mem.CopyFromHost(0, tensor.Of([]float32{5, 6}).Bytes()); err != nil {
		t.Fatal(err)
	}
	hold.Complete(nil)
	work := <-submitted
	if err := work.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := tensor.Slice[float32](onHost(t, x)); got[0] != 10 || got[1] != 12 {
		t.Errorf("result is %v, want 10 12", got)
	}
}

// A child that is killed in the middle of an op lets the caller's stream go on.
func TestKilledBabyFreesStreams(t *testing.T) {
	t.Parallel()
	f := open(t)
	dev := f.device(t, 0)
	s := onStream(t, dev)
	b := ordered(t, f, dev, func(int) Stream { return s }, collectiveNeverEnds, new(testkit.Log))
	w := pgtest.NewWorld(t, pgtest.StartStore(t))
	w.Configure(w.Join("solo", b))
	x := onDeviceOf(t, dev, tensor.Of([]float32{1}))
	work := w.Groups[0].AllReduceAsync(x, tensor.Sum)
	if err := dev.Follow(t.Context(), s, work); err != nil {
		t.Fatal(err)
	}
	if reached(t, dev, s, 20*time.Millisecond) {
		t.Fatal("the stream did not wait")
	}
	pid, _ := b.Child()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if !reached(t, dev, s, time.Minute) {
		t.Fatal("the stream stands still for a child that is dead")
	}
	if _, ok := errors.AsType[*baby.ChildError](work.Err()); !ok {
		t.Errorf("the op: %v, want a ChildError", work.Err())
	}
}

// onDeviceOf copies a host tensor to the device.
func onDeviceOf(t testing.TB, d *Device, host tensor.Tensor) tensor.Tensor {
	t.Helper()
	buf, err := d.Alloc(host.NumBytes())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := buf.Close(); err != nil {
			t.Errorf("free: %v", err)
		}
	})
	if err := buf.CopyFromHost(0, host.Bytes()); err != nil {
		t.Fatal(err)
	}
	x, err := tensor.OnDevice(buf, host.DType(), host.Len())
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// The suite, with every rank's library in a child of its own.
func TestBabyConformance(t *testing.T) {
	testkit.Long(t)
	if testing.Short() {
		t.Skip("hundreds of processes")
	}
	f := open(t)
	dev := f.device(t, 0)
	h := harness(func(t *testing.T) pg.Backend {
		return hostside{ordered(t, f, dev, nil, wellBehaved, new(testkit.Log)), dev}
	})
	if !*everything {
		for _, name := range []string{"Reduce", "Broadcast", "Gather", "Scatter", "AllToAll", "Token"} {
			h.Except[name] = "it takes seconds: see -nccl.all"
		}
	}
	pgtest.RunWith(t, h)
}

// everything runs what takes longer than a test should.
var everything = flag.Bool("nccl.all", false, "run all of the suite over children")

// Ranks in children of their own compute together; one child after the other is
// killed in the middle of an op, and the group of those configured anew is right
// again.
func TestBabyWorld(t *testing.T) {
	t.Parallel()
	f := open(t)
	dev := f.device(t, 0)
	for _, n := range []int{2, 4} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			w := pgtest.NewWorld(t, pgtest.StartStore(t))
			var members []pgtest.Member
			for i := range n {
				members = append(members, w.Join(fmt.Sprintf("replica-%d", i), ordered(t, f, dev, nil, wellBehaved, new(testkit.Log))))
			}
			random := rand.New(rand.NewPCG(uint64(n), 1))
			for round := range 3 {
				w.Configure(members...)
				sums(t, w, dev, n)
				killInTheMiddle(t, w, dev, random.IntN(n), round)
			}
			w.Configure(members...)
			sums(t, w, dev, n)
		})
	}
}

func sums(t *testing.T, w *pgtest.World, dev *Device, n int) {
	t.Helper()
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		x := onDeviceOf(t, dev, tensor.Of([]float64{float64(rank), 1}))
		if err := g.AllReduce(ctx, x, tensor.Sum); err != nil {
			return err
		}
		if got := tensor.Slice[float64](onHost(t, x)); got[0] != float64(n*(n-1)/2) || got[1] != float64(n) {
			return fmt.Errorf("sum is %v, want %d %d", got, n*(n-1)/2, n)
		}
		return nil
	})
}

// killInTheMiddle kills the child of victim, while all but it are in an
// all-reduce.
func killInTheMiddle(t *testing.T, w *pgtest.World, dev *Device, victim, round int) {
	t.Helper()
	var works []*pg.Work
	for rank, g := range w.Groups {
		if rank != victim {
			works = append(works, g.AllReduceAsync(onDeviceOf(t, dev, tensor.Of([]int32{1, 2, 3})), tensor.Sum))
		}
	}
	pid, ok := w.Members[victim].Backend.(*baby.Backend).Child()
	if !ok {
		t.Fatalf("round %d: rank %d has no child", round, victim)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// The trainer of the victim sees its child die, and tells the others as a
	// manager would.
	testkit.Eventually(t, "the victim's group is broken", func() bool { return w.Groups[victim].Err() != nil })
	for rank, g := range w.Groups {
		if rank != victim {
			g.Abort(fmt.Errorf("round %d: rank %d was lost", round, victim))
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), pgtest.Bound)
	defer cancel()
	for _, work := range works {
		if err := work.Wait(ctx); err == nil || ctx.Err() != nil {
			t.Errorf("round %d: op without its rank %d: %v, want an error", round, victim, err)
		}
	}
}

// A name that pg.Open knows can stand for a Baby with an Order.
func TestOpenOrdered(t *testing.T) {
	if pg.Available("baby:" + Name) {
		t.Skip("names are taken once in a process: -count")
	}
	f := open(t)
	dev := f.device(t, 0)
	order, err := NewOrder(OrderOptions{Devices: []*Device{dev}})
	if err != nil {
		t.Fatal(err)
	}
	defer order.Close()
	err = baby.RegisterWith(Name, func(o *baby.Options) error {
		o.Order = order
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	b, err := pg.Open("baby:"+Name, pg.Options{Params: map[string]string{"nccl.library": f.nccl, "nccl.cuda": f.cuda, "baby.spare": "false"}})
	if err != nil {
		t.Fatal(err)
	}
	w := pgtest.NewWorld(t, pgtest.StartStore(t))
	w.Configure(w.Join("solo", b))
	if err := w.Groups[0].AllReduce(t.Context(), onDeviceOf(t, dev, tensor.Of([]int64{3})), tensor.Sum); err != nil {
		t.Error(err)
	}
	if made, used := order.Marks(); made != 1 || used != 0 {
		t.Errorf("%d marks were made, %d are in use; want 1, 0", made, used)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
