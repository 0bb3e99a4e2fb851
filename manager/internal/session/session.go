package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/internal/failpoint"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/netaddr"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/manager/internal/final"
	"github.com/skerry-ft/skerry/quorum"
)

// Config says which replica a session is of, and what it calls. The functions
// are called from the session's goroutines, one at a time, and must not block.
type Config struct {
	Hello       wire.Hello // without position, last answer and accusations
	Addresses   []string   // of lighthouse servers, see Addresses
	DialTimeout time.Duration
	CallTimeout time.Duration
	// Dial prepares a connection to the server at "host:port".
	Dial func(address string) (*grpc.ClientConn, error)
	Log  zerolog.Logger

	Beat   func() quorum.Beat
	Notice func(quorum.Notice)
	Found  func(address string)
	Lost   func(cause error)
}

// ErrWithdrawn ends a join that its caller withdrew, or replaced by another.
var ErrWithdrawn = errors.New("join withdrawn")

// Backoff between rounds over all known servers.
const (
	minBackoff = 50 * time.Millisecond
	maxBackoff = time.Second
	// pausesPerTimeout is how many tries fit into a heartbeat timeout at least.
	pausesPerTimeout = 4
	// defaultBeat is used until the first welcome says otherwise.
	defaultBeat      = 100 * time.Millisecond
	defaultHeartbeat = time.Second
)

// Session is the replica's stream to whichever lighthouse server answers. It
// opens it again and again, and restates what a new leader must know: the last
// answer, the accusations, the join that still waits. Safe for concurrent use.
type Session struct {
	cfg  Config
	wake chan struct{} // capacity 1: there is something to send
	// welcomed is closed by the first welcome.
	welcomed chan struct{}

	// received is when the server last sent something, in nanoseconds since born: the
	// wall clock may jump.
	received atomic.Int64
	born     time.Time

	mu struct {
		sync.Mutex

		servers     servers
		cluster     string
		timing      wire.Timing
		sources     quorum.Sources // as the newest welcome said
		connected   bool
		since       time.Time // when the stream opened, or broke
		everOpened  bool
		warned      time.Time // when warnLostLocked last wrote a line
		lastErr     error
		final       error  // refused for good: no further attempt
		generation  uint64 // streams opened
		outbox      []*skerrypb.Up
		number      uint64 // of the newest join
		pending     *pendingJoin
		leaving     chan struct{} // said goodbye: closed when the stream has ended; nil: it has not
		withdrawn   uint64        // the newest withdrawn join, restated
		last        *quorum.LastAnswer
		accusations []quorum.Accusation
		links       map[quorum.ReplicaID]quorum.LinkReport // the newest of each peer
		joins, asks uint64                                 // made; resends not counted
	}
}

// pendingJoin waits for its answer.
type pendingJoin struct {
	join   quorum.Join
	result chan joinResult // capacity 1
}

type joinResult struct {
	quorum quorum.Quorum
	err    error
}

// New builds a session; Run works it.
func New(cfg Config) *Session {
	s := &Session{cfg: cfg, wake: make(chan struct{}, 1), welcomed: make(chan struct{}), born: time.Now()}
	s.mu.servers = newServers(cfg.Addresses)
	s.mu.timing = wire.Timing{BeatInterval: defaultBeat, HeartbeatTimeout: defaultHeartbeat}
	s.mu.since = time.Now()
	s.mu.links = make(map[quorum.ReplicaID]quorum.LinkReport)
	return s
}

