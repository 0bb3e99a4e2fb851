package nccl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/nccl/diagnose"
)

// Bounds of what RAS is asked.
const (
	rasLead       = 2 * time.Second        // before a deadline, or half of an op's time
	rasGrace      = 200 * time.Millisecond // the abort waits so long after an error of the library
	maxRASInError = 2 << 10                // of that in an error
)

// An inquiry is what RAS says of one epoch, asked once.
type inquiry struct {
	done chan struct{} // closed once text and err are there; nil: not asked
	text string
	err  error
}

// inquire asks RAS, if it was not asked for this epoch yet and can be.
func (e *engine) inquire(limit time.Duration) {
	if e.opt.RAS == "" || !e.opt.Library.Has(RAS) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.ras.done != nil || e.ctx.Err() != nil {
		return
	}
	done := make(chan struct{})
	e.mu.ras.done = done
	e.listening.Go(func() { // under the lock: tidy waits for none that comes later
		ctx, cancel := context.WithTimeout(e.ctx, limit)
		defer cancel()
		text, err := diagnose.AskRAS(ctx, e.opt.RAS)
		e.mu.Lock()
		e.mu.ras.text, e.mu.ras.err = text, err
		e.mu.Unlock()
		close(done)
	})
}

// inquireBefore asks RAS when an op may miss its deadline: at the deadline itself
// nobody has the time any more.
func (e *engine) inquireBefore(now time.Time) {
	if e.opt.RAS == "" {
		return
	}
	e.mu.Lock()
	var left time.Duration
	late := false
	for _, t := range e.mu.flying {
		left = t.deadline.Sub(now)
		if late = left < min(rasLead, t.deadline.Sub(t.began)/2); late {
			break
		}
	}
	e.mu.Unlock()
	if late {
		e.inquire(max(left-deadlineEvery, deadlineEvery))
	}
}

// inquireAfter asks RAS if cause is an error of the library. It does not wait.
func (e *engine) inquireAfter(cause error) {
	if _, ok := errors.AsType[*ResultError](cause); ok {
		e.inquire(rasGrace)
	}
}

// heardRAS waits a moment for the answer, if RAS was asked: the abort ends what it
// knows.
func (e *engine) heardRAS() {
	e.mu.Lock()
	done := e.mu.ras.done
	e.mu.Unlock()
	if done == nil {
		return
	}
	select {
	case <-done:
	case <-time.After(rasGrace):
	}
}

// rasSays is RAS's answer, if it came.
func (e *engine) rasSays() (text string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mu.ras.text, e.mu.ras.err
}

// withRAS adds to a cause what RAS says.
func (e *engine) withRAS(cause error) error {
	text, _ := e.rasSays()
	if text == "" {
		return cause
	}
	return fmt.Errorf("%w; RAS says: %s", cause, text[:min(len(text), maxRASInError)])
}

// Attachments implements trace.Attacher: what RAS said when the group broke, and the
// end of the library's own log (NCCL_DEBUG_FILE), for the flight recorder.
func (b *Backend) Attachments() map[string]string {
	all := make(map[string]string)
	if e, err := b.current(); err == nil {
		e.heardRAS()
		text, err := e.rasSays()
		if err != nil {
			text += "\n" + err.Error()
		}
		if text != "" {
			all["nccl-ras"] = text
		}
	}
	if text := diagnose.Tail(b.opt.DebugFile); text != "" {
		all["nccl-debug"] = text
	}
	return all
}
