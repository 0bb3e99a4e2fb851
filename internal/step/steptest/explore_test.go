package steptest

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/skerry-ft/skerry/internal/step"
)

const testLimit = 1 << 20

// TestEveryInterleaving: two goroutines of n accesses each have (n+1)² states, and
// as many ends as there are outcomes.
func TestEveryInterleaving(t *testing.T) {
	const n = 5
	r, err := Explore(testLimit, func(w *World) {
		var x, y step.Int64
		w.Var("x", &x)
		w.Var("y", &y)
		for _, v := range []*step.Int64{&x, &y} {
			w.Go("adds", func() {
				for range n {
					v.Add(1)
				}
			})
		}
	})
	if err != nil || !r.Complete || r.States != (n+1)*(n+1) {
		t.Errorf("%+v, %v; want %d states", r, err, (n+1)*(n+1))
	}
}

// TestFindsLostUpdate: a load and a store are two steps.
func TestFindsLostUpdate(t *testing.T) {
	for _, atomically := range []bool{true, false} {
		_, err := Explore(testLimit, func(w *World) {
			var x step.Int64
			w.Var("x", &x)
			done := w.Group("x", w.addressOf("x"))
			for range 2 {
				w.Go("adds", func() {
					if atomically {
						x.Add(1)
						return
					}
					old := x.Load()
					x.Add(old + 1 - x.Load()) // a third step, which reads again
				})
			}
			w.Go("waits", func() { done.Wait(func(v []uint64) bool { return v[0] == 2 }, func() {}) })
		})
		if (err == nil) != atomically {
			t.Errorf("atomically %v: %v", atomically, err)
		}
	}
}

// addressOf is the atomic of that name.
func (w *World) addressOf(name string) any {
	for at, i := range w.atomics {
		if w.names[i] == name {
			return at
		}
	}
	return nil
}

// sleeper waits for a flag on a futex, and looks again before it sleeps, or not.
func sleeper(w *World, looksAgain, waker bool) {
	flag, asleep := w.Word32("flag"), step.At32(new(atomic.Uint32), nil)
	w.Futex("asleep", &asleep)
	w.Go("sleeper", func() {
		for {
			w.Idle("loop")
			if flag.Load() == 1 {
				return
			}
			asleep.Store(1)
			if looksAgain && flag.Load() == 1 {
				return
			}
			asleep.Hook().(step.Futex).Sleep(asleep.Addr(), 1)
		}
	})
	w.Go("waker", func() {
		flag.Store(1)
		if waker && asleep.Swap(0) == 1 {
			asleep.Hook().(step.Futex).Wake(asleep.Addr())
		}
	})
}

// TestFindsLostWakeUp: a sleeper that does not look again, or a waker that does not
// wake, is found.
func TestFindsLostWakeUp(t *testing.T) {
	for _, c := range []struct{ looksAgain, waker, ok bool }{
		{true, true, true}, {false, true, false}, {true, false, false},
	} {
		_, err := Explore(testLimit, func(w *World) { sleeper(w, c.looksAgain, c.waker) })
		stuck, _ := errors.AsType[*Stuck](err)
		if (err == nil) != c.ok {
			t.Errorf("looks again %v, wakes %v: %v", c.looksAgain, c.waker, err)
		}
		if err != nil && (stuck == nil || !strings.Contains(err.Error(), "sleeper      is at: asleep futex")) {
			t.Errorf("trace does not say where the sleeper is:\n%v", err)
		}
	}
}

// TestMutex: what a mutex guards is changed as if in one step, and who waits for two
// mutexes in the other order waits for ever.
func TestMutex(t *testing.T) {
	for _, crossed := range []bool{false, true} {
		_, err := Explore(testLimit, func(w *World) {
			var a, b step.Mutex
			n := 0
			w.Mutex("a", &a, &n)
			w.Mutex("b", &b)
			for i := range 3 {
				w.Go(fmt.Sprint("goroutine ", i), func() {
					first, second := &a, &b
					if crossed && i == 2 {
						first, second = &b, &a
					}
					first.Lock()
					second.Lock()
					n++
					second.Unlock()
					first.Unlock()
					if i == 0 && a.TryLock() {
						if n > 3 {
							panic("n is counted twice")
						}
						a.Unlock()
					}
				})
			}
		})
		if (err != nil) != crossed {
			t.Errorf("crossed %v: %v", crossed, err)
		}
	}
}

// TestFindsCircle: goroutines that do nothing but turn are found.
func TestFindsCircle(t *testing.T) {
	_, err := Explore(testLimit, func(w *World) {
		var x step.Bool
		w.Var("x", &x)
		w.Go("spins", func() {
			for w.Idle("loop"); !x.Load(); w.Idle("loop") {
			}
		})
	})
	if stuck, ok := errors.AsType[*Stuck](err); !ok || !strings.Contains(stuck.Why, "round") {
		t.Errorf("%v, want a circle", err)
	}
}
