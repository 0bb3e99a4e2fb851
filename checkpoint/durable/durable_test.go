package durable_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/durable"
	"github.com/skerry-ft/skerry/checkpoint/durable/durabletest"
	"github.com/skerry-ft/skerry/checkpoint/durable/localdir"
	"github.com/skerry-ft/skerry/checkpoint/safetensors"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/tensor"
)

// A state comes back bit for bit, with its position, batches and Meta, from several
// files, of which none is larger than it may be.
func TestSaveAndRestore(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	dir := openDir(t, localdir.Config{Path: path})
	r := newRank(t, replicaID("a", 1), durable.Config{Store: dir, Every: 10, MaxFileBytes: 2000}).run()
	for step := int64(1); step <= 25; step++ {
		must(t, r.saved(step))
	}
	found := restores(t, dir, 20)
	if want := (quorum.Position{Cluster: "c", Step: 20, QuorumID: 7}); found.Position != want || found.Batches != 40 ||
		found.Participants != 2 || found.GroupWorldSize != 1 || len(found.Rejected) > 0 {
		t.Errorf("found %+v, want %+v with 40 batches", found, want)
	}
	saved := of[durable.Saved](r.events)
	if len(saved) != 2 || saved[0].Position.Step != 10 || saved[1].Files != 2 || saved[1].SizeBytes != found.SizeBytes {
		t.Errorf("events %v, want steps 10 and 20, the last in 2 files of %d bytes", saved, found.SizeBytes)
	}
	for name, text := range files(t, path) {
		infos, meta, err := safetensors.Describe(strings.NewReader(text))
		if strings.HasSuffix(name, ".safetensors") && (err != nil || len(infos) == 0 || len(meta) > 0 || len(infos) > 1 && len(text) > 2500) {
			t.Errorf("%s has %d bytes and %v, %v", name, len(text), infos, err)
		}
	}
}

// Two replicas at one position write the same bytes.
func TestEqualStatesGiveEqualFiles(t *testing.T) {
	t.Parallel()
	var all []map[string]string
	for life := range 2 {
		path := t.TempDir()
		r := newRank(t, replicaID("a", 1), durable.Config{
			Store: openDir(t, localdir.Config{Path: path}), Every: 10, MaxFileBytes: int64(2000),
		}).run()
		for step := int64(life); step <= 10; step++ {
			must(t, r.saved(step))
		}
		all = append(all, files(t, path))
	}
	if len(all[0]) != 3 || !maps.Equal(all[0], all[1]) {
		t.Errorf("%d and %d files, want 3, and the same bytes in each", len(all[0]), len(all[1]))
	}
}

// AfterStep saves participant 0's multiples of Every, each position once; Save what it is
// told.
func TestWhoSavesWhen(t *testing.T) {
	t.Parallel()
	dir := openDir(t, localdir.Config{Path: t.TempDir()})
	count := func(writers durable.Writers, participant int) int {
		r := newRank(t, replicaID("w", int(writers)*10+participant+1), durable.Config{Store: dir, Every: 4, Writers: writers}).run()
		r.p.participant = participant
		for step := int64(0); step <= 9; step++ {
			must(t, r.saved(step))
			must(t, r.c.AfterStep(t.Context(), r.p)) // the step after it was discarded
			must(t, r.c.Flush(t.Context()))
		}
		return len(of[durable.Saved](r.events))
	}
	for _, c := range []struct {
		writers     durable.Writers
		participant int
		want        int
	}{{durable.OneWriter, 0, 2}, {durable.OneWriter, 1, 0}, {durable.OneWriter, -1, 0}, {durable.EveryReplica, 1, 2}, {durable.EveryReplica, -1, 2}} {
		if got := count(c.writers, c.participant); got != c.want {
			t.Errorf("writers %v: participant %d saved %d times, want %d", c.writers, c.participant, got, c.want)
		}
	}
	r := newRank(t, replicaID("s", 1), durable.Config{Store: dir}).run()
	r.p.participant = 1
	must(t, r.step(11))
	must(t, r.c.Save(t.Context(), r.p))
	must(t, r.c.Save(t.Context(), r.p))
	must(t, r.c.Flush(t.Context()))
	if got := of[durable.Saved](r.events); len(got) != 1 || got[0].Position.Step != 11 {
		t.Errorf("Save told %v, want step 11 once", got)
	}
}

// What was loaded is not saved again.
func TestLoadedIsNotSavedAgain(t *testing.T) {
	t.Parallel()
	dir := openDir(t, localdir.Config{Path: t.TempDir()})
	must(t, newRank(t, replicaID("a", 1), durable.Config{Store: dir, Every: 4}).run().saved(4))
	r := newRank(t, replicaID("a", 2), durable.Config{Store: dir, Every: 4}).run()
	_, err := r.c.Restore(t.Context())
	must(t, err)
	must(t, r.saved(4))
	if got := of[durable.Saved](r.events); len(got) > 0 {
		t.Errorf("saved %v", got)
	}
}

