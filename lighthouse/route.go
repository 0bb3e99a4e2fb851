package lighthouse

import (
	"context"
)

// route is where a call is to be served: here, in a reign, or by the leader at
// another address.
type route struct {
	reign  *reign
	leader string
}

// wait says what a caller of route waits for.
type wait struct {
	hopped bool   // another server has passed this on: it is served here or nowhere
	ended  *reign // a reign that the caller found at its end
	avoid  string // a leader at this address does not count
	now    bool   // a server that is not in its cluster yet is not waited for
}

// route returns where a call is to be served. While nobody leads it waits, until
// ctx ends. Errors: errNotLeader; the cause of ctx.
func (s *Server) route(ctx context.Context, w wait) (route, error) {
	for {
		led := s.leaderChanged()
		s.mu.Lock()
		r, changed := s.mu.reign, s.mu.changed
		s.mu.Unlock()
		if r != nil && r != w.ended {
			return route{reign: r}, nil
		}
		addr, self, ok := s.leader()
		switch {
		case ok && self: // its reign begins, or ends
		case w.hopped, w.now && !s.settled():
			return route{}, errNotLeader
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
func (s *Server) settled() bool { return s.cluster == nil || s.cluster.waiting() == "" }

// address is this server's as clients are told it, or where it listens.
func (s *Server) address() string {
	if s.cluster != nil {
		return s.cluster.me().RPCAddress
	}
	if told := s.advertised(); len(told) > 0 {
		return told[0]
	}
	return s.Addr().String()
}
