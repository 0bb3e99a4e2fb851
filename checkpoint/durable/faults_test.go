package durable_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/durable"
	"github.com/skerry-ft/skerry/checkpoint/durable/durabletest"
	"github.com/skerry-ft/skerry/checkpoint/durable/localdir"
	"github.com/skerry-ft/skerry/quorum"
)

// A writer dies before, during and after each operation of a save, the manifest's among
// them. A reader then finds the new checkpoint or the one before, whole; and the writer of
// the next interval goes on.
func TestWriterDiesAtEachPoint(t *testing.T) {
	t.Parallel()
	points, before, after := 0, 0, 0
	for point := 0; ; point++ {
		path := t.TempDir()
		dir := openDir(t, localdir.Config{Path: path})
		must(t, newRank(t, replicaID("a", 1), durable.Config{Store: dir, Every: 10, MaxFileBytes: 2000}).run().saved(10))
		died, at := "", 0
		s := &durabletest.Faulty{Store: dir, Fault: func(op, name string, m durabletest.Moment) error {
			if at++; at-1 == point {
				died = fmt.Sprintf("%s of %s, moment %d", op, filepath.Base(name), m)
				return durabletest.ErrDead
			}
			return nil
		}}
		r := newRank(t, replicaID("b", 1), durable.Config{Store: s, Every: 10, MaxFileBytes: 2000}).run()
		err := r.saved(20)
		if died == "" {
			must(t, err)
			break
		}
		points++
		manifest := strings.HasPrefix(died, "put of manifest.json") && strings.HasSuffix(died, fmt.Sprint("moment ", int(durabletest.After)))
		want := int64(10)
		if manifest {
			want = 20
			after++
		} else {
			before++
		}
		if found := restores(t, dir, want); found != nil && want == 10 && len(found.Rejected) > 0 &&
			!strings.Contains(found.Rejected[0].Err.Error(), "not finished") {
			t.Errorf("%s: passed over %v", died, found.Rejected)
		}
		must(t, newRank(t, replicaID("a", 2), durable.Config{Store: dir, Every: 10, MaxFileBytes: 2000}).run().saved(30))
		if found := restores(t, dir, 30); t.Failed() {
			t.Fatalf("died at the %s; found %v", died, found)
		}
	}
	// One deletion of two moments, two files and a manifest of three.
	if points != 11 || before != 10 || after != 1 {
		t.Errorf("%d points, %d of them before the end and %d after, want 11, 10 and 1", points, before, after)
	}
}

// damage are ways in which a file is no longer what was written.
var damages = map[string]func(name string) error{
	"missing": os.Remove,
	"empty":   func(name string) error { return os.Truncate(name, 0) },
	"cut": func(name string) error {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		return os.Truncate(name, info.Size()-1)
	},
	"longer": func(name string) error { return change(name, func(b []byte) []byte { return append(b, ' ') }) },
	"flipped in the middle": func(name string) error {
		return change(name, func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
	},
	"flipped at the end": func(name string) error {
		return change(name, func(b []byte) []byte { b[len(b)-1] ^= 0x80; return b })
	},
	"flipped in the length": func(name string) error {
		return change(name, func(b []byte) []byte { b[0] ^= 0x10; return b })
	},
	"a folder": func(name string) error { return errors.Join(os.Remove(name), os.Mkdir(name, 0o700)) },
}

func change(name string, how func([]byte) []byte) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	return os.WriteFile(name, how(b), 0o600)
}

// Whatever is lost or altered of any file of the newest checkpoint, the one before is
// taken, and the report says why. Nothing of the damaged one reaches a tensor.
func TestDamageFallsBack(t *testing.T) {
	t.Parallel()
	for how, damage := range damages {
		for _, file := range []string{"00000.safetensors", "00001.safetensors", "manifest.json"} {
			path := t.TempDir()
			dir := openDir(t, localdir.Config{Path: path})
			r := newRank(t, replicaID("a", 1), durable.Config{Store: dir, Every: 10, MaxFileBytes: 2000}).run()
			must(t, r.saved(10))
			must(t, r.saved(20))
			name := of[durable.Saved](r.events)[1].Name
			must(t, damage(filepath.Join(path, name, "00000-of-00001", file)))
			if file == "manifest.json" && how == "longer" {
				continue // white space at the end harms no JSON
			}
			found := restores(t, dir, 10)
			if found == nil || len(found.Rejected) != 1 || found.Rejected[0].Name != name || !strings.Contains(found.String(), "passed over "+name) {
				t.Errorf("%s %s: found %v", file, how, found)
				continue
			}
			err := found.Rejected[0].Err
			if !errors.Is(err, checkpoint.ErrCorrupt) && !errors.Is(err, fs.ErrNotExist) && !strings.Contains(err.Error(), "not finished") {
				t.Errorf("%s %s: %v", file, how, err)
			}
		}
	}
}

