package store

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/skerry-ft/skerry/internal/backoff"
)

// call runs do with the file's lock and under a deadline.
func (s *File) call(ctx context.Context, write bool, do func() error) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	if err := ended(ctx); err != nil {
		return err
	}
	return s.locked(ctx, write, do)
}

// await runs do, again and again, until it reports true. It looks when this
// process has changed one of the keys, and every so often.
func (s *File) await(ctx context.Context, write bool, keys []string, do func() (bool, error)) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	pauses := backoff.Backoff{First: pollFirst, Most: pollMost}
	for {
		if err := ended(ctx); err != nil {
			return err
		}
		ok := false
		var w *waiter
		err := s.locked(ctx, write, func() (err error) {
			if ok, err = do(); ok || err != nil {
				return err
			}
			w, err = s.log.view.wait(keys, false)
			return err
		})
		if ok || err != nil {
			return err
		}
		s.pause(ctx, pauses.Next(), w)
	}
}

// pause waits for w, which may be nil, or for a while.
func (s *File) pause(ctx context.Context, d time.Duration, w *waiter) {
	var ready chan struct{}
	if w != nil {
		ready = w.ready
		defer s.log.view.drop(w)
	}
	select {
	case <-ready:
	case <-time.After(d):
	case <-ctx.Done():
	case <-s.stop:
	}
}

// Get waits for key and returns a copy of its value.
func (s *File) Get(ctx context.Context, key string) ([]byte, error) {
	values, err := s.collect(ctx, []string{key})
	if err != nil {
		return nil, annotate(err, "get", key)
	}
	return values[0], nil
}

// MultiGet waits for all keys and returns copies of their values.
func (s *File) MultiGet(ctx context.Context, keys []string) ([][]byte, error) {
	values, err := s.collect(ctx, keys)
	return values, annotate(err, "multi-get", keys...)
}

