package store

import "context"

// raw is what each kind of store does by itself. Keys and values are within their
// bounds, and ctx has not ended; verbs sees to that, and says in errors which call they
// come from.
type raw interface {
	rawGet(ctx context.Context, key string) ([]byte, error)
	rawMultiGet(ctx context.Context, keys []string) ([][]byte, error)
	rawWait(ctx context.Context, keys []string) error
	rawCheck(ctx context.Context, keys []string) (bool, error)
	rawNumKeys(ctx context.Context) (int64, error)

	rawWrite(ctx context.Context, op opcode, key string, value []byte) error // opSet, opAppend, opPush
	rawMultiSet(ctx context.Context, keys []string, values [][]byte) error
	rawAdd(ctx context.Context, key string, delta int64) (int64, error)
	rawCompareSet(ctx context.Context, key string, expected, desired []byte) ([]byte, error)
	rawDelete(ctx context.Context, key string) (bool, error)
	rawDeletePrefix(ctx context.Context, prefix string) (int64, error) // with its slash, or empty

	rawPop(ctx context.Context, key string, block bool) ([]byte, error)
	rawLen(ctx context.Context, key string) (int64, error)
}

// verbs are the calls of a store, for users.
type verbs struct {
	raw  raw
	base int // bytes that the store puts before every key
}

// named does a call about keys, which it checks, and names it in the error.
func named[T any](ctx context.Context, v *verbs, verb string, keys []string, do func() (T, error)) (result T, err error) {
	if err = ended(ctx); err == nil {
		err = checkKeys(v.base, keys...)
	}
	if err == nil {
		result, err = do()
	}
	return result, annotate(err, verb, keys...)
}

// nothing is the result of a call that has none.
type nothing struct{}

// Get waits for key and returns a copy of its value.
func (v *verbs) Get(ctx context.Context, key string) ([]byte, error) {
	return named(ctx, v, "get", []string{key}, func() ([]byte, error) { return v.raw.rawGet(ctx, key) })
}

// MultiGet waits for all keys and returns copies of their values.
func (v *verbs) MultiGet(ctx context.Context, keys []string) ([][]byte, error) {
	return named(ctx, v, "multi-get", keys, func() ([][]byte, error) { return v.raw.rawMultiGet(ctx, keys) })
}

// Wait blocks until all keys are there.
func (v *verbs) Wait(ctx context.Context, keys ...string) error {
	_, err := named(ctx, v, "wait for", keys, func() (nothing, error) { return nothing{}, v.raw.rawWait(ctx, keys) })
	return err
}

// Check tells at once whether all keys are there.
func (v *verbs) Check(ctx context.Context, keys ...string) (bool, error) {
	return named(ctx, v, "check", keys, func() (bool, error) { return v.raw.rawCheck(ctx, keys) })
}

// NumKeys counts the keys of the whole store, PyTorch's count of workers included, or
// of what a client's token allows.
func (v *verbs) NumKeys(ctx context.Context) (int64, error) {
	return named(ctx, v, "count keys", nil, func() (int64, error) { return v.raw.rawNumKeys(ctx) })
}

// Set keeps a copy of value under key.
func (v *verbs) Set(ctx context.Context, key string, value []byte) error {
	return v.write(ctx, "set", opSet, key, value)
}

// Append adds value to the end of what is under key.
func (v *verbs) Append(ctx context.Context, key string, value []byte) error {
	return v.write(ctx, "append to", opAppend, key, value)
}

// Push adds value to the end of the queue under key.
func (v *verbs) Push(ctx context.Context, key string, value []byte) error {
	return v.write(ctx, "push to", opPush, key, value)
}

func (v *verbs) write(ctx context.Context, verb string, op opcode, key string, value []byte) error {
	_, err := named(ctx, v, verb, []string{key}, func() (none nothing, err error) {
		if err := checkValues(value); err != nil {
			return none, err
		}
		return none, v.raw.rawWrite(ctx, op, key, value)
	})
	return err
}

// MultiSet sets all keys, at one moment unless the store is PyTorch's own.
func (v *verbs) MultiSet(ctx context.Context, keys []string, values [][]byte) error {
	_, err := named(ctx, v, "multi-set", keys, func() (none nothing, err error) {
		if err := checkMultiSet(keys, values); err != nil {
			return none, err
		}
		return none, v.raw.rawMultiSet(ctx, keys, values)
	})
	return err
}

// Add adds delta to the number under key and returns the sum.
func (v *verbs) Add(ctx context.Context, key string, delta int64) (int64, error) {
	return named(ctx, v, "add to", []string{key}, func() (int64, error) { return v.raw.rawAdd(ctx, key, delta) })
}

// CompareSet sets key to desired if it holds expected; see [Writer].
func (v *verbs) CompareSet(ctx context.Context, key string, expected, desired []byte) ([]byte, error) {
	return named(ctx, v, "compare-set", []string{key}, func() ([]byte, error) {
		if err := checkValues(expected, desired); err != nil {
			return nil, err
		}
		return v.raw.rawCompareSet(ctx, key, expected, desired)
	})
}

// Delete tells whether the key was there.
func (v *verbs) Delete(ctx context.Context, key string) (bool, error) {
	return named(ctx, v, "delete", []string{key}, func() (bool, error) { return v.raw.rawDelete(ctx, key) })
}

// DeletePrefix deletes every key and queue under prefix. It is a command of ours:
// PyTorch's server ends the connection, which is ErrUnsupported.
func (v *verbs) DeletePrefix(ctx context.Context, prefix string) (int64, error) {
	prefix = joinPrefix(prefix)
	return named(ctx, v, "delete prefix", []string{prefix}, func() (int64, error) { return v.raw.rawDeletePrefix(ctx, prefix) })
}

// Pop takes the oldest value of the queue under key; see [Queue].
func (v *verbs) Pop(ctx context.Context, key string, block bool) ([]byte, error) {
	return named(ctx, v, "pop from", []string{key}, func() ([]byte, error) { return v.raw.rawPop(ctx, key, block) })
}

// Len is the length of the queue under key.
func (v *verbs) Len(ctx context.Context, key string) (int64, error) {
	return named(ctx, v, "measure", []string{key}, func() (int64, error) { return v.raw.rawLen(ctx, key) })
}
