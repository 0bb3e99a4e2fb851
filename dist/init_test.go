package dist_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/dist"
	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/internal/portlease"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/store"
	"github.com/skerry-ft/skerry/store/certs"
	"github.com/skerry-ft/skerry/tensor"
)

// initAll runs f in a world of n ranks that config describes.
func initAll(t *testing.T, n int, config func(rank int) dist.InitConfig, f func(ctx context.Context, w *dist.World) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), pgtest.Bound)
	defer cancel()
	var ranks sync.WaitGroup
	for rank := range n {
		ranks.Go(func() {
			w, err := dist.Init(ctx, config(rank))
			if err != nil {
				t.Errorf("rank %d: %v", rank, err)
				return
			}
			if w.Rank() != rank || w.Size() != n {
				t.Errorf("rank %d of %d, want %d of %d", w.Rank(), w.Size(), rank, n)
			}
			if err := errors.Join(f(ctx, w), w.Destroy()); err != nil {
				t.Errorf("rank %d: %v", rank, err)
			}
			if err := w.Destroy(); !errors.Is(err, pg.ErrUnknownGroup) {
				t.Errorf("rank %d destroyed twice: %v, want ErrUnknownGroup", rank, err)
			}
		})
	}
	ranks.Wait()
}

// sumsAndNames checks that a world works, and that its first subgroup is "0".
func sumsAndNames(ctx context.Context, w *dist.World) error {
	sum := []int64{1}
	if err := w.AllReduce(ctx, tensor.Of(sum), tensor.Sum); err != nil || sum[0] != int64(w.Size()) {
		return fmt.Errorf("sum is %d of %d: %w", sum[0], w.Size(), err)
	}
	first, err := w.NewGroup(ctx, []int{0}, pg.GroupOptions{})
	if err != nil || first.GroupName() != "0" {
		return fmt.Errorf("first group is not called 0: %w", err)
	}
	return w.Barrier(ctx)
}

// TestInitMethods: every way to meet makes a world, again and again, with other
// sizes where the way allows it; names start anew each time.
func TestInitMethods(t *testing.T) {
	driver := pgtest.MemoryDriver(t)
	address := portlease.ForTest(t, 1)[0]
	host, port, _ := net.SplitHostPort(address)
	t.Setenv(dist.EnvMasterAddr, host)
	t.Setenv(dist.EnvMasterPort, port)
	t.Setenv(dist.EnvWorldSize, "2")
	file := "file://" + filepath.Join(t.TempDir(), "meet")
	hash := store.NewHash()
	defer hash.Close()
	methods := map[string]func(rank, n int) dist.InitConfig{
		"tcp": func(rank, n int) dist.InitConfig {
			return dist.InitConfig{Method: "tcp://" + address, Rank: new(rank), WorldSize: n}
		},
		"tcp query": func(rank, n int) dist.InitConfig {
			return dist.InitConfig{Method: fmt.Sprintf("tcp://%s?rank=%d&world_size=%d", address, rank, n)}
		},
		"env":     func(rank, n int) dist.InitConfig { return dist.InitConfig{Rank: new(rank)} },
		"env url": func(rank, n int) dist.InitConfig { return dist.InitConfig{Method: fmt.Sprintf("env://?rank=%d", rank)} },
		"file": func(rank, n int) dist.InitConfig {
			return dist.InitConfig{Method: file, Rank: new(rank), WorldSize: n}
		},
		"store": func(rank, n int) dist.InitConfig {
			return dist.InitConfig{Store: hash, Rank: new(rank), WorldSize: n, Backend: "cpu:" + driver}
		},
	}
	for name, config := range methods {
		t.Run(name, func(t *testing.T) {
			for life := range 3 {
				n := 2
				if !strings.HasPrefix(name, "env") {
					n = 2 + life
				}
				initAll(t, n, func(rank int) dist.InitConfig {
					c := config(rank, n)
					c.Backend, c.Timeout = cmp.Or(c.Backend, driver), pgtest.Bound
					return c
				}, sumsAndNames)
			}
		})
	}
	if _, err := os.Stat(strings.TrimPrefix(file, "file://")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the last rank left the file: %v", err)
	}
}

