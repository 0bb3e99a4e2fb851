package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/monitor"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/manager/internal/final"
	"github.com/skerry-ft/skerry/manager/internal/session"
	"github.com/skerry-ft/skerry/quorum"
)

// server is one replica's side towards the lighthouse, in group rank 0's
// process: it gathers the ranks' reports into one join, and their votes into
// one decision. Safe for concurrent use.
type server struct {
	serverConfig

	session  lighthouse
	unlinked chan struct{} // capacity 1: a rank's link broke

	mu struct {
		monitor.Monitor

		pending     []*pendingReport // by group rank; nil: none
		newest      *quorum.Quorum
		answered    uint64 // the attempt whose reports newest answered
		voidAttempt uint64 // the newest one that is void for all
		final       error  // every report gets this
		lost        bool   // a rank is gone; final says which
		changed     uint64 // counts changes of pending, for join to notice
		subscribers []*subscriber
		links       []rankLink // by group rank
		metadata    []string   // of the checkpoint transports, by group rank
		unanswered  uint64     // asks withdrawn
		away        []bool     // by group rank: its trainer does not move
		polls       *quorum.Polls
	}
}

// errUnanswered ends an ask that the lighthouse does not answer in time.
var errUnanswered = errors.New("ask unanswered")

// lighthouse is what the server needs of the replica's session.
type lighthouse interface {
	Join(context.Context, quorum.Join) (quorum.Quorum, error)
	Connected() bool
	AskLeft(began time.Time, long time.Duration) time.Duration
	Timing() wire.Timing
	Ping(context.Context) error
	Leave(why string, patience time.Duration)
	Sources(context.Context) (quorum.Sources, error)
}

// pendingReport waits for its reply.
type pendingReport struct {
	report quorum.RankReport
	result chan reportResult // capacity 1
}

type reportResult struct {
	reply Reply
	err   error
}

// Pauses between joins that the lighthouse refuses for now, and between looks
// whether it is there after an ask that nobody answered, in heartbeat timeouts.
const (
	refusedPause  = 200 * time.Millisecond
	mutedTimeouts = 10
)

func newServer(cfg serverConfig) *server {
	s := &server{serverConfig: cfg, unlinked: make(chan struct{}, 1)}
	s.mu.pending = make([]*pendingReport, cfg.size)
	s.mu.metadata = make([]string, cfg.size)
	s.mu.links = make([]rankLink, cfg.size)
	s.mu.away = make([]bool, cfg.size)
	s.mu.polls = quorum.NewPolls(cfg.size)
	return s
}

// serverConfig is what newServer needs.
type serverConfig struct {
	replica quorum.ReplicaID
	address string                     // URL of the manager server
	store   string                     // host:port of the replica's store
	size    int                        // group world size
	every   bool                       // EveryStep: an ask waits for its answer
	admit   func(*quorum.Quorum) error // before the ranks are told of it; nil: none is asked
	log     zerolog.Logger
}

// Report implements Link.
func (s *server) Report(ctx context.Context, r quorum.RankReport) (Reply, error) {
	p := &pendingReport{report: r, result: make(chan reportResult, 1)}
	s.mu.Lock()
	s.mu.metadata[r.GroupRank] = r.CheckpointMetadata
	s.mu.away[r.GroupRank] = false
	if next, restarted := s.mu.polls.Restarted(r.GroupRank, r.Attempt); restarted && s.mu.final == nil {
		s.mu.Unlock()
		return voteFirst(next), nil
	}
	if done, result := s.knownLocked(r); done {
		s.mu.Unlock()
		return result.reply, result.err
	}
	if old := s.mu.pending[r.GroupRank]; old != nil {
		old.result <- reportResult{err: session.ErrWithdrawn} // superseded by a newer report
	}
	s.mu.pending[r.GroupRank] = p
	s.touchLocked()
	s.mu.Unlock()
	if r.Kind == quorum.JoinFall {
		s.tellSiblings(r.GroupRank, r.HaveQuorumID, "it joins")
	}
	s.voteFirst()
	select {
	case res := <-p.result:
		return res.reply, res.err
	case <-ctx.Done():
	}
	s.mu.Lock()
	if s.mu.pending[r.GroupRank] != p { // answered in this very moment
		s.mu.Unlock()
		res := <-p.result
		return res.reply, res.err
	}
	s.mu.pending[r.GroupRank] = nil
	s.touchLocked()
	s.mu.Unlock()
	return Reply{}, fmt.Errorf("wait for a quorum: %w", context.Cause(ctx))
}

// withdraw takes back a rank's report whose caller is remote and gave up. If it
// was answered, the answer stands, and is returned.
func (s *server) withdraw(r quorum.RankReport) Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.mu.pending[r.GroupRank]; p != nil {
		s.mu.pending[r.GroupRank] = nil
		p.result <- reportResult{err: session.ErrWithdrawn}
		s.touchLocked()
	}
	if _, result := s.knownLocked(r); result.reply.Quorum != nil {
		return result.reply
	}
	return Reply{Unanswered: true}
}

