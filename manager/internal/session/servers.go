package session

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/netaddr"
	"github.com/skerry-ft/skerry/internal/wire"
)

// Where a session looks for the leader, and for how long it tries each server.
const (
	// maxKnownServers bounds the list, and maxRedirects the servers that one
	// round is sent to: two that point at each other are no leader.
	maxKnownServers = 64
	maxRedirects    = 4

	// sameAgain is how long the server that broke a stream may take to open the
	// next one: most breaks are short, and a dead process refuses at once.
	sameAgain = 300 * time.Millisecond

	// firstTry is how long each server of several may take to be reached, and
	// firstWelcome to answer a hello, in the first round; both double with each
	// round. The first is short, because a new leader takes members for alive for
	// one heartbeat timeout only, and one server may hang; the second is longer
	// than a server holds a hello while the others elect a leader.
	firstTry     = 400 * time.Millisecond
	firstWelcome = 1500 * time.Millisecond

	// crowdJitter spreads those who lost one server over the others.
	crowdJitter = 20 * time.Millisecond

	// stableAfter is how long a stream must have lived for its end to be news: the
	// next one is tried without a pause.
	stableAfter = time.Second
)

// servers is what a session knows of the lighthouse's servers. It is guarded by
// the session's lock.
type servers struct {
	configured []string // by the user
	learned    []string // what the newest welcome or redirect told
	last       string   // of the open stream, or the last one
	hung       bool     // that one fell silent: it comes last
	rounds     int      // over all of them, since a stream was open

	// avoid is the server that was lost, or that cannot be reached though it is
	// said to lead: then relay asks the others to pass the session on to it.
	avoid string
	relay bool
}

// newServers takes the user's list; an element may itself be "a,b,c".
func newServers(addresses []string) servers {
	var s servers
	for _, list := range addresses {
		for addr := range strings.SplitSeq(list, ",") {
			addr = netaddr.HostPort(strings.TrimSpace(addr))
			if addr != "" && !slices.Contains(s.configured, addr) {
				s.configured = append(s.configured, addr)
			}
		}
	}
	return s
}

// Addresses are the servers that a user's list names, as "host:port"; an element may
// itself be "a,b,c".
func Addresses(list []string) []string { return newServers(list).configured }

// learn takes over a server's list: what it no longer names is gone, but for
// what the user named.
func (s *servers) learn(list []string) {
	if len(list) == 0 {
		return
	}
	s.learned = slices.Clone(list[:min(len(list), maxKnownServers)])
}

// all are the servers known, those of the user first.
func (s *servers) all() []string {
	all := slices.Clone(s.configured)
	for _, addr := range s.learned {
		if !slices.Contains(all, addr) && len(all) < maxKnownServers {
			all = append(all, addr)
		}
	}
	return all
}

// several says that there is somewhere else to go.
func (s *servers) several() bool { return len(s.all()) > 1 }

// order is whom to try, in this order: the last good one first, or last if it
// hung, and the others as they come, so that a crowd that lost one server
// spreads over the rest.
func (s *servers) order() []string {
	all := s.all()
	if s.last == "" && s.rounds == 0 {
		return all // the user's order is the user's wish
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	i := slices.Index(all, s.last)
	if i < 0 {
		return all
	}
	all = slices.Delete(all, i, i+1)
	if s.hung {
		return append(all, s.last)
	}
	return slices.Insert(all, 0, s.last)
}

// patience is how long a server may take to be reached, and to welcome us.
func (s *servers) patience(addr string, most time.Duration) (connect, welcome time.Duration) {
	if !s.several() {
		return most, most
	}
	again := min(s.rounds, maxDoublings)
	connect, welcome = min(firstTry<<again, most), min(firstWelcome<<again, most)
	if addr == s.last && s.avoid == addr && s.rounds == 0 {
		connect = min(sameAgain, most)
	}
	return connect, welcome
}

// maxDoublings keeps the shift within bounds; the dial timeout is met earlier.
const maxDoublings = 8

// opened notes that a server welcomed us.
func (s *servers) opened(addr string) {
	s.last, s.hung, s.rounds = addr, false, 0
	s.avoid, s.relay = "", false
}

// broke notes how the open stream ended.
func (s *servers) broke(addr string, err error) {
	s.hung = errors.Is(err, errHung)
	if s.hung || status.Code(err) == codes.Unavailable && !saidSo(err) {
		s.avoid, s.relay = addr, false
	}
}

// saidSo tells an Unavailable that the server itself said, when it stops to lead,
// from one that the transport made of a dead connection.
func saidSo(err error) bool { return errors.Is(err, wire.ErrNoLeader) }

// unreachable notes that a server which is said to lead could not be reached. Once
// may be bad luck: it is asked to be passed on from the second round.
func (s *servers) unreachable(addr string) { s.avoid, s.relay = addr, s.rounds > 0 }

// redirectError is a server's word that another one leads.
type redirectError struct {
	wire.Redirect
}

func (e *redirectError) Error() string { return fmt.Sprintf("%s leads", e.Leader) }

// errHung is why a stream ended on which nothing was heard for too long.
var errHung = errors.New("lighthouse server fell silent")
