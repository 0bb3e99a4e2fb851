package sim

import "time"

// event is something that happens at a time: a step message to its receiver,
// or do. Equal times keep their order.
type event struct {
	do    func()
	msg   *stepMessage // do is nil: to takes it
	to    *member
	link  *wire
	gen   int
	timer *member // whose clock ends it early when it jumps; nil: nobody's
}

// slot is an event's place in the queue; the events lie still.
type slot struct {
	at    int64
	order uint64
	index int32
}

func (a slot) before(b slot) bool { return a.at < b.at || a.at == b.at && a.order < b.order }

// queue is a heap with four children to a node: most of a run's time is spent
// here, and a flat heap of small slots is what is fast.
type queue struct {
	heap  []slot
	slab  []event
	free  []int32
	order uint64
}

func (q *queue) push(at int64, e event) {
	var i int32
	if n := len(q.free); n > 0 {
		i = q.free[n-1]
		q.free = q.free[:n-1]
		q.slab[i] = e
	} else {
		i = int32(len(q.slab))
		q.slab = append(q.slab, e)
	}
	q.order++
	q.heap = append(q.heap, slot{at, q.order, i})
	q.rise(len(q.heap) - 1)
}

func (q *queue) rise(at int) {
	s := q.heap[at]
	for at > 0 {
		parent := (at - 1) / 4
		if !s.before(q.heap[parent]) {
			break
		}
		q.heap[at] = q.heap[parent]
		at = parent
	}
	q.heap[at] = s
}

func (q *queue) sink(at int) {
	s, n := q.heap[at], len(q.heap)
	for {
		least, child := -1, 4*at+1
		for c := child; c < min(child+4, n); c++ {
			if least < 0 || q.heap[c].before(q.heap[least]) {
				least = c
			}
		}
		if least < 0 || !q.heap[least].before(s) {
			break
		}
		q.heap[at] = q.heap[least]
		at = least
	}
	q.heap[at] = s
}

// pop takes the first event.
func (q *queue) pop() (int64, event) {
	first := q.heap[0]
	last := len(q.heap) - 1
	q.heap[0] = q.heap[last]
	q.heap = q.heap[:last]
	if last > 0 {
		q.sink(0)
	}
	e := q.slab[first.index]
	q.slab[first.index] = event{}
	q.free = append(q.free, first.index)
	return first.at, e
}

// hurry moves a member's timers nearer by d, not before now: its clock jumped.
func (q *queue) hurry(m *member, now int64, d time.Duration) {
	for i := range q.heap {
		if q.slab[q.heap[i].index].timer == m {
			q.heap[i].at = max(now, q.heap[i].at-int64(d))
		}
	}
	for i := len(q.heap) / 4; i >= 0 && len(q.heap) > 0; i-- {
		q.sink(i)
	}
}
