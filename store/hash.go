package store

import (
	"bytes"
	"context"
)

// Hash is a store in this process's memory, as PyTorch's HashStore. It is safe
// for concurrent use.
type Hash struct {
	verbs
	patience

	t    *table
	base string // before every key: a server's own view has PyTorch's slash
	own  bool   // Close closes the table
}

// NewHash returns an empty store.
func NewHash(opts ...Option) *Hash {
	return newHash(newTable(defaultMaxBytes, opts...), "", true)
}

func newHash(t *table, base string, own bool) *Hash {
	h := &Hash{t: t, base: base, own: own}
	h.verbs = verbs{raw: h, base: len(base)}
	return h
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

func (h *Hash) rawGet(ctx context.Context, key string) ([]byte, error) {
	values, err := h.rawMultiGet(ctx, []string{key})
	if err != nil {
		return nil, err
	}
	return values[0], nil
}

func (h *Hash) rawMultiGet(ctx context.Context, keys []string) (values [][]byte, err error) {
	full := prefixAll(h.base, keys)
	err = h.await(ctx, full, false, func() (all bool, err error) {
		values, all, err = h.t.multiGet(full)
		return all, err
	})
	if err != nil {
		return nil, err
	}
	for i, value := range values {
		values[i] = append([]byte{}, value...)
	}
	return values, nil
}

func (h *Hash) rawWait(ctx context.Context, keys []string) error {
	return h.await(ctx, prefixAll(h.base, keys), false, func() (bool, error) {
		_, err := h.t.check(nil)
		return true, err
	})
}

func (h *Hash) rawCheck(_ context.Context, keys []string) (bool, error) {
	return h.t.check(prefixAll(h.base, keys))
}

func (h *Hash) rawNumKeys(context.Context) (int64, error) { return h.t.numKeys("") }

func (h *Hash) rawWrite(_ context.Context, op opcode, key string, value []byte) error {
	return h.t.write(op, h.base+key, bytes.Clone(value))
}

func (h *Hash) rawMultiSet(_ context.Context, keys []string, values [][]byte) error {
	mine := make([][]byte, len(values))
	for i, value := range values {
		mine[i] = bytes.Clone(value)
	}
	return h.t.multiSet(prefixAll(h.base, keys), mine)
}

func (h *Hash) rawAdd(_ context.Context, key string, delta int64) (int64, error) {
	return h.t.add(h.base+key, delta)
}

func (h *Hash) rawCompareSet(_ context.Context, key string, expected, desired []byte) ([]byte, error) {
	now, err := h.t.compareSet(h.base+key, expected, bytes.Clone(desired))
	if err != nil {
		return nil, err
	}
	return append([]byte{}, now...), nil
}

func (h *Hash) rawDelete(_ context.Context, key string) (bool, error) {
	return h.t.remove(h.base + key)
}

func (h *Hash) rawDeletePrefix(_ context.Context, prefix string) (int64, error) {
	return h.t.removePrefix(h.base + prefix)
}

func (h *Hash) rawPop(ctx context.Context, key string, block bool) (value []byte, err error) {
	take := func() (bool, error) {
		v, before, err := h.t.pop(h.base + key)
		value = v
		return before > 0, err
	}
	if block {
		err = h.await(ctx, []string{h.base + key}, true, take)
		return value, err
	}
	ok, err := take()
	if err == nil && !ok {
		err = ErrEmpty
	}
	return value, err
}

func (h *Hash) rawLen(_ context.Context, key string) (int64, error) { return h.t.length(h.base + key) }

// Close ends all calls under way with ErrClosed.
func (h *Hash) Close() error {
	if h.own {
		h.t.close()
	}
	return nil
}