// Run keeps a stream open until ctx ends or the lighthouse refuses for good;
// then it returns that refusal.
func (s *Session) Run(ctx context.Context) error {
	defer s.over()
	pauses := backoff.Backoff{First: minBackoff, Factor: 1.5, Spread: true} // a crowd that lost one server does not come as one
	for {
		lived, err := s.tryServers(ctx)
		if err != nil {
			return err
		}
		if s.hasLeft() {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		pauses.Most = s.longestPause()
		wait := pauses.Next()
		if lived >= stableAfter {
			pauses.Reset()
			if s.several() {
				wait = rand.N(crowdJitter)
			}
		}
		if err := backoff.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// tryServers tries the known servers, and where they point, until a stream was open;
// it returns when that has ended, and for how long it lived. An error ends the
// session.
func (s *Session) tryServers(ctx context.Context) (lived time.Duration, final error) {
	queue := s.order()
	tried := make(map[string]bool) // in vain, and not sent elsewhere
	leader, redirects := "", 0
	var denial error
	var failures []string // of this round: what each server, or the way to it, said
	for len(queue) > 0 {
		choice := queue
		if queue[0] == leader { // where a server sends us there is no choice
			choice = queue[:1]
		}
		c := s.dialFirst(ctx, choice)
		addr := queue[c.at]
		queue = slices.Delete(queue, c.at, c.at+1)
		began := time.Now()
		opened, err := s.serve(ctx, addr, c)
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		if final := s.closed(opened, addr, err); final != nil {
			return 0, final
		}
		if opened {
			return time.Since(began), nil
		}
		if status.Code(err) == codes.Unauthenticated {
			denial = fmt.Errorf("%s: %s", addr, status.Convert(err).Message())
		}
		to, redirected := errors.AsType[*redirectError](err)
		switch {
		case !redirected:
			tried[addr] = true
			failures = append(failures, dialText(fmt.Errorf("%s: %w", addr, err)))
			if addr == leader {
				s.unreachable(addr)
			}
			continue
		case redirects == maxRedirects:
			continue
		}
		redirects++
		leader = netaddr.HostPort(to.Leader)
		s.learn(to.Servers)
		if tried[leader] {
			s.unreachable(leader)
			continue
		}
		queue = slices.DeleteFunc(queue, func(o string) bool { return o == leader })
		queue = slices.Insert(queue, 0, leader)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.servers.rounds++
	if len(failures) > 1 {
		s.mu.lastErr = roundError(failures)
	}
	s.warnLostLocked(denial)
	return 0, s.deniedLocked(denial)
}

// When a session that was lost is spoken of again: a failover is over before the
// first time.
const (
	warnAfter = 3 * time.Second
	warnAgain = time.Minute
)

// warnLostLocked says why a session that was lost has not been opened again: by a
// denial, if there was one, for a person must see to that; else by what each server said.
func (s *Session) warnLostLocked(denial error) {
	if !s.mu.everOpened || s.mu.leaving != nil || time.Since(s.mu.since) < warnAfter ||
		s.mu.warned.After(s.mu.since) && time.Since(s.mu.warned) < warnAgain {
		return
	}
	s.mu.warned = time.Now()
	s.cfg.Log.Warn().Str(logkey.Reason, dialText(cmp.Or(denial, s.mu.lastErr))).Dur(logkey.ElapsedMs, time.Since(s.mu.since)).
		Msg("lighthouse not reached: it is tried again, and a standing quorum trains on meanwhile")
}

// deniedLocked makes a denial final for a replica that never had a session: its token
// or certificate is not what the lighthouse wants, and a person must see to it. Once
// there was a session it is tried again: secrets are renewed while all train, and
// the parts of a renewal come one after the other.
func (s *Session) deniedLocked(denial error) error {
	if denial == nil || s.mu.everOpened {
		return nil
	}
	s.mu.final = fmt.Errorf("%w: %w", final.ErrRefused, denial)
	s.failPendingLocked(s.mu.final)
	return s.mu.final
}

// several says that there is more than one server to go to.
func (s *Session) several() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.servers.several()
}

func (s *Session) learn(list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.servers.learn(list)
}

func (s *Session) unreachable(leader string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.servers.unreachable(leader)
}

// Address is where to call the lighthouse: the server of the open stream, or
// whom it would try next.
func (s *Session) Address() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.servers.last != "" && (s.mu.connected || !s.mu.servers.several()) {
		return s.mu.servers.last
	}
	return s.mu.servers.order()[0]
}

// longestPause bounds the pause between two tries: a new leader takes members
// for alive for one heartbeat timeout, and we must be back by then.
func (s *Session) longestPause() time.Duration {
	return max(min(s.Timing().HeartbeatTimeout/pausesPerTimeout, maxBackoff), minBackoff)
}

// over notes that no stream is open, nor will be: a goodbye waits for none.
func (s *Session) over() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.connected = false
	s.goneLocked()
}

// goneLocked wakes who said goodbye.
func (s *Session) goneLocked() {
	if s.mu.leaving == nil {
		return
	}
	select {
	case <-s.mu.leaving:
	default:
		close(s.mu.leaving)
	}
}

// order lists the servers to try.
func (s *Session) order() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.servers.order()
}

