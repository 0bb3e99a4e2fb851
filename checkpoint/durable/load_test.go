package durable_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/durable"
	"github.com/skerry-ft/skerry/checkpoint/durable/localdir"
	"github.com/skerry-ft/skerry/checkpoint/safetensors"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/tensor"
)

// layers is a model of which each rank holds some whole tensors, and all hold the
// bias.
type layers struct {
	c       *durable.Checkpointer
	tensors map[string][]float32
	meta    map[string]string
	told    map[string]string
}

func newLayers(t *testing.T, dir durable.Store, at, size int, names ...string) *layers {
	t.Helper()
	l := &layers{tensors: make(map[string][]float32), meta: map[string]string{"lr": "0.5"}}
	for _, name := range append(names, "bias") {
		l.tensors[name] = make([]float32, 100)
	}
	var err error
	l.c, err = durable.New(durable.Config{Store: dir, GroupRank: at, GroupWorldSize: size, MaxFileBytes: 900})
	must(t, err)
	must(t, l.c.Register("layers", l.save, func(s checkpoint.State) error {
		l.told = s.Meta
		return nil
	}))
	return l
}

func (l *layers) save() checkpoint.State {
	s := checkpoint.State{Tensors: make(map[string]tensor.Tensor), Meta: l.meta}
	for name, v := range l.tensors {
		s.Tensors[name] = tensor.Of(v)
	}
	return s
}

// fill draws the contents by name.
func (l *layers) fill() *layers {
	for name, v := range l.tensors {
		for i := range v {
			v[i] = float32(len(name)*1000+int(name[len(name)-1])) + float32(i)/128
		}
	}
	return l
}

// write saves step 8 by a replica.
func (l *layers) write(t *testing.T, replica string) {
	t.Helper()
	r := &rank{t: t, c: l.c}
	r.run()
	must(t, l.c.Save(t.Context(), &progress{at: quorum.Position{Step: 8, QuorumID: 3}, replica: replica, batchesOfAStep: 1, numParticipants: 1}))
	must(t, l.c.Flush(t.Context()))
	r.stop()
}

// names of layer tensors from a to b.
func names(from, to int) (out []string) {
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("layer.%02d", i))
	}
	return out
}

// world writes twelve layers, dealt out to size ranks, to a new directory.
func world(t *testing.T, size int) (*localdir.Store, string) {
	path := t.TempDir()
	dir := openDir(t, localdir.Config{Path: path})
	for at := range size {
		newLayers(t, dir, at, size, names(12*at/size, 12*(at+1)/size)...).fill().write(t, "a:1")
	}
	return dir, path
}

// Whole tensors are dealt out anew to any number of ranks.
func TestOtherGroupWorldSize(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ was, is int }{{1, 1}, {2, 2}, {2, 1}, {1, 3}, {3, 2}, {2, 6}} {
		dir, _ := world(t, c.was)
		for at := range c.is {
			own := names(12*at/c.is, 12*(at+1)/c.is)
			want, got := newLayers(t, dir, at, c.is, own...).fill(), newLayers(t, dir, at, c.is, own...)
			found, err := got.c.Restore(t.Context())
			if err != nil || found.GroupWorldSize != c.was || got.told["lr"] != "0.5" {
				t.Errorf("%d ranks to %d: %v, %v, told %v", c.was, c.is, found, err, got.told)
				continue
			}
			for name, v := range want.tensors {
				if !slices.Equal(got.tensors[name], v) {
					t.Errorf("%d ranks to %d: rank %d has %v… in %s, want %v…", c.was, c.is, at, got.tensors[name][:2], name, v[:2])
				}
			}
		}
	}
}

// A tensor that was cut over ranks cannot be dealt out anew, nor Meta that differs.
func TestCutTensorsAreRefused(t *testing.T) {
	t.Parallel()
	dir := openDir(t, localdir.Config{Path: t.TempDir()})
	for at := range 2 {
		l := newLayers(t, dir, at, 2, "cut").fill()
		l.tensors["cut"][0] = float32(at)
		l.write(t, "a:1")
	}
	whole := newLayers(t, dir, 0, 1, "cut")
	if _, err := whole.c.Restore(t.Context()); err == nil || !strings.Contains(err.Error(), `"layers/cut" is not the same in all of 2 group ranks`) {
		t.Errorf("%v, want the tensor that was cut", err)
	}
	if slices.ContainsFunc(whole.tensors["bias"], func(f float32) bool { return f != 0 }) {
		t.Error("a tensor was written all the same")
	}
	if _, err := newLayers(t, dir, 1, 2, "cut").c.Restore(t.Context()); err != nil {
		t.Errorf("as many ranks as before: %v", err)
	}
	dir = openDir(t, localdir.Config{Path: t.TempDir()})
	for at := range 2 {
		l := newLayers(t, dir, at, 2, names(at, at+1)...).fill()
		l.meta["seed"] = fmt.Sprint(at)
		l.write(t, "a:1")
	}
	if _, err := newLayers(t, dir, 0, 1, names(0, 2)...).c.Restore(t.Context()); err == nil || !strings.Contains(err.Error(), `metadata "layers/seed" is "0" in one and "1" in another`) {
		t.Errorf("%v, want the metadata", err)
	}
}

