package tcp

import "github.com/skerry-ft/skerry/pg"

var _ pg.Watched = (*Backend)(nil)

// Broken implements pg.Watched.
func (b *Backend) Broken(e pg.Epoch) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if g := b.mu.group; g != nil && g.epoch == e {
		return g.broken
	}
	over := make(chan struct{})
	close(over)
	return over
}
