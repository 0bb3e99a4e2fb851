package lighthouse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse/cluster"
	"github.com/skerry-ft/skerry/lighthouse/internal/facts"
	"github.com/skerry-ft/skerry/lighthouse/internal/web"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/quorum/story"
)

// existing returns a job that is there already: an operator's typo must not create
// one.
func (s *Server) existing(ctx context.Context, name string) (*job, error) {
	name, err := wire.CheckJob(name) // DefaultJob for none
	if err != nil {
		return nil, err
	}
	lead, err := s.leadership(ctx)
	if err != nil {
		return nil, err
	}
	j, ok := lead.known(name)
	if !ok {
		return nil, fmt.Errorf("%w: no job is called %q", quorum.ErrUnknown, name)
	}
	return j, nil
}

// change is what an operator wants changed of a job. Both functions run on the job's
// goroutine: rules gives it to the machine and returns the command for the
// ledger, of no kind if the ledger has it already; done, if there is one, runs once
// that is written.
type change struct {
	rules func(j *job, now time.Time) (cluster.Command, error)
	done  func(j *job)
}

// apply applies an operator's change to the rules, and then to the ledger, before any
// replica is told. If the ledger cannot be written, the job starts again from it.
func (s *Server) apply(ctx context.Context, name string, c change) error {
	j, err := s.existing(ctx, name)
	if err != nil {
		return err
	}
	var refused error
	err = j.do(ctx, func(now time.Time) { refused = j.apply(now, c) })
	return errors.Join(err, refused)
}

func (j *job) apply(now time.Time, change change) error {
	c, err := change.rules(j, now)
	if err == nil && c.Kind != "" {
		err = j.writeChange(now, c)
	}
	if err != nil {
		j.leadership.feed.Unask(j.name, c.Replica) // it did not happen
	} else if change.done != nil {
		change.done(j)
	}
	return err
}

// writeChange writes the command of a change, while the job waits.
func (j *job) writeChange(now time.Time, c cluster.Command) error {
	c.Job, c.UnixMs, c.Told = j.name, j.began, j.leadership.feed.Unsaved(j.name)
	s := j.leadership.server
	err := j.leadership.ledger.Apply(c)
	took := time.Since(now)
	s.metrics.Applied(took, err)
	if err != nil {
		j.broken = err
		return err
	}
	j.leadership.feed.Saved(j.name, c.Told)
	end := time.Now()
	j.doubt(end, j.turns.Waited(end, took))
	return nil
}

// Drain implements web.Actions: it asks a replica to finish its step and go. A replica that drains says so
// every half second until it is out: only the first time is written.
func (s behind) Drain(ctx context.Context, name string, id quorum.ReplicaID, o web.Order) error {
	return s.apply(ctx, name, change{
		rules: func(j *job, now time.Time) (cluster.Command, error) {
			c := cluster.Command{Kind: cluster.CommandDrain, Replica: id}
			if drains, _ := j.machine.Drains(id); drains {
				c = cluster.Command{}
			}
			j.leadership.feed.Ask(j.name, now.UnixMilli(), story.Draining, id, o)
			return c, j.machine.Drain(now, id, wire.Evidence(o.Reason))
		},
		done: func(j *job) {
			if !j.machine.IsAnswered(id) {
				j.refuseAskers(id, fmt.Errorf("%w: %s", quorum.ErrDrained, wire.Evidence(o.Reason)))
			}
		},
	})
}

// drainOf says of a replica's drain whether it was taken back, and whether no replica is there
// that could go on without it.
func (s *Server) drainOf(ctx context.Context, name string, id quorum.ReplicaID) (undone, alone bool, err error) {
	j, err := s.existing(ctx, name)
	if err != nil {
		return false, false, err
	}
	err = j.do(ctx, func(now time.Time) {
		drains, known := j.machine.Drains(id)
		undone, alone = known && !drains, j.machine.Alone(now, id)
	})
	return undone, alone, err
}

// Evict implements web.Actions: it puts a replica out. A torchft client learns it by its calls, which end.
func (s behind) Evict(ctx context.Context, name string, id quorum.ReplicaID, o web.Order) error {
	return s.apply(ctx, name, change{
		rules: func(j *job, now time.Time) (cluster.Command, error) {
			j.leadership.feed.Ask(j.name, now.UnixMilli(), story.Evicted, id, o)
			return cluster.Command{Kind: cluster.CommandEvict, Replica: id}, j.machine.Evict(now, id, wire.Evidence(o.Reason))
		},
		done: func(j *job) { j.refuseAskers(id, fmt.Errorf("%w: %s", quorum.ErrEvicted, wire.Evidence(o.Reason))) },
	})
}