// TestInitOverlappingLives: a rank that is done early may join the next life of
// a store while others are still leaving the one before.
func TestInitOverlappingLives(t *testing.T) {
	driver := pgtest.MemoryDriver(t)
	hash := store.NewHash()
	defer hash.Close()
	const world, lives = 3, 10
	ctx, cancel := context.WithTimeout(t.Context(), pgtest.Bound)
	defer cancel()
	var ranks sync.WaitGroup
	for rank := range world {
		ranks.Go(func() {
			for life := range lives {
				w, err := dist.Init(ctx, dist.InitConfig{Backend: driver, Store: hash, Rank: new(rank), WorldSize: world})
				if err != nil {
					t.Errorf("rank %d life %d: %v", rank, life, err)
					return
				}
				if err := errors.Join(w.Barrier(ctx), w.Destroy()); err != nil {
					t.Errorf("rank %d life %d: %v", rank, life, err)
				}
			}
		})
	}
	ranks.Wait()
}

// TestInitRefused: what cannot work gives a clear error at once.
func TestInitRefused(t *testing.T) {
	driver := pgtest.MemoryDriver(t)
	hash := store.NewHash()
	defer hash.Close()
	used := filepath.Join(t.TempDir(), "used")
	for range 2 {
		f, err := store.NewFile(used, 2)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
	}
	cases := map[string]struct {
		c    dist.InitConfig
		says string
	}{
		"store and method":  {dist.InitConfig{Store: hash, Method: "env://", Rank: new(0), WorldSize: 1}, "want one of them"},
		"store alone":       {dist.InitConfig{Store: hash}, "without rank and world size"},
		"no rank":           {dist.InitConfig{Method: "tcp://127.0.0.1:1", WorldSize: 2}, "the rank is not known"},
		"no size":           {dist.InitConfig{Method: "tcp://127.0.0.1:1?rank=0"}, "the world size is not known"},
		"rank out of range": {dist.InitConfig{Method: "tcp://127.0.0.1:1", Rank: new(2), WorldSize: 2}, "rank 2 of 2"},
		"two ranks":         {dist.InitConfig{Method: "tcp://127.0.0.1:1?rank=1", Rank: new(0), WorldSize: 2}, "rank is 1 in the URL and 0"},
		"bad number":        {dist.InitConfig{Method: "tcp://127.0.0.1:1?rank=x", WorldSize: 2}, `rank="x"`},
		"no port":           {dist.InitConfig{Method: "tcp://127.0.0.1", Rank: new(0), WorldSize: 2}, "want tcp://host:port"},
		"scheme":            {dist.InitConfig{Method: "gopher://x", Rank: new(0), WorldSize: 2}, "no rendezvous for"},
		"used file":         {dist.InitConfig{Method: "file://" + used, Rank: new(0), WorldSize: 2}, used},
		"no master port":    {dist.InitConfig{Rank: new(0), WorldSize: 2}, dist.EnvMasterPort},
		"no rank in env":    {dist.InitConfig{Method: "env://?world_size=2"}, "rendezvous env://?world_size=2: the rank is not known"},
		"env size":          {dist.InitConfig{Rank: new(0)}, "rendezvous env://: the world size is not known"},
		"backend":           {dist.InitConfig{Backend: "carrier-pigeon", Store: hash, Rank: new(0), WorldSize: 1}, "carrier-pigeon"},
	}
	t.Setenv(dist.EnvMasterPort, "")
	t.Setenv(dist.EnvWorldSize, "")
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.c.Backend == "" {
				c.c.Backend = driver
			}
			if _, err := dist.Init(t.Context(), c.c); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want an error that says %q", err, c.says)
			}
		})
	}
	withUsed := cases["used file"].c
	withUsed.Backend = driver
	if _, err := dist.Init(t.Context(), withUsed); !errors.Is(err, store.ErrUsedFile) {
		t.Errorf("used file: %v, want ErrUsedFile", err)
	}
}

