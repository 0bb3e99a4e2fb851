package pg_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/pg/trace"
)

// TestSubgroupTimeout: a subgroup's timeout bounds its ops, and its parent's
// bounds the parent's: what one breaks the other goes on without.
func TestSubgroupTimeout(t *testing.T) {
	synctest.Test(t, subgroupTimeout)
}

func subgroupTimeout(t *testing.T) {
	const timeout = time.Second
	w := pgtest.MemoryWorld(t, 2, nil)
	var waited sync.WaitGroup
	waited.Add(1)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		sub, err := g.NewGroup(ctx, nil, pg.GroupOptions{Timeout: timeout})
		if err != nil {
			if rank == 0 {
				waited.Done()
			}
			return err
		}
		if rank == 1 {
			waited.Wait() // and not in the subgroup
			return g.Barrier(ctx)
		}
		began := time.Now()
		err = sub.Barrier(context.Background()) // ctx has a deadline, which would count
		took := time.Since(began)
		waited.Done()
		if !errors.Is(err, context.DeadlineExceeded) || took < timeout/2 {
			return fmt.Errorf("barrier alone in a subgroup of timeout %v: %w after %v", timeout, err, took)
		}
		return g.Barrier(ctx)
	})
}

// TestSubgroupBackend: a subgroup may have another backend, by name, with options
// of its own; a name that nobody registered is refused on every rank.
func TestSubgroupBackend(t *testing.T) {
	network := pgtest.NewMemory()
	name := fmt.Sprintf("other-%p", network)
	var mu sync.Mutex
	var params []string
	err := pg.Register(name, []string{"cpu"}, func(o pg.Options) (pg.Backend, error) {
		mu.Lock()
		defer mu.Unlock()
		params = append(params, o.Params["speed"])
		return trace.NewRecorder(network.Backend(), trace.Config{}), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w := pgtest.MemoryWorld(t, 3, nil)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		o := pg.GroupOptions{Backend: strings.ToUpper(name), Options: pg.Options{Params: map[string]string{"speed": "high"}}}
		sub, err := g.NewGroup(ctx, []int{0, 2}, o)
		if err != nil {
			return err
		}
		if rank == 1 {
			if !errors.Is(sub.Barrier(ctx), pg.ErrNotMember) {
				return errors.New("an outsider is in the subgroup")
			}
		} else {
			if _, ok := sub.Backend().(*trace.Recorder); !ok {
				return fmt.Errorf("the subgroup's backend is a %T", sub.Backend())
			}
			if sum, err := sumOf(ctx, sub, 1); err != nil || sum != 2 {
				return fmt.Errorf("sum is %d: %w", sum, err)
			}
		}
		_, err = g.NewGroup(ctx, nil, pg.GroupOptions{Backend: "nobody's"})
		if err == nil || !strings.Contains(err.Error(), "nobody's") {
			return fmt.Errorf("a subgroup of an unknown backend: %w", err)
		}
		return g.Barrier(ctx)
	})
	if len(params) != 2 || params[0] != "high" || params[1] != "high" {
		t.Errorf("two members opened the backend with %q", params)
	}
}
