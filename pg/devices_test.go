package pg_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
)

// TestBackendLists: lists for devices are read without regard to case, gloo means
// tcp, and a group over one sends each op where it belongs.
func TestBackendLists(t *testing.T) {
	list, ok, err := pg.ParseBackends("CPU:Gloo,cuda:NCCL")
	if err != nil || !ok || fmt.Sprint(list) != "[{cpu tcp} {cuda nccl}]" {
		t.Errorf("list is %v, %v: %v", list, ok, err)
	}
	for _, name := range []string{"gloo", "baby:tcp"} {
		if _, ok, err := pg.ParseBackends(name); ok || err != nil {
			t.Errorf("%q is taken for a list: %v", name, err)
		}
	}
	for _, bad := range []string{"cpu:a,cpu:b", "cpu:a,tpu:b", "cpu:a,", "a,b"} {
		if _, _, err := pg.ParseBackends(bad); err == nil {
			t.Errorf("list %q was read", bad)
		}
	}
	driver := pgtest.MemoryDriver(t)
	if !pg.Available(strings.ToUpper(driver)) || !pg.Available("cpu:"+driver) || pg.Available("cpu:"+driver+",cuda:none") {
		t.Error("Available does not tell what there is")
	}
	if _, err := pg.Open("cuda:"+driver, pg.Options{}); !errors.Is(err, pg.ErrUnsupported) {
		t.Errorf("a backend of the cpu for cuda: %v, want ErrUnsupported", err)
	}
	w := pgtest.MemoryWorld(t, 3, func(pg.Backend) pg.Backend {
		b, err := pg.Open("cpu:"+driver, pg.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return b
	})
	w.Each(func(ctx context.Context, _ int, g *pg.Group) error {
		first, err := g.NewGroup(ctx, []int{0}, pg.GroupOptions{})
		if err != nil || first.GroupName() != "0" {
			return fmt.Errorf("first group is not called 0: %w", err)
		}
		sum, err := sumOf(ctx, g, 1)
		return errors.Join(err, equal(int(sum), 3))
	})
}

// TestParamsOfLists: of a list each backend is opened with its own params, not with those
// of the others, which it would refuse.
func TestParamsOfLists(t *testing.T) {
	given := make(map[string]map[string]string)
	host, gpu := fmt.Sprintf("host-params-%p", &given), fmt.Sprintf("gpu-params-%p", &given) // registered for good
	for name, device := range map[string]string{host: "cpu", "child:" + gpu: "cuda"} {
		err := pg.Register(name, []string{device}, func(o pg.Options) (pg.Backend, error) {
			given[name] = o.Params
			return pgtest.NewMemory().Backend(), nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	b, err := pg.Open("cpu:"+host+",cuda:child:"+gpu, pg.Options{Params: map[string]string{
		"streams": "2", gpu + ".device": "1", "child.spare": "false", host + ".x": "y", "nobody.z": "1",
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	want := map[string]map[string]string{
		host:           {"streams": "2", host + ".x": "y", "nobody.z": "1"},
		"child:" + gpu: {"streams": "2", gpu + ".device": "1", "child.spare": "false", "nobody.z": "1"},
	}
	if fmt.Sprint(given) != fmt.Sprint(want) {
		t.Errorf("opened with %v, want %v", given, want)
	}
}

// TestDevicesConforms: a list of one backend is as good as the backend.
func TestDevicesConforms(t *testing.T) {
	network := pgtest.NewMemory()
	name := fmt.Sprintf("memory-devices-%p", network)
	if err := pg.Register(name, nil, func(pg.Options) (pg.Backend, error) { return network.Backend(), nil }); err != nil {
		t.Fatal(err)
	}
	pgtest.RunWith(t, pgtest.Harness{
		New: func(t *testing.T) pg.Backend {
			b, err := pg.Open("cpu:"+name, pg.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return b
		},
		StoreAddress: func(t *testing.T) string { return t.Name() },
		Kill:         func(b pg.Backend) { b.(*pg.Devices).Backends()[0].(*pgtest.MemoryBackend).Kill() },
	})
}