// setAway notes whether a rank's trainer is away. While one is, the replica
// cannot join, and its beats say so. A word that was on its way when the trainer
// moved, and comes behind the rank's report, is old: else the replica had joined, and
// its beats said for ever that it does not.
func (s *server) setAway(rank int, away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.away[rank] = away && s.mu.pending[rank] == nil
}

func (s *server) isAway() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.mu.away, true)
}

// knownLocked replies at once if it can: with the refusal that is final, or
// with an answer that this rank has not had.
func (s *server) knownLocked(r quorum.RankReport) (bool, reportResult) {
	if s.mu.final != nil {
		return true, reportResult{err: s.mu.final}
	}
	q := s.mu.newest
	if q == nil {
		return false, reportResult{}
	}
	if !r.Has(q) || r.Kind == quorum.JoinAsk && s.mu.answered == r.Attempt {
		return true, reportResult{reply: s.answerLocked(r, q)}
	}
	return false, reportResult{}
}

// waiting names the reports that wait, and the votes.
func (s *server) waiting() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for rank, p := range s.mu.pending {
		if p != nil {
			fmt.Fprintf(&b, "rank %d reports %+v, ", rank, p.report)
		}
	}
	fmt.Fprintf(&b, "polls %+v", s.mu.polls)
	return b.String()
}

// touchLocked notes that the reports have changed.
func (s *server) touchLocked() {
	s.mu.changed++
	s.mu.Broadcast()
}

// run joins whenever every rank has reported, until ctx ends.
func (s *server) run(ctx context.Context) error {
	for {
		var reports []*pendingReport
		var number uint64
		err := s.mu.Await(ctx, 0, func() bool {
			reports, number = s.completeLocked()
			return reports != nil
		})
		if err == nil {
			err = context.Cause(ctx) // the reports stay where they are when a join ends with ctx
		}
		if err != nil {
			s.fail(final.ErrClosed)
			return err
		}
		s.joinOnce(ctx, reports, number)
	}
}

// completeLocked returns all ranks' reports once they are there.
func (s *server) completeLocked() (reports []*pendingReport, number uint64) {
	if slices.Contains(s.mu.pending, nil) {
		return nil, 0
	}
	return slices.Clone(s.mu.pending), s.mu.changed
}

// joinOnce makes one join of the reports and delivers what becomes of it. A
// report that changes or is withdrawn meanwhile ends the join.
func (s *server) joinOnce(ctx context.Context, reports []*pendingReport, number uint64) {
	join, err := s.merge(reports)
	if err != nil {
		s.deliver(reports, nil, err)
		return
	}
	ask := join.Kind == quorum.JoinAsk && !s.every
	// Members that ask while others do not part ways with them: over a change of
	// leader all wait for the next one.
	if ask && !s.session.Connected() && s.session.AskLeft(time.Now(), 0) <= 0 {
		s.deliver(reports, nil, errUnanswered)
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var watches sync.WaitGroup // they end with the join
	watches.Go(func() { s.watch(ctx, number, cancel) })
	if ask {
		watches.Go(func() { s.withdrawUnanswered(ctx, cancel) })
	}
	q, err := s.session.Join(ctx, join)
	s.joined(ctx, reports, q, err)
	cancel(nil)
	watches.Wait()
}

// withdrawUnanswered cancels an ask that nobody answers.
func (s *server) withdrawUnanswered(ctx context.Context, cancel context.CancelCauseFunc) {
	began, long := time.Now(), s.session.Timing().HeartbeatTimeout
	for left := long; left > 0; left = s.session.AskLeft(began, long) {
		if backoff.Sleep(ctx, left) != nil {
			return
		}
	}
	cancel(errUnanswered)
}

// watch cancels the join when the reports are no longer those it was made of.
func (s *server) watch(ctx context.Context, number uint64, cancel context.CancelCauseFunc) {
	if s.mu.Await(ctx, 0, func() bool { return s.mu.changed != number }) == nil {
		cancel(session.ErrWithdrawn)
	}
}

// joined hands the outcome of a join to the ranks. ctx ends with the reports that the
// join was made of.
func (s *server) joined(ctx context.Context, reports []*pendingReport, q quorum.Quorum, err error) {
	switch {
	case err == nil:
		if s.admit != nil {
			if err := s.admit(&q); err != nil {
				s.deliver(reports, nil, err)
				return
			}
		}
		s.deliver(reports, &q, nil)
	case errors.Is(err, errUnanswered):
		s.mute()
		s.log.Debug().Msg("ask withdrawn unanswered")
		s.deliver(reports, nil, errUnanswered)
	case errors.Is(err, session.ErrWithdrawn):
		// Whoever took his report back knows; the others wait on.
	case errors.Is(err, final.ErrRefused), errors.Is(err, final.ErrEvicted), errors.Is(err, final.ErrDrained):
		s.fail(err) // every rank's trainer gets it
	default: // refused for now: these reports are not joined with again at once
		s.log.Warn().Err(err).Msg("join refused for now")
		_ = backoff.Sleep(ctx, refusedPause) // the caller looks at ctx
	}
}

// deliver replies to all reports: with an answer, or with an error.
func (s *server) deliver(reports []*pendingReport, q *quorum.Quorum, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q != nil {
		s.mu.newest = q
		s.mu.answered = reports[0].report.Attempt
		for _, p := range reports {
			if p.report.Void {
				s.mu.voidAttempt = max(s.mu.voidAttempt, p.report.Attempt)
			}
		}
	}
	for i, p := range reports {
		if s.mu.pending[i] != p {
			s.overtakenLocked(i)
			continue
		}
		s.mu.pending[i] = nil
		switch {
		case q != nil:
			p.result <- reportResult{reply: s.answerLocked(p.report, q)}
		case errors.Is(err, errUnanswered):
			p.result <- reportResult{reply: Reply{Unanswered: true}}
		default:
			p.result <- reportResult{err: err}
		}
	}
	s.mu.changed++
}

// answerLocked is the reply to a report that has its quorum.
func (s *server) answerLocked(r quorum.RankReport, q *quorum.Quorum) Reply {
	return Reply{Quorum: q, VoidAttempt: s.mu.voidAttempt, Attempt: s.mu.polls.Next(r.GroupRank)}
}

// voteFirst is the reply to a rank that has to vote before it reports.
func voteFirst(next uint64) Reply { return Reply{Unanswered: true, VoteFirst: true, Attempt: next} }

// voteFirst replies to the ranks that report though their siblings wait for
// their vote, or have gone on without it: without the vote, the siblings do not
// report.
func (s *server) voteFirst() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for rank, p := range s.mu.pending {
		if p == nil {
			continue
		}
		if next, awaits := s.mu.polls.Awaits(p.report); awaits {
			s.mu.pending[rank] = nil
			p.result <- reportResult{reply: voteFirst(next)}
			s.touchLocked()
		}
	}
}

