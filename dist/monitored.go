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
//
// Ranks of a group that has a backend for a device alone (package nccl) report through the
// group's store, for messages there have no tags and are received in one order; such a
// group under pg.Managed gives ErrUnsupported.
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
		case c.OnDevice():
			return b.overStore(ctx)
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
			err = b.accuse(missingOf(reports))
			settle(reports) // at once: the group is broken, or all came at that very moment
			return err
		}
		settle(reports)
		return fmt.Errorf("monitored barrier: %w", err)
	}
	return nil
}

func settle(reports []*pg.Work) {
	for _, w := range reports[1:] {
		<-w.Done()
	}
}

// missingOf are the ranks whose reports have not come.
func missingOf(reports []*pg.Work) (missing []int) {
	for r := 1; r < len(reports); r++ {
		if !reports[r].Finished() {
			missing = append(missing, r)
		}
	}
	return missing
}

// accuse breaks the group in the name of the ranks that are missing, in ascending order;
// with none of them it does nothing.
func (b *monitoredBarrier) accuse(missing []int) error {
	if len(missing) == 0 {
		return nil
	}
	if !b.waitAll {
		missing = missing[:1]
	}
	config, _ := b.g.Config()
	err := &BarrierError{Timeout: b.timeout, Missing: missing}
	for _, r := range missing {
		id := ""
		if member := b.Roster().Participants[r]; member < len(config.ReplicaIDs) {
			id = config.ReplicaIDs[member]
		}
		err.IDs = append(err.IDs, id)
	}
	b.g.Abort(&pg.OpError{
		Op: pg.KindBarrier, QuorumID: config.QuorumID, Rank: b.Roster().Rank,
		Peer: b.Roster().Participants[missing[0]], PeerID: err.IDs[0], Err: err,
	})
	return err
}
