//go:build !linux

package futex

import (
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/skerry-ft/skerry/internal/step"
)

// look is how often a sleeper looks again.
const look = time.Millisecond

// Sleep waits until Wake is called, or most has passed, or for no reason.
func Sleep(word step.Word32, most time.Duration) {
	if f, ok := word.Hook().(step.Futex); ok {
		f.Sleep(word.Addr(), 1)
		return
	}
	time.Sleep(min(most, look))
}

// Wake ends the Sleep on a word, if there is one, and makes the word 0.
func Wake(word step.Word32) {
	if word.Swap(0) == 0 {
		return
	}
	if f, ok := word.Hook().(step.Futex); ok {
		f.Wake(word.Addr())
	}
}

// WaitPrivate waits until WakePrivate is called, if the word has that value, or for no reason.
func WaitPrivate(word *atomic.Uint32, value uint32) {
	if word.Load() == value {
		time.Sleep(look)
	}
}

// WakePrivate wakes one thread of this process that waits for a word.
func WakePrivate(*atomic.Uint32) {}

// Waiter is a word of WaitAny, and the value that it has.
type Waiter struct {
	word  *atomic.Uint32
	value uint32
}

// Private is a Waiter for a word that WakePrivate wakes.
func Private(word *atomic.Uint32, value uint32) Waiter { return Waiter{word, value} }

// Shared is a Waiter for a word in memory of several processes.
func Shared(word *atomic.Uint32, value uint32) Waiter { return Waiter{word, value} }

// WaitAny waits until one of the words has another value, or for no reason.
func WaitAny(words []Waiter) bool {
	for _, w := range words {
		if w.word.Load() != w.value {
			return true
		}
	}
	time.Sleep(look)
	return true
}

// SetRobustList says that no kernel goes through the list here.
func SetRobustList(uintptr) error { return errors.ErrUnsupported }

// Thread is 0: no kernel writes it into a word.
func Thread() uint32 { return 0 }

// Yield lets another thread run on the calling thread's processor.
func Yield() { runtime.Gosched() }
