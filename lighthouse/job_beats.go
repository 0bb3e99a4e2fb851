package lighthouse

import (
	"sync"

	"github.com/skerry-ft/skerry/quorum"
)

// beats are those that wait for the job's next look, one for each session: of
// two the newer counts. It is safe for concurrent use.
type beats struct {
	ready chan struct{} // capacity 1: something waits

	mu      sync.Mutex
	waiting []*session
}

// add notes a session's newest beat. It never blocks.
func (b *beats) add(s *session, beat quorum.Beat) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.beat = beat
	if s.beating {
		return
	}
	s.beating = true
	b.waiting = append(b.waiting, s)
	if len(b.waiting) == 1 {
		select {
		case b.ready <- struct{}{}:
		default:
		}
	}
}

// heard is a session's newest beat.
type heard struct {
	session *session
	beat    quorum.Beat
}

// take returns the beats that wait, in the order in which they began to.
func (b *beats) take() []heard {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		return nil
	}
	all := make([]heard, len(b.waiting))
	for i, s := range b.waiting {
		all[i] = heard{s, s.beat}
		s.beating = false
		b.waiting[i] = nil
	}
	b.waiting = b.waiting[:0]
	return all
}

// takeBeats gives the beats that wait to the rules. What a stream said before it
// was replaced, or its job began anew, is not the word of the one that followed
// it; what the rules refuse is about an older quorum, or from somebody unknown.
func (j *job) takeBeats() {
	for _, h := range j.beats.take() {
		if j.sessions[h.session.id] == h.session {
			_ = j.machine.Beat(j.now(), h.session.id, h.beat)
		}
	}
}
