package nccl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebitengine/purego"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/baby"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/store"
	"github.com/skerry-ft/skerry/tensor"
)

const shortLimit = 300 * time.Millisecond

// hangLimit is for a call that is to hang before it passes: long enough to come to it.
const hangLimit = 2 * time.Second

// patientFor is a backend whose library gets that much time to return from aborts.
func patientFor(t *testing.T, f *fakes, limit time.Duration) *Backend {
	t.Helper()
	b, err := New(Options{Library: f.lib, Device: f.device(t, 0), AbortLimit: limit})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A library that is not there says what was looked for, and where.
func TestUnavailable(t *testing.T) {
	for name, load := range map[string]func() error{
		"libnccl": func() error { _, err := OpenLibrary("/nowhere/libnccl.so.2"); return err },
		"libcuda": func() error { _, err := OpenCUDA("/nowhere/libcuda.so.1"); return err },
	} {
		err := load()
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "/nowhere/"+name) {
			t.Errorf("%s: %v, want ErrUnavailable with the path", name, err)
		}
	}
	if b, err := pg.Open(Name, pg.Options{Params: map[string]string{"nccl.library": "/nowhere/x"}}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("pg.Open: %v, %v; want ErrUnavailable", b, err)
	}
}

// Versions: too old, without a symbol it should have, without what came later.
func TestVersions(t *testing.T) {
	t.Parallel()
	_ = open(t)
	old := buildNCCL(t, "old.so", "-DFAKE_NCCL_VERSION=21304")
	if _, err := OpenLibrary(old); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "2.13.4") {
		t.Errorf("NCCL 2.13.4: %v, want ErrUnavailable that names it", err)
	}
	early, err := OpenLibrary(buildNCCL(t, "early.so", "-DFAKE_NCCL_VERSION=21403"))
	if err != nil {
		t.Fatal(err)
	}
	if err := early.need(Split); !errors.Is(err, pg.ErrUnsupported) || !strings.Contains(err.Error(), "2.18.0") || !strings.Contains(err.Error(), "2.14.3") {
		t.Errorf("split with 2.14.3: %v, want ErrUnsupported with both versions", err)
	}
	bare, err := OpenLibrary(buildNCCL(t, "bare.so", "-DFAKE_NCCL_NO_SPLIT"))
	if err != nil {
		t.Fatal(err)
	}
	if bare.Has(Split) || !bare.Has(RegisterOp) || !bare.Has(Revoke) {
		t.Errorf("features: split %v, premul-sum %v, revoke %v; want false, true, true",
			bare.Has(Split), bare.Has(RegisterOp), bare.Has(Revoke))
	}
	broken := buildNCCL(t, "broken.so", "-DncclAllGather=somethingElse")
	if _, err := OpenLibrary(broken); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "ncclAllGather") {
		t.Errorf("without ncclAllGather: %v, want ErrUnavailable that names it", err)
	}
	for v, want := range map[Version]string{22203: "2.22.3", 21403: "2.14.3", 2804: "2.8.4"} {
		if v.String() != want {
			t.Errorf("version %d is %q, want %q", int(v), v, want)
		}
	}
}

