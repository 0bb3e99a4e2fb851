// Package durabletest holds what every durable.Store must do, and stores that fail on
// purpose. It starts no goroutines that outlive a call.
package durabletest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/skerry-ft/skerry/checkpoint/durable"
)

// Run checks a store against the contract of durable.Store. open returns the same
// store, empty at first, each time, as another process would open it.
func Run(t *testing.T, open func(t *testing.T) durable.Store) {
	for name, check := range map[string]func(t *testing.T, s, other durable.Store){
		"put, get":        putGet,
		"replace":         replace,
		"wrong size":      wrongSize,
		"reader fails":    readerFails,
		"ctx ends":        ctxEnds,
		"list":            list,
		"list stops":      listStops,
		"delete":          remove,
		"bad names":       badNames,
		"writers at once": writersAtOnce,
	} {
		t.Run(name, func(t *testing.T) { check(t, open(t), open(t)) })
	}
}

// Put puts text.
func Put(t *testing.T, s durable.Store, name, text string) {
	t.Helper()
	if err := s.Put(t.Context(), name, int64(len(text)), strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
}

// Text is what name holds.
func Text(t *testing.T, s durable.Store, name string) string {
	t.Helper()
	r, err := s.Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Names lists what begins with prefix, in order.
func Names(t *testing.T, s durable.Store, prefix string) []string {
	t.Helper()
	var names []string
	if err := s.List(t.Context(), prefix, func(e durable.Entry) error {
		names = append(names, e.Name)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// absent: a reader finds nothing under name.
func absent(t *testing.T, s durable.Store, name string) {
	t.Helper()
	r, err := s.Get(t.Context(), name)
	if err == nil {
		_, err = r.Read(make([]byte, 1)) // some stores ask then
		_ = r.Close()                    // it is not there
	}
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("get %s: %v, want fs.ErrNotExist", name, err)
	}
	if slices.Contains(Names(t, s, ""), name) {
		t.Errorf("%s is listed", name)
	}
}

func putGet(t *testing.T, s, other durable.Store) {
	absent(t, s, "a/b/c.bin")
	Put(t, s, "a/b/c.bin", "hello")
	Put(t, s, "a/b/none", "")
	long := strings.Repeat("0123456789abcdef", 200<<10)
	Put(t, s, "a/long", long)
	for name, want := range map[string]string{"a/b/c.bin": "hello", "a/b/none": "", "a/long": long} {
		if got := Text(t, other, name); got != want {
			t.Errorf("%s holds %d bytes, want %d", name, len(got), len(want))
		}
	}
}

func replace(t *testing.T, s, other durable.Store) {
	Put(t, s, "x/replaced", "long before")
	Put(t, other, "x/replaced", "after")
	if got := Text(t, s, "x/replaced"); got != "after" {
		t.Errorf("holds %q, want what was put last", got)
	}
}

func wrongSize(t *testing.T, s, _ durable.Store) {
	for _, size := range []int64{4, 6} {
		if err := s.Put(t.Context(), "w/size", size, strings.NewReader("12345")); err == nil {
			t.Errorf("5 bytes are accepted for %d", size)
		}
		absent(t, s, "w/size")
	}
}

func readerFails(t *testing.T, s, _ durable.Store) {
	bad := errors.New("bad")
	r := io.MultiReader(bytes.NewReader(make([]byte, 3<<20)), iotest.ErrReader(bad))
	if err := s.Put(t.Context(), "r/fails", 4<<20, r); !errors.Is(err, bad) {
		t.Errorf("%v, want the reader's error", err)
	}
	absent(t, s, "r/fails")
}

func ctxEnds(t *testing.T, s, _ durable.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	r := io.MultiReader(bytes.NewReader(make([]byte, 3<<20)), ending(cancel), bytes.NewReader(make([]byte, 3<<20)))
	if err := s.Put(ctx, "c/ends", 6<<20, r); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want context.Canceled", err)
	}
	absent(t, s, "c/ends")
	if err := s.List(ctx, "", func(durable.Entry) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("list: %v, want context.Canceled", err)
	}
}

// ending is a reader of nothing that calls end.
type ending func()

// Read implements io.Reader.
func (e ending) Read([]byte) (int, error) {
	e()
	return 0, io.EOF
}

func list(t *testing.T, s, other durable.Store) {
	for _, name := range []string{"l/1/a", "l/1/b", "l/2/a", "lx"} {
		Put(t, s, name, name)
	}
	for prefix, want := range map[string][]string{
		"l/": {"l/1/a", "l/1/b", "l/2/a"}, "l/1": {"l/1/a", "l/1/b"}, "l/2/a": {"l/2/a"}, "l": {"l/1/a", "l/1/b", "l/2/a", "lx"}, "l/3/": nil,
	} {
		if got := Names(t, other, prefix); !slices.Equal(got, want) {
			t.Errorf("list %q: %q, want %q", prefix, got, want)
		}
	}
	err := other.List(t.Context(), "l", func(e durable.Entry) error {
		if e.SizeBytes != int64(len(e.Name)) {
			t.Errorf("%s has %d bytes", e.Name, e.SizeBytes)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func listStops(t *testing.T, s, _ durable.Store) {
	Put(t, s, "s/1", "1")
	Put(t, s, "s/2", "2")
	stop, n := errors.New("stop"), 0
	err := s.List(t.Context(), "s/", func(durable.Entry) error {
		n++
		return stop
	})
	if !errors.Is(err, stop) || n != 1 {
		t.Errorf("%v after %d, want the caller's error after 1", err, n)
	}
}

func remove(t *testing.T, s, other durable.Store) {
	Put(t, s, "d/1/a", "a")
	Put(t, s, "d/1/b", "b")
	for range 2 {
		if err := other.Delete(t.Context(), "d/1/a"); err != nil {
			t.Errorf("delete: %v, want nil, also where there is none", err)
		}
	}
	absent(t, s, "d/1/a")
	if got := Text(t, s, "d/1/b"); got != "b" {
		t.Errorf("the file beside it holds %q", got)
	}
}

func badNames(t *testing.T, s, _ durable.Store) {
	for _, name := range []string{"", "/a", "a/", "a//b", "../a", "a/..", ".tmp/x", "a/.b", "a b", "ä", `a\b`, strings.Repeat("n", durable.MaxNameBytes+1)} {
		if err := s.Put(t.Context(), name, 1, strings.NewReader("x")); err == nil {
			t.Errorf("put %q is accepted", name)
		}
		if _, err := s.Get(t.Context(), name); err == nil {
			t.Errorf("get %q is accepted", name)
		}
		if err := s.Delete(t.Context(), name); err == nil {
			t.Errorf("delete %q is accepted", name)
		}
	}
}

func writersAtOnce(t *testing.T, s, other durable.Store) {
	texts := []string{strings.Repeat("a", 1<<20), strings.Repeat("b", 1<<20)}
	var wg sync.WaitGroup
	for i, w := range []durable.Store{s, other} {
		wg.Go(func() {
			for range 5 {
				if err := w.Put(t.Context(), "at/once", int64(len(texts[i])), strings.NewReader(texts[i])); err != nil {
					t.Error(err)
				}
				_ = w.Delete(t.Context(), "at/other") // it may take the folder away
			}
		})
	}
	wg.Wait()
	if got := Text(t, s, "at/once"); !slices.Contains(texts, got) {
		t.Errorf("it holds neither's bytes, but %d others", len(got))
	}
}