// slow is a store whose Puts wait until they are let go.
type slow struct {
	durable.Store
	going chan struct{}
}

// Put implements durable.Store.
func (s slow) Put(ctx context.Context, name string, size int64, r io.Reader) error {
	select {
	case <-s.going:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return s.Store.Put(ctx, name, size, r)
}

// A step pays for the copy and not for the disk: with a disk that hangs AfterStep
// returns, what is written is the state as it was then, and what is due meanwhile is
// skipped, or waits.
func TestStepDoesNotWaitForTheDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := openDir(t, localdir.Config{Path: t.TempDir()})
		s := slow{dir, make(chan struct{})}
		r := newRank(t, replicaID("a", 1), durable.Config{Store: s, Every: 1}).run()
		must(t, r.step(1))
		synctest.Wait()
		must(t, r.step(2))
		skipped := of[durable.SaveSkipped](r.events)
		if len(skipped) != 1 || skipped[0].Position.Step != 2 || skipped[0].Writing.Step != 1 {
			t.Errorf("skipped %v, want step 2 while step 1 is written", skipped)
		}
		close(s.going)
		must(t, r.c.Flush(t.Context()))
		restores(t, dir, 1)
		must(t, r.c.AfterStep(t.Context(), r.p)) // a step later, discarded: step 2 is saved after all
		must(t, r.c.Flush(t.Context()))
		restores(t, dir, 2)
		r.stop()
	})
}

func TestWaitBusy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := openDir(t, localdir.Config{Path: t.TempDir()})
		s := slow{dir, make(chan struct{})}
		r := newRank(t, replicaID("a", 1), durable.Config{Store: s, Every: 1, WaitBusy: true}).run()
		must(t, r.step(1))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r.p.at.Step = 2
		if err := r.c.AfterStep(ctx, r.p); !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want context.Canceled", err)
		}
		second := make(chan error, 1)
		go func() { second <- r.step(2) }()
		synctest.Wait()
		if len(second) > 0 {
			t.Error("AfterStep did not wait")
		}
		close(s.going)
		must(t, <-second)
		must(t, r.c.Flush(t.Context()))
		restores(t, dir, 2)
		r.stop()
	})
}

// A store that hangs does not end all saving, and Run's end is the end of a write.
func TestWriteTimeoutAndStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := slow{openDir(t, localdir.Config{Path: t.TempDir()}), make(chan struct{})}
		r := newRank(t, replicaID("a", 1), durable.Config{Store: s, Every: 1}).run()
		if err := r.saved(1); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "WriteTimeout") {
			t.Errorf("%v, want the WriteTimeout", err)
		}
		must(t, r.step(2))
		synctest.Wait()
		r.stop()
		if err := r.c.Flush(t.Context()); !errors.Is(err, durable.ErrStopped) || !errors.Is(err, context.Canceled) {
			t.Errorf("flush: %v, want ErrStopped and what ended the write", err)
		}
		if err := r.step(3); !errors.Is(err, durable.ErrStopped) {
			t.Errorf("step: %v, want ErrStopped", err)
		}
		r.run()
		synctest.Wait()
		if err := r.c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "runs already") {
			t.Errorf("a second Run: %v", err)
		}
		close(s.going)
		must(t, r.saved(4))
		r.stop()
	})
}

// A full disk, a folder that cannot be written and a store that fails are events. The next
// save tries again.
func TestFailuresAreReported(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{"full disk": syscall.ENOSPC, "network": errNoSpace} {
		dir := openDir(t, localdir.Config{Path: t.TempDir()})
		full := true
		s := &durabletest.Faulty{Store: dir, Fault: func(op, _ string, m durabletest.Moment) error {
			if full && op == "put" && m == durabletest.During {
				return cause
			}
			return nil
		}}
		r := newRank(t, replicaID("a", 1), durable.Config{Store: s, Every: 1}).run()
		if err := r.saved(1); !errors.Is(err, cause) {
			t.Errorf("%s: flush says %v", name, err)
		}
		failed := of[durable.SaveFailed](r.events)
		if len(failed) != 1 || !errors.Is(failed[0].Err, cause) || failed[0].Position.Step != 1 {
			t.Errorf("%s: told %v", name, failed)
		}
		if left := durabletest.Names(t, dir, ""); len(left) > 0 {
			t.Errorf("%s: left %q", name, left)
		}
		full = false
		must(t, r.saved(2))
		restores(t, dir, 2)
	}
	path := t.TempDir()
	must(t, os.WriteFile(filepath.Join(path, ".tmp"), nil, 0o600)) // root may write anywhere else
	r := newRank(t, replicaID("a", 1), durable.Config{Store: openDir(t, localdir.Config{Path: path}), Every: 1}).run()
	if err := r.saved(1); !errors.Is(err, fs.ErrExist) || len(of[durable.SaveFailed](r.events)) != 1 {
		t.Errorf("a directory that cannot be written: %v, %v", err, of[durable.SaveFailed](r.events))
	}
}

