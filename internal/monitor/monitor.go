// Package monitor has a mutex with one condition, "something changed", on which
// a goroutine can wait with a context and a time limit; a sync.Cond has neither.
package monitor

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Monitor is a mutex that is embedded beside the fields that it guards. A goroutine
// that changes one of them on which others may wait calls Broadcast. The zero value is
// ready.
type Monitor struct {
	sync.Mutex

	changed chan struct{} // closed by Broadcast; nil: no goroutine waits
}

// ErrTimeout is returned by Await when its limit has passed.
var ErrTimeout = errors.New("time limit passed")

// Broadcast lets every Await look again. The caller holds the mutex.
func (m *Monitor) Broadcast() {
	if m.changed != nil {
		close(m.changed)
		m.changed = nil
	}
}

// Changed returns a channel that the next Broadcast closes, for a goroutine that waits
// for something else beside it. The caller holds the mutex.
func (m *Monitor) Changed() <-chan struct{} {
	if m.changed == nil {
		m.changed = make(chan struct{})
	}
	return m.changed
}

// Await calls done with the mutex held, at once and after every Broadcast, until
// done returns true; then it returns nil. It returns ErrTimeout after limit (0 or
// less: never), and ctx's cause when ctx ends. The caller does not hold the mutex.
func (m *Monitor) Await(ctx context.Context, limit time.Duration, done func() bool) error {
	var late <-chan time.Time // made when there is something to wait for
	for {
		m.Lock()
		if done() {
			m.Unlock()
			return nil
		}
		changed := m.Changed()
		m.Unlock()
		if limit > 0 && late == nil {
			timer := time.NewTimer(limit)
			defer timer.Stop() // once: late is set from now on
			late = timer.C
		}
		select {
		case <-changed:
		case <-late:
			return ErrTimeout
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
