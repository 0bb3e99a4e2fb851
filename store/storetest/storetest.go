package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/store"
)

// Opener returns a handle on one store: the same data each time, and another
// process's handle as far as possible. The suite closes it; closing a handle
// twice must be safe.
type Opener func() store.Store

// Options say what an implementation cannot do.
type Options struct {
	// OneHandle: every call of an Opener returns the same handle, so closing
	// one closes all.
	OneHandle bool

	// PrefixBytes is how many bytes the store puts before every key; they
	// count for the bound.
	PrefixBytes int

	// PyTorch: the server is PyTorch's own, and the cases that need more than
	// it does are left out: delete-prefix, and refusals that it does not make.
	PyTorch bool
}

// patienceLimit is how long a case waits for what should come at once.
const patienceLimit = 20 * time.Second

// soon is a deadline that a case wants to see pass.
const soon = 30 * time.Millisecond

// env is what a case works with.
type env struct {
	*testing.T
	ctx  context.Context
	open func() store.Store
	opts Options
}

// Run checks the stores that newStore makes: it is called once a case and
// returns the Opener of a fresh, empty store.
func Run(t *testing.T, opts Options, newStore func(t *testing.T) Opener) {
	var all []testCase
	all = append(all, valueCases...)
	all = append(all, waitCases...)
	all = append(all, numberCases...)
	all = append(all, queueCases...)
	all = append(all, boundCases...)
	all = append(all, lifeCases...)
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if opts.PyTorch && notPyTorch[c.name] {
				t.Skip("PyTorch's server does otherwise")
			}
			ctx, cancel := context.WithTimeout(t.Context(), patienceLimit)
			defer cancel()
			open := newStore(t)
			c.run(&env{T: t, ctx: ctx, opts: opts, open: func() store.Store {
				s := open()
				t.Cleanup(func() {
					if err := s.Close(); err != nil {
						t.Errorf("close: got %v, want nil", err)
					}
				})
				return s
			}})
		})
	}
}

type testCase struct {
	name string // the rule
	run  func(e *env)
}

// notPyTorch are the rules that PyTorch 2.9's own server does not keep. It has
// no delete-prefix, reads "1x" as a number and lets sums wrap, does not bound
// what append makes, wakes one waiter for a push, poppers or not, and takes
// minutes over 128 Ki keys.
var notPyTorch = map[string]bool{
	"delete-prefix deletes what a view of that prefix names, and no more": true,
	"views keep apart, nest, and do not close the store":                  true,
	"a sum over the range of int64 is refused":                            true,
	"add on what is no number is ErrNotNumber and changes nothing":        true,
	"random calls answer as a simple model does":                          true,
	"a value may have MaxValueBytes, and no more":                         true,
	"wait and multi-get want all keys, whatever wrote them, in any order": true,
	"a call may have MaxKeys keys, and no more":                           true,
}

// ok fails the case on an error.
func (e *env) ok(err error) {
	e.Helper()
	if err != nil {
		e.Fatalf("got error %v, want none", err)
	}
}

// is fails the case unless err is want.
func (e *env) is(err, want error) {
	e.Helper()
	if !errors.Is(err, want) {
		e.Fatalf("got error %v, want %v", err, want)
	}
}

func (e *env) set(s store.Store, key, value string) {
	e.Helper()
	e.ok(s.Set(e.ctx, key, []byte(value)))
}

// holds checks the value under key.
func (e *env) holds(s store.Store, key, want string) {
	e.Helper()
	got, err := s.Get(e.ctx, key)
	e.ok(err)
	if string(got) != want {
		e.Fatalf("key %q: got %q, want %q", key, got, want)
	}
}

// there checks whether all keys are there.
func (e *env) there(s store.Store, want bool, keys ...string) {
	e.Helper()
	got, err := s.Check(e.ctx, keys...)
	e.ok(err)
	if got != want {
		e.Fatalf("check %q: got %t, want %t", keys, got, want)
	}
}

// all runs fs at the same time and fails the case on their errors.
func (e *env) all(n int, f func(i int) error) {
	e.Helper()
	errs := make(chan error, n)
	for i := range n {
		go func() { errs <- f(i) }()
	}
	for range n {
		if err := <-errs; err != nil {
			e.Errorf("got error %v, want none", err)
		}
	}
}

// async runs f and returns where its error comes out.
func async(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

// ends waits for an async's error.
func (e *env) ends(done <-chan error) error {
	e.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(patienceLimit):
		e.Fatalf("a call did not end within %v", patienceLimit)
		return nil
	}
}

