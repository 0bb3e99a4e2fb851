package lighthouse

// Leader is leader, for tests.
func (s *Server) Leader() (addr string, self, ok bool) { return s.leader() }

// Peers is peers, for tests.
func (s *Server) Peers() []string { return s.peers() }

// LastQuorum is the id of the last quorum in this server's ledger, leader or
// not.
func (s *Server) LastQuorum(job string) int64 {
	l := s.cluster.openLedger()
	if l == nil || l.state.job(job, 0).Last == nil {
		return 0
	}
	return l.state.job(job, 0).Last.ID
}
