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

func (s *File) rawGet(ctx context.Context, key string) ([]byte, error) {
	values, err := s.rawMultiGet(ctx, []string{key})
	if err != nil {
		return nil, err
	}
	return values[0], nil
}

func (s *File) rawMultiGet(ctx context.Context, keys []string) (values [][]byte, err error) {
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

func (s *File) rawWait(ctx context.Context, keys []string) error {
	return s.await(ctx, false, keys, func() (bool, error) { return s.log.view.check(keys) })
}

func (s *File) rawCheck(ctx context.Context, keys []string) (there bool, err error) {
	err = s.call(ctx, false, func() (err error) {
		there, err = s.log.view.check(keys)
		return err
	})
	return there, err
}

func (s *File) rawNumKeys(ctx context.Context) (n int64, err error) {
	err = s.call(ctx, false, func() (err error) {
		n, err = s.log.view.numKeys("")
		return err
	})
	return n, err
}

func (s *File) rawWrite(ctx context.Context, op opcode, key string, value []byte) error {
	kind := map[opcode]recordKind{opSet: recSet, opAppend: recAppend, opPush: recPush}[op]
	return s.call(ctx, true, func() error {
		if old, ok := s.log.view.get(key); ok && kind == recAppend && len(old)+len(value) > MaxValueBytes {
			return fmt.Errorf("%w: value would have %d bytes, want at most %d",
				ErrTooLarge, len(old)+len(value), MaxValueBytes)
		}
		return s.log.commit(record{kind: kind, key: key, value: bytes.Clone(value)})
	})
}

func (s *File) rawMultiSet(ctx context.Context, keys []string, values [][]byte) error {
	records := make([]record, len(keys))
	for i, key := range keys {
		records[i] = record{kind: recSet, key: key, value: bytes.Clone(values[i])}
	}
	return s.call(ctx, true, func() error { return s.log.commit(records...) })
}

func (s *File) rawAdd(ctx context.Context, key string, delta int64) (sum int64, err error) {
	err = s.call(ctx, true, func() (err error) {
		if sum, err = s.log.view.sum(key, delta); err != nil {
			return err
		}
		return s.log.commit(record{kind: recCount, key: key, value: strconv.AppendInt(nil, sum, 10)})
	})
	if err != nil {
		return 0, err
	}
	return sum, nil
}

func (s *File) rawCompareSet(ctx context.Context, key string, expected, desired []byte) (now []byte, err error) {
	err = s.call(ctx, true, func() error {
		value, ok := s.log.view.get(key)
		answer, set := compare(value, ok, expected, desired)
		now = append([]byte{}, answer...)
		if !set {
			return nil
		}
		return s.log.commit(record{kind: recSet, key: key, value: bytes.Clone(desired)})
	})
	return now, err
}

func (s *File) rawDelete(ctx context.Context, key string) (there bool, err error) {
	err = s.call(ctx, true, func() error {
		if _, there = s.log.view.get(key); !there {
			return nil
		}
		return s.log.commit(record{kind: recDelete, key: key})
	})
	return there, err
}

func (s *File) rawDeletePrefix(ctx context.Context, prefix string) (n int64, err error) {
	err = s.call(ctx, true, func() error {
		if n = s.log.view.countPrefix(prefix); n == 0 {
			return nil
		}
		return s.log.commit(record{kind: recDeletePrefix, key: prefix})
	})
	return n, err
}

func (s *File) rawPop(ctx context.Context, key string, block bool) (value []byte, err error) {
	take := func() (bool, error) {
		v, ok := s.log.view.peek(key)
		if !ok {
			return false, nil
		}
		value = append([]byte{}, v...)
		return true, s.log.commit(record{kind: recPop, key: key})
	}
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
		return nil, err
	}
	return value, nil
}

func (s *File) rawLen(ctx context.Context, key string) (n int64, err error) {
	err = s.call(ctx, false, func() (err error) {
		n, err = s.log.view.length(key)
		return err
	})
	return n, err
}
