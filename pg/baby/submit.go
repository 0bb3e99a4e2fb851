package baby

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"
	"unsafe"

	"github.com/skerry-ft/skerry/pg"
)

// refused is the error of an op of a group that is broken for that reason.
func refused(cause error) error { return errors.Join(pg.ErrAborted, cause) }

// submit takes op into the queue, and issues what can be.
func (c *child) submit(op *pg.Op) *pg.Work {
	now := time.Now()
	p := &pending{op: op, work: pg.NewWork(op), deadline: op.Deadline}
	if p.deadline.IsZero() {
		limit := c.cfg.Timeout
		if limit <= 0 {
			limit = pg.DefaultTimeout
		}
		p.deadline = now.Add(limit)
	}
	for _, sub := range op.Batch {
		if sub.Deadline.After(p.deadline) {
			p.deadline = sub.Deadline
		}
	}
	work := p.work
	c.mu.Lock()
	c.mu.underWay++
	c.mu.left++
	c.mu.queue = append(c.mu.queue, p)
	c.mu.watch.began(now, p.deadline)
	c.mu.Unlock()
	c.issue()
	return work
}

// issue gives queued ops to the child, in order, until one must wait for memory
// that an earlier op still has, or nothing is left. In a broken group it fails
// them. Only one goroutine at a time does it, and never waits.
func (c *child) issue() {
	c.mu.Lock()
	if c.mu.issuing {
		c.mu.Unlock()
		return // that one sees what we have queued
	}
	for len(c.mu.queue) > 0 {
		p, err := c.mu.queue[0], c.mu.err
		if err == nil && c.mustWaitLocked(p.op) {
			break
		}
		c.mu.queue[0] = nil
		c.mu.queue = c.mu.queue[1:]
		c.mu.issuing = true
		c.mu.Unlock()
		if err != nil {
			c.complete(p, 0, refused(err))
		} else {
			c.give(p)
		}
		c.mu.Lock()
		c.mu.issuing = false
	}
	c.mu.Unlock()
}

// give copies what must be copied and sends the op.
func (c *child) give(p *pending) {
	m := mapping{child: c, pending: p}
	what, err := m.all(p.op, max(time.Until(p.deadline), 1))
	if err != nil {
		c.unstage(p, false, true)
		if !errors.Is(err, pg.ErrUnsupported) {
			c.abort(err) // the peers wait for this op
		}
		c.complete(p, 0, err)
		return
	}
	c.mu.Lock()
	if err := c.mu.err; err != nil {
		c.mu.Unlock()
		c.unstage(p, false, true)
		c.complete(p, 0, refused(err))
		return
	}
	defer c.mu.Unlock()
	c.mu.last++
	c.mu.pending[c.mu.last] = p
	for _, s := range m.segments {
		c.shareLocked(s)
	}
	c.mu.scratch = appendOp(c.mu.scratch, c.mu.last, &what)
	c.pipe.send(c.mu.scratch, nil)
}

// shareLocked sends a segment's descriptor, once.
func (c *child) shareLocked(s *segment) {
	if c.mu.sent[s.id] {
		return
	}
	c.mu.sent[s.id] = true
	b := binary.LittleEndian.AppendUint64(newMessage(nil, msgSegment), s.id)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(s.mem.Bytes())))
	c.pipe.send(seal(b), s.mem.File())
}

// mustWaitLocked tells whether op reads or writes memory of which the child has
// a copy, which will be copied back: ops on one tensor follow one another.
func (c *child) mustWaitLocked(op *pg.Op) (wait bool) {
	for _, p := range c.mu.pending {
		for i := range p.staged {
			s := &p.staged[i]
			meets := func(t pg.Tensor) bool { return overlap(t.Bytes(), s.host) }
			op.Each(func(sub *pg.Op) {
				wait = wait || slices.ContainsFunc(sub.Out, meets) || s.out && slices.ContainsFunc(sub.In, meets)
			})
			if wait {
				return true
			}
		}
	}
	return false
}

func overlap(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	x, y := uintptr(unsafe.Pointer(unsafe.SliceData(a))), uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return x < y+uintptr(len(b)) && y < x+uintptr(len(a))
}
