package steptest

import (
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/skerry-ft/skerry/internal/step"
)

// Jitter is a Hook for programs that run as usual: at one access of Every it lets
// others run, or sleeps for up to Most. So what usually takes nanoseconds between two
// accesses takes, sometimes, as long as on a host where a goroutine is preempted there.
// Safe for concurrent use.
type Jitter struct {
	Every int
	Most  time.Duration
}

func (j *Jitter) pause() {
	switch n := rand.IntN(j.Every); {
	case n != 0:
	case rand.IntN(2) == 0:
		runtime.Gosched()
	default:
		time.Sleep(rand.N(j.Most))
	}
}

// Access implements step.Hook.
func (j *Jitter) Access(any) { j.pause() }

// Lock implements step.Hook.
func (j *Jitter) Lock(m *step.Mutex) {
	j.pause()
	m.Inner.Lock()
}

// TryLock implements step.Hook.
func (j *Jitter) TryLock(m *step.Mutex) bool {
	j.pause()
	return m.Inner.TryLock()
}

// Unlock implements step.Hook.
func (j *Jitter) Unlock(m *step.Mutex) {
	m.Inner.Unlock()
	j.pause()
}

// Round implements step.Hook.
func (j *Jitter) Round() {}
