package store

import (
	"fmt"
)

// Option changes a [Hash] or a [File]; ServerConfig has fields for the same.
type Option func(*table)

// StrictAdd makes Add on a key that was set an error (ErrNotNumber), a number
// or not, as the documentation of torch.distributed has it: only Add makes
// counters, and any other write ends one. Without it Add takes a decimal number
// that was set, as PyTorch's own stores do and its users may rely on.
//
// Processes that share a file should agree on it: each applies its own.
func StrictAdd() Option {
	return func(t *table) { t.strictAdd = true }
}

// checkAddLocked refuses, if the table is strict, to count from what was set.
func (t *table) checkAddLocked(key string) error {
	if _, counter := t.mu.counters[key]; t.strictAdd && !counter {
		return fmt.Errorf("%w that Add made: the key was set", ErrNotNumber)
	}
	return nil
}

// count writes what Add makes of a counter.
func (t *table) count(key string, value []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.countLocked(key, value)
}

func (t *table) countLocked(key string, value []byte) error {
	if err := t.putLocked(key, value); err != nil {
		return err
	}
	if t.strictAdd {
		t.mu.counters[key] = struct{}{}
	}
	return nil
}
