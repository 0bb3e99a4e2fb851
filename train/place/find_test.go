package place_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/skerry-ft/skerry/dist"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/place"
)

// FuzzFind: no environment makes Find panic, or give a place that is not valid.
func FuzzFind(f *testing.F) {
	for _, vars := range []string{torchrun, srun, jsrun, mpirun, hydra, "JOB_COMPLETION_INDEX=1 JOBSET_NAME=s PODS_PER_JOB=0 WORLD_SIZE=2"} {
		f.Add(vars, "gpu09", files["/ranks"])
	}
	f.Fuzz(func(t *testing.T, vars, host, file string) {
		all := make(map[string]string)
		for _, word := range strings.Fields(vars) {
			name, value, _ := strings.Cut(word, "=")
			all[name] = value
		}
		p, err := place.Find(place.Env{
			Var:      func(name string) string { return all[name] },
			Hostname: func() (string, error) { return host, nil },
			ReadFile: func(string) ([]byte, error) { return []byte(file), nil },
		})
		if err == nil && p.Validate() != nil {
			t.Errorf("%q gives %+v: %v", vars, p, p.Validate())
		}
	})
}

// Processes that a launcher has started meet by what their places say.
func TestInit(t *testing.T) {
	t.Parallel()
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(probe.Addr().String())
	if err := errors.Join(err, probe.Close()); err != nil {
		t.Fatal(err)
	}
	driver := pgtest.MemoryDriver(t)
	const world = 3
	errs := make([]error, world)
	var ranks sync.WaitGroup
	for rank := range world {
		vars := fmt.Sprintf("OMPI_COMM_WORLD_RANK=%d OMPI_COMM_WORLD_LOCAL_RANK=%d OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_LOCAL_SIZE=3 MASTER_PORT=%s",
			rank, rank, port)
		e := env(t, "n", nil, vars)
		ranks.Go(func() { errs[rank] = meetAt(t.Context(), e, driver, world) })
	}
	ranks.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}

func meetAt(ctx context.Context, e place.Env, driver string, world int) error {
	p, err := place.Find(e)
	if err != nil {
		return err
	}
	w, err := dist.Init(ctx, dist.InitConfig{Backend: driver, Method: p.Method()})
	if err != nil {
		return err
	}
	x := []int64{int64(w.Rank())}
	err = w.AllReduce(ctx, tensor.Of(x), tensor.Sum)
	if want := int64(world * (world - 1) / 2); err == nil && (x[0] != want || w.Rank() != p.Rank) {
		err = fmt.Errorf("rank %d sums up to %d, want rank %d and %d", w.Rank(), x[0], p.Rank, want)
	}
	return errors.Join(err, w.Barrier(ctx), w.Destroy())
}
