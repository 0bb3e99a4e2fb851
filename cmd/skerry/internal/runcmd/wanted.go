package runcmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/cmd/skerry/internal/scale"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/launch"
	"github.com/skerry-ft/skerry/quorum"
)

// wanted asks a lighthouse how many replicas are wanted of the job.
func (o *options) wanted(ctx context.Context, q launch.Query) (w launch.Wanted, err error) {
	err = o.asks.At(q.Lighthouse, q.Hold).Call(ctx, func(ctx context.Context, c skerrypb.LighthouseClient) error {
		resp, err := c.Wanted(ctx, &skerrypb.WantedRequest{
			Job: o.cfg.Job, Node: uint32(o.cfg.Node), Nodes: uint32(o.cfg.Nodes), SeenAtMs: q.SeenMs, HoldMs: uint32(q.Hold.Milliseconds()),
		})
		w = launch.Wanted{Replicas: int(resp.GetWanted().GetReplicas()), AtMs: resp.GetWanted().GetAtMs(), Finished: resp.GetFinished(), Idle: resp.GetIdle()}
		return err
	})
	return w, err
}

// orders takes what skerry scale tells the launcher of this host.
type orders struct {
	launcher *launch.Launcher
	o        *options
}

// orderLimit is how long the lighthouse may take for an order, of what a call of skerry scale has.
const orderLimit = 5 * time.Second

// Scale passes an order on to the lighthouse of the job, which tells all its launchers. A launcher
// that is the only one need not wait for that, and carries out what a lighthouse does not keep, too:
// one that knows nothing of the job, whose token this command does not have, or that is old.
func (s *orders) Scale(ctx context.Context, replicas int) error {
	at := s.launcher.Lighthouse()
	if at == nil {
		return s.launcher.Scale(ctx, replicas)
	}
	within, cancel := context.WithTimeout(ctx, orderLimit)
	defer cancel()
	err := scale.Order(within, s.o.asks.At(at, 0), s.o.cfg.Job, replicas, "asked for with skerry scale on a launcher's host")
	switch {
	case replicas == 0, errors.Is(err, quorum.ErrInvalid), err == nil && s.o.cfg.Nodes > 1:
		return err
	case s.o.cfg.Nodes > 1:
		return fmt.Errorf("this launcher is one of %d, and the lighthouse that tells them all does not take it: %w", s.o.cfg.Nodes, err)
	}
	return s.launcher.Scale(ctx, replicas)
}
