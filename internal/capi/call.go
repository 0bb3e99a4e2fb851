package capi

import (
	"context"
	"time"
)

// call is a method of a Manager or a store under way, on a goroutine of its own: what waits for it
// may look at signals meanwhile.
type call struct {
	cancel context.CancelFunc
	done   chan struct{} // closed behind what follows

	text string // what it returned, as JSON
	err  error
}

// start runs f for a handle. The timeout, if above 0, is its ctx's.
func (l *Library) start(timeout time.Duration, f func(ctx context.Context, c *call) error) int64 {
	ctx, cancel := context.WithCancel(context.Background())
	c := &call{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		defer cancel()
		ctx := ctx
		if timeout > 0 {
			var end context.CancelFunc
			ctx, end = context.WithTimeout(ctx, timeout)
			defer end()
		}
		c.err = f(ctx, c)
	}()
	return l.t.add(c)
}

// Close ends a call by its ctx, and waits until it has.
func (c *call) Close() error {
	c.cancel()
	<-c.done
	return nil
}

func (c *call) wait(timeout time.Duration) State {
	if timeout > 0 {
		t := time.NewTimer(timeout)
		defer t.Stop()
		select {
		case <-c.done:
		case <-t.C:
		}
	}
	select {
	case <-c.done:
	default:
		return Pending
	}
	if c.err != nil {
		return Failed
	}
	return Done
}

func (c *call) result() error {
	if c.wait(0) == Pending {
		return nil
	}
	return c.err
}

// Text is what a handle has to say, as JSON: of a Manager its numbers, of a call that is done
// what it has returned and which states were loaded in it. Others say nothing.
func (l *Library) Text(h int64) (string, error) {
	if c, err := get[*call](l.t, h); err == nil {
		if c.wait(0) != Done {
			return "", nil
		}
		return c.text, nil
	}
	m, err := get[*trainer](l.t, h)
	if err != nil {
		return "", err
	}
	return m.numbers()
}
