package baby

import (
	"fmt"
	"runtime"
)

// listen takes results out of the ring until the child has ended, and all that
// it had published.
func (c *child) listen() {
	var rec record
	var r result
	for {
		over := c.over.Load() // before the look: what was published by then is seen
		took, err := c.answer(&rec, &r)
		switch {
		case err != nil:
			c.kill(err.Error()) // it is out of its mind; read sees its end
			return
		case took:
			continue
		case over:
			return
		}
		c.answers.rest(&c.over, c.busy())
	}
}

// busy tells whether the child has ops to answer.
func (c *child) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.mu.pending) > 0
}

// answer handles one record; false if there was none.
func (c *child) answer(rec *record, r *result) (bool, error) {
	ok, err := c.answers.take(rec)
	if err != nil {
		return false, err
	}
	if !ok {
		c.room()
		return false, nil
	}
	body := cursor{b: rec.body}
	if rec.typ != recordDone {
		return false, fmt.Errorf("record of type %d from the child", rec.typ)
	}
	if err := r.read(&body, c.worldSize()); err != nil {
		return false, err
	}
	if err := body.end(); err != nil {
		return false, err
	}
	err = c.done(r, nil)
	runtime.Gosched() // who waits for the result goes first
	return true, err
}

// room goes on with what waited for room in the ring of ops.
func (c *child) room() {
	c.mu.Lock()
	stalled := c.mu.stalled
	c.mu.stalled = false
	c.mu.Unlock()
	if stalled {
		c.issue()
	}
}

// worldSize is 0 before the child has a group.
func (c *child) worldSize() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cfg.WorldSize()
}