// Undo implements web.Actions: it takes a drain back.
func (s behind) Undo(ctx context.Context, name string, id quorum.ReplicaID, o web.Order) error {
	return s.apply(ctx, name, change{
		rules: func(j *job, now time.Time) (cluster.Command, error) {
			j.leadership.feed.Ask(j.name, now.UnixMilli(), story.Stays, id, o)
			var under *quorum.Quorum
			if j.writing != nil {
				under = &j.writing.d.Quorum
			}
			err := j.machine.Undrain(now, id, wire.Evidence(o.Reason), under)
			if errors.Is(err, quorum.ErrNoDrain) {
				err = fmt.Errorf("%w: %s", quorum.ErrNoDrain, web.NoUndo(j.machine.Status(now), id))
			}
			return cluster.Command{Kind: cluster.CommandUndrain, Replica: id}, err
		},
	})
}

// Drain implements skerrypb.LighthouseServer.
func (l *lighthouseService) Drain(ctx context.Context, req *skerrypb.DrainRequest) (*skerrypb.DrainResponse, error) {
	id, err := wire.CheckKnownID(req.GetReplicaId())
	out := &skerrypb.DrainResponse{}
	if err == nil && !req.GetAgain() {
		err = behind{l.server}.Drain(ctx, req.GetJob(), id, l.server.orderOf(ctx, skerrypb.Lighthouse_Drain_FullMethodName, req))
	}
	if err == nil {
		out.Undone, out.Alone, err = l.server.drainOf(ctx, req.GetJob(), id)
	}
	return out, wire.StatusError(err)
}

// Undrain implements skerrypb.LighthouseServer.
func (l *lighthouseService) Undrain(ctx context.Context, req *skerrypb.UndrainRequest) (*skerrypb.UndrainResponse, error) {
	id, err := wire.CheckKnownID(req.GetReplicaId())
	if err == nil {
		err = behind{l.server}.Undo(ctx, req.GetJob(), id, l.server.orderOf(ctx, skerrypb.Lighthouse_Undrain_FullMethodName, req))
	}
	return &skerrypb.UndrainResponse{}, wire.StatusError(err)
}

// Evict implements skerrypb.LighthouseServer.
func (l *lighthouseService) Evict(ctx context.Context, req *skerrypb.EvictRequest) (*skerrypb.EvictResponse, error) {
	id, err := wire.CheckKnownID(req.GetReplicaId())
	if err == nil {
		err = behind{l.server}.Evict(ctx, req.GetJob(), id, l.server.orderOf(ctx, skerrypb.Lighthouse_Evict_FullMethodName, req))
	}
	return &skerrypb.EvictResponse{}, wire.StatusError(err)
}

// Info implements skerrypb.LighthouseServer.
func (l *lighthouseService) Info(ctx context.Context, _ *skerrypb.InfoRequest) (*skerrypb.InfoResponse, error) {
	lead, err := l.server.leadership(ctx)
	if err != nil {
		return nil, wire.StatusError(err)
	}
	info := &skerrypb.InfoResponse{
		Cluster: lead.ledger.Cluster(), Version: l.server.cfg.Version,
		Leader: l.server.address(), Servers: l.server.cluster.Servers(),
	}
	for _, j := range lead.all() {
		info.Jobs = append(info.Jobs, j.name)
	}
	return info, nil
}

// defaultHistory is how many entries History returns if the caller names no
// number.
const defaultHistory = 50

// History implements skerrypb.LighthouseServer.
func (l *lighthouseService) History(ctx context.Context, req *skerrypb.HistoryRequest) (*skerrypb.HistoryResponse, error) {
	j, err := l.server.existing(ctx, req.GetJob())
	if err != nil {
		return nil, wire.StatusError(err)
	}
	limit := cmp.Or(int(req.GetLimit()), defaultHistory)
	if limit > wire.MaxHistory {
		return nil, wire.StatusError(fmt.Errorf("%w: limit = %d, want at most %d", quorum.ErrInvalid, limit, wire.MaxHistory))
	}
	all := j.leadership.ledger.Job(j.name, 0).History
	slices.Reverse(all) // a copy
	resp := &skerrypb.HistoryResponse{}
	for _, e := range all[:min(limit, len(all))] {
		resp.Entries = append(resp.Entries, facts.HistoryToProto(e))
	}
	return resp, nil
}
