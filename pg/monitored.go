package pg

import (
	"context"
	"fmt"
	"strings"
	"time"
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
	if g.Rank() != 0 || g.Size() < 2 {
		return g.reportToMonitor(ctx, timeout)
	}
	return g.monitor(ctx, timeout, o.WaitAll)
}

// message starts a send or receive of nothing, which only takes time.
func (g *Group) message(k Kind, peer, tag int, deadline time.Time) *Work {
	op := &Op{Kind: k, Peer: peer, Tag: tag, Deadline: deadline, internal: true}
	empty := []Tensor{New(Uint8DType, 0)}
	if k == KindSend {
		op.In = empty
	} else {
		op.Out = empty
	}
	return g.submit(op)
}

func (g *Group) reportToMonitor(ctx context.Context, timeout time.Duration) error {
	if g.Size() < 2 { // alone, outside or not configured: a barrier says which
		return g.Barrier(ctx)
	}
	deadline := time.Now().Add(timeout + monitorGrace)
	report := g.message(KindSend, 0, tagMonitorReport, deadline)
	pass := g.submit(&Op{Kind: KindBarrier, Deadline: deadline})
	if err := g.Wait(ctx, report); err != nil {
		_ = g.Wait(ctx, pass) // the group is broken: it ends too
		return fmt.Errorf("report to the monitored barrier: %w", err)
	}
	if err := g.Wait(ctx, pass); err != nil {
		return fmt.Errorf("monitored barrier: %w", err)
	}
	return nil
}

// monitor is rank 0's part: it comes to the barrier proper when it has heard of
// all.
func (g *Group) monitor(ctx context.Context, timeout time.Duration, all bool) error {
	size := g.Size()
	deadline := time.Now().Add(timeout + monitorGrace)
	reports := make([]*Work, size)
	for r := 1; r < size; r++ {
		reports[r] = g.message(KindRecv, r, tagMonitorReport, deadline)
	}
	if err := g.hear(ctx, reports, timeout, all); err != nil {
		return err
	}
	if err := g.Wait(ctx, g.submit(&Op{Kind: KindBarrier, Deadline: deadline})); err != nil {
		return fmt.Errorf("monitored barrier: %w", err)
	}
	return nil
}

// hear waits for all reports, and breaks the group if some do not come in time.
func (g *Group) hear(ctx context.Context, reports []*Work, timeout time.Duration, all bool) error {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for _, w := range reports[1:] {
		select {
		case <-w.Done():
			if w.Err() == nil {
				continue
			}
		case <-ctx.Done():
			_ = g.Wait(ctx, w) // aborts
		case <-timer.C:
			return g.accuse(reports, timeout, all)
		}
		for _, other := range reports[1:] {
			<-other.Done() // the group is broken
		}
		return fmt.Errorf("monitored barrier: %w", w.Err())
	}
	return nil
}

// accuse breaks the group in the name of the ranks that have not reported.
func (g *Group) accuse(reports []*Work, timeout time.Duration, all bool) error {
	config, _ := g.config()
	missing := &BarrierError{Timeout: timeout}
	for r := 1; r < len(reports); r++ {
		if reports[r].Finished() || !all && len(missing.Missing) > 0 {
			continue
		}
		id := ""
		if r < len(config.ReplicaIDs) {
			id = config.ReplicaIDs[r]
		}
		missing.Missing, missing.IDs = append(missing.Missing, r), append(missing.IDs, id)
	}
	if len(missing.Missing) == 0 {
		return nil // the last one came at that very moment
	}
	g.Abort(&OpError{
		Op: KindBarrier, QuorumID: config.QuorumID, Rank: 0,
		Peer: missing.Missing[0], PeerID: missing.IDs[0], Err: missing,
	})
	for _, w := range reports[1:] {
		<-w.Done()
	}
	return missing
}