var valueCases = []testCase{
	{"a value that was set is what get returns, seen from any handle", func(e *env) {
		a, b := e.open(), e.open()
		e.set(a, "k", "one")
		e.holds(b, "k", "one")
		e.set(b, "k", "two")
		e.holds(a, "k", "two")
	}},
	{"keys and values are any bytes; an empty value is a value", func(e *env) {
		s := e.open()
		binary := make([]byte, 256)
		for i := range binary {
			binary[i] = byte(i)
		}
		for _, key := range []string{"", "/", "a//b", "\x00\xff", "init/", "ключ"} {
			e.ok(s.Set(e.ctx, key, binary))
			e.holds(s, key, string(binary))
		}
		e.set(s, "empty", "")
		e.there(s, true, "empty")
		e.holds(s, "empty", "")
	}},
	{"the store keeps copies of what it gets and gives", func(e *env) {
		s := e.open()
		value := []byte("abc")
		e.ok(s.Set(e.ctx, "k", value))
		value[0] = 'X'
		got, err := s.Get(e.ctx, "k")
		e.ok(err)
		got[1] = 'X'
		e.holds(s, "k", "abc")
		many, err := s.MultiGet(e.ctx, []string{"k"})
		e.ok(err)
		many[0][2] = 'X'
		e.holds(s, "k", "abc")
	}},
	{"multi-set and multi-get keep the order of the keys", func(e *env) {
		s := e.open()
		e.ok(s.MultiSet(e.ctx, []string{"a", "b", "c"}, [][]byte{[]byte("1"), nil, []byte("3")}))
		got, err := s.MultiGet(e.ctx, []string{"c", "a", "b", "c"})
		e.ok(err)
		if want := "[3 1  3]"; fmt.Sprintf("%s", got) != want {
			e.Fatalf("got %s, want %s", got, want)
		}
		none, err := s.MultiGet(e.ctx, nil)
		e.ok(err)
		if len(none) != 0 {
			e.Fatalf("no keys: got %d values, want none", len(none))
		}
		e.ok(s.MultiSet(e.ctx, nil, nil))
		if err := s.MultiSet(e.ctx, []string{"a", "b"}, [][]byte{nil}); err == nil {
			e.Fatal("two keys and one value: got no error")
		}
	}},
	{"append makes the key or adds to its end, atomically", func(e *env) {
		a, b := e.open(), e.open()
		e.ok(a.Append(e.ctx, "k", []byte("one,")))
		e.ok(b.Append(e.ctx, "k", []byte("two")))
		e.holds(a, "k", "one,two")
		const writers, rounds = 4, 20
		e.all(writers, func(i int) error {
			for range rounds {
				if err := []store.Store{a, b}[i%2].Append(e.ctx, "many", []byte{byte('a' + i), ';'}); err != nil {
					return err
				}
			}
			return nil
		})
		got, err := b.Get(e.ctx, "many")
		e.ok(err)
		for i := range writers {
			if n := bytes.Count(got, []byte{byte('a' + i), ';'}); n != rounds {
				e.Fatalf("writer %d: got %d of its pieces, want %d, in %q", i, n, rounds, got)
			}
		}
	}},
	{"delete says whether the key was there; num keys counts", func(e *env) {
		s := e.open()
		before, err := s.NumKeys(e.ctx)
		e.ok(err)
		e.set(s, "a", "1")
		e.set(s, "b", "2")
		_, err = s.Add(e.ctx, "c", 1)
		e.ok(err)
		gone, err := s.Delete(e.ctx, "a")
		e.ok(err)
		again, err := s.Delete(e.ctx, "a")
		e.ok(err)
		if !gone || again {
			e.Fatalf("delete twice: got %t and %t, want true and false", gone, again)
		}
		n, err := s.NumKeys(e.ctx)
		e.ok(err)
		if n != before+2 {
			e.Fatalf("keys: got %d, want %d", n, before+2)
		}
		e.there(s, false, "a")
	}},
	{"check wants all keys; of none it is true", func(e *env) {
		s := e.open()
		e.there(s, true)
		e.there(s, false, "a")
		e.set(s, "a", "1")
		e.there(s, true, "a")
		e.there(s, true, "a", "a")
		e.there(s, false, "a", "b")
	}},
	{"compare-set follows PyTorch's table", compareSetTable},
	{"one of many compare-sets wins", func(e *env) {
		handles := []store.Store{e.open(), e.open()}
		won := make(chan string, 8)
		e.all(cap(won), func(i int) error {
			me := fmt.Sprintf("rank %d", i)
			got, err := handles[i%2].CompareSet(e.ctx, "leader", nil, []byte(me))
			won <- string(got)
			return err
		})
		first := <-won
		e.holds(handles[0], "leader", first)
		for range cap(won) - 1 {
			if got := <-won; got != first {
				e.Fatalf("two winners: %q and %q", first, got)
			}
		}
	}},
	{"delete-prefix deletes what a view of that prefix names, and no more", func(e *env) {
		s := e.open()
		for _, key := range []string{"q/1/a", "q/1/b/c", "q/1", "q/10/a", "q/2/a"} {
			e.set(s, key, "x")
		}
		e.ok(s.Push(e.ctx, "q/1/queue", []byte("x")))
		n, err := s.DeletePrefix(e.ctx, "q/1")
		e.ok(err)
		if n != 3 {
			e.Fatalf("got %d deleted, want 3", n)
		}
		for key, want := range map[string]bool{
			"q/1/a": false, "q/1/b/c": false, "q/1/queue": false, "q/1": true, "q/10/a": true, "q/2/a": true,
		} {
			e.there(s, want, key)
		}
		n, err = s.DeletePrefix(e.ctx, "nothing")
		e.ok(err)
		if n != 0 {
			e.Fatalf("got %d deleted, want 0", n)
		}
	}},
	{"views keep apart, nest, and do not close the store", prefixRules},
}