// A checkpoint counts when all ranks of one replica have written theirs, and no parts of
// two replicas are taken for one.
func TestRanksOfOneReplica(t *testing.T) {
	t.Parallel()
	dir := openDir(t, localdir.Config{Path: t.TempDir()})
	newLayers(t, dir, 0, 2, names(0, 1)...).fill().write(t, "a:1")
	newLayers(t, dir, 1, 2, names(1, 2)...).fill().write(t, "b:1")
	reader := newLayers(t, dir, 0, 2, names(0, 1)...)
	if _, err := reader.c.Restore(t.Context()); !errors.Is(err, durable.ErrNone) {
		t.Errorf("halves of two replicas: %v, want ErrNone", err)
	}
	newLayers(t, dir, 1, 2, names(1, 2)...).fill().write(t, "a:1")
	if found, err := reader.c.Restore(t.Context()); err != nil || len(found.Rejected) != 1 {
		t.Errorf("found %v, %v", found, err)
	}
}

// All ranks fall back if a file of one is damaged, so that they agree; one that trusts
// the others sees their sizes only.
func TestRanksAgree(t *testing.T) {
	t.Parallel()
	dir, path := world(t, 2)
	older, err := fs.Glob(os.DirFS(path), "*-a_1/00001-of-00002/00000.safetensors")
	if err != nil || len(older) != 1 {
		t.Fatal(older, err)
	}
	must(t, damages["flipped at the end"](filepath.Join(path, older[0])))
	for at := range 2 {
		_, err := newLayers(t, dir, at, 2, names(6*at, 6*at+6)...).c.Restore(t.Context())
		if !errors.Is(err, durable.ErrDamaged) || !strings.Contains(err.Error(), "group rank 1: file 00000.safetensors") {
			t.Errorf("rank %d: %v, want ErrDamaged", at, err)
		}
	}
	trusts := func(at int) error {
		c, err := durable.New(durable.Config{Store: dir, GroupRank: at, GroupWorldSize: 2, TrustOthers: true})
		must(t, err)
		l := newLayers(t, dir, at, 2, names(6*at, 6*at+6)...)
		must(t, c.Register("layers", l.save, nil))
		_, err = c.Restore(t.Context())
		return err
	}
	if err := trusts(0); err != nil {
		t.Errorf("rank 0 trusts rank 1's files: %v", err)
	}
	if err := trusts(1); !errors.Is(err, durable.ErrDamaged) {
		t.Errorf("rank 1 reads its own: %v, want ErrDamaged", err)
	}
}

// Names, dtypes and shapes must be the same; else nothing is written.
func TestMismatchWritesNothing(t *testing.T) {
	t.Parallel()
	dir, _ := world(t, 1)
	for name, tensors := range map[string]map[string]tensor.Tensor{
		"shape":   {"layer.00": tensor.New(tensor.Float32, 10, 10)},
		"dtype":   {"layer.00": tensor.New(tensor.Int32, 100)},
		"missing": {"more": tensor.New(tensor.Float32, 1)},
	} {
		l := newLayers(t, dir, 0, 1, names(1, 12)...)
		own := l.save().Tensors
		if name == "missing" {
			own["layer.00"] = tensor.New(tensor.Float32, 100)
		}
		for n, v := range tensors {
			own[n] = v
		}
		c, err := durable.New(durable.Config{Store: dir})
		must(t, err)
		must(t, c.Register("layers", func() checkpoint.State { return checkpoint.State{Tensors: own} }, nil))
		_, err = c.Restore(t.Context())
		if _, ok := errors.AsType[*safetensors.MismatchError](err); !ok {
			t.Errorf("%s: %v, want a MismatchError", name, err)
		}
		if slices.ContainsFunc(l.tensors["bias"], func(f float32) bool { return f != 0 }) {
			t.Errorf("%s: a tensor was written", name)
		}
	}
}

// A part with room takes tensors that it does not have yet, within it.
func TestRoom(t *testing.T) {
	t.Parallel()
	dir, _ := world(t, 1)
	for _, c := range []struct {
		room int64
		size int
		fits bool
	}{{12 * 400, 1, true}, {12*400 - 1, 1, false}, {0, 1, false}, {12 * 400, 2, false}} {
		bias := make([]float32, 100)
		var came map[string]tensor.Tensor
		cp, err := durable.New(durable.Config{Store: dir, GroupWorldSize: c.size})
		must(t, err)
		must(t, cp.RegisterWithRoom("layers", func() checkpoint.State {
			return checkpoint.State{Tensors: map[string]tensor.Tensor{"bias": tensor.Of(bias), "later": tensor.New(tensor.Int8, 1)}}
		}, func(s checkpoint.State) error {
			came = s.Tensors
			return nil
		}, c.room))
		_, err = cp.Restore(t.Context())
		if (err == nil) != c.fits {
			t.Errorf("room %d, %d ranks: %v, want fits = %t", c.room, c.size, err, c.fits)
		}
		_, later := came["later"]
		if c.fits && (len(came) != 13 || later || tensor.Slice[float32](came["layer.03"])[0] == 0 || bias[0] == 0) {
			t.Errorf("room %d: load was told of %d tensors, bias %v", c.room, len(came), bias[0])
		}
	}
}

// What goes between Find and Load is an error of Load, and Restore looks again.
func TestGoneBetweenFindAndLoad(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	dir := openDir(t, localdir.Config{Path: path})
	r := newRank(t, replicaID("a", 1), durable.Config{Store: dir, Every: 10}).run()
	must(t, r.saved(10))
	must(t, r.saved(20))
	reader := newRank(t, replicaID("b", 1), durable.Config{Store: dir})
	found, err := reader.c.Find(t.Context())
	must(t, err)
	must(t, os.RemoveAll(filepath.Join(path, found.Name)))
	if err := reader.c.Load(t.Context(), found); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("load: %v, want fs.ErrNotExist", err)
	}
	restores(t, dir, 10)
}
