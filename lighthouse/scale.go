package lighthouse

import (
	"context"
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/lighthouse/cluster"
	"github.com/skerry-ft/skerry/lighthouse/internal/access"
	"github.com/skerry-ft/skerry/lighthouse/internal/scaling"
	"github.com/skerry-ft/skerry/lighthouse/internal/web"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/quorum/story"
)

// Scale implements web.Actions: it keeps how many replicas are wanted of a job; 0: no number any more.
func (s behind) Scale(ctx context.Context, name string, replicas int, o web.Order) error {
	return s.apply(ctx, name, change{
		rules: func(j *job, now time.Time) (cluster.Command, error) {
			before := j.leadership.ledger.Wanted(j.name)
			if replicas == 0 && before == nil {
				return cluster.Command{}, nil // there is none to take back
			}
			w := api.Wanted{Replicas: replicas, AtMs: now.UnixMilli(), By: o.By, From: o.From, Reason: o.Reason}
			text := fmt.Sprintf("%d replicas are wanted", replicas)
			if before != nil {
				w.AtMs = max(w.AtMs, before.AtMs+1)
				text += fmt.Sprintf(", not %d,", before.Replicas)
			}
			if replicas == 0 { // the ledger keeps no such number
				text = fmt.Sprintf("the wanted number of replicas, %d, is taken back", before.Replicas)
			}
			err := j.board.Check(scaling.Order{
				Replicas: replicas, Name: j.name, Job: j.machine.Status(now), Most: s.cfg.MaxReplicasPerJob, Leads: now.Sub(j.leadership.began),
			})
			if err == nil {
				j.leadership.feed.Ordered(j.name, now.UnixMilli(), story.Scaled, text, o)
			}
			return cluster.Command{Kind: cluster.CommandScale, Wanted: &w}, err
		},
		done: func(j *job) { j.board.Tell() },
	})
}

// Wanted implements skerrypb.LighthouseServer.
func (l *lighthouseService) Wanted(ctx context.Context, req *skerrypb.WantedRequest) (*skerrypb.WantedResponse, error) {
	q, err := scaling.QueryOf(req)
	if err != nil {
		return nil, wire.StatusError(err)
	}
	j, err := l.server.existing(ctx, q.Job)
	if err != nil {
		return nil, wire.StatusError(err)
	}
	q.From = access.AskerOf(ctx, l.server.guard, skerrypb.Lighthouse_Wanted_FullMethodName, req).From
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(j.leadership.ctx, stop)()
	a := scaling.Answer{Wanted: j.board.Await(waiting, q)}
	err = j.do(ctx, func(now time.Time) {
		state := j.machine.Status(now).State
		a.Finished, a.Idle = state == quorum.JobFinished, state == quorum.JobIdle
	})
	return a.Proto(), wire.StatusError(err)
}

// Scale implements skerrypb.LighthouseServer.
func (l *lighthouseService) Scale(ctx context.Context, req *skerrypb.ScaleRequest) (*skerrypb.ScaleResponse, error) {
	err := behind{l.server}.Scale(ctx, req.GetJob(), int(req.GetReplicas()), l.server.orderOf(ctx, skerrypb.Lighthouse_Scale_FullMethodName, req))
	if err != nil {
		return nil, wire.StatusError(err)
	}
	j, err := l.server.existing(ctx, req.GetJob())
	if err != nil {
		return nil, wire.StatusError(err)
	}
	return &skerrypb.ScaleResponse{Launchers: uint32(j.board.Launchers())}, nil
}
