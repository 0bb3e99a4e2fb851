package store

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// checkKeys refuses what the bounds do not allow. extra is what the store puts
// before every key.
func checkKeys(extra int, keys ...string) error {
	if len(keys) > MaxKeys {
		return fmt.Errorf("%w: %d keys in one call, want at most %d", ErrTooLarge, len(keys), MaxKeys)
	}
	total := 0
	for _, key := range keys {
		n := len(key) + extra
		if n > MaxKeyBytes {
			return fmt.Errorf("%w: key %q… has %d bytes, want at most %d",
				ErrTooLarge, key[:min(len(key), 32)], n, MaxKeyBytes)
		}
		total += n
	}
	return checkTotal(total)
}

func checkValues(values ...[]byte) error {
	total := 0
	for _, value := range values {
		if len(value) > MaxValueBytes {
			return fmt.Errorf("%w: value of %d bytes, want at most %d", ErrTooLarge, len(value), MaxValueBytes)
		}
		total += len(value)
	}
	return checkTotal(total)
}

func checkTotal(total int) error {
	if total > MaxCallBytes {
		return fmt.Errorf("%w: one call of %d bytes, want at most %d", ErrTooLarge, total, MaxCallBytes)
	}
	return nil
}

// checkMultiSet checks the arguments of MultiSet, but for the keys.
func checkMultiSet(keys []string, values [][]byte) error {
	if len(keys) != len(values) {
		return fmt.Errorf("store: %d keys and %d values, want as many values as keys", len(keys), len(values))
	}
	return checkValues(values...)
}

// patience is a store's default timeout. Safe for concurrent use.
type patience struct{ ns atomic.Int64 }

// SetTimeout sets the default timeout; zero and less mean DefaultTimeout.
func (p *patience) SetTimeout(d time.Duration) { p.ns.Store(int64(max(d, 0))) }

func (p *patience) timeout() time.Duration {
	if d := time.Duration(p.ns.Load()); d > 0 {
		return d
	}
	return DefaultTimeout
}

// bound gives ctx the default deadline if it has none.
func (p *patience) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	d := p.timeout()
	return context.WithTimeoutCause(ctx, d,
		fmt.Errorf("nothing came within the store's timeout of %v: %w", d, context.DeadlineExceeded))
}

// ended is why ctx is done, or nil.
func ended(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}

// describe names a call for errors: its verb, and the first of its keys.
func describe(verb string, keys []string) string {
	switch len(keys) {
	case 0:
		return verb
	case 1:
		return fmt.Sprintf("%s %q", verb, short(keys[0]))
	}
	return fmt.Sprintf("%s %q and %d more", verb, short(keys[0]), len(keys)-1)
}

func short(key string) string {
	const most = 128
	if len(key) <= most {
		return key
	}
	return key[:most] + "…"
}

// annotate says which call an error comes from.
func annotate(err error, verb string, keys ...string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("store: %s: %w", describe(verb, keys), err)
}
