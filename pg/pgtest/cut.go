package pgtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skerry-ft/skerry/pg"
)

// reachTimeout is how long a rank tries to reach a peer over a link that is cut.
const reachTimeout = time.Second

// replicaName is the part of a replica id that its incarnations share.
func replicaName(id string) string {
	name, _, _ := strings.Cut(id, ":")
	return name
}

// Cut breaks all links of two replicas, or mends them: replicas are named without
// their incarnation. Groups that hold both break, and both ends see it of each
// other; a Configure with both does not reach the peer (pg.ErrUnreachable) after a
// second. What one end of a cut link is told of the other is all that it can know.
func (m *Memory) Cut(a, b string, cut bool) {
	m.mu.Lock()
	if m.mu.cuts == nil {
		m.mu.cuts = make(map[[2]string]bool)
	}
	m.mu.cuts[[2]string{min(a, b), max(a, b)}] = cut
	var rooms []*room
	for _, r := range m.mu.rooms {
		rooms = append(rooms, r)
	}
	m.mu.Unlock()
	if !cut {
		return
	}
	slices.SortFunc(rooms, func(a, b *room) int { return strings.Compare(a.address, b.address) })
	for _, r := range rooms {
		r.cut(a, b)
	}
}

// Whole says that no link is cut.
func (m *Memory) Whole() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, cut := range m.mu.cuts {
		if cut {
			return false
		}
	}
	return true
}

func (m *Memory) isCut(a, b string) bool {
	a, b = replicaName(a), replicaName(b)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.cuts[[2]string{min(a, b), max(a, b)}]
}

// cut breaks a room whose ranks have all come.
func (r *room) cut(a, b string) {
	rank := func(name string) int {
		return slices.IndexFunc(r.config.ReplicaIDs, func(id string) bool { return replicaName(id) == name })
	}
	x, y := rank(a), rank(b)
	r.mu.Lock()
	if x < 0 || y < 0 || slices.Contains(r.mu.seats, nil) {
		r.mu.Unlock()
		return
	}
	done := r.partLocked(x, y, pg.ErrPeerLost)
	r.mu.Unlock()
	finish(done)
}

// partLocked breaks the room because of the link of two ranks.
func (r *room) partLocked(x, y int, why error) []*pending {
	err := fmt.Errorf("%w: the link is cut", why)
	return r.breakLocked(&breakage{origin: x, culprit: y, local: err, remote: err, differ: true, parted: true})
}

// outOfReach is a rank that s does not reach; -1: it reaches all.
func (s *seat) outOfReach() int {
	own := s.config.ReplicaIDs[s.rank()]
	return slices.IndexFunc(s.config.ReplicaIDs, func(id string) bool { return id != own && s.room.net.isCut(own, id) })
}

// part fails the Configure of s, whose link to a peer is cut.
func (s *seat) part(peer int) {
	r := s.room
	r.mu.Lock()
	done := r.partLocked(s.rank(), peer, pg.ErrUnreachable)
	r.mu.Unlock()
	finish(done)
}

// Probe implements pg.Prober.
func (b *MemoryBackend) Probe(ctx context.Context, peerID string) error {
	b.mu.Lock()
	s := b.mu.seat
	b.mu.Unlock()
	if s == nil {
		return pg.ErrUnconfigured
	}
	if !b.net.isCut(s.config.ReplicaIDs[s.rank()], peerID) {
		return nil
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(reachTimeout):
		return fmt.Errorf("%w: the link is cut", pg.ErrUnreachable)
	}
}
