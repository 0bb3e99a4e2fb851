package durable_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/durable"
	"github.com/skerry-ft/skerry/checkpoint/durable/localdir"
	"github.com/skerry-ft/skerry/checkpoint/safetensors"
	"github.com/skerry-ft/skerry/tensor"
)

// changing makes a rank whose part's state is what now makes of it, and which may have room.
func changing(t *testing.T, s durable.Store, life int, room int64, now *func(checkpoint.State) checkpoint.State) *rank {
	t.Helper()
	r := newRank(t, replicaID("a", life), durable.Config{Store: s, Every: 10})
	other := []float32{1, 2}
	save := func() checkpoint.State {
		return (*now)(checkpoint.State{Tensors: map[string]tensor.Tensor{"x": tensor.Of(other), "y": tensor.Of(other)}})
	}
	must(t, r.c.RegisterWithRoom("other", save, func(checkpoint.State) error { return nil }, room))
	return r.run()
}

func whole(s checkpoint.State) checkpoint.State { return s }

// A state that is not there when it is to be copied is no checkpoint: neither an absent one, nor
// one that has lost tensors. The one before stays the newest, the failure is told as that of a
// write is, and the next save of the position writes it.
func TestStateThatIsNotThere(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]func(checkpoint.State) checkpoint.State{
		"absent":     checkpoint.State.Absent,
		"empty":      func(checkpoint.State) checkpoint.State { return checkpoint.State{} },
		"one is not": func(s checkpoint.State) checkpoint.State { delete(s.Tensors, "y"); return s },
	} {
		dir := openDir(t, localdir.Config{Path: t.TempDir()})
		now := whole
		r := changing(t, dir, 1, 0, &now)
		must(t, r.saved(10))
		now = lost
		if err := r.saved(20); !errors.Is(err, safetensors.ErrAbsent) {
			t.Errorf("%s: flush says %v, want ErrAbsent", name, err)
		}
		failed := of[durable.SaveFailed](r.events)
		if len(failed) != 1 || failed[0].Position.Step != 20 || !strings.Contains(failed[0].Err.Error(), "other") || failed[0].Name == "" {
			t.Errorf("%s: told %v", name, failed)
		}
		now = whole
		reader := changing(t, dir, 2, 0, &now)
		found, err := reader.c.Restore(t.Context())
		if err != nil || found.Position.Step != 10 || len(found.Rejected) > 0 {
			t.Errorf("%s: restored %v, %v, want step 10", name, found, err)
		}
		must(t, r.c.AfterStep(t.Context(), r.p)) // the step after it was discarded
		must(t, r.c.Flush(t.Context()))
		if found, err := reader.c.Find(t.Context()); err != nil || found.Position.Step != 20 {
			t.Errorf("%s: found %v, %v, want step 20", name, found, err)
		}
		// What was loaded counts like what was copied.
		now = lost
		if err := reader.saved(30); !errors.Is(err, safetensors.ErrAbsent) {
			t.Errorf("%s: after a load, flush says %v, want ErrAbsent", name, err)
		}
	}
}

// A part with room may lose tensors, as it may get them, but not all at once.
func TestRoomMayLoseTensors(t *testing.T) {
	t.Parallel()
	dir := openDir(t, localdir.Config{Path: t.TempDir()})
	now := whole
	r := changing(t, dir, 1, 1<<20, &now)
	must(t, r.saved(10))
	now = func(s checkpoint.State) checkpoint.State { delete(s.Tensors, "y"); return s }
	must(t, r.saved(20))
	now = func(checkpoint.State) checkpoint.State { return checkpoint.State{} }
	if err := r.saved(30); !errors.Is(err, safetensors.ErrAbsent) {
		t.Errorf("flush says %v, want ErrAbsent", err)
	}
	now = whole
	must(t, r.saved(40))
}

// A Load into a state that is not there says so: it is of no other program.
func TestLoadIntoAbsent(t *testing.T) {
	t.Parallel()
	dir := openDir(t, localdir.Config{Path: t.TempDir()})
	now := whole
	must(t, changing(t, dir, 1, 0, &now).saved(10))
	reader := changing(t, dir, 2, 0, &now)
	now = checkpoint.State.Absent
	_, err := reader.c.Restore(t.Context())
	if _, mismatch := errors.AsType[*safetensors.MismatchError](err); mismatch || !errors.Is(err, safetensors.ErrAbsent) {
		t.Errorf("restore: %v, want ErrAbsent", err)
	}
}

// holder is the progress of a replica that heals in place.
type holder struct {
	*progress
	holds bool
}

func (h *holder) HoldsState() bool { return h.holds }

// Tensors that a heal in place has overwritten in part are the state of no position, and not
// saved.
func TestMixedStateIsNotSaved(t *testing.T) {
	t.Parallel()
	dir := openDir(t, localdir.Config{Path: t.TempDir()})
	r := newRank(t, replicaID("a", 1), durable.Config{Store: dir, Every: 10}).run()
	must(t, r.saved(10))
	h := &holder{progress: r.p}
	r.m.learn(20, 0)
	r.p.at.Step = 20
	for _, save := range []func() error{
		func() error { return r.c.AfterStep(t.Context(), h) },
		func() error { return r.c.Save(t.Context(), h) },
	} {
		must(t, save())
		if err := r.c.Flush(t.Context()); err == nil || !strings.Contains(err.Error(), "heals in place") {
			t.Errorf("flush says %v, want that the replica heals in place", err)
		}
	}
	if failed := of[durable.SaveFailed](r.events); len(failed) != 2 {
		t.Errorf("told %v, want two failures", failed)
	}
	restores(t, dir, 10)
	h.holds = true
	must(t, r.c.Save(t.Context(), h))
	must(t, r.c.Flush(t.Context()))
	restores(t, dir, 20)
}