// ErrNone is no damage: a run may begin anew. ErrDamaged is.
func TestNoneAndAllDamaged(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	dir := openDir(t, localdir.Config{Path: path})
	reader := newRank(t, replicaID("r", 1), durable.Config{Store: dir})
	reader.m.learn(3, 1)
	before := newModel()
	before.learn(3, 1)
	if _, err := reader.c.Restore(t.Context()); !errors.Is(err, durable.ErrNone) {
		t.Errorf("an empty store: %v, want ErrNone", err)
	}
	r := newRank(t, replicaID("a", 1), durable.Config{Store: dir, Every: 10}).run()
	must(t, r.saved(10))
	folder := filepath.Join(path, of[durable.Saved](r.events)[0].Name, "00000-of-00001")
	must(t, os.Rename(filepath.Join(folder, "manifest.json"), filepath.Join(path, "kept")))
	if _, err := reader.c.Restore(t.Context()); !errors.Is(err, durable.ErrNone) {
		t.Errorf("one that was never finished: %v, want ErrNone", err)
	}
	must(t, os.Rename(filepath.Join(path, "kept"), filepath.Join(folder, "manifest.json")))
	must(t, os.Truncate(filepath.Join(folder, "00000.safetensors"), 100))
	if _, err := reader.c.Restore(t.Context()); !errors.Is(err, durable.ErrDamaged) || !errors.Is(err, checkpoint.ErrCorrupt) ||
		!strings.Contains(err.Error(), "100 bytes") {
		t.Errorf("all damaged: %v, want ErrDamaged and why", err)
	}
	if !reader.m.equal(before) || reader.m.loaded != nil {
		t.Error("the tensors changed")
	}
}

// A store that fails is no damage: an older checkpoint is not taken for that.
func TestStoreErrorIsNotPassedOver(t *testing.T) {
	t.Parallel()
	dir := openDir(t, localdir.Config{Path: t.TempDir()})
	r := newRank(t, replicaID("a", 1), durable.Config{Store: dir, Every: 10}).run()
	must(t, r.saved(10))
	must(t, r.saved(20))
	down := errors.New("network is down")
	for _, part := range []string{"manifest.json", ".safetensors"} {
		reader := newRank(t, replicaID("b", 1), durable.Config{Store: &unreadable{dir, part, down}})
		if _, err := reader.c.Restore(t.Context()); !errors.Is(err, down) || errors.Is(err, durable.ErrDamaged) {
			t.Errorf("%s: %v, want the store's error", part, err)
		}
	}
}

// Another release's checkpoint is not passed over for an older one.
func TestOtherVersion(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	dir := openDir(t, localdir.Config{Path: path})
	r := newRank(t, replicaID("a", 1), durable.Config{Store: dir, Every: 10}).run()
	must(t, r.saved(10))
	must(t, r.saved(20))
	must(t, durable.Reseal(filepath.Join(path, of[durable.Saved](r.events)[1].Name, "00000-of-00001", "manifest.json"), `"version":1`, `"version":2`))
	_, err := newRank(t, replicaID("b", 1), durable.Config{Store: dir}).c.Restore(t.Context())
	if err == nil || errors.Is(err, durable.ErrDamaged) || !strings.Contains(err.Error(), "version = 2, want 1: another release wrote it") {
		t.Errorf("%v, want the version", err)
	}
}

// A manifest that lies elsewhere than it says is not taken.
func TestManifestElsewhere(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	dir := openDir(t, localdir.Config{Path: path})
	r := newRank(t, replicaID("a", 1), durable.Config{Store: dir, Every: 10}).run()
	must(t, r.saved(10))
	name := of[durable.Saved](r.events)[0].Name
	must(t, os.CopyFS(filepath.Join(path, strings.Replace(name, "10-", "99-", 1)), os.DirFS(filepath.Join(path, name))))
	if found := restores(t, dir, 10); found != nil && (len(found.Rejected) != 1 || !strings.Contains(found.Rejected[0].Err.Error(), "manifest is of")) {
		t.Errorf("passed over %v", found.Rejected)
	}
}

