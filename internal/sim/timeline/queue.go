// Package timeline orders what happens in a simulated world by its time. Equal times keep the
// order in which they were pushed, so that one seed gives one run.
package timeline

// slot is an event's place in the queue; the events lie still.
type slot struct {
	at    int64
	order uint64
	index int32
}

func (a slot) before(b slot) bool { return a.at < b.at || a.at == b.at && a.order < b.order }

// Queue is a heap with four children to a node: most of a run's time is spent
// here, and a flat heap of small slots is what is fast. The zero value is empty.
type Queue[E any] struct {
	heap  []slot
	slab  []E
	free  []int32
	order uint64
}

// Push adds an event at a time, behind those of the same time.
func (q *Queue[E]) Push(at int64, e E) {
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

func (q *Queue[E]) rise(at int) {
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

func (q *Queue[E]) sink(at int) {
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

// Pop takes the first event, and its time; there is one.
func (q *Queue[E]) Pop() (int64, E) {
	first := q.heap[0]
	last := len(q.heap) - 1
	q.heap[0] = q.heap[last]
	q.heap = q.heap[:last]
	if last > 0 {
		q.sink(0)
	}
	e := q.slab[first.index]
	clear(q.slab[first.index : first.index+1])
	q.free = append(q.free, first.index)
	return first.at, e
}

// Next is the time of the first event; false: there is none.
func (q *Queue[E]) Next() (int64, bool) {
	if len(q.heap) == 0 {
		return 0, false
	}
	return q.heap[0].at, true
}

// Pushed is how many events there were so far.
func (q *Queue[E]) Pushed() uint64 { return q.order }

// Hurry moves the events that match nearer by d, not before now.
func (q *Queue[E]) Hurry(match func(E) bool, now, d int64) {
	for i := range q.heap {
		if match(q.slab[q.heap[i].index]) {
			q.heap[i].at = max(now, q.heap[i].at-d)
		}
	}
	for i := len(q.heap) / 4; i >= 0 && len(q.heap) > 0; i-- {
		q.sink(i)
	}
}
