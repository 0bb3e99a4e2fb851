package lighthouse

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/lighthouse/cluster"
	"github.com/skerry-ft/skerry/lighthouse/internal/feed"
	"github.com/skerry-ft/skerry/quorum"
)

// leadership is one term in which this server leads: the jobs, each with its
// machine. What ends with the leadership ends with it: joins, beats, sessions.
type leadership struct {
	server *Server
	ledger *cluster.Ledger
	term   uint64
	began  time.Time

	// ctx ends with the leadership. It is kept here because jobs are started
	// by the calls that first name them, and must outlive those.
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu   sync.Mutex // held while ctx is ended, too: no job is started after that
	jobs map[string]*job

	feed *feed.Feed
}

// leader is what the cluster calls when this server comes to lead, and when it no
// longer does.
type leader struct{ *Server }

// Establish rebuilds a machine for every job in the ledger. The machines presume the
// last members alive for one heartbeat timeout, so a failover shrinks no quorum.
func (s leader) Establish(ctx context.Context, ledger *cluster.Ledger, term uint64) error {
	l := &leadership{server: s.Server, ledger: ledger, term: term, began: time.Now(), jobs: make(map[string]*job), feed: feed.New()}
	l.ctx, l.cancel = context.WithCancel(ctx)
	for _, name := range ledger.Jobs() {
		if _, err := l.job(ctx, name, quorum.KindUnset); err != nil {
			l.end()
			return fmt.Errorf("rebuild job %s: %w", name, err)
		}
	}
	l.running.Go(func() { l.forgetIdle(l.ctx) })
	s.log.Info().Uint64(logkey.Term, term).Str(logkey.Cluster, ledger.Cluster()).
		Int("jobs", len(l.jobs)).Msg("leadership gained")
	s.lead(l)
	return nil
}

// Revoke takes the leadership from new callers, then stops its jobs.
func (s leader) Revoke() {
	if l := s.lead(nil); l != nil {
		l.end()
	}
}

// lead publishes l to those who wait for a leader, and returns the leadership
// before it.
func (s *Server) lead(l *leadership) *leadership {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.mu.leadership
	s.mu.leadership = l
	s.mu.Broadcast()
	return old
}

// leaderWait is how long a call is held while there is no leader. Longer than
// an election takes, shorter than clients wait before they try another server.
const leaderWait = 3 * time.Second

// leadership returns the current leadership. Without one it waits for the next, until
// ctx ends or leaderWait has passed.
func (s *Server) leadership(ctx context.Context) (*leadership, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, leaderWait, cluster.ErrNotLeader)
	defer cancel()
	var l *leadership
	err := s.mu.Await(ctx, 0, func() bool {
		l = s.mu.leadership
		return l != nil
	})
	return l, err
}

// leading returns the current leadership, or nil.
func (s *Server) leading() *leadership {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.leadership
}

// job returns the job of that name, and begins it if it is new. kind is that of
// the client that names it, and ctx its call's; KindUnset names one that the ledger
// has, which is begun even if there are more than MaxJobs now. Where there are
// MaxJobs, one that never came to a quorum makes room.
func (l *leadership) job(ctx context.Context, name string, kind quorum.ClientKind) (*job, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return nil, cluster.ErrNotLeader
	}
	if j, ok := l.jobs[name]; ok {
		return j, nil
	}
	by := founderOf(ctx)
	if kind != quorum.KindUnset {
		if err := l.makeRoomLocked(name, by); err != nil {
			return nil, err
		}
	}
	j, err := newJob(l, name, kind)
	if err != nil {
		return nil, err
	}
	j.founder = by
	l.jobs[name] = j
	ctx, cancel := context.WithCancelCause(l.ctx)
	j.cancel = cancel
	l.running.Go(func() { j.run(ctx) })
	return j, nil
}

// known returns the job of that name if it exists.
func (l *leadership) known(name string) (*job, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	j, ok := l.jobs[name]
	return j, ok
}

// all returns the jobs, sorted by name.
func (l *leadership) all() []*job {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []*job
	for _, j := range l.jobs {
		all = append(all, j)
	}
	slices.SortFunc(all, func(a, b *job) int { return cmp.Compare(a.name, b.name) })
	return all
}

// end stops the jobs and returns when they have.
func (l *leadership) end() {
	l.mu.Lock()
	l.cancel()
	l.mu.Unlock()
	l.running.Wait()
	l.feed.End()
}
