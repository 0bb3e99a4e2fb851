package lighthouse

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"google.golang.org/grpc/peer"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/perhost"
)

// maxInvented bounds the jobs without a quorum that were named by whom nobody
// knows. Each costs some 45 KiB with its session.
const maxInvented = 256

// errMadeRoom ends a job that never came to a quorum, because another is begun.
var errMadeRoom = errors.New("job given up for a new one")

// founder is who named a job first.
type founder struct {
	host  netip.Addr
	known bool // proved who he is, to this server
}

// founderOf is who makes a call. A call that another server passed on is that
// server's, and whose it was nobody knows.
func founderOf(ctx context.Context) founder {
	return founder{host: perhost.HostOf(addrOf(ctx)), known: guard.IsKnown(ctx) && !hopped(ctx)}
}

// makeRoomLocked ends old, if there is one, for the job of that name. r.mu is held.
func (l *leadership) makeRoomLocked(old *job, name string) {
	if old == nil {
		return
	}
	delete(l.jobs, old.name)
	old.cancel(errMadeRoom) // its replicas come again
	l.server.sampled.Warn().Str(logkey.Job, old.name).Str("for", name).Msg("job without a quorum given up for another")
}

// idlestLocked is the job that makes room for one of by's, or nil, and how many there
// are of founders that nobody knows. It is one that never came to a quorum, and no
// known founder's unless by is known; of the host that has most of them, so that who
// makes up names takes the place of his own; of these the oldest. r.mu is held.
func (l *leadership) idlestLocked(by founder) (idlest *job, invented int) {
	var may []*job
	crowd := make(map[netip.Addr]int)
	for _, j := range l.jobs {
		if l.ledger.Has(j.name) || j.founder.known && !by.known {
			continue
		}
		if !j.founder.known {
			invented++
		}
		may = append(may, j)
		crowd[j.founder.host]++
	}
	before := func(a, b *job) bool {
		switch x, y := crowd[a.founder.host], crowd[b.founder.host]; {
		case a.founder.known != b.founder.known:
			return !a.founder.known
		case x != y:
			return x > y
		case a.began != b.began:
			return a.began < b.began
		}
		return a.name < b.name
	}
	for _, j := range may {
		if idlest == nil || before(j, idlest) {
			idlest = j
		}
	}
	return idlest, invented
}

// addrOf is the other end of a call's connection, or nil.
func addrOf(ctx context.Context) net.Addr {
	if p, ok := peer.FromContext(ctx); ok {
		return p.Addr
	}
	return nil
}
