package lighthouse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/raft"

	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/quorum"
)

// reign is one term in which this server leads: the jobs, each with its
// machine. What ends with the leadership ends with it: joins, beats, sessions.
type reign struct {
	server *Server
	term   uint64

	// ctx ends with the leadership. It is kept here because jobs are started
	// by the calls that first name them, and must outlive those.
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu    sync.Mutex
	ended bool
	jobs  map[string]*job
}

// reignRetry is how long a leader waits that could not begin its reign.
const reignRetry = 100 * time.Millisecond

// lead begins and ends reigns as raft says, until ctx ends.
func (s *Server) lead(ctx context.Context) error {
	return s.leadAs(ctx, s.ledger.raft.LeaderCh(), s.beginReign)
}

// leadAs begins a reign when leaderCh says so. If raft cannot take the first
// commands of it yet, while it goes on leading, the reign is begun a little later.
func (s *Server) leadAs(ctx context.Context, leaderCh <-chan bool, begin func(context.Context) error) error {
	defer s.endReign()
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case leads := <-leaderCh:
			// Two "true" in a row mean that the leadership was lost between.
			s.endReign()
			again = nil
			if !leads {
				s.log.Warn().Msg("leadership lost")
				continue
			}
		case <-again:
			again = nil
			if s.ledger.raft.State() != raft.Leader {
				continue // leaderCh says when it does
			}
		}
		err := begin(ctx)
		switch {
		case err == nil || ctx.Err() != nil:
		case errors.Is(err, errNotLeader), errors.Is(err, raft.ErrEnqueueTimeout):
			s.log.Warn().Err(err).Msg("reign not begun")
			again = time.After(reignRetry)
		default:
			return err
		}
	}
}

// beginReign catches up with the log, gives a new cluster its id, and rebuilds
// a machine for every job in the ledger. The machines presume the last members
// alive for one heartbeat timeout, so a failover shrinks no quorum.
func (s *Server) beginReign(ctx context.Context) error {
	l := s.ledger
	term := l.raft.CurrentTerm()
	if err := l.barrier(); err != nil {
		return fmt.Errorf("catch up with the raft log: %w", err)
	}
	// What was caught up with in one term says nothing about the next.
	if now := l.raft.CurrentTerm(); now != term {
		return fmt.Errorf("catch up with the raft log: %w: term %d has ended, it is %d", errNotLeader, term, now)
	}
	if l.state.cluster() == "" {
		if err := l.apply(command{Kind: commandFound, Cluster: cmp.Or(l.cluster, uuid.NewString())}); err != nil {
			return fmt.Errorf("found the cluster: %w", err)
		}
	}
	if err := s.riseAlone(); err != nil {
		return fmt.Errorf("raise the quorum ids: %w", err)
	}
	r := &reign{server: s, term: term, jobs: make(map[string]*job)}
	r.ctx, r.cancel = context.WithCancel(ctx)
	for _, name := range l.state.jobs() {
		if _, err := r.job(ctx, name, quorum.KindUnset); err != nil {
			r.end()
			return fmt.Errorf("rebuild job %s: %w", name, err)
		}
	}
	r.running.Go(func() { r.forgetIdle(r.ctx) })
	s.log.Info().Uint64(logkey.Term, term).Str(logkey.Cluster, l.state.cluster()).
		Int("jobs", len(r.jobs)).Msg("leadership gained")
	s.setReign(r)
	return nil
}

// riseAlone makes all quorum ids to come of a lighthouse of one server that keeps
// what it writes rise above the clock's milliseconds. Its disk may be an older copy of what it
// was: quorums that it formed since would get their ids a second time, and the
// positions committed in both would be taken for one. Several servers notice an
// older copy by each other, and a server that keeps nothing begins above the clock.
func (s *Server) riseAlone() error {
	l := s.ledger
	if !l.kept {
		return nil
	}
	f := l.raft.GetConfiguration()
	if err := f.Error(); err != nil {
		return leadershipError(err)
	}
	voters := 0
	for _, server := range f.Configuration().Servers {
		if server.Suffrage == raft.Voter {
			voters++
		}
	}
	if voters != 1 {
		return nil
	}
	return l.apply(command{Kind: commandRise, UnixMs: time.Now().UnixMilli()})
}

// endReign takes the reign from new callers, then stops its jobs.
func (s *Server) endReign() {
	if r := s.setReign(nil); r != nil {
		r.end()
	}
}

// setReign publishes r to those who wait for a leader, and returns the reign
// before it.
func (s *Server) setReign(r *reign) *reign {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.mu.reign
	s.mu.reign = r
	close(s.mu.changed)
	s.mu.changed = make(chan struct{})
	return old
}

// leaderWait is how long a call is held while there is no leader. Longer than
// an election takes, shorter than clients wait before they try another server.
const leaderWait = 3 * time.Second

// reign returns the current reign. Without one it waits for the next, until ctx
// ends or leaderWait has passed.
func (s *Server) reign(ctx context.Context) (*reign, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, leaderWait, errNotLeader)
	defer cancel()
	for {
		s.mu.Lock()
		r, changed := s.mu.reign, s.mu.changed
		s.mu.Unlock()
		if r != nil {
			return r, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// leading returns the current reign, or nil.
func (s *Server) leading() *reign {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.reign
}

// job returns the job of that name, and begins it if it is new. kind is that of
// the client that names it, and ctx its call's; KindUnset names one that the ledger
// has, which is begun even if there are more than MaxJobs now. Where there are
// MaxJobs, one that never came to a quorum makes room.
func (r *reign) job(ctx context.Context, name string, kind quorum.ClientKind) (*job, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return nil, errNotLeader
	}
	if j, ok := r.jobs[name]; ok {
		return j, nil
	}
	by := founderOf(ctx)
	if most := r.server.cfg.MaxJobs; kind != quorum.KindUnset {
		old, invented := r.idlestLocked(by)
		switch full := len(r.jobs) >= most; {
		case full && old == nil:
			return nil, fmt.Errorf("%w: job %q would be one more than MaxJobs = %d", quorum.ErrFull, name, most)
		case !full && (by.known || invented < maxInvented):
			old = nil
		}
		r.makeRoomLocked(old, name)
	}
	j, err := newJob(r, name, kind)
	if err != nil {
		return nil, err
	}
	j.founder = by
	r.jobs[name] = j
	ctx, cancel := context.WithCancelCause(r.ctx)
	j.cancel = cancel
	r.running.Go(func() { j.run(ctx) })
	return j, nil
}

// known returns the job of that name if it exists.
func (r *reign) known(name string) (*job, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	j, ok := r.jobs[name]
	return j, ok
}

// all returns the jobs, sorted by name.
func (r *reign) all() []*job {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*job
	for _, j := range r.jobs {
		all = append(all, j)
	}
	slices.SortFunc(all, func(a, b *job) int { return cmp.Compare(a.name, b.name) })
	return all
}

// end stops the jobs and returns when they have.
func (r *reign) end() {
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	r.cancel()
	r.running.Wait()
}
