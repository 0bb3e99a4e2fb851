package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/skerry-ft/skerry/store"
)

var waitCases = []testCase{
	{"get waits for a key that another handle sets", func(e *env) {
		a, b := e.open(), e.open()
		var got []byte
		done := async(func() (err error) {
			got, err = a.Get(e.ctx, "later")
			return err
		})
		e.set(b, "later", "here")
		e.ok(e.ends(done))
		if string(got) != "here" {
			e.Fatalf("got %q, want %q", got, "here")
		}
	}},
	{"wait and multi-get want all keys, whatever wrote them, in any order", func(e *env) {
		a, b := e.open(), e.open()
		keys := []string{"set", "add", "append", "compare", "multi", "queue"}
		waited := async(func() error { return a.Wait(e.ctx, keys...) })
		got := async(func() error {
			_, err := a.MultiGet(e.ctx, keys)
			return err
		})
		e.ok(b.Push(e.ctx, "queue", nil))
		e.ok(b.MultiSet(e.ctx, []string{"multi"}, [][]byte{nil}))
		_, err := b.CompareSet(e.ctx, "compare", nil, []byte("x"))
		e.ok(err)
		e.ok(b.Append(e.ctx, "append", []byte("x")))
		_, err = b.Add(e.ctx, "add", 1)
		e.ok(err)
		select {
		case err := <-waited:
			e.Fatalf("wait ended with %v while a key was missing", err)
		default:
		}
		e.set(b, "set", "x")
		e.ok(e.ends(waited))
		e.ok(e.ends(got))
		e.ok(a.Wait(e.ctx))
	}},
	{"calls that block hold up nobody", func(e *env) {
		s, other := e.open(), e.open()
		const blocked = 40
		var all []<-chan error
		for i := range blocked {
			all = append(all, async(func() error {
				_, err := s.Get(e.ctx, fmt.Sprint("blocked ", i))
				return err
			}))
		}
		for i := range 20 {
			e.set(s, "k", fmt.Sprint(i))
			e.holds(s, "k", fmt.Sprint(i))
		}
		for i := range blocked {
			e.set(other, fmt.Sprint("blocked ", i), "x")
		}
		for _, done := range all {
			e.ok(e.ends(done))
		}
	}},
	{"a ctx's deadline ends a wait as a timeout, and the store stays good", func(e *env) {
		s := e.open()
		for _, call := range blockingCalls(s) {
			ctx, cancel := context.WithTimeout(e.ctx, soon)
			e.is(call(ctx), context.DeadlineExceeded)
			cancel()
		}
		e.set(s, "k", "v")
		e.holds(s, "k", "v")
	}},
	{"the default timeout ends a wait whose ctx has none", func(e *env) {
		s := e.open()
		s.SetTimeout(soon)
		for _, call := range blockingCalls(s) {
			e.is(call(context.WithoutCancel(e.ctx)), context.DeadlineExceeded)
		}
		s.SetTimeout(0)
		done := async(func() error { return s.Wait(context.WithoutCancel(e.ctx), "k") })
		e.set(s, "k", "v")
		e.ok(e.ends(done))
	}},
	{"cancelling ends a wait at once, with its cause", func(e *env) {
		s := e.open()
		why := errors.New("changed my mind")
		for _, call := range blockingCalls(s) {
			ctx, cancel := context.WithCancelCause(e.ctx)
			done := async(func() error { return call(ctx) })
			cancel(why)
			e.is(e.ends(done), why)
		}
		e.set(s, "k", "v")
		e.holds(s, "k", "v")
	}},
	{"no verb works with a ctx that has ended", func(e *env) {
		s := e.open()
		ctx, cancel := context.WithCancel(e.ctx)
		cancel()
		for name, call := range everyVerb(s) {
			if err := call(ctx); !errors.Is(err, context.Canceled) {
				e.Errorf("%s: got %v, want %v", name, err, context.Canceled)
			}
		}
		e.there(s, false, "k")
	}},
	{"waits that race with sets and cancels are never lost", racingWaits},
}

// blockingCalls are the verbs that wait, on keys that never come.
func blockingCalls(s store.Store) []func(context.Context) error {
	return []func(context.Context) error{
		func(ctx context.Context) error { _, err := s.Get(ctx, "never"); return err },
		func(ctx context.Context) error { _, err := s.MultiGet(ctx, []string{"never", "ever"}); return err },
		func(ctx context.Context) error { return s.Wait(ctx, "never", "ever") },
		func(ctx context.Context) error { _, err := s.Pop(ctx, "never", true); return err },
	}
}

// everyVerb is each verb once.
func everyVerb(s store.Store) map[string]func(context.Context) error {
	value := []byte("1")
	return map[string]func(context.Context) error{
		"Get":          func(ctx context.Context) error { _, err := s.Get(ctx, "k"); return err },
		"MultiGet":     func(ctx context.Context) error { _, err := s.MultiGet(ctx, []string{"k"}); return err },
		"Wait":         func(ctx context.Context) error { return s.Wait(ctx, "k") },
		"Check":        func(ctx context.Context) error { _, err := s.Check(ctx, "k"); return err },
		"NumKeys":      func(ctx context.Context) error { _, err := s.NumKeys(ctx); return err },
		"Set":          func(ctx context.Context) error { return s.Set(ctx, "k", value) },
		"MultiSet":     func(ctx context.Context) error { return s.MultiSet(ctx, []string{"k"}, [][]byte{value}) },
		"Append":       func(ctx context.Context) error { return s.Append(ctx, "k", value) },
		"Add":          func(ctx context.Context) error { _, err := s.Add(ctx, "k", 1); return err },
		"CompareSet":   func(ctx context.Context) error { _, err := s.CompareSet(ctx, "k", nil, value); return err },
		"Delete":       func(ctx context.Context) error { _, err := s.Delete(ctx, "k"); return err },
		"DeletePrefix": func(ctx context.Context) error { _, err := s.DeletePrefix(ctx, "k"); return err },
		"Push":         func(ctx context.Context) error { return s.Push(ctx, "k", value) },
		"Pop":          func(ctx context.Context) error { _, err := s.Pop(ctx, "k", true); return err },
		"Len":          func(ctx context.Context) error { _, err := s.Len(ctx, "k"); return err },
	}
}