func compareSetTable(e *env) {
	s := e.open()
	for _, c := range []struct {
		was               string // "-" is absent
		expected, desired string
		answer, is        string // is "-": still absent
	}{
		{"-", "", "new", "new", "new"},
		{"-", "old", "new", "old", "-"},
		{"old", "old", "new", "new", "new"},
		{"old", "other", "new", "old", "old"},
		{"old", "", "new", "old", "old"},
		{"old", "old", "", "", ""},
		{"", "", "new", "new", "new"},
		{"", "old", "new", "", ""},
	} {
		key := fmt.Sprintf("%v", c)
		if c.was != "-" {
			e.set(s, key, c.was)
		}
		got, err := s.CompareSet(e.ctx, key, []byte(c.expected), []byte(c.desired))
		e.ok(err)
		if string(got) != c.answer {
			e.Errorf("%+v: got answer %q", c, got)
		}
		e.there(s, c.is != "-", key)
		if c.is != "-" {
			e.holds(s, key, c.is)
		}
	}
}

func prefixRules(e *env) {
	s := e.open()
	a, b := store.WithPrefix(s, "a"), store.WithPrefix(s, "b/")
	e.set(a, "k", "in a")
	e.set(b, "k", "in b")
	e.holds(s, "a/k", "in a")
	e.holds(s, "b/k", "in b")
	inner := store.WithPrefix(a, "x/y")
	e.set(inner, "k", "deep")
	e.holds(s, "a/x/y/k", "deep")
	e.set(store.WithPrefix(s, ""), "bare", "1")
	e.holds(s, "bare", "1")

	viewVerbs(e, inner)

	n, err := a.DeletePrefix(e.ctx, "x")
	e.ok(err)
	e.there(s, false, "a/x/y/k")
	e.there(s, true, "a/k", "b/k", "bare")
	if n == 0 {
		e.Fatal("delete-prefix in a view: got 0 deleted")
	}
	n, err = b.DeletePrefix(e.ctx, "")
	e.ok(err)
	if n != 1 {
		e.Fatalf("delete-prefix of a whole view: got %d deleted, want 1", n)
	}
	e.there(s, true, "a/k", "bare")
	e.ok(a.Close())
	e.holds(s, "a/k", "in a")
}

// viewVerbs takes each verb through a view once, and looks that it lands there.
func viewVerbs(e *env, v store.Store) {
	_, err := v.Add(e.ctx, "n", 3)
	e.ok(err)
	e.ok(v.Append(e.ctx, "ap", []byte("x")))
	_, err = v.CompareSet(e.ctx, "cs", nil, []byte("y"))
	e.ok(err)
	e.ok(v.MultiSet(e.ctx, []string{"m1", "m2"}, [][]byte{[]byte("1"), []byte("2")}))
	got, err := v.MultiGet(e.ctx, []string{"n", "ap", "cs", "m1", "m2"})
	e.ok(err)
	if want := "[3 x y 1 2]"; fmt.Sprintf("%s", got) != want {
		e.Fatalf("through a view: got %s, want %s", got, want)
	}
	e.ok(v.Wait(e.ctx, "n", "ap"))
	e.ok(v.Push(e.ctx, "q", []byte("z")))
	n, err := v.Len(e.ctx, "q")
	e.ok(err)
	z, err := v.Pop(e.ctx, "q", true)
	e.ok(err)
	if n != 1 || string(z) != "z" {
		e.Fatalf("queue through a view: got length %d and %q, want 1 and \"z\"", n, z)
	}
	gone, err := v.Delete(e.ctx, "m1")
	e.ok(err)
	if !gone {
		e.Fatal("delete through a view: got false")
	}
	e.there(v, false, "m1")
}
