package runcmd

import (
	"io"
	"sync"
)

// shared is a writer for the ranks' lines and the log's alike, which stay whole. It is safe
// for concurrent use.
type shared struct {
	mu sync.Mutex

	w io.Writer
}

// Write implements io.Writer.
func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}
