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

// FillLedger writes n commands: rules of a job of its own.
func (s *Server) FillLedger(n int) error {
	rules := s.cfg.Rules
	for i := range n {
		rules.MinReplicas = 1 + i%100
		if err := s.ledger.apply(command{Kind: commandConfigure, Job: "filler", UnixMs: 1, Config: &rules}); err != nil {
			return err
		}
	}
	return nil
}

// Compact takes a snapshot, and returns where the log begins then.
func (s *Server) Compact() (uint64, error) {
	if err := s.ledger.raft.Snapshot().Error(); err != nil {
		return 0, err
	}
	return s.ledger.disk.FirstIndex()
}

// LedgerText is the server's ledger, encoded.
func (s *Server) LedgerText() string {
	l := s.cluster.openLedger()
	if l == nil {
		return ""
	}
	snap, err := l.state.Snapshot()
	if err != nil {
		return err.Error()
	}
	return string(snap.(snapshot))
}

// HandOverTo begins to hand the leadership to the server at that RPC address,
// whatever is known of it, and returns what waits for the outcome.
func (s *Server) HandOverTo(rpc string) (func() error, error) {
	m, err := s.cluster.membership(s.ledger)
	if err != nil {
		return nil, err
	}
	to, err := m.find(rpc)
	if err != nil {
		return nil, err
	}
	return s.ledger.raft.LeadershipTransferToServer(to.ID, to.Address).Error, nil
}
