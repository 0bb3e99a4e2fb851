package seeds

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/dist"
	"github.com/skerry-ft/skerry/internal/portlease"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/debug"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/tensor"
)

func TestMain(m *testing.M) {
	if err := tcp.Register(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// spawn is mp.spawn: worker runs at every rank, and what each returned comes back.
func spawn(t *testing.T, ranks int, worker func(ctx context.Context, rank int) error) []error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	errs := make([]error, ranks)
	var running sync.WaitGroup
	for rank := range ranks {
		running.Go(func() { errs[rank] = worker(ctx, rank) })
	}
	running.Wait()
	return errs
}

// master sets MASTER_ADDR and MASTER_PORT, as the programs do.
func master(t *testing.T) {
	t.Helper()
	_, port, err := net.SplitHostPort(portlease.ForTest(t, 1)[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(dist.EnvMasterAddr, "localhost")
	t.Setenv(dist.EnvMasterPort, port)
}

// initGroup is dist.init_process_group("gloo", rank=rank, world_size=size).
func initGroup(ctx context.Context, rank, size int) (*dist.World, error) {
	return dist.Init(ctx, dist.InitConfig{Backend: "gloo", Rank: new(rank), WorldSize: size})
}

// TestTCPInitialization: "Use address of one of the machines".
func TestTCPInitialization(t *testing.T) {
	address := portlease.ForTest(t, 1)[0]
	errs := spawn(t, 4, func(ctx context.Context, rank int) error {
		w, err := dist.Init(ctx, dist.InitConfig{Backend: "GLOO", Method: "tcp://" + address, Rank: new(rank), WorldSize: 4})
		if err != nil {
			return err
		}
		return errors.Join(w.Barrier(ctx), w.Destroy())
	})
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}

// TestFileInitialization: "rank should always be specified". The file is gone
// afterwards, and a second world may use its name.
func TestFileInitialization(t *testing.T) {
	path := t.TempDir() + "/sharedfile"
	for range 2 {
		errs := spawn(t, 4, func(ctx context.Context, rank int) error {
			w, err := dist.Init(ctx, dist.InitConfig{Backend: "gloo", Method: "file://" + path, Rank: new(rank), WorldSize: 4})
			if err != nil {
				return err
			}
			return errors.Join(w.Barrier(ctx), w.Destroy())
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("the last rank left the file: %v", err)
		}
	}
}

// TestGuide: the training guide's demo_basic, in a world of 2: each rank adds up
// ones(2, 2).
func TestGuide(t *testing.T) {
	address := portlease.ForTest(t, 1)[0]
	errs := spawn(t, 2, func(ctx context.Context, rank int) error {
		w, err := dist.Init(ctx, dist.InitConfig{Backend: "gloo", Method: "tcp://" + address, Rank: new(rank), WorldSize: 2})
		if err != nil {
			return err
		}
		x := []float32{1, 1, 1, 1}
		square, err := tensor.Of(x).Reshape(2, 2)
		if err == nil {
			err = w.AllReduce(ctx, square, tensor.Sum)
		}
		if err == nil && !slices.Equal(x, []float32{2, 2, 2, 2}) {
			err = fmt.Errorf("rank %d: %v", rank, x)
		}
		return errors.Join(err, w.Barrier(ctx), w.Destroy())
	})
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}

// monitored is the debugging page's worker: absent ranks do not call the barrier.
func monitored(t *testing.T, size int, o dist.MonitorOptions, absent ...int) []error {
	t.Helper()
	master(t)
	var leaving sync.WaitGroup // a rank that left would be a broken link, not a missing one
	leaving.Add(size - len(absent))
	return spawn(t, size, func(ctx context.Context, rank int) error {
		w, err := initGroup(ctx, rank, size)
		if err != nil {
			leaving.Done()
			return err
		}
		defer w.Close() //nolint:errcheck // broken
		group, err := w.NewGroup(ctx, nil, pg.GroupOptions{Backend: "gloo"})
		if err != nil {
			leaving.Done()
			return err
		}
		if slices.Contains(absent, rank) {
			leaving.Wait()
			return nil
		}
		defer leaving.Done()
		return dist.MonitoredBarrier(ctx, group, o)
	})
}

// TestMonitoredBarrier: "Rank 1 failed to pass monitoredBarrier in 2000 ms", and
// with wait_all_ranks all that are missing. The timeout is shorter.
func TestMonitoredBarrier(t *testing.T) {
	const short, long = 200 * time.Millisecond, 3 * time.Second // a rank that is not absent may be late
	for _, c := range []struct {
		size    int
		all     bool
		timeout time.Duration
		absent  []int
		missing []int
	}{
		{2, false, short, []int{1}, []int{1}},
		{3, true, long, []int{1}, []int{1}},
		{4, true, short, []int{1, 2, 3}, []int{1, 2, 3}},
		{4, false, short, []int{1, 2, 3}, []int{1}},
	} {
		errs := monitored(t, c.size, dist.MonitorOptions{Timeout: c.timeout, WaitAll: c.all}, c.absent...)
		var e *dist.BarrierError
		if !errors.As(errs[0], &e) || !slices.Equal(e.Missing, c.missing) || e.Timeout != c.timeout {
			t.Errorf("%+v: rank 0 gets %v", c, errs[0])
		}
		for rank, err := range errs[1:] {
			if absent := slices.Contains(c.absent, rank+1); (err == nil) != absent {
				t.Errorf("%+v: rank %d gets %v", c, rank+1, err)
			}
		}
	}
}

// TestDetail: with TORCH_DISTRIBUTED_DEBUG=DETAIL an all_reduce of 10 elements on
// rank 0 and 20 on the others is reported with both shapes, on every rank.
func TestDetail(t *testing.T) {
	master(t)
	t.Setenv(debug.EnvTorchLevel, "DETAIL")
	errs := spawn(t, 2, func(ctx context.Context, rank int) error {
		w, err := initGroup(ctx, rank, 2)
		if err != nil {
			return err
		}
		defer w.Close() //nolint:errcheck // broken
		n := 20
		if rank == 0 {
			n = 10
		}
		return w.AllReduce(ctx, tensor.Of(make([]float32, n)), tensor.Sum)
	})
	for rank, err := range errs {
		if !errors.Is(err, pg.ErrMismatch) || !strings.Contains(err.Error(), "10") || !strings.Contains(err.Error(), "20") {
			t.Errorf("rank %d: %v, want both shapes named", rank, err)
		}
	}
}

// TestDestroyAndMeetAgain: the wish of the issue at Bagua: after a failure the
// survivors destroy their groups, and meet a newcomer whose groups have the same
// names as theirs.
func TestDestroyAndMeetAgain(t *testing.T) {
	master(t)
	old := make([]*dist.World, 3)
	join := func(ctx context.Context, rank int) (names []string, err error) {
		w, err := initGroup(ctx, rank, 3)
		if err != nil {
			return nil, err
		}
		old[rank] = w
		for range 2 {
			g, err := w.NewGroup(ctx, []int{0, 1, 2}, pg.GroupOptions{})
			if err != nil {
				return nil, err
			}
			names = append(names, g.GroupName())
		}
		return names, w.Barrier(ctx)
	}
	for range 3 {
		var mu sync.Mutex
		var all [][]string
		errs := spawn(t, 3, func(ctx context.Context, rank int) error {
			names, err := join(ctx, rank)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, names)
			return err
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		for _, names := range all {
			if !slices.Equal(names, []string{"0", "1"}) {
				t.Errorf("groups are called %v", names)
			}
		}
		old[2].Abort(errors.New("rank 2 fails"))
		for _, w := range old {
			if err := w.Destroy(); err != nil {
				t.Errorf("destroy: %v", err)
			}
			if err := w.Destroy(); !errors.Is(err, pg.ErrUnknownGroup) {
				t.Errorf("destroy of an unknown group: %v", err)
			}
		}
	}
}
