package dist

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// tagMonitorReport is the tag of what ranks send to the one that watches.
const tagMonitorReport = pg.MaxTag + 1

// monitorGrace is how much longer than rank 0 the others wait: it is rank 0
// that can say who is missing, and its word should be the first.
const monitorGrace = 5 * time.Second

// MonitorOptions say how a monitored barrier waits.
type MonitorOptions struct {
	// Timeout is how long rank 0 waits for the others; zero means the group's.
	// Too low accuses ranks that are merely late.
	Timeout time.Duration

	// WaitAll names all ranks that are missing at the timeout, not only the
	// first.
	WaitAll bool
}

// BarrierError tells which ranks did not reach a monitored barrier in time. It
// satisfies errors.Is(err, context.DeadlineExceeded).
type BarrierError struct {
	Missing []int    // ranks, ascending; only the first without WaitAll
	IDs     []string // their replica ids
	Timeout time.Duration
}

func (e *BarrierError) Error() string {
	who := make([]string, len(e.Missing))
	for i, r := range e.Missing {
		who[i] = fmt.Sprintf("%d (%s)", r, e.IDs[i])
	}
	noun := "rank"
	if len(who) > 1 {
		noun = "ranks"
	}
	return fmt.Sprintf("dist: %s %s did not reach the monitored barrier within %v", noun, strings.Join(who, ", "), e.Timeout)
}

// Unwrap is context.DeadlineExceeded.
func (e *BarrierError) Unwrap() error { return context.DeadlineExceeded }

// MonitoredBarrier is a barrier that says who is missing: every rank reports to
// rank 0 and goes on when that has heard of all. If some have not come within
// the timeout, rank 0 returns a *BarrierError that names them, and the group
// breaks for the same cause on all ranks. It costs a message per rank to rank 0
// and a barrier: for finding faults, not for every step.
func MonitoredBarrier(ctx context.Context, g *pg.Group, o MonitorOptions) error {
	c, _ := g.Config()
	timeout := cmp.Or(o.Timeout, c.Timeout)
	if timeout <= 0 {
		timeout = pg.DefaultTimeout
	}
	return g.Compose(ctx, func(c *pg.Composed) error {
		b := &monitoredBarrier{Composed: c, g: g, timeout: timeout, waitAll: o.WaitAll}
		switch {
		case c.Size() < 2:
			return c.Do(ctx, &pg.Op{Kind: pg.KindBarrier})
		case c.Rank() == 0:
			return b.monitor(ctx)
		case c.Rank() < 0: // the others do not count on it
			return c.Do(ctx, &pg.Op{Kind: pg.KindBarrier, Deadline: b.deadline()})
		}
		return b.report(ctx)
	})
}

// monitoredBarrier is one under way.
type monitoredBarrier struct {
	*pg.Composed

	g       *pg.Group
	timeout time.Duration
	waitAll bool
}

func (b *monitoredBarrier) deadline() time.Time { return time.Now().Add(b.timeout + monitorGrace) }

// message starts a send or receive of nothing, which only takes time.
func (b *monitoredBarrier) message(k pg.Kind, peer, tag int, deadline time.Time) *pg.Work {
	op := &pg.Op{Kind: k, Peer: peer, Tag: tag, Deadline: deadline}
	op.MarkInternal()
	empty := []tensor.Tensor{tensor.New(tensor.Uint8, 0)}
	if k == pg.KindSend {
		op.In = empty
	} else {
		op.Out = empty
	}
	return b.Start(op)
}

// report is the part of a rank that is not 0.
func (b *monitoredBarrier) report(ctx context.Context) error {
	deadline := b.deadline()
	report := b.message(pg.KindSend, 0, tagMonitorReport, deadline)
	pass := b.Start(&pg.Op{Kind: pg.KindBarrier, Deadline: deadline})
	if err := b.Wait(ctx, report); err != nil {
		_ = b.g.Wait(ctx, pass) // the group is broken, or neither was issued: it ends too
		return fmt.Errorf("report to the monitored barrier: %w", err)
	}
	if err := b.Wait(ctx, pass); err != nil {
		return fmt.Errorf("monitored barrier: %w", err)
	}
	return nil
}

// monitor is rank 0's part: it comes to the barrier proper when it has heard of
// all.
func (b *monitoredBarrier) monitor(ctx context.Context) error {
	deadline := b.deadline()
	reports := make([]*pg.Work, b.Size())
	for r := 1; r < b.Size(); r++ {
		reports[r] = b.message(pg.KindRecv, r, tagMonitorReport, deadline)
	}
	if err := b.hear(ctx, reports); err != nil {
		return err
	}
	if err := b.Wait(ctx, b.Start(&pg.Op{Kind: pg.KindBarrier, Deadline: deadline})); err != nil {
		return fmt.Errorf("monitored barrier: %w", err)
	}
	return nil
}

// hear waits for all reports, and breaks the group if some do not come in time.
func (b *monitoredBarrier) hear(ctx context.Context, reports []*pg.Work) error {
	timer := time.NewTimer(b.timeout)
	defer timer.Stop()
	for _, w := range reports[1:] {
		var err error
		select {
		case <-w.Done():
			if err = b.Result(w); err == nil {
				continue
			}
		case <-ctx.Done():
			err = b.Wait(ctx, w) // aborts
		case <-timer.C:
			return b.accuse(reports)
		}
		for _, other := range reports[1:] {
			<-other.Done() // the group is broken
		}
		return fmt.Errorf("monitored barrier: %w", err)
	}
	return nil
}

// accuse breaks the group in the name of the ranks that have not reported.
func (b *monitoredBarrier) accuse(reports []*pg.Work) error {
	config, _ := b.g.Config()
	missing := &BarrierError{Timeout: b.timeout}
	culprit := -1 // its rank in the group below
	for r := 1; r < len(reports); r++ {
		if reports[r].Finished() || !b.waitAll && len(missing.Missing) > 0 {
			continue
		}
		id, member := "", b.Roster().Participants[r]
		if member < len(config.ReplicaIDs) {
			id = config.ReplicaIDs[member]
		}
		if culprit < 0 {
			culprit = member
		}
		missing.Missing, missing.IDs = append(missing.Missing, r), append(missing.IDs, id)
	}
	if len(missing.Missing) == 0 {
		return nil // the last one came at that very moment
	}
	b.g.Abort(&pg.OpError{
		Op: pg.KindBarrier, QuorumID: config.QuorumID, Rank: b.Roster().Rank,
		Peer: culprit, PeerID: missing.IDs[0], Err: missing,
	})
	for _, w := range reports[1:] {
		<-w.Done()
	}
	return missing
}
