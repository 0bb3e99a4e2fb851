package pg

import (
	"context"
	"errors"
	"sync/atomic"
)

// Swallow keeps errors from the caller: an op that fails completes without an
// error and with zeroed outputs, and every later one is skipped, with zeroed
// outputs too, until Configure. Err tells the first error. Only ErrInvalidOp,
// which breaks nothing, comes back as it is. Ballots pass as they are.
type Swallow struct {
	*Layer

	relays *Relays[struct{}]

	first atomic.Pointer[error] // since Configure
}

// NewSwallow puts Swallow around b, which it owns from now on.
func NewSwallow(b Backend) *Swallow {
	s := &Swallow{Layer: NewLayer(b)}
	s.relays = NewRelays(s.settle)
	return s
}

// Redecorate puts around a subgroup's backend a Swallow of its own.
func (*Swallow) Redecorate(inner Backend, _ []int) Backend { return NewSwallow(inner) }

// Configure configures the backend and, if that worked, forgets the error.
// Errors of Configure itself are not swallowed.
func (s *Swallow) Configure(ctx context.Context, c Config) error {
	if err := s.track.configure(ctx, s.backend, c); err != nil {
		return err
	}
	s.first.Store(nil)
	return nil
}

// Submit starts op, or skips it if an earlier one has failed.
func (s *Swallow) Submit(op *Op) *Work {
	r := s.relays.Begin(op)
	work := r.Work()
	if op.Kind != KindBallot && s.swallowed() != nil {
		r.Finish(zeroOut(op))
		return work
	}
	r.Submit(s.backend, *op)
	return work
}

// Err is the first error swallowed since Configure, or else the backend's.
func (s *Swallow) Err() error {
	if err := s.swallowed(); err != nil {
		return err
	}
	return s.backend.Err()
}

func (s *Swallow) settle(r *Relay[struct{}], err error) error {
	invalid := errors.Is(err, ErrInvalidOp) && !errors.Is(err, ErrAborted)
	if err == nil || invalid || r.Op().Kind == KindBallot {
		return err
	}
	s.ReportError(err)
	return zeroOut(r.Op())
}

func (s *Swallow) swallowed() error {
	if first := s.first.Load(); first != nil {
		return *first
	}
	return nil
}

// zeroOut zeroes the results of op. It fails only if a device does.
func zeroOut(op *Op) error {
	var first error
	op.Each(func(sub *Op) {
		for _, t := range sub.Out {
			if err := t.Zero(); err != nil && first == nil {
				first = err
			}
		}
	})
	return first
}
