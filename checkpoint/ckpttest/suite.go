package ckpttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/safetensors"
	"github.com/skerry-ft/skerry/tensor"
)

// Factory makes n transports that can reach each other and run until the test
// ends, with everything released then.
type Factory func(t *testing.T, n int) []checkpoint.Transport

// patience bounds every wait of a case that shall succeed.
const patience = 30 * time.Second

// brief is the deadline of calls that shall run into it.
const brief = 100 * time.Millisecond

// Run runs the suite.
func Run(t *testing.T, make Factory) {
	cases := []struct {
		name string
		run  func(t *testing.T, make Factory)
	}{
		{"fetch brings every tensor and the metadata", fetchAll},
		{"an empty state can be fetched", fetchEmpty},
		{"what is paused is not read: the owner may change its tensors", pauses},
		{"save is called only while a state is served", savesLate},
		{"serve replaces what was served", serveReplaces},
		{"a second fetch brings what changed", fetchDelta},
		{"any version can be fetched, and then the difference", fetchAny},
		{"a fetch that broke off is gone on with", fetchResumes},
		{"tensors hold one state until install, and after restore", restores},
		{"a fetch that comes early waits for serve", early},
		{"a fetch waits no longer than its context", earlyEnds},
		{"another version is refused", otherVersion},
		{"after pause a fetch waits for serve", pausedWaits},
		{"pause of nothing returns at once", pauseNothing},
		{"a state that does not fit is a MismatchError", mismatch},
		{"no donor is ErrNoDonor", noDonor},
		{"fetch goes on when the first donor is gone", firstGone},
		{"many targets fetch at one time", manyTargets},
		{"versions with odd characters are kept apart", oddVersions},
		{"close ends fetches, and can be repeated", closeTwice},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, make)
		})
	}
}

// NewState makes a state of every dtype and several shapes, filled from seed.
// Its bools are valid. Equal seeds give equal states.
func NewState(seed uint64) checkpoint.State {
	r := rand.New(rand.NewPCG(seed, 0))
	s := checkpoint.State{
		Tensors: map[string]tensor.Tensor{},
		Meta:    map[string]string{"step": fmt.Sprint(seed), "odd \"key\"": "ü\n"},
	}
	for i, d := range tensor.DTypes() {
		s.Tensors[fmt.Sprintf("layer.%d/%v", i, d)] = tensor.New(d, 1+i, 37)
	}
	s.Tensors["scalar"] = tensor.New(tensor.Float64)
	s.Tensors["empty"] = tensor.New(tensor.Float32, 3, 0)
	s.Tensors["large"] = tensor.New(tensor.Float32, 300, 1001)
	for _, name := range names(s) {
		fill(r, s.Tensors[name])
	}
	return s
}

func fill(r *rand.Rand, t tensor.Tensor) {
	b := t.Bytes()
	for i := range b {
		b[i] = byte(r.Uint32())
		if t.DType() == tensor.Bool {
			b[i] &= 1
		}
	}
}

// Blank is a state like s, all zeros, without metadata.
func Blank(s checkpoint.State) checkpoint.State {
	out := checkpoint.State{Tensors: map[string]tensor.Tensor{}}
	for name, t := range s.Tensors {
		out.Tensors[name] = tensor.New(t.DType(), t.Shape()...)
	}
	return out
}

// Equal fails the test unless both have the same bytes.
func Equal(t *testing.T, got, want checkpoint.State) {
	t.Helper()
	if g, w := names(got), names(want); !slices.Equal(g, w) {
		t.Fatalf("tensors %q, want %q", g, w)
	}
	for name, w := range want.Tensors {
		if g := got.Tensors[name]; !bytes.Equal(g.Bytes(), w.Bytes()) {
			t.Errorf("tensor %q (%v) has other bytes", name, w)
		}
	}
}

