package lighthouse

import "github.com/skerry-ft/skerry/quorum"

// Crowd makes the server count n more sessions than it has.
func (s *Server) Crowd(n int) { s.sessions.Add(int64(n)) }

// FormBehind writes a quorum of one member to a job's ledger as another leader
// would: the job's machine does not know it. It returns the quorum's id.
func (s *Server) FormBehind(job string, member quorum.Member) (int64, error) {
	l := s.ledger.state.job(job, 0)
	f := quorum.Formed{Term: l.Term, Client: l.Client, Quorum: quorum.Quorum{
		Cluster: l.Cluster, Job: job, ID: l.HighestID + 1, Round: 1,
		Members: []quorum.Member{member}, Participants: []quorum.ReplicaID{member.ReplicaID},
	}}
	if l.Last != nil {
		f.FollowsID, f.FollowsRound = l.Last.ID, l.Last.Round
	}
	return f.Quorum.ID, s.ledger.apply(command{Kind: commandFormed, Job: job, Formed: &f})
}
