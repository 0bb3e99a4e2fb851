package lighthouse

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// takePart finds the cluster, if this server is one of several, and then leads
// whenever raft says so, until ctx ends.
func (s *Server) takePart(ctx context.Context) error {
	c := s.cluster
	if c == nil {
		return s.lead(ctx)
	}
	if err := c.join(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	var err error
	if s.ledger, err = c.open(s.cfg.Raft); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.watch(ctx, s.ledger) })
	g.Go(func() error { return c.tend(ctx, s.ledger) })
	g.Go(func() error {
		defer c.handOver(s.ledger)
		return s.lead(ctx)
	})
	return g.Wait()
}

// closeLedger ends raft, and what it needs to reach others.
func (s *Server) closeLedger() error {
	if s.ledger == nil {
		return nil // the cluster was never joined
	}
	if s.cluster == nil {
		return s.ledger.close()
	}
	err := s.cluster.shutdown()
	if e := s.ledger.close(); err == nil {
		err = e
	}
	return err
}

// leader tells who leads: the RPC address by which that server is reached, and
// whether it is this one. It is not ok while nobody is known to lead.
func (s *Server) leader() (addr string, self, ok bool) {
	if s.cluster != nil {
		return s.cluster.leader()
	}
	if all := s.advertised(); len(all) > 0 {
		addr = all[0]
	}
	return addr, true, s.leading() != nil
}

// leaderChanged returns a channel that is closed when the answer of leader may
// have changed. Take it before asking.
func (s *Server) leaderChanged() <-chan struct{} {
	if s.cluster != nil {
		return s.cluster.leaderChanged()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.changed
}

// peers returns the RPC addresses of all known servers, this one among them.
func (s *Server) peers() []string { return s.advertised() }
