package pg

import "fmt"

// ErrorReporter is implemented by decorators that keep errors from their
// caller, so that one which the caller found by itself can join them.
type ErrorReporter interface {
	// ReportError makes ops be skipped as if one had failed with err.
	ReportError(err error)
}

var (
	_ ErrorReporter = (*Swallow)(nil)
	_ ErrorReporter = (*Managed)(nil)
)

// ReportError makes Swallow skip every op until Configure. The first error
// counts. The peers are not told: an op that they are in fails at its deadline,
// unless the caller aborts the group.
func (s *Swallow) ReportError(err error) {
	if err != nil {
		s.first.CompareAndSwap(nil, &err)
	}
}

// ReportError marks the attempt under way as failed; see Participation.
func (m *Managed) ReportError(err error) { m.manager.ReportError(m.manager.Attempt(), err) }

// ReportError tells the group of an error that its user found. A decorator that
// is an ErrorReporter takes it as one of its own; a group without one is
// aborted with it.
func (g *Group) ReportError(err error) {
	if r, ok := find[ErrorReporter](g.backend); ok {
		r.ReportError(err)
		return
	}
	g.Abort(fmt.Errorf("reported by the user: %w", err))
}