// Faults of a configure end in a clear error within the caller's time and the
// abort limit, and the next quorum works if the library does.
func TestInitFaults(t *testing.T) {
	f := open(t)
	for _, c := range []struct {
		name      string
		fault     int32
		limit     time.Duration // of the caller
		want      error
		says      string
		abandoned bool
	}{
		{"an init that fails", initFails, pgtest.Bound, nil, "told to fail", false},
		{"an init that never ends", initNeverEnds, shortLimit, context.DeadlineExceeded, "configure", false},
		{"an init that never returns", initCallHangs, hangLimit, context.DeadlineExceeded, "ncclCommInitRankConfig", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := pgtest.NewWorld(t, pgtest.StartStore(t))
			abort := pgtest.PromptBound
			if c.abandoned {
				abort = 4 * shortLimit
			}
			b := patientFor(t, f, abort)
			m := pgtest.Member{ID: "solo", Backend: b}
			w.Next()
			f.fault(c.fault)
			ctx, cancel := context.WithTimeout(t.Context(), c.limit)
			defer cancel()
			err := b.Configure(ctx, w.Config([]pgtest.Member{m}, 0))
			f.fault(wellBehaved)
			if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("configure: %v, want %v and %q", err, c.want, c.says)
			}
			if got := errors.Is(err, ErrAbandoned); got != c.abandoned {
				t.Errorf("abandoned: %v, want %v (%v)", got, c.abandoned, err)
			}
			w.Configure(m)
			if err := w.Groups[0].Barrier(t.Context()); err != nil {
				t.Errorf("barrier after it: %v", err)
			}
			if err := b.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
}

// Faults of a collective end in a clear error within its deadline and the abort
// limit, on every rank.
func TestCollectiveFaults(t *testing.T) {
	f := open(t)
	old, err := OpenLibrary(buildNCCL(t, "unrevokable.so", "-DFAKE_NCCL_VERSION=22203"))
	if err != nil {
		t.Fatal(err)
	}
	var faultOfOld func(int32)
	purego.RegisterLibFunc(&faultOfOld, old.obj.handle, "fake_fault")
	fault := func(v int32) { f.fault(v); faultOfOld(v) }
	for _, c := range []struct {
		name  string
		lib   *Library
		fault int32
		limit time.Duration // of the op
		want  error
		says  string
		op    bool // it is abandoned
		close bool // the library keeps something
	}{
		{"an all-reduce that never ends", f.lib, collectiveNeverEnds, shortLimit, context.DeadlineExceeded, "deadline", false, false},
		{"an async error", f.lib, asyncError, pgtest.Bound, nil, "remote process exited", false, false},
		{"an abort that hangs", old, collectiveAndAbortHang, hangLimit, context.DeadlineExceeded, "ncclCommAbort", true, true},
		{"an abort that hangs behind a revoke", f.lib, collectiveAndAbortHang, shortLimit, context.DeadlineExceeded, "deadline", false, true},
		{"an all-reduce that never returns", f.lib, callHangs, hangLimit, context.DeadlineExceeded, "had not ended", true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if strings.HasPrefix(c.name, "an abort that hangs") {
				testkit.Long(t)
			}
			w := pgtest.NewWorld(t, pgtest.StartStore(t))
			abort := pgtest.PromptBound
			if c.close {
				abort = 2 * shortLimit
			}
			b, err := New(Options{Library: c.lib, Device: f.device(t, 0), AbortLimit: abort})
			if err != nil {
				t.Fatal(err)
			}
			w.Configure(pgtest.Member{ID: "solo", Backend: b})
			x := onDevice(t, b, tensor.New(tensor.Float32, 16))
			fault(c.fault)
			work := w.Groups[0].Submit(&pg.Op{
				Kind: pg.KindAllReduce, In: []tensor.Tensor{x}, Out: []tensor.Tensor{x}, Deadline: time.Now().Add(c.limit),
			})
			ctx, cancel := context.WithTimeout(t.Context(), hangLimit+pgtest.PromptBound)
			defer cancel()
			err = work.Wait(ctx)
			if ctx.Err() != nil {
				t.Fatalf("the op has not ended after %v", hangLimit+pgtest.PromptBound)
			}
			if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("op: %v, want %v and %q", err, c.want, c.says)
			}
			if got := errors.Is(err, ErrAbandoned); got != c.op {
				t.Errorf("abandoned: %v, want %v (%v)", got, c.op, err)
			}
			if err := w.Groups[0].Barrier(t.Context()); !errors.Is(err, pg.ErrAborted) {
				t.Errorf("op after it: %v, want ErrAborted", err)
			}
			if err := b.Close(); errors.Is(err, ErrAbandoned) != c.close {
				t.Errorf("close: %v, want abandoned: %v", err, c.close)
			}
			fault(wellBehaved)
		})
	}
}

// babyOf is the backend in a child, whose fake library fails from the start.
func babyOf(t *testing.T, f *fakes, fault int) *baby.Backend {
	t.Helper()
	return babyWith(t, f, f.nccl, fault)
}

