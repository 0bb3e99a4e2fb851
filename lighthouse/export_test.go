package lighthouse

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/lighthouse/cluster"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/quorum/story"
)

// Entries is how many entries this server has written, or heard of.
func (s *Server) Entries() uint64 { return s.cluster.Ledger().Progress().LastIndex }

// Told is what this server's ledger keeps of what was told of a job.
func (s *Server) Told(job string) []story.Told { return s.cluster.Ledger().Told(job) }

// Overview is a job as GET /api/v1/status has it.
func (s *Server) Overview(ctx context.Context, job string) (api.Job, error) {
	o, err := behind{s}.Overview(ctx, job)
	switch {
	case err != nil:
		return api.Job{}, err
	case len(o.Jobs) != 1:
		return api.Job{}, fmt.Errorf("%d jobs are called %s", len(o.Jobs), job)
	}
	return o.Jobs[0], nil
}

// Crowd makes the server count n more sessions than it has.
func (s *Server) Crowd(n int) { s.sessions.Add(int64(n)) }

// FormBehind writes the next quorum to a job's ledger, of the last one's members,
// as another leader would: the job's machine does not know it. It returns the
// quorum's id.
func (s *Server) FormBehind(job string) (int64, error) {
	ledger := s.cluster.Ledger()
	l := ledger.Job(job, 0)
	f := quorum.Formed{FollowsID: l.Last.ID, FollowsRound: l.Last.Round, Term: l.Term, Client: l.Client, Quorum: *l.Last}
	f.Quorum.ID, f.Quorum.Round = l.HighestID+1, 1
	return f.Quorum.ID, ledger.Apply(cluster.Command{Kind: cluster.CommandFormed, Job: job, Formed: &f})
}

// FormNamed writes the first quorum of a job to the ledger, of members of these ids,
// as an older release might have done.
func (s *Server) FormNamed(job string, ids ...quorum.ReplicaID) error {
	ledger := s.cluster.Ledger()
	l := ledger.Job(job, 1)
	f := quorum.Formed{Term: l.Term, Client: quorum.KindSkerry, Quorum: quorum.Quorum{ID: l.HighestID + 1, Round: 1}}
	for _, id := range ids {
		f.Quorum.Members = append(f.Quorum.Members, quorum.Member{ReplicaID: id, GroupWorldSize: 1})
		f.Quorum.Participants = append(f.Quorum.Participants, id)
	}
	return ledger.Apply(cluster.Command{Kind: cluster.CommandFormed, Job: job, UnixMs: 1, Formed: &f})
}

// Fenced is false in the build that takes the fence out.
const Fenced = cluster.Fenced

// Unary serves a call of that method by handle, as one that came from a client.
func (s *Server) Unary(ctx context.Context, method string, handle grpc.UnaryHandler) error {
	_, err := s.forwardUnary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: method}, handle)
	return err
}
