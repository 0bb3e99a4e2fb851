package capi

import (
	"errors"
	"fmt"
	"sync"
)

// errNoHandle is of a call with a handle of nothing.
var errNoHandle = errors.New("skerry: no such handle")

// table is what handles stand for. Safe for concurrent use.
type table struct {
	mu struct {
		sync.Mutex

		last int64
		all  map[int64]any
	}
}

func newTable() *table {
	t := &table{}
	t.mu.all = make(map[int64]any)
	return t
}

func (t *table) add(x any) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.last++
	t.mu.all[t.mu.last] = x
	return t.mu.last
}

// remove forgets a handle and gives what it stood for; nil: nothing.
func (t *table) remove(h int64) any {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.mu.all[h]
	delete(t.mu.all, h)
	return x
}

// get is what h stands for, if that is a T.
func get[T any](t *table, h int64) (T, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x, ok := t.mu.all[h].(T)
	if !ok {
		return x, fmt.Errorf("%w: %d", errNoHandle, h)
	}
	return x, nil
}
