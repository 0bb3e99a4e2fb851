package lighthouse

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse/cluster"
	"github.com/skerry-ft/skerry/lighthouse/internal/web"
	"github.com/skerry-ft/skerry/quorum/story"
)

// clusterService is the cluster's, but for the order to hand the leadership over, which stands in
// the events of each job.
type clusterService struct {
	skerrypb.ClusterServer

	server *Server
}

// TransferLeader implements skerrypb.ClusterServer.
func (c clusterService) TransferLeader(ctx context.Context, req *skerrypb.TransferLeaderRequest) (*skerrypb.TransferLeaderResponse, error) {
	return c.server.handOver(ctx, req.GetTo(), c.server.orderOf(ctx, skerrypb.Cluster_TransferLeader_FullMethodName, req))
}

// Transfer implements web.Actions.
func (b behind) Transfer(ctx context.Context, to string, o web.Order) error {
	ctx, cancel := context.WithTimeoutCause(ctx, leaderWait, cluster.ErrNotLeader)
	defer cancel()
	_, err := b.handOver(ctx, to, o)
	return err
}

// handOver has another server lead, once the order for it is in the ledger: the next leader
// could not say who gave it. Each job is told, and not a feed of the cluster: a job's events are
// where an operator looks for what its pause was, and what the ledger, the API and the pages have.
func (s *Server) handOver(ctx context.Context, to string, o web.Order) (*skerrypb.TransferLeaderResponse, error) {
	req := &skerrypb.TransferLeaderRequest{To: to}
	lead := s.leading()
	if _, err := wire.CheckServerName("to", to); lead == nil || err != nil {
		return s.cluster.Service().TransferLeader(ctx, req) // which says what is wrong
	}
	if err := lead.tellAll("the lead was to go to "+cmp.Or(wire.Text(to), "another server"), o); err != nil {
		err = fmt.Errorf("note who hands the leadership over: %w", err)
		_ = lead.tellAll("the lead stays at "+s.address()+": "+wire.Text(err.Error()), web.Order{}) // as far as it can
		return nil, wire.StatusError(err)
	}
	resp, err := s.cluster.Service().TransferLeader(ctx, req)
	if err != nil {
		// If this fails, another server leads by now, and tells that.
		_ = lead.tellAll("the lead stays at "+s.address()+": "+wire.Text(err.Error()), web.Order{})
		return nil, err
	}
	s.log.Info().Str("to", wire.Text(to)).Object("order", o).Msg("leadership transferred")
	return resp, nil
}

// tellers bounds the jobs that write at a time: their entries share raft's writes.
const tellers = 64

// tellAll writes an entry about the leadership for each job that the ledger has.
func (l *leadership) tellAll(text string, o web.Order) error {
	var all errgroup.Group
	all.SetLimit(tellers)
	for _, j := range l.all() {
		if !l.ledger.Has(j.name) {
			continue // a name that came to no quorum
		}
		all.Go(func() error {
			l.feed.Ordered(j.name, time.Now().UnixMilli(), story.Transfer, text, o)
			return l.ledger.Apply(cluster.Command{Kind: cluster.CommandTell, Job: j.name, UnixMs: j.began, Told: l.feed.Unsaved(j.name)})
		})
	}
	return all.Wait()
}
