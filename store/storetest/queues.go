package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/store"
)

var queueCases = []testCase{
	{"a queue is first in, first out, and has its length", func(e *env) {
		a, b := e.open(), e.open()
		e.length(a, "q", 0)
		for i := range 5 {
			e.ok(a.Push(e.ctx, "q", []byte{byte(i)}))
		}
		e.length(b, "q", 5)
		for i := range 5 {
			got, err := b.Pop(e.ctx, "q", i%2 == 0)
			e.ok(err)
			if len(got) != 1 || got[0] != byte(i) {
				e.Fatalf("element %d: got %v", i, got)
			}
		}
		e.length(a, "q", 0)
		_, err := a.Pop(e.ctx, "q", false)
		e.is(err, store.ErrEmpty)
		e.there(a, false, "q")
	}},
	{"an empty element is an element", func(e *env) {
		s := e.open()
		e.ok(s.Push(e.ctx, "q", nil))
		got, err := s.Pop(e.ctx, "q", false)
		e.ok(err)
		if len(got) != 0 {
			e.Fatalf("got %v, want nothing in it", got)
		}
	}},
	{"a queue that is not empty counts as there; keys of the same name live beside it", func(e *env) {
		s := e.open()
		before, err := s.NumKeys(e.ctx)
		e.ok(err)
		e.ok(s.Push(e.ctx, "q", []byte("element")))
		e.there(s, true, "q")
		e.ok(s.Wait(e.ctx, "q"))
		e.holds(s, "q", "")
		after, err := s.NumKeys(e.ctx)
		e.ok(err)
		if after != before {
			e.Fatalf("keys: got %d, want %d: a queue is none", after, before)
		}
		e.set(s, "q", "value")
		got, err := s.Pop(e.ctx, "q", false)
		e.ok(err)
		if string(got) != "element" {
			e.Fatalf("got %q, want %q", got, "element")
		}
		e.holds(s, "q", "value")
	}},
	{"every element goes to one popper, and every popper gets one", func(e *env) {
		handles := []store.Store{e.open(), e.open()}
		const poppers = 12
		var seen sync.Map
		var all []<-chan error
		for i := range poppers {
			all = append(all, async(func() error {
				got, err := handles[i%2].Pop(e.ctx, "q", true)
				if _, twice := seen.LoadOrStore(string(got), true); twice && err == nil {
					return fmt.Errorf("element %q was taken twice", got)
				}
				return err
			}))
		}
		for i := range poppers {
			e.ok(handles[i%2].Push(e.ctx, "q", fmt.Append(nil, i)))
		}
		for _, done := range all {
			e.ok(e.ends(done))
		}
		e.length(handles[0], "q", 0)
	}},
	{"a wait beside a pop does not eat its element", func(e *env) {
		a, b := e.open(), e.open()
		for range 20 {
			waited := async(func() error { return a.Wait(e.ctx, "q") })
			popped := async(func() error { _, err := a.Pop(e.ctx, "q", true); return err })
			e.ok(b.Push(e.ctx, "q", nil))
			e.ok(e.ends(popped))
			// The wait may have come after the pop: then it needs one more.
			e.ok(b.Push(e.ctx, "q", nil))
			e.ok(e.ends(waited))
			_, err := b.Pop(e.ctx, "q", true)
			e.ok(err)
		}
	}},
	{"a pop that gives up loses nothing", func(e *env) {
		a, b := e.open(), e.open()
		for range 40 {
			ctx, cancel := context.WithCancel(e.ctx)
			gives := async(func() error { _, err := a.Pop(ctx, "q", true); return err })
			stays := async(func() error { _, err := a.Pop(e.ctx, "q", true); return err })
			done := async(func() error { cancel(); return nil })
			e.ok(b.Push(e.ctx, "q", nil))
			e.ok(e.ends(done))
			if err := e.ends(gives); err == nil {
				e.ok(b.Push(e.ctx, "q", nil)) // it was in time: one more for the other
			} else {
				e.is(err, context.Canceled)
			}
			e.ok(e.ends(stays))
			e.length(b, "q", 0)
		}
	}},
}

func (e *env) length(s store.Store, key string, want int64) {
	e.Helper()
	got, err := s.Len(e.ctx, key)
	e.ok(err)
	if got != want {
		e.Fatalf("length of %q: got %d, want %d", key, got, want)
	}
}

