package pg

import (
	"context"
	"fmt"
	"sync"
)

// Configured is implemented by backends and decorators that tell what they
// were last configured for. A Group whose backend is configured behind its back
// needs it to find the epoch that it must abort; all decorators here have it.
type Configured interface {
	// Config is that of the last Configure that succeeded; false before.
	Config() (Config, bool)
}

// tracked is implemented by decorators that have a tracker.
type tracked interface {
	tracked() *tracker
}

// tracker remembers what passed through Configure. The zero value is ready;
// safe for concurrent use.
type tracker struct {
	family family // the subgroups made here

	mu struct {
		sync.Mutex

		config     Config
		configured bool
		next       Epoch // of the Configure under way, else config's
	}
}

// configure calls b.Configure. The current epoch changes only after it has
// succeeded: by then every op of the epoch before is done.
func (t *tracker) configure(ctx context.Context, b Backend, c Config) error {
	t.mu.Lock()
	t.mu.next = c.Epoch()
	t.mu.Unlock()
	t.family.end(fmt.Errorf("%w: its parent moved on to %v", ErrAborted, c.Epoch()))
	if err := b.Configure(ctx, c); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.config, t.mu.configured = c, true
	return nil
}

// Config is that of the last Configure that succeeded; false before.
func (t *tracker) Config() (Config, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.config, t.mu.configured
}

// epochs gives the epoch that is configured, and the one of the last Configure
// whether it has succeeded or not.
func (t *tracker) epochs() (current, next Epoch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.config.Epoch(), t.mu.next
}

// configOf is the config of a backend: as it tells itself, or as t has seen.
func configOf(b Backend, t *tracker) (Config, bool) {
	if c, ok := find[Configured](b); ok {
		return c.Config()
	}
	return t.Config()
}

// trackerOf is the innermost tracker of b and its decorators, which sees a Configure
// wherever it comes in. T is the Group's own.
func trackerOf(b Backend, t *tracker) *tracker {
	for l := range layers(b) {
		if inner, ok := l.(tracked); ok {
			t = inner.tracked()
		}
	}
	return t
}

// epochsOf is the epoch that b is configured for, and the latest that its tracker has
// seen in a Configure.
func epochsOf(b Backend, t *tracker) (current, next Epoch) {
	current, next = trackerOf(b, t).epochs()
	if config, ok := configOf(b, t); ok {
		current = config.Epoch()
	}
	return current, next
}

// familyOf is where subgroups of a group over b are kept.
func familyOf(b Backend, t *tracker) *family { return &trackerOf(b, t).family }
