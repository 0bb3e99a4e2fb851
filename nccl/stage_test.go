package nccl

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/dist"
	objects "github.com/skerry-ft/skerry/dist/object"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

// deviceWorld is a world of n groups that have NCCL alone.
func deviceWorld(t *testing.T, f *fakes, n int) *pgtest.World {
	t.Helper()
	w := pgtest.NewWorld(t, pgtest.StartStore(t))
	members := make([]pgtest.Member, n)
	for i := range members {
		members[i] = w.Join(string(rune('a'+i)), newBackend(t, f, i%2))
	}
	w.Configure(members...)
	return w
}

// Verbs of Go values, and of tensors of the host, go through memory of the device, which is
// given back.
func TestHostVerbsOnDevice(t *testing.T) {
	f := open(t)
	before := f.live()
	t.Run("world", func(t *testing.T) {
		const n = 3
		dev := f.device(t, 0)
		deviceWorld(t, f, n).Each(func(ctx context.Context, rank int, g *pg.Group) error {
			return errors.Join(stagedObjects(ctx, g, rank, n), stagedUneven(ctx, dev, g, rank, n))
		})
	})
	deadline := time.Now().Add(pgtest.PromptBound)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for f.live() > before {
		if time.Now().After(deadline) {
			t.Fatalf("events, streams and blocks alive: %09d, want %09d", f.live(), before)
		}
		<-tick.C
	}
}

func stagedObjects(ctx context.Context, g *pg.Group, rank, n int) error {
	want := make([]any, n)
	for r := range want {
		want[r] = strings.Repeat("x", 300*r)
	}
	var got [4]any
	var errs [4]error
	got[0], errs[0] = objects.AllGather(ctx, g, want[rank])
	got[1], errs[1] = objects.Gather(ctx, g, want[rank], 1)
	if rank != 1 {
		got[1] = want
	}
	list := slices.Clone(want)
	if rank != 2 {
		clear(list)
	}
	errs[2] = objects.Broadcast(ctx, g, list, 2)
	got[2] = list
	got[3], errs[3] = objects.Scatter(ctx, g, want, 0)
	return errors.Join(errors.Join(errs[:]...),
		same("all-gather", got[0], want), same("gather", got[1], want), same("broadcast", got[2], want),
		same("scatter", got[3], want[rank]))
}

func same(what string, got, want any) error {
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("%s: got %v, want %v", what, got, want)
	}
	return nil
}

// stagedUneven gathers a tensor of the host, and one of the device.
func stagedUneven(ctx context.Context, dev *Device, g *pg.Group, rank, n int) error {
	mine := tensor.Of(slices.Repeat([]float32{float32(rank)}, rank))
	if rank == 2 { // of the device
		b, err := dev.Alloc(mine.NumBytes())
		if err != nil {
			return err
		}
		defer b.Close()
		if err := b.CopyFromHost(0, mine.Bytes()); err != nil {
			return err
		}
		if mine, err = tensor.OnDevice(b, tensor.Float32, rank); err != nil {
			return err
		}
	}
	all, err := dist.AllGatherUneven(ctx, g, mine)
	if err != nil || len(all) != n {
		return fmt.Errorf("%d tensors: %w", len(all), err)
	}
	for r, x := range all {
		if got, want := tensor.Slice[float32](x), slices.Repeat([]float32{float32(r)}, r); !slices.Equal(got, want) {
			return fmt.Errorf("uneven: rank %d gave %v, want %v", r, got, want)
		}
	}
	return nil
}

// The monitored barrier says who is missing, over the store; then the group is broken.
func TestMonitoredBarrierOnDevice(t *testing.T) {
	f := open(t)
	w := deviceWorld(t, f, 3)
	w.Each(func(ctx context.Context, _ int, g *pg.Group) error {
		return errors.Join(dist.MonitoredBarrier(ctx, g, dist.MonitorOptions{}), dist.MonitoredBarrier(ctx, g, dist.MonitorOptions{}))
	})
	err := w.Try(func(ctx context.Context, rank int, g *pg.Group) error {
		switch rank {
		case 1:
			return nil
		case 0: // not before rank 2 has reported: it would be missing, too
			config, _ := g.Config()
			shared, err := config.OpenStore(ctx)
			if err != nil {
				return err
			}
			if err := errors.Join(shared.Wait(ctx, "monitored-barrier/3/2"), shared.Close()); err != nil {
				return fmt.Errorf("report of rank 2: %w", err)
			}
		}
		err := dist.MonitoredBarrier(ctx, g, dist.MonitorOptions{Timeout: 20 * time.Millisecond, WaitAll: true})
		switch missing, ok := errors.AsType[*dist.BarrierError](err); {
		case rank == 2 && err == nil:
			return errors.New("rank 2 passed")
		case rank == 0 && (!ok || !slices.Equal(missing.Missing, []int{1}) || missing.IDs[0] != "b"):
			return fmt.Errorf("rank 0: %w, want rank 1 (b) missing", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if err := w.Groups[2].Err(); err == nil {
		t.Error("the group of rank 2 is not broken")
	}
}
