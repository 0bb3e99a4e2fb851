package tcp

// sharedWaiting tells whether a record lies in shared memory that no op of b
// has taken.
func (b *Backend) sharedWaiting() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for l := range b.mu.links {
		if n := l.lane; n != nil && n.recv.peer.head.Load() > n.recv.mine.tail.Load() {
			return true
		}
	}
	return false
}
