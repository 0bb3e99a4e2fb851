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
	"github.com/skerry-ft/skerry/pg"
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
		{"serve copies: the owner may change its tensors", serveCopies},
		{"serve replaces the staged copy", serveReplaces},
		{"a fetch that comes early waits for serve", early},
		{"a fetch waits no longer than its context", earlyEnds},
		{"another version is refused", otherVersion},
		{"after disallow nothing is served", disallow},
		{"disallow of nothing returns at once", disallowNothing},
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
		Tensors: map[string]pg.Tensor{},
		Meta:    map[string]string{"step": fmt.Sprint(seed), "odd \"key\"": "ü\n"},
	}
	for i, d := range pg.DTypes() {
		s.Tensors[fmt.Sprintf("layer.%d/%v", i, d)] = pg.New(d, 1+i, 37)
	}
	s.Tensors["scalar"] = pg.New(pg.Float64DType)
	s.Tensors["empty"] = pg.New(pg.Float32DType, 3, 0)
	s.Tensors["large"] = pg.New(pg.Float32DType, 300, 1001)
	for _, name := range names(s) {
		fill(r, s.Tensors[name])
	}
	return s
}

func fill(r *rand.Rand, t pg.Tensor) {
	b := t.Bytes()
	for i := range b {
		b[i] = byte(r.Uint32())
		if t.DType() == pg.BoolDType {
			b[i] &= 1
		}
	}
}

// Blank is a state like s, all zeros, without metadata.
func Blank(s checkpoint.State) checkpoint.State {
	out := checkpoint.State{Tensors: map[string]pg.Tensor{}}
	for name, t := range s.Tensors {
		out.Tensors[name] = pg.New(t.DType(), t.Shape()...)
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
	if err := tr.Serve(within(t, patience), v, s); err != nil {
		t.Fatalf("serve %s: %v", v, err)
	}
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
	meta, err := tr.Fetch(within(t, patience), v, from, into)
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

func serveCopies(t *testing.T, make Factory) {
	ts := make(t, 2)
	s, changed := NewState(1), NewState(1)
	serve(t, ts[1], "v", changed)
	for _, x := range changed.Tensors {
		x.Zero()
	}
	mustFetch(t, ts[0], "v", donors(ts[1]), s)
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
		_, err := tr.Fetch(ctx, v, from, into)
		done <- err
	})
	t.Cleanup(wg.Wait)
	return done
}

func earlyEnds(t *testing.T, make Factory) {
	ts := make(t, 2)
	_, err := ts[0].Fetch(within(t, brief), "v", donors(ts[1]), Blank(NewState(1)))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("fetch of nothing: %v, want deadline exceeded", err)
	}
}

func otherVersion(t *testing.T, make Factory) {
	ts := make(t, 2)
	serve(t, ts[1], "here", NewState(1))
	_, err := ts[0].Fetch(within(t, patience), "there", donors(ts[1]), Blank(NewState(1)))
	if !errors.Is(err, checkpoint.ErrNoDonor) {
		t.Errorf("fetch of another version: %v, want ErrNoDonor", err)
	}
}

func disallow(t *testing.T, make Factory) {
	ts := make(t, 2)
	s := NewState(1)
	serve(t, ts[1], "v", s)
	mustFetch(t, ts[0], "v", donors(ts[1]), s)
	if err := ts[1].Disallow(within(t, patience)); err != nil {
		t.Fatalf("disallow: %v", err)
	}
	_, err := ts[0].Fetch(within(t, brief), "v", donors(ts[1]), Blank(s))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("fetch after disallow: %v, want deadline exceeded", err)
	}
	serve(t, ts[1], "v", s)
	mustFetch(t, ts[0], "v", donors(ts[1]), s)
}

func disallowNothing(t *testing.T, make Factory) {
	ts := make(t, 1)
	if err := ts[0].Disallow(within(t, patience)); err != nil {
		t.Errorf("disallow: %v", err)
	}
}

func mismatch(t *testing.T, make Factory) {
	ts := make(t, 2)
	serve(t, ts[1], "v", NewState(1))
	into := Blank(NewState(1))
	into.Tensors["large"] = pg.New(pg.Float32DType, 1001, 300)
	into.Tensors["mine"] = pg.New(pg.Int8DType, 2)
	delete(into.Tensors, "scalar")
	_, err := ts[0].Fetch(within(t, patience), "v", donors(ts[1]), into)
	m, ok := errors.AsType[*checkpoint.MismatchError](err)
	if !ok {
		t.Fatalf("fetch: %v, want a MismatchError", err)
	}
	if len(m.Want) != 2 || len(m.Got) != 2 {
		t.Errorf("mismatch wants %v and got %v, want large and mine, large and scalar", m.Want, m.Got)
	}
}

func noDonor(t *testing.T, make Factory) {
	ts := make(t, 2)
	if _, err := ts[0].Fetch(within(t, patience), "v", nil, checkpoint.State{}); !errors.Is(err, checkpoint.ErrNoDonor) {
		t.Errorf("fetch from nobody: %v, want ErrNoDonor", err)
	}
	gone := donors(ts[1])
	if err := ts[1].Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := ts[0].Fetch(within(t, patience), "v", gone, checkpoint.State{}); !errors.Is(err, checkpoint.ErrNoDonor) {
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
	for _, v := range []checkpoint.Version{"", "a b", "a\nb"} {
		if err := ts[1].Serve(within(t, patience), v, NewState(1)); err == nil {
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
	if err := ts[1].Serve(within(t, patience), "v", NewState(1)); err == nil {
		t.Error("serve after close succeeded")
	}
}