// closed notes that a stream ended, or could not be opened.
func (s *Session) closed(opened bool, addr string, err error) error {
	s.mu.Lock()
	s.mu.lastErr = fmt.Errorf("%s: %w", addr, err)
	if opened {
		s.mu.connected = false
		s.mu.since = time.Now()
		s.mu.servers.broke(addr, err)
	}
	s.mu.outbox = nil
	if s.mu.leaving != nil {
		defer s.mu.Unlock()
		if opened {
			s.goneLocked()
		}
		return nil
	}
	var final error
	if refused, ok := errors.AsType[*wire.RefusedError](err); ok && refused.Final {
		final = refusedError(refused)
		s.mu.final = final
		s.failPendingLocked(final)
	}
	s.mu.Unlock()
	if opened {
		s.cfg.Log.Warn().Err(err).Str(logkey.Addr, addr).Msg("lighthouse session lost")
		s.cfg.Lost(err)
	}
	return final
}

// refusedError says which of our sentinels a final refusal is.
func refusedError(r *wire.RefusedError) error {
	switch {
	case errors.Is(r, quorum.ErrEvicted):
		return fmt.Errorf("%w: %s", final.ErrEvicted, r.Text)
	case errors.Is(r, quorum.ErrDrained):
		return fmt.Errorf("%w: %s", final.ErrDrained, r.Text)
	}
	return fmt.Errorf("%w: %w", final.ErrRefused, r)
}

// Join asks for the next quorum and waits for its answer. When ctx ends first,
// the join is withdrawn, and an answer that comes later is refused.
func (s *Session) Join(ctx context.Context, j quorum.Join) (quorum.Quorum, error) {
	p := &pendingJoin{join: j, result: make(chan joinResult, 1)}
	s.mu.Lock()
	if s.mu.final != nil {
		defer s.mu.Unlock()
		return quorum.Quorum{}, s.mu.final
	}
	s.mu.number++
	s.mu.joins++
	if j.Kind == quorum.JoinAsk {
		s.mu.asks++
	}
	p.join.Number = s.mu.number
	s.failPendingLocked(ErrWithdrawn) // superseded
	s.mu.pending = p
	s.sendLocked(s.joinMessageLocked())
	s.mu.Unlock()
	failpoint.At(ctx, failpoint.JoinDuring)
	select {
	case r := <-p.result:
		return r.quorum, r.err
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.pending != p { // answered in this very moment
		r := <-p.result
		return r.quorum, r.err
	}
	s.mu.pending = nil
	s.mu.withdrawn = p.join.Number
	s.sendLocked(withdrawMessage(p.join.Number))
	return quorum.Quorum{}, fmt.Errorf("%w: %w", ErrWithdrawn, context.Cause(ctx))
}

// Accuse tells the lighthouse at once, and again whenever a stream opens, until
// the next answer.
func (s *Session) Accuse(a quorum.Accusation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.mu.accusations, a) || len(s.mu.accusations) >= wire.MaxAccusations {
		return
	}
	s.mu.accusations = append(s.mu.accusations, a)
	s.sendLocked(&skerrypb.Up{Message: &skerrypb.Up_Accuse{Accuse: wire.AccusationToProto(a)}})
}

// ReportLink tells the lighthouse whether a peer is reached, at once, and again
// whenever a stream opens: a new leader knows nothing of links.
func (s *Session) ReportLink(r quorum.LinkReport) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.links[r.To] = r
	s.sendLocked(linkMessage(r))
}

// ForgetLink ends what is restated of a peer.
func (s *Session) ForgetLink(peer quorum.ReplicaID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.links, peer)
}

func linkMessage(r quorum.LinkReport) *skerrypb.Up {
	return &skerrypb.Up{Message: &skerrypb.Up_Link{Link: wire.LinkReportToProto(r)}}
}

// Leave says goodbye, and why, if a stream is open, closes the stream behind it, and waits
// up to patience for the lighthouse to end the stream: then the goodbye was
// heard. (A stream that is cut loses what was sent on it last.) Nothing is sent
// after it, and no other stream is opened.
func (s *Session) Leave(why string, patience time.Duration) {
	beat := wire.BeatToProto(s.cfg.Beat()) // how far it came
	s.mu.Lock()
	if s.mu.leaving != nil || !s.mu.connected {
		s.mu.Unlock()
		return
	}
	s.sendLocked(&skerrypb.Up{Message: &skerrypb.Up_Beat{Beat: beat}})
	s.sendLocked(&skerrypb.Up{Message: &skerrypb.Up_Leaving{Leaving: &skerrypb.Leaving{Why: wire.Text(why)}}})
	ended := make(chan struct{})
	s.mu.leaving = ended
	s.mu.Unlock()
	select {
	case <-ended:
	case <-time.After(patience):
	}
}

// hasLeft says that the goodbye was said.
func (s *Session) hasLeft() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.leaving != nil
}