// overtakenLocked replies to a report that replaced the one that was just
// answered; one that was withdrawn comes again and gets the answer then.
func (s *server) overtakenLocked(rank int) {
	p := s.mu.pending[rank]
	if p == nil {
		return
	}
	if done, result := s.knownLocked(p.report); done {
		s.mu.pending[rank] = nil
		p.result <- result
	}
}

// fail gives err to every report from now on, and to every vote on an attempt that is not
// decided.
func (s *server) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.final == nil {
		s.mu.final = err
	}
	for i, p := range s.mu.pending {
		if p != nil {
			p.result <- reportResult{err: err}
			s.mu.pending[i] = nil
		}
	}
	s.mu.Broadcast()
}

// mute notes that an ask went unanswered. What wants a change keeps quiet until
// the lighthouse is heard again; who hears of another's wish asks all the same,
// for an ask is answered only if all members ask at one step.
func (s *server) mute() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.unanswered++
	s.mu.Broadcast()
}

// pingWhenUnanswered finds out, after an ask that went unanswered, when the lighthouse
// answers again, if it does not say something by itself. It ends with ctx.
func (s *server) pingWhenUnanswered(ctx context.Context) {
	seen := uint64(0) // of the unanswered asks
	news := func() bool {
		last := seen
		seen = s.mu.unanswered
		return seen != last
	}
	for s.mu.Await(ctx, 0, news) == nil {
		for again := false; !again; {
			if backoff.Sleep(ctx, mutedTimeouts*s.session.Timing().HeartbeatTimeout) != nil {
				return
			}
			again = s.session.Ping(ctx) == nil
		}
		s.lighthouseBack()
	}
}

// lighthouseBack tells the ranks that the lighthouse is there again.
func (s *server) lighthouseBack() { s.push(Notice{LighthouseBack: true}, -1) }

// unansweredAsks counts the asks that were withdrawn.
func (s *server) unansweredAsks() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.unanswered
}

// merge makes one join of all ranks' reports.
func (s *server) merge(reports []*pendingReport) (quorum.Join, error) {
	all := make([]quorum.RankReport, len(reports))
	for rank, p := range reports {
		all[rank] = p.report
	}
	return quorum.MergeReports(quorum.Member{
		ReplicaID: s.replica, Address: s.address, StoreAddress: s.store, GroupWorldSize: s.size,
	}, all)
}

// tellSiblings pushes the other ranks to abort and to report too.
func (s *server) tellSiblings(rank int, quorumID int64, cause string) {
	if s.size == 1 || quorumID == 0 {
		return
	}
	n := Notice{Sibling: &SiblingBroke{QuorumID: quorumID, GroupRank: rank, Cause: cause}}
	s.push(n, rank)
	s.log.Debug().Int(logkey.GroupRank, rank).Int64(logkey.QuorumID, quorumID).Msg("siblings told to abort")
}