func (s *File) collect(ctx context.Context, keys []string) (values [][]byte, err error) {
	if err := checkKeys(0, keys...); err != nil {
		return nil, err
	}
	err = s.await(ctx, false, keys, func() (all bool, err error) {
		values, all, err = s.log.view.multiGet(keys)
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

// Wait blocks until all keys are there.
func (s *File) Wait(ctx context.Context, keys ...string) error {
	if err := checkKeys(0, keys...); err != nil {
		return annotate(err, "wait for", keys...)
	}
	err := s.await(ctx, false, keys, func() (bool, error) { return s.log.view.check(keys) })
	return annotate(err, "wait for", keys...)
}

// Check tells at once whether all keys are there.
func (s *File) Check(ctx context.Context, keys ...string) (there bool, err error) {
	if err := checkKeys(0, keys...); err != nil {
		return false, annotate(err, "check", keys...)
	}
	err = s.call(ctx, false, func() (err error) {
		there, err = s.log.view.check(keys)
		return err
	})
	return there, annotate(err, "check", keys...)
}

// NumKeys counts the keys of the whole store.
func (s *File) NumKeys(ctx context.Context) (n int64, err error) {
	err = s.call(ctx, false, func() (err error) {
		n, err = s.log.view.numKeys("")
		return err
	})
	return n, annotate(err, "count keys")
}

// Set keeps a copy of value under key.
func (s *File) Set(ctx context.Context, key string, value []byte) error {
	return annotate(s.write(ctx, recSet, key, value), "set", key)
}

// Append adds value to the end of what is under key.
func (s *File) Append(ctx context.Context, key string, value []byte) error {
	return annotate(s.write(ctx, recAppend, key, value), "append to", key)
}

// Push adds value to the end of the queue under key.
func (s *File) Push(ctx context.Context, key string, value []byte) error {
	return annotate(s.write(ctx, recPush, key, value), "push to", key)
}

func (s *File) write(ctx context.Context, kind recordKind, key string, value []byte) error {
	if err := checkKeys(0, key); err != nil {
		return err
	}
	if err := checkValues(value); err != nil {
		return err
	}
	return s.call(ctx, true, func() error {
		if old, ok := s.log.view.get(key); ok && kind == recAppend && len(old)+len(value) > MaxValueBytes {
			return fmt.Errorf("%w: value would have %d bytes, want at most %d",
				ErrTooLarge, len(old)+len(value), MaxValueBytes)
		}
		return s.log.commit(record{kind: kind, key: key, value: bytes.Clone(value)})
	})
}

// MultiSet sets all keys at one moment.
func (s *File) MultiSet(ctx context.Context, keys []string, values [][]byte) error {
	if err := checkMultiSet(0, keys, values); err != nil {
		return annotate(err, "multi-set", keys...)
	}
	records := make([]record, len(keys))
	for i, key := range keys {
		records[i] = record{kind: recSet, key: key, value: bytes.Clone(values[i])}
	}
	err := s.call(ctx, true, func() error { return s.log.commit(records...) })
	return annotate(err, "multi-set", keys...)
}

// Add adds delta to the number under key and returns the sum.
func (s *File) Add(ctx context.Context, key string, delta int64) (sum int64, err error) {
	if err := checkKeys(0, key); err != nil {
		return 0, annotate(err, "add to", key)
	}
	err = s.call(ctx, true, func() (err error) {
		if sum, err = s.log.view.sum(key, delta); err != nil {
			return err
		}
		return s.log.commit(record{kind: recCount, key: key, value: strconv.AppendInt(nil, sum, 10)})
	})
	if err != nil {
		return 0, annotate(err, "add to", key)
	}
	return sum, nil
}

// CompareSet sets key to desired if it holds expected; see [Writer].
func (s *File) CompareSet(ctx context.Context, key string, expected, desired []byte) ([]byte, error) {
	if err := checkKeys(0, key); err != nil {
		return nil, annotate(err, "compare-set", key)
	}
	if err := checkValues(expected, desired); err != nil {
		return nil, annotate(err, "compare-set", key)
	}
	var now []byte
	err := s.call(ctx, true, func() error {
		value, ok := s.log.view.get(key)
		answer, set := compare(value, ok, expected, desired)
		now = append([]byte{}, answer...)
		if !set {
			return nil
		}
		return s.log.commit(record{kind: recSet, key: key, value: bytes.Clone(desired)})
	})
	return now, annotate(err, "compare-set", key)
}

// Delete tells whether the key was there.
func (s *File) Delete(ctx context.Context, key string) (there bool, err error) {
	if err := checkKeys(0, key); err != nil {
		return false, annotate(err, "delete", key)
	}
	err = s.call(ctx, true, func() error {
		if _, there = s.log.view.get(key); !there {
			return nil
		}
		return s.log.commit(record{kind: recDelete, key: key})
	})
	return there, annotate(err, "delete", key)
}

// DeletePrefix deletes every key and queue under prefix.
func (s *File) DeletePrefix(ctx context.Context, prefix string) (n int64, err error) {
	prefix = joinPrefix(prefix)
	if err := checkKeys(0, prefix); err != nil {
		return 0, annotate(err, "delete prefix", prefix)
	}
	err = s.call(ctx, true, func() error {
		if n = s.log.view.countPrefix(prefix); n == 0 {
			return nil
		}
		return s.log.commit(record{kind: recDeletePrefix, key: prefix})
	})
	return n, annotate(err, "delete prefix", prefix)
}

// Pop takes the oldest value of the queue under key.
func (s *File) Pop(ctx context.Context, key string, block bool) ([]byte, error) {
	if err := checkKeys(0, key); err != nil {
		return nil, annotate(err, "pop from", key)
	}
	var value []byte
	take := func() (bool, error) {
		v, ok := s.log.view.peek(key)
		if !ok {
			return false, nil
		}
		value = append([]byte{}, v...)
		return true, s.log.commit(record{kind: recPop, key: key})
	}
	var err error
	if block {
		err = s.await(ctx, true, []string{key}, take)
	} else {
		err = s.call(ctx, true, func() error {
			ok, err := take()
			if err == nil && !ok {
				err = ErrEmpty
			}
			return err
		})
	}
	if err != nil {
		return nil, annotate(err, "pop from", key)
	}
	return value, nil
}

// Len is the length of the queue under key.
func (s *File) Len(ctx context.Context, key string) (n int64, err error) {
	if err := checkKeys(0, key); err != nil {
		return 0, annotate(err, "measure", key)
	}
	err = s.call(ctx, false, func() (err error) {
		n, err = s.log.view.length(key)
		return err
	})
	return n, annotate(err, "measure", key)
}
