package pg

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/skerry-ft/skerry/tensor"
)

// tagMonitorReport is the tag of what ranks send to the one that watches.
const tagMonitorReport = MaxTag + 1

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
	return fmt.Sprintf("pg: %s %s did not reach the monitored barrier within %v", noun, strings.Join(who, ", "), e.Timeout)
}

// Unwrap is context.DeadlineExceeded.
func (e *BarrierError) Unwrap() error { return context.DeadlineExceeded }

// MonitoredBarrier is a barrier that says who is missing: every rank reports to
// rank 0 and goes on when that has heard of all. If some have not come within
// the timeout, rank 0 returns a *BarrierError that names them, and the group
// breaks for the same cause on all ranks. It costs a message per rank to rank 0
// and a barrier: for finding faults, not for every step.
func (g *Group) MonitoredBarrier(ctx context.Context, o MonitorOptions) error {
	timeout := o.Timeout
	if c, _ := g.config(); timeout == 0 {
		timeout = c.Timeout
	}
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	return g.compose(ctx, func(c *composed) error {
		switch {
		case c.size < 2:
			return c.do(ctx, &Op{Kind: KindBarrier})
		case c.rank == 0:
			return c.monitor(ctx, timeout, o.WaitAll)
		case c.rank < 0: // the others do not count on it
			return c.do(ctx, &Op{Kind: KindBarrier, Deadline: time.Now().Add(timeout + monitorGrace)})
		}
		return c.reportToMonitor(ctx, timeout)
	})
}

// message starts a send or receive of nothing, which only takes time.
func (c *composed) message(k Kind, peer, tag int, deadline time.Time) *Work {
	op := &Op{Kind: k, Peer: peer, Tag: tag, Deadline: deadline, internal: true}
	empty := []tensor.Tensor{tensor.New(tensor.Uint8, 0)}
	if k == KindSend {
		op.In = empty
	} else {
		op.Out = empty
	}
	return c.start(op)
}

func (c *composed) reportToMonitor(ctx context.Context, timeout time.Duration) error {
	deadline := time.Now().Add(timeout + monitorGrace)
	report := c.message(KindSend, 0, tagMonitorReport, deadline)
	pass := c.start(&Op{Kind: KindBarrier, Deadline: deadline})
	if err := c.wait(ctx, report); err != nil {
		_ = c.g.Wait(ctx, pass) // the group is broken, or neither was issued: it ends too
		return fmt.Errorf("report to the monitored barrier: %w", err)
	}
	if err := c.wait(ctx, pass); err != nil {
		return fmt.Errorf("monitored barrier: %w", err)
	}
	return nil
}

// monitor is rank 0's part: it comes to the barrier proper when it has heard of
// all.
func (c *composed) monitor(ctx context.Context, timeout time.Duration, all bool) error {
	deadline := time.Now().Add(timeout + monitorGrace)
	reports := make([]*Work, c.size)
	for r := 1; r < c.size; r++ {
		reports[r] = c.message(KindRecv, r, tagMonitorReport, deadline)
	}
	if err := c.hear(ctx, reports, timeout, all); err != nil {
		return err
	}
	if err := c.wait(ctx, c.start(&Op{Kind: KindBarrier, Deadline: deadline})); err != nil {
		return fmt.Errorf("monitored barrier: %w", err)
	}
	return nil
}

// hear waits for all reports, and breaks the group if some do not come in time.
func (c *composed) hear(ctx context.Context, reports []*Work, timeout time.Duration, all bool) error {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for _, w := range reports[1:] {
		var err error
		select {
		case <-w.Done():
			if err = c.seen(w.Err()); err == nil {
				continue
			}
		case <-ctx.Done():
			err = c.wait(ctx, w) // aborts
		case <-timer.C:
			return c.accuse(reports, timeout, all)
		}
		for _, other := range reports[1:] {
			<-other.Done() // the group is broken
		}
		return fmt.Errorf("monitored barrier: %w", err)
	}
	return nil
}

// accuse breaks the group in the name of the ranks that have not reported.
func (c *composed) accuse(reports []*Work, timeout time.Duration, all bool) error {
	config, _ := c.g.config()
	missing := &BarrierError{Timeout: timeout}
	culprit := -1 // its rank in the group below
	for r := 1; r < len(reports); r++ {
		if reports[r].Finished() || !all && len(missing.Missing) > 0 {
			continue
		}
		id, member := "", c.roster.Participants[r]
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
	c.g.Abort(&OpError{
		Op: KindBarrier, QuorumID: config.QuorumID, Rank: c.roster.Rank,
		Peer: culprit, PeerID: missing.IDs[0], Err: missing,
	})
	for _, w := range reports[1:] {
		<-w.Done()
	}
	return missing
}
