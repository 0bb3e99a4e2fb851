package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/dist"
	"github.com/skerry-ft/skerry/dist/object"
	"github.com/skerry-ft/skerry/internal/portlease"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/debug"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/spawn"
)

// initName is the function that a rank of TestInitProcesses runs.
const initName = "init rank"

// lives is how often each process joins and leaves.
const lives = 3

// liveWorlds is one rank that joins a world by the method in its args, works in
// it and in subgroups, destroys it, and joins again.
func liveWorlds(ctx context.Context, w spawn.Worker) error {
	if err := registerPatient(); err != nil {
		return err
	}
	var method string
	if err := json.Unmarshal(w.Args, &method); err != nil {
		return err
	}
	for life := range lives {
		where := method
		if strings.HasPrefix(method, "file:") { // a file serves one world
			where += fmt.Sprint(life)
		}
		c := dist.InitConfig{Backend: "Patient-TCP", Method: where, Rank: new(w.Rank), WorldSize: w.WorldSize, Timeout: pgtest.Bound}
		world, err := dist.Init(ctx, c)
		if err != nil {
			return fmt.Errorf("life %d: %w", life, err)
		}
		if _, err := dist.Init(ctx, c); !errors.Is(err, dist.ErrInitialized) {
			return fmt.Errorf("life %d: second Init: %w, want ErrInitialized", life, err)
		}
		if err := errors.Join(workInWorld(ctx, world), world.Destroy()); err != nil {
			return fmt.Errorf("life %d: %w", life, err)
		}
	}
	return nil
}

func workInWorld(ctx context.Context, w *dist.World) error {
	pair, _, err := w.NewSubgroups(ctx, 2, pg.GroupOptions{})
	if err != nil {
		return err
	}
	if want := fmt.Sprint(w.Rank() / 2); pair.GroupName() != want {
		return fmt.Errorf("subgroup is called %q, want %q", pair.GroupName(), want)
	}
	names, err := object.AllGather(ctx, pair, fmt.Sprintf("rank %d", w.Rank()))
	if err != nil || names[pair.Rank()] != fmt.Sprintf("rank %d", w.Rank()) {
		return fmt.Errorf("pair gathered %v: %w", names, err)
	}
	sum := []float32{1}
	if err := w.AllReduce(ctx, tensor.Of(sum), tensor.Sum); err != nil || sum[0] != float32(w.Size()) {
		return fmt.Errorf("sum is %v of %d: %w", sum, w.Size(), err)
	}
	if err := w.Store().Set(ctx, "greeting", []byte("hello")); err != nil {
		return err
	}
	return dist.MonitoredBarrier(ctx, w.Group, dist.MonitorOptions{})
}

// TestInitProcesses: processes meet by every method, work in subgroups, leave,
// and meet again in the same place.
func TestInitProcesses(t *testing.T) {
	address := portlease.ForTest(t, 1)[0]
	host, port, _ := net.SplitHostPort(address)
	file := filepath.Join(t.TempDir(), "meet")
	for _, method := range []string{"env://", "tcp://" + address, "file://" + file} {
		t.Run(strings.SplitN(method, ":", 2)[0], func(t *testing.T) {
			args, err := json.Marshal(method)
			if err != nil {
				t.Fatal(err)
			}
			o := spawn.Options{Args: args, Stderr: os.Stderr, Env: []string{
				dist.EnvMasterAddr + "=" + host, dist.EnvMasterPort + "=" + port, debug.EnvTorchLevel + "=DETAIL",
			}}
			if err := spawn.Run(t.Context(), 4, initName, o); err != nil {
				t.Fatal(err)
			}
		})
	}
	for life := range lives {
		if _, err := os.Stat(fmt.Sprint(file, life)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the last rank left the file of life %d: %v", life, err)
		}
	}
}
