package manager

import "context"

// Attempt is the tag of one try at a step: what it is asked to report marks that try
// alone, however late it comes. It is for work of a step that runs beside the trainer's
// goroutine or outlives the step: a checksum, a transfer, an operation on a group of the
// loop's own. Operations of Manager.Group carry their attempt by themselves. The zero
// value is no attempt: it reports and does nothing. Safe for concurrent use.
// Source: torchft Manager.wrap_future, which a late error of another step can mark.
type Attempt struct {
	m      *Manager
	number uint64
}

// Attempt is the try at a step that StartQuorum began last. Take it between StartQuorum
// and ShouldCommit, on the trainer's goroutine.
func (m *Manager) Attempt() Attempt {
	m.mu.Lock()
	defer m.mu.Unlock()
	number, _ := m.mu.rank.Attempt()
	return Attempt{m, number}
}

// Open says whether the attempt is the one under way, and ShouldCommit has not returned.
func (a Attempt) Open() bool {
	if a.m == nil {
		return false
	}
	a.m.mu.Lock()
	defer a.m.mu.Unlock()
	return a.m.mu.rank.Trying(a.number)
}

// ReportError discards the attempt on all replicas, as Manager.ReportError does, if it
// is still under way; an error that comes after its end is dropped. So is nil.
func (a Attempt) ReportError(err error) {
	if a.m == nil || err == nil {
		return
	}
	a.m.mu.Lock()
	defer a.m.mu.Unlock()
	if a.m.mu.rank.Trying(a.number) {
		a.m.reportLocked(err)
	}
}

// Do runs f for the attempt and says whether it succeeded; its error is reported
// instead of returned. Its ctx ends after Timeouts.Step, or with ctx. Do returns when f
// does, on the caller's goroutine.
func (a Attempt) Do(ctx context.Context, f func(ctx context.Context) error) bool {
	if a.m == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, a.m.timeouts.Step)
	defer cancel()
	err := f(ctx)
	a.ReportError(err)
	return err == nil
}