// Two replicas that both think it is their turn, and many interleaved, harm nothing.
func TestTwoWritersAtOnce(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	var wg sync.WaitGroup
	var all []*rank
	for i := range 3 {
		dir := openDir(t, localdir.Config{Path: path})
		r := newRank(t, replicaID("w", i), durable.Config{Store: dir, Every: 1, Keep: 2, MaxFileBytes: 2000}).run()
		all = append(all, r)
		wg.Go(func() {
			for step := int64(1); step <= 12; step++ {
				if err := r.saved(step); err != nil {
					t.Errorf("writer %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
	dir := openDir(t, localdir.Config{Path: path})
	restores(t, dir, 12)
	for i, r := range all {
		if got := of[durable.PruneFailed](r.events); len(got) > 0 {
			t.Errorf("writer %d: %v", i, got)
		}
	}
}

// Keep and KeepEvery say what is left; what is not whole goes with its age, and what is
// no checkpoint stays.
func TestWhichAreKept(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	dir := openDir(t, localdir.Config{Path: path})
	durabletest.Put(t, dir, "notes.txt", "mine")
	durabletest.Put(t, dir, "0000000000000005-0000000000000007-dead/00000-of-00001/00000.safetensors", "half")
	durabletest.Put(t, dir, "0000000000000035-0000000000000007-dead/00000-of-00001/00000.safetensors", "half")
	r := newRank(t, replicaID("a", 1), durable.Config{Store: dir, Every: 5, Keep: 2, KeepEvery: 20}).run()
	for step := int64(5); step <= 50; step++ {
		must(t, r.saved(step))
	}
	want := []string{"0000000000000020", "0000000000000040", "0000000000000045", "0000000000000050", "notes.txt"}
	if got := titles(t, dir); !slices.Equal(got, want) {
		t.Errorf("left %q, want %q", got, want)
	}
	none := newRank(t, replicaID("b", 1), durable.Config{Store: dir, Every: 5, Keep: 1, KeepAll: true}).run()
	must(t, none.saved(60))
	if got := titles(t, dir); len(got) != len(want)+1 {
		t.Errorf("KeepAll left %q", got)
	}
}

// titles are the steps of the checkpoints, and other names, once each.
func titles(t *testing.T, s durable.Store) []string {
	var all []string
	for _, name := range durabletest.Names(t, s, "") {
		if first, _, ok := strings.Cut(name, "/"); ok {
			name, _, _ = strings.Cut(first, "-")
		}
		all = append(all, name)
	}
	return slices.Compact(all)
}

// A run that goes on from before damaged checkpoints does not count them among those it
// keeps, nor does it delete what it has just written for one of a later step.
func TestDamagedAreNotKeptForWhole(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	dir := openDir(t, localdir.Config{Path: path})
	r := newRank(t, replicaID("a", 1), durable.Config{Store: dir, Every: 10, Keep: 3}).run()
	for step := int64(10); step <= 40; step += 10 {
		must(t, r.saved(step))
	}
	for _, e := range of[durable.Saved](r.events)[2:] {
		must(t, os.Truncate(filepath.Join(path, e.Name, "00000-of-00001", "00000.safetensors"), 9))
	}
	again := newRank(t, replicaID("a", 2), durable.Config{Store: dir, Every: 5, Keep: 2}).run()
	found, err := again.c.Restore(t.Context())
	must(t, err)
	if found.Position.Step != 20 || len(found.Rejected) != 2 {
		t.Fatalf("found %v, want step 20", found)
	}
	again.m.learn(25, 0)
	again.p.at = quorum.Position{Cluster: "c", Step: 25, QuorumID: 8}
	must(t, again.c.AfterStep(t.Context(), again.p))
	must(t, again.c.Flush(t.Context()))
	if found := restores(t, dir, 25); found == nil || !slices.Contains(titles(t, dir), "0000000000000020") {
		t.Errorf("left %q, want 20 and 25 among them", titles(t, dir))
	}
	// A writer that does not know that they are damaged leaves its own in place.
	other := newRank(t, replicaID("b", 1), durable.Config{Store: dir, Every: 1, Keep: 1}).run()
	must(t, other.saved(26))
	restores(t, dir, 26)
}

// A restore needs no right to write.
func TestRestoreFromReadOnly(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	must(t, newRank(t, replicaID("a", 1), durable.Config{Store: openDir(t, localdir.Config{Path: path}), Every: 10}).run().saved(10))
	before := files(t, path)
	restores(t, openDir(t, localdir.Config{Path: path, ReadOnly: true}), 10)
	if after := files(t, path); len(after) != len(before) {
		t.Errorf("%d files, were %d", len(after), len(before))
	}
}
