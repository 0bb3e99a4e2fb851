package lighthouse

import (
	"fmt"
	"slices"

	"github.com/skerry-ft/skerry/internal/wire"
)

// maxRetired bounds the raft ids that are remembered as taken out. A server that
// was gone for a thousand others is long forgotten by whoever might start it.
const maxRetired = 1_000

// retireLocked keeps that a raft id is never to be used again. The caller holds
// the lock.
func (s *state) retireLocked(id string) error {
	if id == "" || len(id) > wire.MaxServerIDBytes {
		return fmt.Errorf("retire server %q: want an id of 1 to %d bytes", id, wire.MaxServerIDBytes)
	}
	if !slices.Contains(s.data.Retired, id) {
		s.data.Retired = append(s.data.Retired, id)
		s.data.Retired = s.data.Retired[max(0, len(s.data.Retired)-maxRetired):]
	}
	return nil
}

// retired says whether a server was taken out of the cluster.
func (s *state) retired(id string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Contains(s.data.Retired, id)
}