var boundCases = []testCase{
	{"a key may have MaxKeyBytes with its prefixes, and no more", func(e *env) {
		s := e.open()
		most := strings.Repeat("k", store.MaxKeyBytes-e.opts.PrefixBytes)
		e.set(s, most, "v")
		e.holds(s, most, "v")
		e.is(s.Set(e.ctx, most+"k", nil), store.ErrTooLarge)
		long := strings.Repeat("k", store.MaxKeyBytes+1)
		e.is(s.Set(e.ctx, long, nil), store.ErrTooLarge)
		e.is(s.Wait(e.ctx, "a", long), store.ErrTooLarge)
		_, err := s.Add(e.ctx, long, 1)
		e.is(err, store.ErrTooLarge)
		_, err = s.Get(e.ctx, long)
		e.is(err, store.ErrTooLarge)
		view := store.WithPrefix(s, strings.Repeat("p", store.MaxKeyBytes/2))
		e.is(view.Set(e.ctx, strings.Repeat("k", store.MaxKeyBytes/2), nil), store.ErrTooLarge)
		e.holds(s, most, "v")
	}},
	{"a value may have MaxValueBytes, and no more", func(e *env) {
		s := e.open()
		most := bytes.Repeat([]byte{7}, store.MaxValueBytes)
		e.ok(s.Set(e.ctx, "k", most))
		got, err := s.Get(e.ctx, "k")
		e.ok(err)
		if !bytes.Equal(got, most) {
			e.Fatalf("got %d other bytes", len(got))
		}
		over := append(most, 7)
		e.is(s.Set(e.ctx, "k", over), store.ErrTooLarge)
		e.is(s.Push(e.ctx, "q", over), store.ErrTooLarge)
		e.is(s.MultiSet(e.ctx, []string{"k"}, [][]byte{over}), store.ErrTooLarge)
		_, err = s.CompareSet(e.ctx, "k", nil, over)
		e.is(err, store.ErrTooLarge)
		if err := s.Append(e.ctx, "k", []byte{7}); err == nil {
			e.Fatal("append over the bound: got no error")
		}
		got, err = s.Get(e.ctx, "k")
		e.ok(err)
		if !bytes.Equal(got, most) {
			e.Fatalf("after refusals: got %d other bytes", len(got))
		}
	}},
	{"a call may have MaxKeys keys, and no more", func(e *env) {
		s := e.open()
		keys := make([]string, store.MaxKeys+1)
		values := make([][]byte, len(keys))
		for i := range keys {
			keys[i] = fmt.Sprint(i)
		}
		e.ok(s.MultiSet(e.ctx, keys[1:], values[1:]))
		e.there(s, true, keys[1:]...)
		e.ok(s.Wait(e.ctx, keys[1:]...))
		_, err := s.Check(e.ctx, keys...)
		e.is(err, store.ErrTooLarge)
		e.is(s.Wait(e.ctx, keys...), store.ErrTooLarge)
		e.is(s.MultiSet(e.ctx, keys, values), store.ErrTooLarge)
		_, err = s.MultiGet(e.ctx, keys)
		e.is(err, store.ErrTooLarge)
	}},
}

// model is a store for one caller, as simple as it can be.
type model struct {
	values map[string]string
	queues map[string][]string
}

// againstModel takes random calls to the store and to the model. The seed is
// fixed: what fails, fails again.
func againstModel(e *env) {
	handles := []store.Store{e.open(), e.open()}
	m := &model{values: map[string]string{}, queues: map[string][]string{}}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 400 {
		s := handles[rng.IntN(len(handles))]
		what, got, want := m.step(e, s, rng)
		if got != want {
			e.Fatalf("call %d, %s: got %s, want %s", i, what, got, want)
		}
	}
}

// step makes one random call and returns both answers.
func (m *model) step(e *env, s store.Store, rng *rand.Rand) (what, got, want string) {
	key := fmt.Sprintf("%c/%c", 'a'+rng.IntN(2), 'a'+rng.IntN(3))
	value := []string{"", "1", "22", "x"}[rng.IntN(4)]
	old, there := m.values[key]
	switch rng.IntN(9) {
	case 0:
		m.values[key] = value
		return "set " + key, fmt.Sprint(s.Set(e.ctx, key, []byte(value))), "<nil>"
	case 1:
		m.values[key] = old + value
		return "append " + key, fmt.Sprint(s.Append(e.ctx, key, []byte(value))), "<nil>"
	case 2:
		gone, err := s.Delete(e.ctx, key)
		delete(m.values, key)
		return "delete " + key, fmt.Sprint(gone, err), fmt.Sprint(there, error(nil))
	case 3:
		m.queues[key] = append(m.queues[key], value)
		return "push " + key, fmt.Sprint(s.Push(e.ctx, key, []byte(value))), "<nil>"
	case 4:
		return m.pop(e, s, key)
	case 5:
		now, err := s.CompareSet(e.ctx, key, []byte("1"), []byte(value))
		want = old
		if !there {
			want = "1"
		} else if old == "1" {
			m.values[key], want = value, value
		}
		return "compare-set " + key, fmt.Sprintf("%s %v", now, err), want + " <nil>"
	case 6:
		return m.add(e, s, key, old)
	case 7:
		there, err := s.Check(e.ctx, key)
		_, has := m.values[key]
		return "check " + key, fmt.Sprint(there, err), fmt.Sprint(has || len(m.queues[key]) > 0, error(nil))
	}
	if !there {
		old = "(nothing)"
	}
	ctx, cancel := context.WithTimeout(e.ctx, time.Millisecond)
	if there || len(m.queues[key]) > 0 {
		ctx, cancel = context.WithCancel(e.ctx)
		old = m.values[key]
	}
	defer cancel()
	now, err := s.Get(ctx, key)
	if errors.Is(err, context.DeadlineExceeded) {
		now, err = []byte("(nothing)"), nil
	}
	return "get " + key, fmt.Sprintf("%s %v", now, err), old + " <nil>"
}

func (m *model) pop(e *env, s store.Store, key string) (what, got, want string) {
	value, err := s.Pop(e.ctx, key, false)
	queue := m.queues[key]
	if len(queue) == 0 {
		return "pop " + key, fmt.Sprint(errors.Is(err, store.ErrEmpty)), "true"
	}
	m.queues[key] = queue[1:]
	return "pop " + key, fmt.Sprintf("%s %v", value, err), queue[0] + " <nil>"
}

func (m *model) add(e *env, s store.Store, key, old string) (what, got, want string) {
	sum, err := s.Add(e.ctx, key, 5)
	_, there := m.values[key]
	n := int64(0)
	if there {
		if _, scan := fmt.Sscanf(old, "%d", &n); scan != nil || fmt.Sprint(n) != old {
			return "add " + key, fmt.Sprint(errors.Is(err, store.ErrNotNumber)), "true"
		}
	}
	m.values[key] = fmt.Sprint(n + 5)
	return "add " + key, fmt.Sprint(sum, err), fmt.Sprint(n+5, error(nil))
}