// babyWith is babyOf with another library.
func babyWith(t *testing.T, f *fakes, library string, fault int) *baby.Backend {
	t.Helper()
	b, err := baby.New(baby.Options{
		Backend: Name,
		Open:    pg.Options{Params: map[string]string{"nccl.library": library, "nccl.cuda": f.cuda}},
		Env:     []string{fmt.Sprintf("FAKE_NCCL_FAULT=%d", fault)},
		Grace:   shortLimit,
		Silence: pgtest.Bound,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

// In a child every fault ends in a clear error in bounded time, this process goes
// on, and the next child, whose library works, is a group again. The tensors are
// this process's device memory.
func TestBaby(t *testing.T) {
	t.Parallel()
	f := open(t)
	dev := f.device(t, 0)
	tooOld := buildNCCL(t, "old.so", "-DFAKE_NCCL_VERSION=21304")
	lacking := buildNCCL(t, "broken.so", "-DncclAllGather=somethingElse")
	for _, c := range []struct {
		name    string
		library string
		fault   int
		limits  epochLimits
		says    []string // any of them; none: no error
	}{
		{"well-behaved", f.nccl, wellBehaved, ample, nil},
		{"an init that never returns", f.nccl, initCallHangs, epochLimits{configure: hangLimit}, []string{"deadline exceeded"}},
		{"an init that never ends", f.nccl, initNeverEnds, epochLimits{configure: hangLimit}, []string{"deadline exceeded"}},
		{"an init that fails", f.nccl, initFails, ample, []string{"told to fail"}},
		// A child that is itself late at the deadline is killed for it.
		{"an all-reduce that never ends", f.nccl, collectiveNeverEnds, opHangs, []string{"not done at its deadline", "had not ended"}},
		{"an all-reduce that never returns", f.nccl, callHangs, opHangs, []string{"deadline", "killed"}},
		{"an async error", f.nccl, asyncError, ample, []string{"remote process exited"}},
		{"an abort that hangs", f.nccl, abortHangs, ample, nil},
		{"a crash inside the library", f.nccl, crash, ample, []string{"SIGABRT"}},
		{"a library too old", tooOld, wellBehaved, ample, []string{"NCCL 2.13.4, want 2.14.0 or later"}},
		{"a symbol missing", lacking, wellBehaved, ample, []string{"lacks ncclAllGather"}},
		{"no library", "/nowhere/libnccl.so.2", wellBehaved, ample, []string{"/nowhere/libnccl.so.2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := pgtest.NewWorld(t, pgtest.StartStore(t))
			buf, err := dev.Alloc(64)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := buf.Close(); err != nil {
					t.Error(err)
				}
			})
			err = oneEpoch(t, w, babyWith(t, f, c.library, c.fault), buf, c.limits)
			says := func(want string) bool { return strings.Contains(err.Error(), want) }
			switch {
			case err == nil && c.says != nil:
				t.Errorf("no error, want one of %q", c.says)
			case err != nil && !slices.ContainsFunc(c.says, says):
				t.Errorf("error %v, want one of %q", err, c.says)
			}
			if e, ok := errors.AsType[*baby.ChildError](err); c.fault == crash && (!ok || e.Code != 2) {
				t.Errorf("after a crash: %v, want the exit status of the child", err)
			}
			if err := oneEpoch(t, w, babyOf(t, f, wellBehaved), buf, ample); err != nil {
				t.Errorf("the next child: %v", err)
			}
		})
	}
}

// epochLimits bound what oneEpoch does.
type epochLimits struct{ configure, op time.Duration }

var (
	ample   = epochLimits{configure: pgtest.Bound, op: pgtest.Bound} // for what works, or fails by itself
	opHangs = epochLimits{configure: pgtest.Bound, op: time.Second}  // whose deadline is what ends it
)

// oneEpoch configures b and runs an op, both in bounded time.
func oneEpoch(t *testing.T, w *pgtest.World, b pg.Backend, buf *Buffer, limits epochLimits) error {
	t.Helper()
	w.Next()
	ctx, cancel := context.WithTimeout(t.Context(), limits.configure)
	defer cancel()
	if err := b.Configure(ctx, w.Config([]pgtest.Member{{ID: "solo", Backend: b}}, 0)); err != nil {
		return err
	}
	return factorTwo(t, b, buf, limits.op)
}

// factorTwo runs an all-reduce that doubles, in the child, and looks here.
func factorTwo(t *testing.T, b pg.Backend, buf *Buffer, limit time.Duration) error {
	t.Helper()
	if err := buf.CopyFromHost(0, tensor.Of([]float32{1, 2, 3, 4}).Bytes()); err != nil {
		t.Fatal(err)
	}
	x, err := tensor.OnDevice(buf, tensor.Float32, 4)
	if err != nil {
		t.Fatal(err)
	}
	work := b.Submit(&pg.Op{
		Kind: pg.KindAllReduce, In: []tensor.Tensor{x}, Out: []tensor.Tensor{x},
		Reduce: tensor.PreMulSum, Factor: 2, Deadline: time.Now().Add(limit),
	})
	ctx, cancel := context.WithTimeout(t.Context(), limit+pgtest.PromptBound)
	defer cancel()
	if err := work.Wait(ctx); err != nil {
		if ctx.Err() != nil {
			t.Errorf("op has not ended after %v", limit+pgtest.PromptBound)
		}
		return err
	}
	got := tensor.Slice[float32](onHost(t, x))
	if got[0] != 2 || got[3] != 8 {
		t.Errorf("result is %v, want 2 4 6 8", got)
	}
	return nil
}

// Bounds and mistakes of devices and buffers are named.
func TestDevices(t *testing.T) {
	f := open(t)
	if _, err := OpenDevice(f.driver, 7); err == nil || !strings.Contains(err.Error(), "7") || !strings.Contains(err.Error(), "0 to 3") {
		t.Errorf("device 7: %v, want the bound", err)
	}
	d := f.device(t, 1)
	if _, err := d.Alloc(0); err == nil {
		t.Error("alloc of nothing: no error")
	}
	if _, err := d.Alloc(1 << 40); err == nil || !strings.Contains(err.Error(), "OUT_OF_MEMORY") {
		t.Errorf("alloc of a terabyte: %v, want CUDA's name of the error", err)
	}
	buf, err := d.Alloc(16)
	if err != nil {
		t.Fatal(err)
	}
	defer buf.Close()
	if err := buf.CopyToHost(make([]byte, 8), 12); err == nil {
		t.Error("copy beyond the end: no error")
	}
	if _, err := d.Import([]byte("short"), 16); err == nil {
		t.Error("import of a short handle: no error")
	}
	b, err := New(Options{Library: f.lib, Device: d})
	if err != nil {
		t.Fatal(err)
	}
	w := pgtest.NewWorld(t, pgtest.StartStore(t))
	w.Configure(w.Join("solo", b))
	other := onDevice(t, newBackend(t, f, 0), tensor.New(tensor.Float32, 4))
	if err := w.Groups[0].AllReduce(t.Context(), other, tensor.Sum); !errors.Is(err, pg.ErrInvalidOp) {
		t.Errorf("tensor of another device: %v, want ErrInvalidOp", err)
	}
	err = d.Do(func() error {
		host, err := f.driver.AllocHost(100)
		if err != nil {
			return err
		}
		host[99] = 1
		return f.driver.FreeHost(host)
	})
	if err != nil {
		t.Error(err)
	}
}

// A store that is gone, with the replica that had it, does not keep an epoch from ending:
// no rank can be told, and that is known at once.
func TestStoreGone(t *testing.T) {
	f := open(t)
	server, err := store.NewServer(store.ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- server.Run(ctx) }()
	w := pgtest.NewWorld(t, server.Addr())
	b, err := New(Options{Library: f.lib, Device: f.device(t, 0)})
	if err != nil {
		t.Fatal(err)
	}
	w.Configure(w.Join("solo", b))
	e, err := b.current()
	if err != nil {
		t.Fatal(err)
	}
	stop()
	<-ran
	testkit.Eventually(t, "the loss is seen", func() bool { return e.found.Err() != nil })
	b.Abort(e.cfg.Epoch(), errors.New("enough"))
	<-e.ended
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// An abort that takes its time does not keep the next epoch from beginning: it goes on
// beside it, and Close waits for it.
func TestNextBesideAbort(t *testing.T) {
	f := open(t)
	w := pgtest.NewWorld(t, pgtest.StartStore(t))
	b, err := New(Options{Library: f.lib, Device: f.device(t, 0)})
	if err != nil {
		t.Fatal(err)
	}
	w.Configure(w.Join("solo", b))
	old, err := b.current()
	if err != nil {
		t.Fatal(err)
	}
	f.fault(abortSleeps)
	before := f.aborts()
	w.Configure(w.Members...)
	testkit.Eventually(t, "the abort is under way", func() bool { return f.aborts() == before+1 })
	select {
	case <-old.ended:
		t.Error("the old epoch has ended before its abort has returned")
	default:
	}
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		return total(ctx, t, b, g)
	})
	f.fault(wellBehaved) // which also ends the sleep
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-old.ended:
	default:
		t.Error("Close does not wait for the old epoch")
	}
}
