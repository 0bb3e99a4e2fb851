package lighthouse

import (
	"context"
	"fmt"

	"google.golang.org/grpc/metadata"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse/internal/access"
)

// rightful says whether the caller's certificate, if one is wanted, is good for a
// call: its role, and the job that it may be bound to. The job of a session is only
// known by its hello: see rightfulJob.
func (s *Server) rightful(ctx context.Context, method string, req any) error {
	if err := s.guard.CheckRole(ctx, access.JobOf(req), access.RolesOf(method)...); err != nil {
		return err
	}
	bound := s.guard.BoundTo(ctx)
	switch {
	case bound != "" && method == skerrypb.Lighthouse_Jobs_FullMethodName:
		return fmt.Errorf("%w: the caller is bound to job %q, and this lists all jobs", guard.ErrDenied, bound)
	case access.JoinsTorchft(method):
		return namesJob(ctx, bound, "certificate")
	}
	return nil
}

// namesJob says whether a call of torchft's names the job that its caller is bound to,
// if it is bound to one. The job of one that names none depends on what others have
// called theirs.
func namesJob(ctx context.Context, bound, by string) error {
	if bound == "" {
		return nil
	}
	if named := metadata.ValueFromIncomingContext(ctx, wire.JobMetadata); len(named) != 1 || named[0] != bound {
		return fmt.Errorf("%w: the caller is bound to job %q by its %s, and names %s", guard.ErrDenied,
			guard.Shown(bound), by, guard.Shown(fmt.Sprintf("%q", named)))
	}
	return nil
}

// joinsOnly is the one job that the caller's join token is of; empty: it has shown no
// such token, or there is none to be checked against. It is true once the proof is
// checked.
func (s *Server) joinsOnly(ctx context.Context) string {
	if s.guard.Token.IsZero() || s.guard.Adopt.Lenient() {
		return ""
	}
	return guard.JobOf(ctx)
}

// rightfulJob says whether the caller of a session may open one in job: by its
// certificate, and by its join token.
func (s *Server) rightfulJob(ctx context.Context, job string) error {
	if err := s.guard.CheckRole(ctx, job, guard.Replica, guard.Lighthouse); err != nil {
		return err
	}
	return s.joinsJob(ctx, job)
}

// joinsJob says whether the caller's join token, if it has shown one, is of job.
func (s *Server) joinsJob(ctx context.Context, job string) error {
	if bound := s.joinsOnly(ctx); bound != "" && bound != job {
		return fmt.Errorf("%w: the caller's join token is of job %q, and this is job %q", guard.ErrDenied, guard.Shown(bound), guard.Shown(job))
	}
	return nil
}

// byFellow says whether another server passed a stream on: the caller says so, and shows
// what servers alone have, the operators' token and, with a CA, the role of a lighthouse.
// Sessions of many hosts come from it, and its end is none of theirs.
func (s *Server) byFellow(ctx context.Context, method string) bool {
	if !hopped(ctx) {
		return false
	}
	if s.guard.TLS != nil && !s.guard.Adopt.Lenient() && s.guard.CheckFellow(ctx) != nil {
		return false
	}
	return s.guard.CheckToken(ctx, method, nil) == nil
}

// mayAsMember says whether a call that lacks an operator's rights is one that the
// leader is to check: the drain of a member, by a member.
func (s *Server) mayAsMember(ctx context.Context, method string, req any) bool {
	return method == skerrypb.Lighthouse_Drain_FullMethodName && guard.IsMember(ctx) &&
		s.guard.CheckRole(ctx, access.JobOf(req), guard.Replica, guard.Operator, guard.Lighthouse) == nil
}

// needsToken says whether a call needs a proof of the token, if there is one.
func (s *Server) needsToken(method string) bool {
	return !access.Reads(method) && !(s.cfg.OpenJoins && access.Joins(method))
}

// openJoins says that joins need no token, though there is one.
func (s *Server) openJoins() bool { return s.cfg.OpenJoins && !s.guard.Token.IsZero() }

// warnOpened says once, at the start, which checks the flags take away.
func (s *Server) warnOpened() {
	if s.openJoins() {
		s.log.Warn().Msg("joins are open: whoever reaches the port may join, put members out and read the model, " +
			"without the token; leave --open-joins out, see docs/SECURITY.md")
	}
	if s.guard.TakesAnyRole() {
		s.log.Warn().Msg("certificates without a role are taken for any: a replica's key passes for a lighthouse's; " +
			"sign them anew with lighthouse ca --role, and leave --tls-any-role out, see docs/SECURITY.md")
	}
}

// joinHint is what a replica without the token is told besides.
const joinHint = "joins need a token: give the replica the file that skerry token --job NAME prints by SKERRY_TOKEN_FILE or manager.Config.Guard " +
	"(torchft's clients have none: skerry torchft-manager, or --open-joins here)"

// noJoinToken refuses a join token as this server's own.
func noJoinToken(job string) error {
	if job == "" {
		return nil
	}
	return fmt.Errorf("the token is a join token, of job %q: a lighthouse needs the operators' token, which join tokens are derived from (--token-file)", job)
}
