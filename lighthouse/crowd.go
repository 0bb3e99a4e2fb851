package lighthouse

import (
	"context"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc/peer"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/perhost"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/quorum/shell"
)

// errMadeRoom ends a job that never came to a quorum, because another is begun.
var errMadeRoom = errors.New("job given up for a new one")

// founderOf is the client that makes a call. A call that another server passed on is that
// server's, and the client is not known.
func founderOf(ctx context.Context) shell.Founder {
	return shell.Founder{Host: perhost.HostOf(addrOf(ctx)).String(), Known: guard.IsKnown(ctx) && !hopped(ctx)}
}

// makeRoomLocked makes room for the job of that name, by ending another one if need be.
// l.mu is held. Errors: quorum.ErrFull.
func (l *leadership) makeRoomLocked(name string, by shell.Founder) error {
	var all []shell.NamedJob
	for _, j := range l.jobs {
		all = append(all, shell.NamedJob{Name: j.name, Began: j.began, Formed: l.ledger.Has(j.name), Founder: j.founder})
	}
	most := l.server.cfg.MaxJobs
	given, room := shell.MakeRoom(all, by, most)
	if !room {
		return fmt.Errorf("%w: job %q would be one more than MaxJobs = %d", quorum.ErrFull, name, most)
	}
	if old := l.jobs[given]; old != nil {
		delete(l.jobs, old.name)
		old.cancel(errMadeRoom) // its replicas come again
		l.server.sampled.Warn().Str(logkey.Job, old.name).Str("for", name).Msg("job without a quorum given up for another")
	}
	return nil
}

// addrOf is the other end of a call's connection, or nil.
func addrOf(ctx context.Context) net.Addr {
	if p, ok := peer.FromContext(ctx); ok {
		return p.Addr
	}
	return nil
}
