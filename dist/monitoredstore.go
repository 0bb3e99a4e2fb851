package dist

import (
	"context"
	"errors"
	"fmt"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/store"
)

// monitorPrefix is where the reports of monitored barriers stand, below the prefix of the
// group's epoch: each rank counts its barriers, which are as many on all ranks, and sets
// the key of its number.
const monitorPrefix = "monitored-barrier"

// overStore is a monitored barrier of a group without tags, in which a receive that waits
// for one rank holds up those from all others.
func (b *monitoredBarrier) overStore(ctx context.Context) (err error) {
	if b.g.Resizable() {
		return fmt.Errorf("%w: monitored barrier under a manager on a group without a backend for the cpu", pg.ErrUnsupported)
	}
	config, _ := b.g.Config()
	limited, cancel := context.WithTimeout(ctx, b.timeout+monitorGrace)
	defer cancel()
	shared, err := config.OpenStore(limited)
	if err != nil {
		return b.broken(fmt.Errorf("open the group's store: %w", err))
	}
	defer func() { err = errors.Join(err, shared.Close()) }()
	reports := store.WithPrefix(shared, monitorPrefix)
	n, err := reports.Add(limited, fmt.Sprint("count/", b.Rank()), 1)
	if err != nil {
		return b.broken(fmt.Errorf("count barriers: %w", err))
	}
	if b.Rank() == 0 {
		err = b.hearStore(ctx, reports, n)
	} else if err = reports.Set(limited, reportKey(n, b.Rank()), nil); err != nil {
		err = b.broken(fmt.Errorf("report to the monitored barrier: %w", err))
	}
	if err != nil {
		return err
	}
	if err := b.Wait(ctx, b.Start(&pg.Op{Kind: pg.KindBarrier, Deadline: b.deadline()})); err != nil {
		return fmt.Errorf("monitored barrier: %w", err)
	}
	return nil
}

func reportKey(n int64, rank int) string { return fmt.Sprintf("%d/%d", n, rank) }

// broken breaks the group, in which the other ranks wait for this one.
func (b *monitoredBarrier) broken(err error) error {
	err = fmt.Errorf("monitored barrier: %w", err)
	b.g.Abort(err)
	return err
}

// hearStore waits for the reports of the n-th barrier, and breaks the group if some do
// not come in time.
func (b *monitoredBarrier) hearStore(ctx context.Context, reports store.Store, n int64) error {
	keys := make([]string, 0, b.Size()-1)
	for r := 1; r < b.Size(); r++ {
		keys = append(keys, reportKey(n, r))
	}
	limited, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	err := reports.Wait(limited, keys...)
	switch {
	case err == nil:
		for _, key := range keys {
			_, _ = reports.Delete(ctx, key) // it is only waste
		}
		return nil
	case ctx.Err() != nil:
		return b.broken(context.Cause(ctx))
	case !errors.Is(err, context.DeadlineExceeded):
		return b.broken(fmt.Errorf("wait for reports: %w", err))
	}
	late, cancel := context.WithTimeout(ctx, monitorGrace)
	defer cancel()
	var missing []int
	for i, key := range keys {
		switch here, err := reports.Check(late, key); {
		case err != nil:
			return b.broken(fmt.Errorf("look for reports: %w", err))
		case !here:
			missing = append(missing, i+1)
		}
	}
	return b.accuse(missing)
}
