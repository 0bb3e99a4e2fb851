package store

import (
	"bytes"
	"context"
)

// Hash is a store in this process's memory, as PyTorch's HashStore. It is safe
// for concurrent use.
type Hash struct {
	patience

	t    *table
	base string // before every key: a server's own view has PyTorch's slash
	own  bool   // Close closes the table
}

// NewHash returns an empty store.
func NewHash(opts ...Option) *Hash {
	return &Hash{t: newTable(defaultMaxBytes, opts...), own: true}
}

func (h *Hash) keys(keys []string) []string {
	if h.base == "" {
		return keys
	}
	out := make([]string, len(keys))
	for i, key := range keys {
		out[i] = h.base + key
	}
	return out
}

// begin checks what every call checks first.
func (h *Hash) begin(ctx context.Context, keys ...string) error {
	if err := ended(ctx); err != nil {
		return err
	}
	return checkKeys(len(h.base), keys...)
}

// await blocks until all keys are there. Then done is tried; if it is not
// content, for somebody was faster, the wait starts again.
func (h *Hash) await(ctx context.Context, keys []string, pop bool, done func() (bool, error)) error {
	ctx, cancel := h.bound(ctx)
	defer cancel()
	for {
		w, err := h.t.wait(keys, pop)
		if err != nil {
			return err
		}
		if w != nil {
			select {
			case <-w.ready:
			case <-ctx.Done():
				h.t.drop(w)
				return context.Cause(ctx)
			}
		}
		if ok, err := done(); ok || err != nil {
			return err
		}
		if err := ended(ctx); err != nil {
			return err
		}
	}
}

// Get waits for key and returns a copy of its value.
func (h *Hash) Get(ctx context.Context, key string) ([]byte, error) {
	values, err := h.collect(ctx, "get", []string{key})
	if err != nil {
		return nil, err
	}
	return values[0], nil
}

// MultiGet waits for all keys and returns copies of their values.
func (h *Hash) MultiGet(ctx context.Context, keys []string) ([][]byte, error) {
	return h.collect(ctx, "multi-get", keys)
}

func (h *Hash) collect(ctx context.Context, verb string, keys []string) ([][]byte, error) {
	if err := h.begin(ctx, keys...); err != nil {
		return nil, annotate(err, verb, keys...)
	}
	var values [][]byte
	full := h.keys(keys)
	err := h.await(ctx, full, false, func() (all bool, err error) {
		values, all, err = h.t.multiGet(full)
		return all, err
	})
	if err != nil {
		return nil, annotate(err, verb, keys...)
	}
	for i, value := range values {
		values[i] = append([]byte{}, value...)
	}
	return values, nil
}

// Wait blocks until all keys are there.
func (h *Hash) Wait(ctx context.Context, keys ...string) error {
	if err := h.begin(ctx, keys...); err != nil {
		return annotate(err, "wait for", keys...)
	}
	full := h.keys(keys)
	err := h.await(ctx, full, false, func() (bool, error) {
		_, err := h.t.check(nil)
		return true, err
	})
	return annotate(err, "wait for", keys...)
}

// Check tells at once whether all keys are there.
func (h *Hash) Check(ctx context.Context, keys ...string) (bool, error) {
	if err := h.begin(ctx, keys...); err != nil {
		return false, annotate(err, "check", keys...)
	}
	ok, err := h.t.check(h.keys(keys))
	return ok, annotate(err, "check", keys...)
}

// NumKeys counts the keys of the whole store.
func (h *Hash) NumKeys(ctx context.Context) (int64, error) {
	if err := h.begin(ctx); err != nil {
		return 0, annotate(err, "count keys")
	}
	n, err := h.t.numKeys("")
	return n, annotate(err, "count keys")
}

// Set keeps a copy of value under key.
func (h *Hash) Set(ctx context.Context, key string, value []byte) error {
	return annotate(h.write(ctx, key, value, h.t.set), "set", key)
}

