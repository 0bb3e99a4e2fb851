package session

import (
	"context"
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/internal/backoff"
)

// How a server that hangs is told from one that has nothing to say.
const (
	// missedServerBeats is how many beats of the server may be missed, and
	// minServerSilence the shortest silence that counts whatever their interval.
	missedServerBeats = 4
	minServerSilence  = 800 * time.Millisecond

	// ownStall is how late a look must be for this process to doubt itself: it was
	// descheduled, and what it did not hear meanwhile is not the server's silence.
	ownStall = 150 * time.Millisecond

	// looksPerSilence is how often the watch looks within the silence that counts.
	looksPerSilence = 8
)

// watch ends the stream when the server has fallen silent: it may be stopped,
// or cut off without a word from the network. That is a suspicion of the server,
// never of this replica, and it costs a failover at worst. It watches only while
// there is another server to go to, and one that promised to beat. It ends with
// ctx.
func (s *Session) watch(ctx context.Context, hung context.CancelCauseFunc) {
	looked := time.Now()
	for {
		limit := s.silenceLimit()
		pause := max(limit, minServerSilence) / looksPerSilence
		if backoff.Sleep(ctx, pause) != nil {
			return
		}
		now := time.Now()
		if late := now.Sub(looked) - pause; late > ownStall {
			// Nothing was read while we stood still: hear it first.
			s.noteReceived()
		}
		looked = now
		silence := now.Sub(s.born) - time.Duration(s.received.Load())
		if limit > 0 && silence > limit {
			hung(fmt.Errorf("%w: nothing heard for %v", errHung, silence.Round(time.Millisecond)))
			return
		}
	}
}

// hear notes that the server said something.
func (s *Session) noteReceived() { s.received.Store(int64(time.Since(s.born))) }

// silenceLimit is the silence that makes a server hung; 0: none does.
func (s *Session) silenceLimit() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	beat := s.mu.timing.ServerBeat
	if beat == 0 || !s.mu.servers.several() {
		return 0
	}
	return max(missedServerBeats*beat, minServerSilence)
}
