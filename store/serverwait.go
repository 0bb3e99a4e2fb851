package store

import (
	"fmt"
)

// wait answers at once if all keys are there. Else it goes on in a goroutine
// of its own, so that the connection can be told to cancel, and other commands
// are answered before it, as PyTorch's server does.
func (c *serverConn) wait(keys []string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.wait != nil {
		return fmt.Errorf("%w: two waits at a time", errProtocol)
	}
	// A wait for one key may be the first half of PyTorch's blocking pop.
	w, err := c.s.t.wait(keys, len(keys) == 1)
	switch {
	case err != nil:
		return err
	case w == nil:
		return c.sendLocked([]byte{answerStop})
	}
	c.mu.wait = w
	c.wg.Go(func() {
		<-w.ready
		c.answerWait(w)
	})
	return nil
}

// answerWait says that all keys of w are there, unless it was cancelled.
func (c *serverConn) answerWait(w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.wait != w || c.mu.closed {
		return
	}
	if c.sendLocked([]byte{answerStop}) != nil {
		c.raw.Close() //nolint:errcheck // serve finds it closed, cancels w and ends
		return
	}
	c.mu.wait = nil
	c.mu.woken = w
}

// answerCancel ends the wait under way, if it was not answered before: then
// both answers cross, and the client reads both.
func (c *serverConn) answerCancel() error {
	c.cancelWait()
	c.passOn("") // it may have been answered since execute asked
	return c.send([]byte{answerCanceled})
}

// cancelWait ends the wait under way, if there is one.
func (c *serverConn) cancelWait() {
	c.mu.Lock()
	w := c.mu.wait
	c.mu.wait = nil
	c.mu.Unlock()
	if w != nil {
		c.s.t.drop(w)
	}
}

// passOn is called before each command. A push wakes one client only, in the
// hope that it pops. If it does something else, or leaves, the next is woken.
func (c *serverConn) passOn(popped string) {
	c.mu.Lock()
	w := c.mu.woken
	c.mu.woken = nil
	c.mu.Unlock()
	if w == nil || !w.pop || w.keys[0] == popped {
		return
	}
	c.s.t.offer(w.keys[0])
}