// A position whose write has failed is not one that is saved: the next save of it, by Save or
// after a step that was discarded, writes it. Once it is there it is not written again.
func TestFailedPositionIsSavedAgain(t *testing.T) {
	t.Parallel()
	dir := openDir(t, localdir.Config{Path: t.TempDir()})
	failures := 0
	s := &durabletest.Faulty{Store: dir, Fault: func(op, _ string, m durabletest.Moment) error {
		if failures > 0 && op == "put" && m == durabletest.During {
			failures--
			return errNoSpace
		}
		return nil
	}}
	r := newRank(t, replicaID("a", 1), durable.Config{Store: s, Every: 2}).run()
	for i, again := range []func(context.Context, durable.Progress) error{r.c.Save, r.c.AfterStep} {
		step := int64(2 + 2*i)
		failures = 1
		if err := r.saved(step); !errors.Is(err, errNoSpace) {
			t.Fatalf("flush says %v, want the store's error", err)
		}
		for range 2 {
			must(t, again(t.Context(), r.p))
			must(t, r.c.Flush(t.Context()))
		}
		restores(t, dir, step)
		if got := of[durable.Saved](r.events); got[len(got)-1].Position.Step != step {
			t.Errorf("saved %v, want step %d last", got, step)
		}
	}
	if saved, failed := of[durable.Saved](r.events), of[durable.SaveFailed](r.events); len(saved) != 2 || len(failed) != 2 {
		t.Errorf("saved %v, failed %v, want two of each", saved, failed)
	}
}

// A state that no file can hold, or that nobody registered, is the trainer's mistake.
func TestSaveRefuses(t *testing.T) {
	t.Parallel()
	dir := openDir(t, localdir.Config{Path: t.TempDir()})
	c, err := durable.New(durable.Config{Store: dir, Every: 1})
	must(t, err)
	p := &progress{at: quorum.Position{Step: 1}, replica: "a:1"}
	if err := c.AfterStep(t.Context(), p); err == nil || !strings.Contains(err.Error(), "no state is registered") {
		t.Errorf("nothing registered: %v", err)
	}
	state := checkpoint.State{Meta: map[string]string{"k": "\xff"}}
	must(t, c.Register("m", func() checkpoint.State { return state }, nil))
	if err := c.AfterStep(t.Context(), p); err == nil || !strings.Contains(err.Error(), "is not UTF-8") {
		t.Errorf("bad Meta: %v", err)
	}
	state = checkpoint.State{Tensors: map[string]tensor.Tensor{"\xff": tensor.New(tensor.Int8, 1)}}
	if err := c.AfterStep(t.Context(), p); err == nil || !strings.Contains(err.Error(), "is not UTF-8") {
		t.Errorf("bad name: %v", err)
	}
	p.replica, state = "", checkpoint.State{}
	if err := c.AfterStep(t.Context(), p); err == nil || !strings.Contains(err.Error(), "ReplicaID is empty") {
		t.Errorf("no id: %v", err)
	}
}

func TestRegisterRefuses(t *testing.T) {
	t.Parallel()
	c, err := durable.New(durable.Config{Store: openDir(t, localdir.Config{Path: t.TempDir()})})
	must(t, err)
	save := func() checkpoint.State { return checkpoint.State{} }
	must(t, c.Register("model", save, nil))
	for _, e := range []struct{ want, name string }{
		{"registered already", "model"}, {"without slashes", "a/b"}, {"without slashes", ""}, {"without slashes", strings.Repeat("n", 1025)},
	} {
		if err := c.Register(e.name, save, nil); err == nil || !strings.Contains(err.Error(), e.want) {
			t.Errorf("%.10q: %v, want %q", e.name, err, e.want)
		}
	}
	if err := c.Register("nil", nil, nil); err == nil {
		t.Error("no save is accepted")
	}
	for _, room := range []int64{-1, 1} {
		if err := c.RegisterWithRoom("room", save, nil, room); err == nil {
			t.Errorf("room %d without load is accepted", room)
		}
	}
}

func TestConfigNamesAllProblems(t *testing.T) {
	t.Parallel()
	_, err := durable.New(durable.Config{
		Every: -1, Writers: 2, Keep: -1, KeepEvery: -5, MaxFileBytes: -1, WriteTimeout: -1, GroupRank: 3, GroupWorldSize: 2,
	})
	for _, want := range []string{
		"Store = <nil>", "Every = -1", "Writers = 2", "Keep = -1", "KeepEvery = -5", "MaxFileBytes = -1", "WriteTimeout = -1ns", "GroupRank = 3, want 0 to 1",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	_, err = durable.New(durable.Config{Store: openDir(t, localdir.Config{Path: t.TempDir()}), Every: 10, KeepEvery: 25})
	if err == nil || !strings.Contains(err.Error(), "KeepEvery = 25, want a multiple of Every, 10") {
		t.Errorf("%v, want KeepEvery", err)
	}
}
