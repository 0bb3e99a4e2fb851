package lighthouse_test

import (
	"sync"
	"sync/atomic"
)

// keyFile plays a file of gossip keys.
type keyFile struct {
	asked atomic.Int64

	mu   sync.Mutex
	keys [][]byte
}

func (k *keyFile) set(keys ...[]byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys = keys
}

func (k *keyFile) get() [][]byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked.Add(1)
	return k.keys
}