func names(s checkpoint.State) []string {
	var out []string
	for name := range s.Tensors {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func serve(t *testing.T, tr checkpoint.Transport, v checkpoint.Version, s checkpoint.State) {
	t.Helper()
	if err := tr.Serve(v, Saves(s)); err != nil {
		t.Fatalf("serve %s: %v", v, err)
	}
}

// Saves is a save that returns s.
func Saves(s checkpoint.State) func() (checkpoint.State, error) {
	return func() (checkpoint.State, error) { return s, nil }
}

// Fetch fetches into the tensors of into, through a mirror of its own.
func Fetch(
	ctx context.Context, tr checkpoint.Transport, v checkpoint.Version, from []string, into checkpoint.State,
) (map[string]string, error) {
	m, err := checkpoint.NewMirror(into, checkpoint.MirrorOptions{})
	if err != nil {
		return nil, err
	}
	meta, err := tr.Fetch(ctx, v, from, m)
	if err == nil && v != checkpoint.Any {
		err = m.Install(v)
	}
	return meta, err
}

func install(t *testing.T, m *checkpoint.Mirror, v checkpoint.Version) {
	t.Helper()
	if err := m.Install(v); err != nil {
		t.Fatal(err)
	}
}

func mirror(t *testing.T, s checkpoint.State) *checkpoint.Mirror {
	t.Helper()
	m, err := checkpoint.NewMirror(s, checkpoint.MirrorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func donors(ts ...checkpoint.Transport) []string {
	var out []string
	for _, tr := range ts {
		out = append(out, tr.Metadata())
	}
	return out
}

func mustFetch(t *testing.T, tr checkpoint.Transport, v checkpoint.Version, from []string, want checkpoint.State) {
	t.Helper()
	into := Blank(want)
	meta, err := Fetch(within(t, patience), tr, v, from, into)
	if err != nil {
		t.Fatalf("fetch %s: %v", v, err)
	}
	Equal(t, into, want)
	if len(meta) != len(want.Meta) {
		t.Errorf("metadata %q, want %q", meta, want.Meta)
	}
	for k, w := range want.Meta {
		if meta[k] != w {
			t.Errorf("metadata %q = %q, want %q", k, meta[k], w)
		}
	}
}

func fetchAll(t *testing.T, make Factory) {
	ts := make(t, 4)
	s := NewState(1)
	for _, d := range ts[1:] {
		serve(t, d, "c/1/7", s)
	}
	mustFetch(t, ts[0], "c/1/7", donors(ts[1:]...), s)
	mustFetch(t, ts[0], "c/1/7", donors(ts[2]), s)
}

func fetchEmpty(t *testing.T, make Factory) {
	ts := make(t, 2)
	s := checkpoint.State{Meta: map[string]string{"only": "metadata"}}
	serve(t, ts[1], "v", s)
	mustFetch(t, ts[0], "v", donors(ts[1]), s)
}

func pauses(t *testing.T, make Factory) {
	ts := make(t, 2)
	s := NewState(1)
	serve(t, ts[1], "v1", s)
	into := Blank(s)
	m := mirror(t, into)
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancel(within(t, patience))
	defer cancel()
	all.Go(func() { // a reader that never stops: the race detector watches
		for ctx.Err() == nil {
			_, _ = ts[0].Fetch(ctx, checkpoint.Any, donors(ts[1]), m) // some end with ctx
		}
	})
	for i := range 20 {
		ts[1].Pause()
		for _, name := range names(s) {
			if x := s.Tensors[name]; x.DType() != tensor.Bool {
				for k := range x.Bytes() {
					x.Bytes()[k]++
				}
			}
		}
		serve(t, ts[1], checkpoint.Version(fmt.Sprint("v", i+2)), s)
	}
	cancel()
	all.Wait()
	mustFetch(t, ts[0], "v21", donors(ts[1]), s)
}

func savesLate(t *testing.T, make Factory) {
	ts := make(t, 2)
	s := NewState(1)
	var mu sync.Mutex
	calls, served := 0, true
	save := func() (checkpoint.State, error) {
		mu.Lock()
		defer mu.Unlock()
		if calls++; !served {
			t.Error("save was called while the state was not served")
		}
		return s, nil
	}
	if err := ts[1].Serve("v", save); err != nil {
		t.Fatal(err)
	}
	ts[1].Pause()
	if calls != 0 {
		t.Errorf("save was called %d times before anybody asked", calls)
	}
	if err := ts[1].Serve("v", save); err != nil {
		t.Fatal(err)
	}
	mustFetch(t, ts[0], "v", donors(ts[1]), s)
	ts[1].Pause()
	mu.Lock()
	served = false
	mu.Unlock()
	if _, err := Fetch(within(t, brief), ts[0], "v", donors(ts[1]), Blank(s)); err == nil {
		t.Error("a paused state was fetched")
	}
}

// change alters one byte of one tensor.
func change(s checkpoint.State, name string, at int) { s.Tensors[name].Bytes()[at] ^= 0xff }

func fetchDelta(t *testing.T, make Factory) {
	ts := make(t, 3)
	s := NewState(1)
	from := donors(ts[1], ts[2])
	serve(t, ts[1], "v1", s)
	serve(t, ts[2], "v1", s)
	into := Blank(s)
	m := mirror(t, into)
	if _, err := ts[0].Fetch(within(t, patience), "v1", from, m); err != nil {
		t.Fatal(err)
	}
	install(t, m, "v1")
	Equal(t, into, s)
	all := m.Received()
	ts[1].Pause()
	ts[2].Pause()
	change(s, "large", 12345)
	serve(t, ts[1], "v2", s)
	serve(t, ts[2], "v2", s)
	if _, err := ts[0].Fetch(within(t, patience), "v2", from, m); err != nil {
		t.Fatal(err)
	}
	install(t, m, "v2")
	Equal(t, into, s)
	if more := m.Received() - all; more <= 0 || more >= all {
		t.Errorf("one byte of %d changed, and %d were fetched", all, more)
	}
	all = m.Received()
	if _, err := ts[0].Fetch(within(t, patience), "v2", from, m); err != nil {
		t.Fatal(err)
	}
	if more := m.Received() - all; more != 0 {
		t.Errorf("nothing changed, and %d bytes were fetched", more)
	}
}

func fetchAny(t *testing.T, make Factory) {
	ts := make(t, 3)
	s, ahead := NewState(1), NewState(1)
	change(ahead, "large", 777)
	serve(t, ts[1], "v1", s)
	serve(t, ts[2], "v2", ahead)
	into := Blank(s)
	m := mirror(t, into)
	m.SetDirect(true)
	if _, err := ts[0].Fetch(within(t, patience), checkpoint.Any, donors(ts[1], ts[2]), m); err != nil {
		t.Fatal(err)
	}
	if !m.Mixed() {
		t.Error("the tensors are said to hold one state")
	}
	m.SetDirect(false)
	before := m.Received()
	meta, err := ts[0].Fetch(within(t, patience), "v2", donors(ts[2]), m)
	if err != nil || meta["step"] != "1" {
		t.Fatalf("fetch: %q, %v", meta, err)
	}
	if more := m.Received() - before; more >= before {
		t.Errorf("%d bytes came first, and %d more", before, more)
	}
	install(t, m, "v2")
	Equal(t, into, ahead)
	if m.Mixed() {
		t.Error("the tensors are said to be mixed after install")
	}
}

func fetchResumes(t *testing.T, make Factory) {
	ts := make(t, 3)
	s, old := NewState(1), NewState(1)
	change(old, "large", 1)
	serve(t, ts[1], "old", old)
	m := mirror(t, Blank(s))
	if _, err := ts[0].Fetch(within(t, patience), "old", donors(ts[1]), m); err != nil {
		t.Fatal(err)
	}
	before := m.Received() // not installed: what it was for is no more
	if err := ts[1].Close(); err != nil {
		t.Fatal(err)
	}
	serve(t, ts[2], "v", s)
	if _, err := ts[0].Fetch(within(t, patience), "v", donors(ts[2]), m); err != nil {
		t.Fatal(err)
	}
	if more := m.Received() - before; more >= before {
		t.Errorf("%d bytes were there, and %d more were fetched for one that differs", before, more)
	}
}

func restores(t *testing.T, make Factory) {
	ts := make(t, 2)
	s, own := NewState(1), NewState(2)
	serve(t, ts[1], "v", s)
	into := NewState(2)
	m := mirror(t, into)
	if _, err := ts[0].Fetch(within(t, patience), "v", donors(ts[1]), m); err != nil {
		t.Fatal(err)
	}
	Equal(t, into, own) // until it is installed
	m.SetDirect(true)
	ts[1].Pause()
	change(s, "large", 3)
	serve(t, ts[1], "w", s)
	if _, err := ts[0].Fetch(within(t, patience), "w", donors(ts[1]), m); err != nil {
		t.Fatal(err)
	}
	all := m.Received()
	for range 2 { // what has come is there all the time
		m.Restore()
		Equal(t, into, own)
		if m.Mixed() {
			t.Error("the tensors are said to be mixed after restore")
		}
		m.SetDirect(true)
		Equal(t, into, s)
	}
	m.SetDirect(false)
	if _, err := ts[0].Fetch(within(t, patience), "w", donors(ts[1]), m); err != nil {
		t.Fatal(err)
	}
	if more := m.Received() - all; more != 0 {
		t.Errorf("%d bytes came again after restore", more)
	}
	if err := m.Install("v"); err == nil {
		t.Error("a state was installed that was not fetched last")
	}
	install(t, m, "w")
	Equal(t, into, s)
}

func serveReplaces(t *testing.T, make Factory) {
	ts := make(t, 2)
	for i := range uint64(4) {
		v := checkpoint.Version(fmt.Sprint("v", i))
		serve(t, ts[1], v, NewState(i))
		mustFetch(t, ts[0], v, donors(ts[1]), NewState(i))
	}
}

func early(t *testing.T, make Factory) {
	ts := make(t, 2)
	s := NewState(1)
	into := Blank(s)
	done := asking(t, ts[0], "v", donors(ts[1]), into)
	select {
	case err := <-done:
		t.Fatalf("fetch before serve returned %v", err)
	case <-time.After(brief):
	}
	serve(t, ts[1], "v", s)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	Equal(t, into, s)
}

// asking fetches beside the test and reports the error.
func asking(t *testing.T, tr checkpoint.Transport, v checkpoint.Version, from []string, into checkpoint.State) <-chan error {
	ctx := within(t, patience)
	done := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := Fetch(ctx, tr, v, from, into)
		done <- err
	})
	t.Cleanup(wg.Wait)
	return done
}

func earlyEnds(t *testing.T, make Factory) {
	ts := make(t, 2)
	_, err := Fetch(within(t, brief), ts[0], "v", donors(ts[1]), Blank(NewState(1)))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("fetch of nothing: %v, want deadline exceeded", err)
	}
}

func otherVersion(t *testing.T, make Factory) {
	ts := make(t, 2)
	serve(t, ts[1], "here", NewState(1))
	_, err := Fetch(within(t, patience), ts[0], "there", donors(ts[1]), Blank(NewState(1)))
	if !errors.Is(err, checkpoint.ErrNoDonor) {
		t.Errorf("fetch of another version: %v, want ErrNoDonor", err)
	}
}

func pausedWaits(t *testing.T, make Factory) {
	ts := make(t, 2)
	s := NewState(1)
	serve(t, ts[1], "v", s)
	mustFetch(t, ts[0], "v", donors(ts[1]), s)
	ts[1].Pause()
	_, err := Fetch(within(t, brief), ts[0], "v", donors(ts[1]), Blank(s))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("fetch after pause: %v, want deadline exceeded", err)
	}
	serve(t, ts[1], "v", s)
	mustFetch(t, ts[0], "v", donors(ts[1]), s)
}

