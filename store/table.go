package store

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// entryOverhead is what a key or a queue element counts for beyond its bytes.
const entryOverhead = 64

// defaultMaxBytes bounds what a table holds in all.
const defaultMaxBytes = 4 << 30

// table is the map behind every store: values, queues, and who waits for what.
// It is safe for concurrent use and never blocks. Values that go in belong to
// the table; values that come out are shared and must not be written to.
type table struct {
	maxBytes  int64
	strictAdd bool

	mu struct {
		sync.Mutex
		values   map[string][]byte
		counters map[string]struct{} // the values that Add made, if it is strict
		queues   map[string][][]byte
		waiters  map[string][]*waiter // oldest first; each waiter stands under one key
		bytes    int64
		closed   bool
	}
}

// waiter waits until all its keys are there. It stands in the table under one
// key that is missing, and moves on to the next missing one when that comes:
// so a call with many keys costs one entry.
type waiter struct {
	keys []string
	at   int // keys[at] is the one it stands under
	// pop: it waits for an element to take. A push wakes one such waiter, and
	// everybody else; PyTorch's clients rely on that, for they give up when
	// the queue is empty again by the time they pop.
	pop   bool
	ready chan struct{} // closed under the table's lock, once
	fired bool
	cost  int64 // charged while it stands in the table
}

func newTable(maxBytes int64, opts ...Option) *table {
	t := &table{maxBytes: maxBytes}
	for _, opt := range opts {
		opt(t)
	}
	t.mu.values = make(map[string][]byte)
	t.mu.counters = make(map[string]struct{})
	t.mu.queues = make(map[string][][]byte)
	t.mu.waiters = make(map[string][]*waiter)
	return t
}

// close makes every wait fire and every later call fail.
func (t *table) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.closed {
		return
	}
	t.mu.closed = true
	for _, ws := range t.mu.waiters {
		for _, w := range ws {
			t.fireLocked(w)
		}
	}
	clear(t.mu.waiters)
	clear(t.mu.values)
	clear(t.mu.counters)
	clear(t.mu.queues)
}

// wait registers interest in keys. A nil waiter means that all are there.
// Whoever does not wait to the end calls drop.
func (t *table) wait(keys []string, pop bool) (*waiter, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.closed {
		return nil, ErrClosed
	}
	w := &waiter{keys: keys, pop: pop}
	if !t.missingLocked(w) {
		return nil, nil
	}
	for _, key := range keys {
		w.cost += cost(key, nil)
	}
	if err := t.chargeLocked(w.cost); err != nil {
		return nil, err
	}
	w.ready = make(chan struct{})
	t.standLocked(w)
	return w, nil
}

// drop takes w out of the table, and closes its channel. If it had fired
// already, the element that it was woken for is offered to the next.
func (t *table) drop(w *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.fired {
		if w.pop && !t.mu.closed {
			t.arrivedLocked(w.keys[w.at], true)
		}
		return
	}
	t.fireLocked(w)
	key := w.keys[w.at]
	ws := t.mu.waiters[key]
	if i := slices.Index(ws, w); i >= 0 {
		ws = slices.Delete(ws, i, i+1)
	}
	t.setWaitersLocked(key, ws)
}

func (t *table) fireLocked(w *waiter) {
	w.fired = true
	t.mu.bytes -= w.cost
	close(w.ready)
}

// offer wakes the next waiter of a queue that has something.
func (t *table) offer(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.mu.closed && len(t.mu.queues[key]) > 0 {
		t.arrivedLocked(key, true)
	}
}

func (t *table) standLocked(w *waiter) {
	key := w.keys[w.at]
	t.mu.waiters[key] = append(t.mu.waiters[key], w)
}

func (t *table) setWaitersLocked(key string, ws []*waiter) {
	if len(ws) == 0 {
		delete(t.mu.waiters, key)
		return
	}
	t.mu.waiters[key] = ws
}

// missingLocked moves w to its next missing key, and says whether there is one.
func (t *table) missingLocked(w *waiter) bool {
	for n := range w.keys {
		i := (w.at + n) % len(w.keys)
		if !t.thereLocked(w.keys[i]) {
			w.at = i
			return true
		}
	}
	return false
}

func (t *table) thereLocked(key string) bool {
	if _, ok := t.mu.values[key]; ok {
		return true
	}
	return len(t.mu.queues[key]) > 0
}

