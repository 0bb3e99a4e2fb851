package tcp

// queue is first-in first-out, and reuses its memory.
type queue[T any] struct {
	items []T
	head  int
}

func (q *queue[T]) empty() bool { return q.head == len(q.items) }

// first is what pop would return. The queue is not empty.
func (q *queue[T]) first() *T { return &q.items[q.head] }

func (q *queue[T]) push(x T) {
	if q.head > 0 && len(q.items) == cap(q.items) {
		left := copy(q.items, q.items[q.head:])
		clear(q.items[left:])
		q.items, q.head = q.items[:left], 0
	}
	q.items = append(q.items, x)
}

func (q *queue[T]) pop() T {
	var none T
	x := q.items[q.head]
	q.items[q.head] = none
	q.head++
	if q.empty() {
		q.items, q.head = q.items[:0], 0
	}
	return x
}

// spares are values kept for reuse.
type spares[T any] []*T

// take is one of them, or a new one.
func (s *spares[T]) take() *T {
	last := len(*s) - 1
	if last < 0 {
		return new(T)
	}
	x := (*s)[last]
	*s = (*s)[:last]
	return x
}
