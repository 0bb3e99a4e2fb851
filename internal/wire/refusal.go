package wire

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/printable"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/quorum"
)

// ErrNoLeader is what a lighthouse server says that does not lead, and cannot
// pass the call on. Whoever asked asks again, there or elsewhere: a status of
// code Unavailable without it is the transport's word on a dead connection.
var ErrNoLeader = errors.New("no leader here")

// ErrRestarted is what a lighthouse server says whose job begins anew from the
// ledger: ask again, there.
var ErrRestarted = errors.New("job restarted")

// refusal is one sentinel of the rules as it travels.
type refusal struct {
	name     string     // on the wire, and in torchft clients' logs
	sentinel error      // what errors.Is finds on the other side
	code     codes.Code // of a unary call
	final    bool       // asking again cannot help
}

// refusals lists all sentinels that a peer may be told of.
func refusals() []refusal {
	return []refusal{
		{"name in use", quorum.ErrNameInUse, codes.AlreadyExists, true},
		{"stale join", quorum.ErrStaleJoin, codes.Aborted, false},
		{"drained", quorum.ErrDrained, codes.FailedPrecondition, true},
		{"evicted", quorum.ErrEvicted, codes.FailedPrecondition, true},
		{"other kind of client", quorum.ErrKind, codes.FailedPrecondition, true},
		{"modes differ", quorum.ErrModes, codes.FailedPrecondition, true},
		{"full", quorum.ErrFull, codes.ResourceExhausted, false},
		{"stale vote", quorum.ErrStaleVote, codes.Aborted, false},
		{"not a member", quorum.ErrNotMember, codes.NotFound, false},
		{"no session", quorum.ErrNoSession, codes.FailedPrecondition, false},
		{"id not issued", quorum.ErrNotIssued, codes.FailedPrecondition, false},
		{"unknown replica", quorum.ErrUnknown, codes.NotFound, true},
		{"no drain to take back", quorum.ErrNoDrain, codes.FailedPrecondition, true},
		{"fenced", quorum.ErrFenced, codes.Aborted, false},
		{"no leader", ErrNoLeader, codes.Unavailable, false},
		{"restarted", ErrRestarted, codes.Unavailable, false},
		{"invalid", quorum.ErrInvalid, codes.InvalidArgument, true},
	}
}

// refusalOf finds the sentinel that err matches.
func refusalOf(err error) (refusal, bool) {
	for _, r := range refusals() {
		if errors.Is(err, r.sentinel) {
			return r, true
		}
	}
	return refusal{}, false
}

// RefusalOf converts an error of the rules, or of this package, into the
// message that refuses the join of that number (0: the session itself). An
// error that is none of theirs has an empty code.
func RefusalOf(number uint64, err error) *skerrypb.Refused {
	r, _ := refusalOf(err)
	return &skerrypb.Refused{Number: number, Code: r.name, Text: Text(err.Error()), Final: r.final}
}

// RefusedError is a refusal as its receiver sees it. It unwraps to the
// sentinel of package quorum that its code names, if there is one.
type RefusedError struct {
	Code  string
	Text  string
	Final bool // asking again cannot help

	sentinel error
}

// Error is the other side's text. That it is a refusal is for the caller to say.
func (e *RefusedError) Error() string { return e.Text }

// Unwrap returns the sentinel, so that errors.Is finds it.
func (e *RefusedError) Unwrap() error { return e.sentinel }

// RefusalError converts a refusal that was received. It never returns nil.
func RefusalError(m *skerrypb.Refused) *RefusedError {
	e := &RefusedError{Code: printable.Cut(m.GetCode(), maxShownBytes), Text: Text(m.GetText()), Final: m.GetFinal()}
	for _, r := range refusals() {
		if r.name == m.GetCode() {
			e.sentinel = r.sentinel
		}
	}
	return e
}

// StatusError converts an error into what a unary call returns. The sentinel
// travels as a detail; FromStatus finds it again. A context's end keeps its
// code, and an error that has a status already stays as it is.
func StatusError(err error) error {
	if err == nil {
		return nil
	}
	r, ok := refusalOf(err)
	switch {
	case ok:
		s := status.New(r.code, Text(err.Error()))
		if detailed, e := s.WithDetails(RefusalOf(0, err)); e == nil {
			s = detailed
		}
		return s.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, Text(err.Error()))
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, Text(err.Error()))
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.Error(codes.Unknown, Text(err.Error()))
}

// FromStatus converts the error of a call: what StatusError made of a sentinel
// becomes a *RefusedError that matches it; a deadline or cancellation matches
// the context's error; anything else is returned as it is.
func FromStatus(err error) error {
	s, ok := status.FromError(err)
	if err == nil || !ok {
		return err
	}
	for _, d := range s.Details() {
		if m, ok := d.(*skerrypb.Refused); ok {
			return RefusalError(m)
		}
	}
	switch s.Code() {
	case codes.DeadlineExceeded:
		return fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	case codes.Canceled:
		return fmt.Errorf("%w: %w", context.Canceled, err)
	}
	return err
}
