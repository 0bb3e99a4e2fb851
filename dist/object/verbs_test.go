package object_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/dist/object"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/managedtest"
)

// verbs are those of this package, each with a check of what it gives.
var verbs = map[string]managedtest.Verb{
	"AllGather": func(ctx context.Context, g *pg.Group, rank, size int) error {
		got, err := object.AllGather(ctx, g, objectOf(rank))
		return errors.Join(err, equal(got, objectsOf(size)))
	},
	"Gather": func(ctx context.Context, g *pg.Group, rank, size int) error {
		got, err := object.Gather(ctx, g, objectOf(rank), 1)
		switch {
		case rank < 0:
			return refused(err)
		case rank == 1:
			return errors.Join(err, equal(got, objectsOf(size)))
		}
		return errors.Join(err, equal(got, []any(nil)))
	},
	"Broadcast": func(ctx context.Context, g *pg.Group, rank, _ int) error {
		list := []any{rank, "mine"}
		if rank == 1 {
			list = []any{"root's", 1.5}
		}
		return errors.Join(object.Broadcast(ctx, g, list, 1), equal(list, []any{"root's", 1.5}))
	},
	"Scatter": func(ctx context.Context, g *pg.Group, rank, size int) error {
		var list []any
		if rank == 1 {
			list = objectsOf(size)
		}
		got, err := object.Scatter(ctx, g, list, 1)
		if rank < 0 {
			return refused(err)
		}
		return errors.Join(err, equal(got, objectOf(rank)))
	},
}

// objectOf has another size at every rank.
func objectOf(rank int) any { return strings.Repeat("x", 3*(rank+2)) }

func objectsOf(size int) []any {
	all := make([]any, size)
	for r := range all {
		all[r] = objectOf(r)
	}
	return all
}

func equal(got, want any) error {
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	return nil
}

// refused checks what a verb with a slot per rank gives a spare.
func refused(err error) error {
	if !errors.Is(err, pg.ErrNotParticipating) {
		return fmt.Errorf("a spare: %w, want ErrNotParticipating", err)
	}
	return nil
}

// Verbs are laid out for those who take part when they run.
func TestVerbsBeforeQuorum(t *testing.T) {
	t.Parallel()
	managedtest.BeforeQuorum(t, verbs)
}

// A quorum may fall between a verb's look at it and its first op: the verb begins anew in
// the next one.
func TestVerbsBeginAnew(t *testing.T) {
	t.Parallel()
	managedtest.BeginAnew(t, verbs)
}