// racingWaits has waits, their cancels and the sets meet at about one moment.
func racingWaits(e *env) {
	a, b := e.open(), e.open()
	for round := range 50 {
		key := fmt.Sprint("round ", round)
		ctx, cancel := context.WithCancel(e.ctx)
		canceled := async(func() error { return a.Wait(ctx, key) })
		stays := async(func() error { return a.Wait(e.ctx, key) })
		both := async(func() error {
			cancel()
			return nil
		})
		e.set(b, key, "x")
		e.ok(e.ends(both))
		e.ok(e.ends(stays))
		if err := e.ends(canceled); err != nil {
			e.is(err, context.Canceled)
		}
	}
	e.holds(a, "round 0", "x")
}

var numberCases = []testCase{
	{"add counts from nothing, keeps decimal text, and takes what set wrote", func(e *env) {
		s := e.open()
		for i, want := range []int64{7, 4, -10} {
			got, err := s.Add(e.ctx, "n", []int64{7, -3, -14}[i])
			e.ok(err)
			if got != want {
				e.Fatalf("sum: got %d, want %d", got, want)
			}
			e.holds(s, "n", fmt.Sprint(want))
		}
		e.set(s, "m", "41")
		got, err := s.Add(e.ctx, "m", 1)
		e.ok(err)
		if got != 42 {
			e.Fatalf("sum: got %d, want 42", got)
		}
	}},
	{"add on what is no number is ErrNotNumber and changes nothing", func(e *env) {
		s := e.open()
		for _, value := range []string{"", "x", "1x", "1.5", " 1", "0x10", strings.Repeat("9", 19), strings.Repeat("1", 1000)} {
			e.set(s, "k", value)
			_, err := s.Add(e.ctx, "k", 1)
			e.is(err, store.ErrNotNumber)
			e.holds(s, "k", value)
		}
	}},
	{"a sum over the range of int64 is refused", func(e *env) {
		s := e.open()
		for _, c := range [][2]int64{{math.MaxInt64, 1}, {math.MinInt64, -1}} {
			e.set(s, "k", fmt.Sprint(c[0]))
			_, err := s.Add(e.ctx, "k", c[1])
			e.is(err, store.ErrNotNumber)
			e.holds(s, "k", fmt.Sprint(c[0]))
			_, err = s.Add(e.ctx, "k", 0)
			e.ok(err)
		}
	}},
	{"concurrent adds all count, and each sum is seen once", func(e *env) {
		handles := []store.Store{e.open(), e.open(), e.open()}
		const workers, rounds = 6, 25
		var seen sync.Map
		e.all(workers, func(i int) error {
			for range rounds {
				n, err := handles[i%len(handles)].Add(e.ctx, "n", 1)
				if err != nil {
					return err
				}
				if _, twice := seen.LoadOrStore(n, true); twice {
					return fmt.Errorf("sum %d was seen twice", n)
				}
			}
			return nil
		})
		e.holds(handles[0], "n", fmt.Sprint(workers*rounds))
	}},
}

var lifeCases = []testCase{
	{"close ends waits with ErrClosed, and every call after it", func(e *env) {
		s := e.open()
		var all []<-chan error
		for _, call := range blockingCalls(s) {
			all = append(all, async(func() error { return call(e.ctx) }))
		}
		e.ok(s.Close())
		for _, done := range all {
			e.is(e.ends(done), store.ErrClosed)
		}
		for name, call := range everyVerb(s) {
			if err := call(e.ctx); !errors.Is(err, store.ErrClosed) {
				e.Errorf("%s: got %v, want %v", name, err, store.ErrClosed)
			}
		}
		e.ok(s.Close())
	}},
	{"closing one handle leaves the others", func(e *env) {
		if e.opts.OneHandle {
			e.Skip("this implementation has one handle")
		}
		a, b := e.open(), e.open()
		e.set(a, "k", "v")
		done := async(func() error { return b.Wait(e.ctx, "later") })
		e.ok(a.Close())
		e.holds(b, "k", "v")
		e.set(b, "later", "x")
		e.ok(e.ends(done))
	}},
	{"all ranks meet: each sets its own key, counts itself, and reads the others'", func(e *env) {
		const ranks = 8
		handles := make([]store.Store, ranks)
		for i := range handles {
			handles[i] = store.WithPrefix(e.open(), "quorum/7")
		}
		e.all(ranks, func(rank int) error {
			s := handles[rank]
			if err := s.Set(e.ctx, fmt.Sprint("addr/", rank), []byte{byte(rank)}); err != nil {
				return err
			}
			n, err := s.Add(e.ctx, "count", 1)
			if err != nil {
				return err
			}
			if n == ranks {
				if err := s.Set(e.ctx, "go", nil); err != nil {
					return err
				}
			}
			if err := s.Wait(e.ctx, "go"); err != nil {
				return err
			}
			for peer := range ranks {
				got, err := s.Get(e.ctx, fmt.Sprint("addr/", peer))
				if err != nil || len(got) != 1 || got[0] != byte(peer) {
					return fmt.Errorf("rank %d reads %d: %v, %w", rank, peer, got, err)
				}
			}
			return nil
		})
	}},
	{"random calls answer as a simple model does", againstModel},
}
