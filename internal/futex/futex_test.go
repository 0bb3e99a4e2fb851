package futex

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/step"
)

const bound = 30 * time.Second

// TestSleep: a sleep ends by Wake, by its limit, and at once if the word is not 1.
func TestSleep(t *testing.T) {
	t.Parallel()
	word := step.At32(new(atomic.Uint32), nil)
	Sleep(word, time.Hour) // the word is 0
	word.Store(1)
	Sleep(word, time.Millisecond)
	if word.Load() != 1 {
		t.Error("a sleep that was not woken has changed the word")
	}
	woken := make(chan struct{})
	go func() {
		defer close(woken)
		for word.Load() == 1 {
			Sleep(word, bound)
		}
	}()
	Wake(word)
	select {
	case <-woken:
	case <-time.After(bound / 2):
		t.Error("a wake-up was lost")
	}
	if Wake(word); word.Load() != 0 {
		t.Error("a word is not 0 after its wake-up")
	}
}

// TestWaitAny: any of its words ends the wait, and one that has changed does at once.
func TestWaitAny(t *testing.T) {
	t.Parallel()
	var private, shared atomic.Uint32
	if !WaitAny([]Waiter{Private(&private, 1), Shared(&shared, 0)}) {
		t.Skip("the kernel has no futex_waitv")
	}
	woken := make(chan struct{})
	go func() {
		defer close(woken)
		for private.Load() == 0 {
			WaitAny([]Waiter{Shared(&shared, 0), Private(&private, 0)})
		}
	}()
	private.Store(1)
	WakePrivate(&private)
	select {
	case <-woken:
	case <-time.After(bound / 2):
		t.Error("a wake-up was lost")
	}
}
