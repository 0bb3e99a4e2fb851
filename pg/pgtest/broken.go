package pgtest

import "github.com/skerry-ft/skerry/pg"

// Broken implements pg.Watched.
func (b *MemoryBackend) Broken(e pg.Epoch) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.mu.seat; s != nil && s.config.Epoch() == e {
		return s.room.broken
	}
	over := make(chan struct{})
	close(over)
	return over
}
