package managedtest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
)

// Verb calls a verb that is made of others, and checks what it gives at a participant,
// by its rank among size, or at a spare, whose rank is -1.
type Verb func(ctx context.Context, g *pg.Group, rank, size int) error

// BeforeQuorum runs each verb in a world of its own, of four members of which member 1 is a
// spare: verbs made of others are laid out for those who take part when they run. One member
// knows the quorum late, as a survivor does beside a joiner whose StartQuorum has waited
// for it.
func BeforeQuorum(t *testing.T, verbs map[string]Verb) {
	participants := []int{0, 2, 3}
	each(t, verbs, func(t *testing.T, verb Verb) {
		w, managers := World(t, 4, participants...)
		late := managers[2]
		late.Begin()
		for _, m := range slices.Delete(slices.Clone(managers), 2, 3) {
			m.Begin()
			m.Settle(nil)
		}
		time.AfterFunc(20*time.Millisecond, func() { late.Settle(nil) })
		w.Each(func(ctx context.Context, member int, g *pg.Group) error {
			return verb(ctx, g, slices.Index(participants, member), len(participants))
		})
		nothingReported(t, managers)
	})
}

// BeginAnew runs each verb where a quorum falls between its look at it and its first op:
// it begins anew in the next one, of three members.
func BeginAnew(t *testing.T, verbs map[string]Verb) {
	each(t, verbs, func(t *testing.T, verb Verb) {
		w, managers := FallingWorld(t, 1)
		w.Each(func(ctx context.Context, member int, g *pg.Group) error { return verb(ctx, g, member, 3) })
		nothingReported(t, managers)
	})
}

// FallingWorld is a world of three of which member 2 takes part only after the quorum
// that all others know was told of so many times.
func FallingWorld(t *testing.T, times int) (*pgtest.World, []*Manager) {
	t.Helper()
	w, managers := World(t, 3, 0, 1, 2)
	for _, m := range managers[:2] {
		m.Fall(times, 0, 1)
	}
	return w, managers
}

func each(t *testing.T, verbs map[string]Verb, f func(t *testing.T, verb Verb)) {
	for name, verb := range verbs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, verb)
		})
	}
}

func nothingReported(t *testing.T, managers []*Manager) {
	t.Helper()
	for i, m := range managers {
		if errs := m.Reported(); len(errs) > 0 {
			t.Errorf("member %d reported %v", i, errs)
		}
	}
}