// AskLeft is for how much longer an ask that was made at began may yet be
// answered, if the lighthouse may take that long. An ask whose leader died is
// the next one's to answer: it is given the time to be found, and then as long.
func (s *Session) AskLeft(began time.Time, long time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.mu.connected && s.mu.servers.several():
		return failoverWait - time.Since(s.mu.since)
	case s.mu.connected && s.mu.since.After(began):
		began = s.mu.since
	}
	return long - time.Since(began)
}

// failoverWait is how long a change of leader may take before an ask that waits
// is withdrawn, and training goes on without an answer.
const failoverWait = 3 * time.Second

// Sources waits for the first welcome, and returns what the newest one said.
func (s *Session) Sources(ctx context.Context) (quorum.Sources, error) {
	select {
	case <-s.welcomed:
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.mu.sources, nil
	case <-ctx.Done():
		return quorum.Sources{}, fmt.Errorf("wait for a session: %w", context.Cause(ctx))
	}
}

// Connected tells whether a stream is open.
func (s *Session) Connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.connected
}

// Ping asks the server of the open stream whether it is there.
func (s *Session) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer cancel()
	addr := s.Address()
	conn, err := s.cfg.Dial(addr)
	if err != nil {
		return fmt.Errorf("dial %s: %w", addr, err)
	}
	defer conn.Close() //nolint:errcheck // nothing is lost with it
	if _, err := skerrypb.NewLighthouseClient(conn).Info(ctx, &skerrypb.InfoRequest{}); err != nil {
		return fmt.Errorf("ask %s for its name: %w", addr, wire.FromStatus(err))
	}
	return nil
}

// Timing is what the lighthouse last said of its timeouts.
func (s *Session) Timing() wire.Timing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.timing
}

// Counts says how many joins were made, how many of them asked, and how often a
// stream was opened again.
func (s *Session) Counts() (joins, asks, reconnects uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.joins, s.mu.asks, max(s.mu.generation, 1) - 1
}

// OutOfReach explains why there is no stream, if there never was one for at
// least d.
func (s *Session) OutOfReach(d time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	tried := time.Since(s.mu.since)
	if s.mu.everOpened || tried < d {
		return nil
	}
	return fmt.Errorf("%w: tried %s for %v: %s: start a lighthouse there, or correct Config.Lighthouse (SKERRY_LIGHTHOUSE)",
		final.ErrUnreachable, strings.Join(s.mu.servers.all(), ", "), tried.Round(time.Millisecond), dialText(s.mu.lastErr))
}

// dialText is what the network said, without what grpc wraps around it.
func dialText(err error) string {
	text := fmt.Sprint(err)
	if _, cause, found := strings.Cut(text, "Error while dialing: "); found {
		return strings.TrimSuffix(cause, `"`)
	}
	return text
}

// maxFailuresSaid bounds the servers of which a line says what is wrong with them.
const maxFailuresSaid = 5

// roundError says what is wrong with each server: of one that is down, and of others
// whose certificates have ended, a person must be told the second.
func roundError(failures []string) error {
	more := ""
	if n := len(failures) - maxFailuresSaid; n > 0 {
		failures, more = failures[:maxFailuresSaid], fmt.Sprintf("; and %d more", n)
	}
	return errors.New(strings.Join(failures, "; ") + more)
}

// sendLocked queues u for the open stream; without one it is dropped, because
// opening restates all that still matters.
func (s *Session) sendLocked(u *skerrypb.Up) {
	if !s.mu.connected || s.mu.leaving != nil {
		return
	}
	s.mu.outbox = append(s.mu.outbox, u)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Session) failPendingLocked(err error) {
	if p := s.mu.pending; p != nil {
		p.result <- joinResult{err: err}
		s.mu.pending = nil
	}
}

// joinMessageLocked renders the pending join with what is known now.
func (s *Session) joinMessageLocked() *skerrypb.Up {
	j := s.mu.pending.join
	j.Last = s.mu.last
	for _, a := range s.mu.accusations {
		if !slices.Contains(j.Accusations, a) && len(j.Accusations) < wire.MaxAccusations {
			j.Accusations = append(j.Accusations, a)
		}
	}
	return &skerrypb.Up{Message: &skerrypb.Up_Join{Join: wire.JoinToProto(j)}}
}

func withdrawMessage(number uint64) *skerrypb.Up {
	return &skerrypb.Up{Message: &skerrypb.Up_Withdraw{Withdraw: &skerrypb.Withdraw{Number: number}}}
}
