package baby

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"
	"unsafe"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// A queue is the ops that the child has not been given, in order.
type queue struct {
	all  []*pending
	next int
}

func (q *queue) len() int         { return len(q.all) - q.next }
func (q *queue) first() *pending  { return q.all[q.next] }
func (q *queue) left() []*pending { return q.all[q.next:] }

func (q *queue) push(p *pending) {
	if q.next > 0 && len(q.all) == cap(q.all) {
		n := copy(q.all, q.left())
		clear(q.all[n:])
		q.all, q.next = q.all[:n], 0
	}
	q.all = append(q.all, p)
}

func (q *queue) pop() *pending {
	p := q.first()
	q.all[q.next] = nil
	q.next++
	return p
}

// refused is the error of an op of a group that is broken for that reason.
func refused(cause error) error { return errors.Join(pg.ErrAborted, cause) }

// limitOf is how long op may take from now.
func (c *child) limitOf(op *pg.Op) time.Duration {
	limit := c.cfg.OpTimeout()
	if !op.Deadline.IsZero() {
		limit = time.Until(op.Deadline)
	}
	for _, sub := range op.Batch {
		if !sub.Deadline.IsZero() {
			limit = max(limit, time.Until(sub.Deadline))
		}
	}
	return limit
}

// submit takes op into the queue, and issues what can be.
func (c *child) submit(op *pg.Op, marks [][]byte) *pg.Work {
	now := time.Now()
	deadline := now.Add(c.limitOf(op))
	if op.Kind == pg.KindBallot {
		op.OwnBallot(c.cfg.Rank, c.cfg.WorldSize())
	}
	work := pg.NewWork(op)
	work.SetHelper(c)
	p, ok := c.free.Get().(*pending)
	if !ok {
		p = new(pending)
	}
	c.mu.Lock()
	p.op, p.work, p.deadline, p.round, p.marks = op, work, deadline, c.mu.round, marks
	c.mu.underWay++
	c.mu.left++
	c.mu.queue.push(p)
	c.mu.watch.began(now, deadline)
	c.mu.Unlock()
	c.issue()
	return work
}

// issue gives queued ops to the child, in order, until one must wait for memory
// that an earlier op still has or for room in the ring, or nothing is left. In a
// broken group it fails them. Only one goroutine at a time does it, and never
// waits.
func (c *child) issue() {
	c.mu.Lock()
	if c.mu.issuing {
		c.mu.Unlock()
		return // that one sees what we have queued
	}
	for c.mu.queue.len() > 0 {
		err := c.mu.err
		if err == nil && (!c.roomLocked() || c.mustWaitLocked(c.mu.queue.first().op)) {
			break
		}
		p := c.mu.queue.pop()
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

// roomLocked tells whether the ring takes any op. If not, listen goes on once it
// does.
func (c *child) roomLocked() bool {
	ok, err := c.mu.ops.room(maxRecordBytes)
	if err != nil {
		c.killLocked(err.Error())
	}
	return ok
}

// give copies what must be copied and hands the op over.
func (c *child) give(p *pending) {
	m := &c.mapping
	m.begin(c, p)
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
	c.mu.last++
	c.mu.pending[c.mu.last] = p
	for _, s := range m.segments {
		c.shareLocked(s)
	}
	what.round, what.marks = p.round, p.marks
	m.scratch = appendOp(m.scratch[:0], c.mu.last, &what)
	if len(m.scratch) <= maxRecordBytes {
		c.mu.ops.put(recordOp, c.mu.told, m.scratch)
	} else {
		c.tellLocked(message(msgOp, m.scratch...), nil)
		c.mu.ops.put(recordOpSent, c.mu.told, nil)
	}
	c.mu.ops.peer.wake() // under the lock, which keeps the ring mapped
	c.mu.Unlock()
}

// shareLocked sends a segment's descriptor, once.
func (c *child) shareLocked(s *segment) {
	if c.mu.sent[s.id] {
		return
	}
	c.mu.sent[s.id] = true
	b := binary.LittleEndian.AppendUint64(newMessage(nil, msgSegment), s.id)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(s.mem.Bytes())))
	c.tellLocked(seal(b), s.mem.File())
}

// mustWaitLocked tells whether op reads or writes memory of which the child has
// a copy, which will be copied back: ops on one tensor follow one another.
func (c *child) mustWaitLocked(op *pg.Op) (wait bool) {
	for _, p := range c.mu.pending {
		for i := range p.staged {
			s := &p.staged[i]
			meets := func(t tensor.Tensor) bool { return overlap(t.Bytes(), s.host) }
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
