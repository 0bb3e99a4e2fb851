package lighthouse

// Leader is leader, for tests.
func (s *Server) Leader() (addr string, self, ok bool) { return s.leader() }

// Peers is peers, for tests.
func (s *Server) Peers() []string { return s.peers() }