// Append adds value to the end of what is under key.
func (h *Hash) Append(ctx context.Context, key string, value []byte) error {
	return annotate(h.write(ctx, key, value, h.t.append), "append to", key)
}

// Push adds value to the end of the queue under key.
func (h *Hash) Push(ctx context.Context, key string, value []byte) error {
	return annotate(h.write(ctx, key, value, h.t.push), "push to", key)
}

func (h *Hash) write(ctx context.Context, key string, value []byte, do func(string, []byte) error) error {
	if err := h.begin(ctx, key); err != nil {
		return err
	}
	if err := checkValues(value); err != nil {
		return err
	}
	return do(h.base+key, bytes.Clone(value))
}

// MultiSet sets all keys at one moment.
func (h *Hash) MultiSet(ctx context.Context, keys []string, values [][]byte) error {
	if err := ended(ctx); err != nil {
		return annotate(err, "multi-set", keys...)
	}
	if err := checkMultiSet(len(h.base), keys, values); err != nil {
		return annotate(err, "multi-set", keys...)
	}
	mine := make([][]byte, len(values))
	for i, value := range values {
		mine[i] = bytes.Clone(value)
	}
	return annotate(h.t.multiSet(h.keys(keys), mine), "multi-set", keys...)
}

// Add adds delta to the number under key and returns the sum.
func (h *Hash) Add(ctx context.Context, key string, delta int64) (int64, error) {
	if err := h.begin(ctx, key); err != nil {
		return 0, annotate(err, "add to", key)
	}
	sum, err := h.t.add(h.base+key, delta)
	return sum, annotate(err, "add to", key)
}

// CompareSet sets key to desired if it holds expected; see [Writer].
func (h *Hash) CompareSet(ctx context.Context, key string, expected, desired []byte) ([]byte, error) {
	if err := h.begin(ctx, key); err != nil {
		return nil, annotate(err, "compare-set", key)
	}
	if err := checkValues(expected, desired); err != nil {
		return nil, annotate(err, "compare-set", key)
	}
	now, _, err := h.t.compareSet(h.base+key, expected, bytes.Clone(desired))
	if err != nil {
		return nil, annotate(err, "compare-set", key)
	}
	return append([]byte{}, now...), nil
}

// Delete tells whether the key was there.
func (h *Hash) Delete(ctx context.Context, key string) (bool, error) {
	if err := h.begin(ctx, key); err != nil {
		return false, annotate(err, "delete", key)
	}
	ok, err := h.t.remove(h.base + key)
	return ok, annotate(err, "delete", key)
}

// DeletePrefix deletes every key and queue under prefix.
func (h *Hash) DeletePrefix(ctx context.Context, prefix string) (int64, error) {
	if err := h.begin(ctx, prefix); err != nil {
		return 0, annotate(err, "delete prefix", prefix)
	}
	n, err := h.t.removePrefix(h.base + joinPrefix(prefix))
	return n, annotate(err, "delete prefix", prefix)
}

// Pop takes the oldest value of the queue under key.
func (h *Hash) Pop(ctx context.Context, key string, block bool) ([]byte, error) {
	if err := h.begin(ctx, key); err != nil {
		return nil, annotate(err, "pop from", key)
	}
	var value []byte
	take := func() (bool, error) {
		v, before, err := h.t.pop(h.base + key)
		value = v
		return before > 0, err
	}
	if block {
		err := h.await(ctx, []string{h.base + key}, true, take)
		return value, annotate(err, "pop from", key)
	}
	ok, err := take()
	if err == nil && !ok {
		err = ErrEmpty
	}
	return value, annotate(err, "pop from", key)
}

// Len is the length of the queue under key.
func (h *Hash) Len(ctx context.Context, key string) (int64, error) {
	if err := h.begin(ctx, key); err != nil {
		return 0, annotate(err, "measure", key)
	}
	n, err := h.t.length(h.base + key)
	return n, annotate(err, "measure", key)
}

// Close ends all calls under way with ErrClosed.
func (h *Hash) Close() error {
	if h.own {
		h.t.close()
	}
	return nil
}
