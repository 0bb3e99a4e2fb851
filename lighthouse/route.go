package lighthouse

import (
	"cmp"
	"context"

	"github.com/skerry-ft/skerry/lighthouse/cluster"
)

// route is where a call is to be served: by the leader at another address, or, if
// leader is "", here. There is a leadership then unless wait.servers let it be none.
type route struct {
	leadership *leadership
	leader     string
}

// wait says what a caller of route waits for.
type wait struct {
	hopped bool        // another server has passed this on: it is served here or nowhere
	ended  *leadership // a leadership that the caller found at its end
	avoid  string      // a leader at this address does not count
	now    bool        // a server that is not in its cluster yet is not waited for

	// servers says that the call is about the servers: the one that raft has for the
	// leader serves it, though it may not have caught up with the ledger.
	servers bool
}

// route returns where a call is to be served. While nobody leads it waits, until
// ctx ends. Errors: cluster.ErrNotLeader; the cause of ctx.
func (s *Server) route(ctx context.Context, w wait) (route, error) {
	for {
		led := s.cluster.Changed()
		s.mu.Lock()
		r, changed := s.mu.leadership, s.mu.Changed()
		s.mu.Unlock()
		if r != nil && r != w.ended {
			return route{leadership: r}, nil
		}
		addr, self, ok := s.cluster.Leader()
		switch {
		case ok && self && w.servers:
			return route{}, nil
		case ok && self: // its leadership begins, or ends
		case w.hopped, w.now && !s.settled():
			return route{}, cluster.ErrNotLeader
		case ok && addr != "" && addr != w.avoid:
			return route{leader: addr}, nil
		}
		select {
		case <-changed:
		case <-led:
		case <-ctx.Done():
			return route{}, context.Cause(ctx)
		}
	}
}

// settled says whether this server is in its cluster: one that starts may take
// long to find it, and whoever waits here had better ask another.
func (s *Server) settled() bool { return s.cluster.Waiting() == "" }

// address is this server's as clients are told it, or where it listens.
func (s *Server) address() string { return cmp.Or(s.cluster.Address(), s.Addr().String()) }