// arrivedLocked wakes who waits for key: all, or after a push only one of
// those who want to pop.
func (t *table) arrivedLocked(key string, pushed bool) {
	ws := t.mu.waiters[key]
	if len(ws) == 0 || !t.thereLocked(key) {
		return
	}
	keep := ws[:0]
	taken := false
	for _, w := range ws {
		switch {
		case pushed && w.pop && taken:
			keep = append(keep, w)
		case t.missingLocked(w):
			t.standLocked(w) // under another key, for this one is there
		default:
			taken = taken || w.pop
			t.fireLocked(w)
		}
	}
	clear(ws[len(keep):])
	t.setWaitersLocked(key, keep)
}

// chargeLocked accounts for a change of size, or refuses it.
func (t *table) chargeLocked(delta int64) error {
	if t.mu.closed {
		return ErrClosed
	}
	if delta > 0 && t.mu.bytes+delta > t.maxBytes {
		return fmt.Errorf("%w: the store holds %d bytes, %d more pass its bound of %d",
			ErrTooLarge, t.mu.bytes, delta, t.maxBytes)
	}
	t.mu.bytes += delta
	return nil
}

func cost(key string, value []byte) int64 {
	return int64(len(key)) + int64(len(value)) + entryOverhead
}

// putLocked sets a value and wakes its waiters.
func (t *table) putLocked(key string, value []byte) error {
	delta := cost(key, value)
	if old, ok := t.mu.values[key]; ok {
		delta -= cost(key, old)
	}
	if err := t.chargeLocked(delta); err != nil {
		return err
	}
	t.mu.values[key] = value
	delete(t.mu.counters, key)
	t.arrivedLocked(key, false)
	return nil
}

// write carries out opSet, opAppend or opPush.
func (t *table) write(op opcode, key string, value []byte) error {
	switch op {
	case opAppend:
		return t.append(key, value)
	case opPush:
		return t.push(key, value)
	}
	return t.set(key, value)
}

func (t *table) set(key string, value []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.putLocked(key, value)
}

// multiSet sets all keys, or none.
func (t *table) multiSet(keys []string, values [][]byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var delta int64
	for i, key := range keys {
		delta += cost(key, values[i])
	}
	// Too much by what it replaces: a bound that is a little early.
	if err := t.chargeLocked(delta); err != nil {
		return err
	}
	t.mu.bytes -= delta
	for i, key := range keys {
		if err := t.putLocked(key, values[i]); err != nil {
			return err
		}
	}
	return nil
}

// append adds to the value in place. Readers that hold the shorter slice never
// look beyond its length, so growing into spare capacity is safe.
func (t *table) append(key string, value []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	old, ok := t.mu.values[key]
	if !ok {
		return t.putLocked(key, value)
	}
	if n := len(old) + len(value); n > MaxValueBytes {
		return fmt.Errorf("%w: value would have %d bytes, want at most %d", ErrTooLarge, n, MaxValueBytes)
	}
	if err := t.chargeLocked(int64(len(value))); err != nil {
		return err
	}
	t.mu.values[key] = append(old, value...)
	delete(t.mu.counters, key)
	t.arrivedLocked(key, false)
	return nil
}

func (t *table) add(key string, delta int64) (int64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum, err := t.sumLocked(key, delta)
	if err != nil {
		return 0, err
	}
	return sum, t.countLocked(key, strconv.AppendInt(nil, sum, 10))
}

// sum is what add would answer; it changes nothing.
func (t *table) sum(key string, delta int64) (int64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sumLocked(key, delta)
}

func (t *table) sumLocked(key string, delta int64) (int64, error) {
	value, ok := t.mu.values[key]
	if !ok {
		return delta, nil
	}
	if err := t.checkAddLocked(key); err != nil {
		return 0, err
	}
	return addTo(value, delta)
}

// addTo adds to a number as Add keeps it.
func addTo(value []byte, delta int64) (int64, error) {
	n, err := parseNumber(value)
	if err != nil {
		return 0, err
	}
	if (delta > 0 && n > math.MaxInt64-delta) || (delta < 0 && n < math.MinInt64-delta) {
		return 0, fmt.Errorf("%w: %d + %d leaves the range of int64", ErrNotNumber, n, delta)
	}
	return n + delta, nil
}

// parseNumber reads what Add keeps.
func parseNumber(value []byte) (int64, error) {
	const maxDigits = 20
	if len(value) <= maxDigits {
		if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
			return n, nil
		}
	}
	return 0, fmt.Errorf("%w: the key holds %q", ErrNotNumber, value[:min(len(value), maxDigits)])
}