func pauseNothing(t *testing.T, make Factory) {
	ts := make(t, 1)
	ts[0].Pause()
	serve(t, ts[0], "v", NewState(1))
	ts[0].Pause()
	ts[0].Pause()
}

func mismatch(t *testing.T, make Factory) {
	ts := make(t, 2)
	serve(t, ts[1], "v", NewState(1))
	into := Blank(NewState(1))
	into.Tensors["large"] = tensor.New(tensor.Float32, 1001, 300)
	into.Tensors["mine"] = tensor.New(tensor.Int8, 2)
	delete(into.Tensors, "scalar")
	_, err := Fetch(within(t, patience), ts[0], "v", donors(ts[1]), into)
	m, ok := errors.AsType[*safetensors.MismatchError](err)
	if !ok {
		t.Fatalf("fetch: %v, want a MismatchError", err)
	}
	if len(m.Want) != 2 || len(m.Got) != 2 {
		t.Errorf("mismatch wants %v and got %v, want large and mine, large and scalar", m.Want, m.Got)
	}
}

func noDonor(t *testing.T, make Factory) {
	ts := make(t, 2)
	if _, err := Fetch(within(t, patience), ts[0], "v", nil, checkpoint.State{}); !errors.Is(err, checkpoint.ErrNoDonor) {
		t.Errorf("fetch from nobody: %v, want ErrNoDonor", err)
	}
	gone := donors(ts[1])
	if err := ts[1].Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Fetch(within(t, patience), ts[0], "v", gone, checkpoint.State{}); !errors.Is(err, checkpoint.ErrNoDonor) {
		t.Errorf("fetch from a closed donor: %v, want ErrNoDonor", err)
	}
}

