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
	waiting []heard // in the order in which they began to
}

// heard is a session's newest beat.
type heard struct {
	session *session
	beat    quorum.Beat
}

// add notes a session's newest beat. It never blocks.
func (b *beats) add(s *session, beat quorum.Beat) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.beats > 0 {
		b.waiting[s.beats-1].beat = beat
		return
	}
	b.waiting = append(b.waiting, heard{s, beat})
	s.beats = len(b.waiting)
	if s.beats == 1 {
		select {
		case b.ready <- struct{}{}:
		default:
		}
	}
}

// take returns the beats that wait.
func (b *beats) take() []heard {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		return nil
	}
	all := b.waiting
	for _, h := range all {
		h.session.beats = 0
	}
	b.waiting = make([]heard, 0, len(all))
	return all
}

// takeBeats gives the beats that wait to the rules. What a stream said before it
// was replaced, or its job began anew, is not the word of the one that followed
// it; what the rules refuse is about an older quorum, or from somebody unknown.
func (j *job) takeBeats() {
	for _, h := range j.beats.take() {
		if j.sessions[h.session.id] == h.session {
			now := j.now()
			if j.machine.Beat(now, h.session.id, h.beat) == nil {
				j.steps.Heard(now, h.beat.Position.Step)
			}
		}
	}
}
