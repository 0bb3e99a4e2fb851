package lighthouse

// Leader is the cluster's, for tests.
func (s *Server) Leader() (addr string, self, ok bool) { return s.cluster.Leader() }

// Peers is the cluster's Servers, for tests.
func (s *Server) Peers() []string { return s.cluster.Servers() }

// LastQuorum is the id of the last quorum in this server's ledger, leader or
// not.
func (s *Server) LastQuorum(job string) int64 {
	l := s.cluster.Ledger()
	if l == nil || l.Job(job, 0).Last == nil {
		return 0
	}
	return l.Job(job, 0).Last.ID
}