func firstGone(t *testing.T, make Factory) {
	ts := make(t, 3)
	s := NewState(1)
	from := donors(ts[1], ts[2])
	serve(t, ts[2], "v", s)
	if err := ts[1].Close(); err != nil {
		t.Fatal(err)
	}
	mustFetch(t, ts[0], "v", from, s)
}

func manyTargets(t *testing.T, make Factory) {
	ts := make(t, 5)
	s := NewState(1)
	var waits []<-chan error
	var intos []checkpoint.State
	for _, target := range ts[2:] {
		into := Blank(s)
		intos = append(intos, into)
		waits = append(waits, asking(t, target, "v", donors(ts[0], ts[1]), into))
	}
	serve(t, ts[0], "v", s)
	serve(t, ts[1], "v", s)
	for i, w := range waits {
		if err := <-w; err != nil {
			t.Fatal(err)
		}
		Equal(t, intos[i], s)
	}
}

func oddVersions(t *testing.T, make Factory) {
	ts := make(t, 2)
	for i, v := range []checkpoint.Version{"a/b", "a%2Fb", "..", "a?b=c&d#e", "ü", "a+b"} {
		serve(t, ts[1], v, NewState(uint64(i)))
		mustFetch(t, ts[0], v, donors(ts[1]), NewState(uint64(i)))
	}
	for _, v := range []checkpoint.Version{"", "a b", "a\nb", checkpoint.Any} {
		if err := ts[1].Serve(v, Saves(NewState(1))); err == nil {
			t.Errorf("serve of version %q succeeded", v)
		}
	}
}

func closeTwice(t *testing.T, make Factory) {
	ts := make(t, 2)
	done := asking(t, ts[0], "v", donors(ts[1]), Blank(NewState(1)))
	for range 2 {
		if err := ts[1].Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if err := <-done; !errors.Is(err, checkpoint.ErrNoDonor) {
		t.Errorf("fetch from a donor that closed: %v, want ErrNoDonor", err)
	}
	if err := ts[1].Serve("v", Saves(NewState(1))); err == nil {
		t.Error("serve after close succeeded")
	}
}