// compareSet answers as the protocol says.
func (t *table) compareSet(key string, expected, desired []byte) (now []byte, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.closed {
		return nil, ErrClosed
	}
	value, ok := t.mu.values[key]
	now, set := compare(value, ok, expected, desired)
	if set {
		err = t.putLocked(key, desired)
	}
	return now, err
}

// compare is the table of compare-set: what the key holds afterwards, and
// whether it has to be set. For an absent key and an expected value the answer
// is the expected value, which is odd, and PyTorch's.
func compare(value []byte, ok bool, expected, desired []byte) (now []byte, set bool) {
	switch {
	case !ok && len(expected) > 0:
		return expected, false
	case ok && !bytes.Equal(value, expected):
		return value, false
	}
	return desired, true
}

// get returns the value, shared; nothing if the key is absent.
func (t *table) get(key string) (value []byte, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	value, ok = t.mu.values[key]
	return value, ok
}

// multiGet returns the values as they stand at one moment, and whether all
// keys are there.
func (t *table) multiGet(keys []string) (values [][]byte, all bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.closed {
		return nil, false, ErrClosed
	}
	values = make([][]byte, len(keys))
	all = true
	for i, key := range keys {
		values[i] = t.mu.values[key]
		all = all && t.thereLocked(key)
	}
	return values, all, nil
}

// whileOpen returns what do does, with the lock held, if the table is not closed.
func whileOpen[T any](t *table, do func() T) (result T, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.closed {
		return result, ErrClosed
	}
	return do(), nil
}

func (t *table) check(keys []string) (bool, error) {
	return whileOpen(t, func() bool {
		return !slices.ContainsFunc(keys, func(key string) bool { return !t.thereLocked(key) })
	})
}

// numKeys counts the keys that begin with prefix.
func (t *table) numKeys(prefix string) (int64, error) {
	return whileOpen(t, func() int64 { return countKeys(t.mu.values, prefix) })
}

// countKeys counts the keys of m that begin with prefix.
func countKeys[V any](m map[string]V, prefix string) (n int64) {
	if prefix == "" {
		return int64(len(m))
	}
	for key := range m {
		if strings.HasPrefix(key, prefix) {
			n++
		}
	}
	return n
}

func (t *table) remove(key string) (bool, error) {
	return whileOpen(t, func() bool { return t.removeLocked(key) })
}

func (t *table) removeLocked(key string) bool {
	value, ok := t.mu.values[key]
	if ok {
		t.mu.bytes -= cost(key, value)
		delete(t.mu.values, key)
		delete(t.mu.counters, key)
	}
	return ok
}

// removePrefix deletes all keys and queues whose name begins with prefix.
func (t *table) removePrefix(prefix string) (int64, error) {
	return whileOpen(t, func() int64 { return t.removePrefixLocked(prefix) })
}

func (t *table) removePrefixLocked(prefix string) (n int64) {
	for key := range t.mu.values {
		if strings.HasPrefix(key, prefix) {
			t.removeLocked(key)
			n++
		}
	}
	for key, queue := range t.mu.queues {
		if strings.HasPrefix(key, prefix) {
			for _, value := range queue {
				t.mu.bytes -= cost(key, value)
			}
			delete(t.mu.queues, key)
			n++
		}
	}
	return n
}

// countPrefix is how many removePrefix would delete.
func (t *table) countPrefix(prefix string) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return countKeys(t.mu.values, prefix) + countKeys(t.mu.queues, prefix)
}

func (t *table) push(key string, value []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.chargeLocked(cost(key, value)); err != nil {
		return err
	}
	t.mu.queues[key] = append(t.mu.queues[key], value)
	t.arrivedLocked(key, true)
	return nil
}

// pop takes the oldest element; before is the length before it did.
func (t *table) pop(key string) (value []byte, before int64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.closed {
		return nil, 0, ErrClosed
	}
	queue := t.mu.queues[key]
	if len(queue) == 0 {
		return nil, 0, nil
	}
	value, queue[0] = queue[0], nil
	t.mu.bytes -= cost(key, value)
	if len(queue) == 1 {
		delete(t.mu.queues, key)
	} else {
		t.mu.queues[key] = queue[1:]
	}
	return value, int64(len(queue)), nil
}

// peek is the element that pop would take.
func (t *table) peek(key string) (value []byte, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if queue := t.mu.queues[key]; len(queue) > 0 {
		return queue[0], true
	}
	return nil, false
}

func (t *table) length(key string) (int64, error) {
	return whileOpen(t, func() int64 { return int64(len(t.mu.queues[key])) })
}