// TestInitTwice: a second Init of one rank is refused while the first world
// lives; ranks that differ on the world's size are told so.
func TestInitTwice(t *testing.T) {
	driver := pgtest.MemoryDriver(t)
	hash := store.NewHash()
	defer hash.Close()
	c := dist.InitConfig{Backend: driver, Store: hash, Rank: new(0), WorldSize: 1}
	for range 2 {
		w, err := dist.Init(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := dist.Init(t.Context(), c); !errors.Is(err, dist.ErrInitialized) {
			t.Errorf("second Init: %v, want ErrInitialized", err)
		}
		if err := w.Destroy(); err != nil {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var ranks sync.WaitGroup
	ranks.Go(func() {
		_, err := dist.Init(ctx, dist.InitConfig{Backend: driver, Store: hash, Rank: new(1), WorldSize: 3})
		if !errors.Is(err, pg.ErrMismatch) {
			t.Errorf("rank that means another world size: %v, want ErrMismatch", err)
		}
		cancel() // rank 0 waits for one that fits
	})
	ranks.Go(func() {
		if _, err := dist.Init(ctx, dist.InitConfig{Backend: driver, Store: hash, Rank: new(0), WorldSize: 2}); err == nil {
			t.Error("rank 0 has a world without rank 1")
		}
	})
	ranks.Wait()
}

// TestRegisterRendezvous: a scheme of one's own works; one that is taken, or
// built in, is refused.
func TestRegisterRendezvous(t *testing.T) {
	driver := pgtest.MemoryDriver(t)
	hash := store.NewHash()
	defer hash.Close()
	meet := func(_ context.Context, r dist.RendezvousRequest) (*dist.Rendezvous, error) {
		rank, size, err := r.Place(nil, 0)
		return &dist.Rendezvous{Rank: rank, WorldSize: size, Store: hash}, err
	}
	name := strings.ReplaceAll(driver[strings.LastIndex(driver, "-")+1:], "0x", "pigeon") // new for each run of the test
	if err := dist.RegisterRendezvous(strings.ToUpper(name), meet); err != nil {
		t.Fatal(err)
	}
	for _, taken := range []string{name, "tcp", "env", "file", "", "a:b"} {
		if err := dist.RegisterRendezvous(taken, meet); err == nil {
			t.Errorf("scheme %q was registered", taken)
		}
	}
	initAll(t, 2, func(rank int) dist.InitConfig {
		return dist.InitConfig{Backend: driver, Method: name + "://roof", Rank: new(rank), WorldSize: 2}
	}, sumsAndNames)
}

// TestInitEncrypts: rank 0's store speaks TLS, and clients without it, or with another
// CA's certificate, do not come in.
func TestInitEncrypts(t *testing.T) {
	t.Parallel()
	driver, address := pgtest.MemoryDriver(t), portlease.ForTest(t, 1)[0]
	conf, foreign := certified(t), certified(t)
	initAll(t, 2, func(rank int) dist.InitConfig {
		return dist.InitConfig{
			Method: "tcp://" + address, Rank: new(rank), WorldSize: 2, Backend: driver, Timeout: pgtest.Bound, TLS: conf,
		}
	}, func(ctx context.Context, w *dist.World) error {
		var errs []error
		for what, tls := range map[string]*store.TLS{"no TLS": nil, "another CA's certificate": foreign} {
			if _, err := store.Dial(ctx, address, store.ClientConfig{TLS: tls}); !errors.Is(err, store.ErrTLS) {
				errs = append(errs, fmt.Errorf("a client with %s: %w", what, err))
			}
		}
		return errors.Join(append(errs, w.Barrier(ctx))...)
	})
}

// certified is the TLS of a replica of a CA of its own.
func certified(t *testing.T) *store.TLS {
	t.Helper()
	conf, err := certs.FromOptions(guardtest.New(t).Options(t, guard.Replica, "replica"), "")
	if err != nil {
		t.Fatal(err)
	}
	return conf
}
