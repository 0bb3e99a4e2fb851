package lighthouse

import (
	"slices"
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

// maxLostTold is how many losses of one quorum its members are told one by one.
// The first ends it; when half of a cluster dies, nobody needs thousands of
// messages about the rest.
const maxLostTold = 64

// told is what the members of a quorum were told, to tell them each thing once:
// in a quorum of thousands that falls, every member's join says the same.
type told struct {
	quorumID int64
	lost     int
	fallen   []quorum.Fact
}

// maxFacts bounds the facts of one quorum that are remembered: members say the
// same, or one of two things.
const maxFacts = 16

// minTold is the size from which repeated notices are left out. Below, everybody
// is told who fell, for people to read.
const minTold = 64

// news says whether a notice tells its receivers anything that those of an
// earlier one have not heard. Fewer and fewer have not joined, so the receivers of
// a later one are among those of an earlier one; who comes back is told alone.
func (t *told) news(n quorum.Notice) bool {
	if len(n.To) < minTold || n.Kind != quorum.NoticeLost && n.Kind != quorum.NoticeFallen {
		return true
	}
	if n.QuorumID != t.quorumID {
		*t = told{quorumID: n.QuorumID}
	}
	if n.Kind == quorum.NoticeLost {
		t.lost++
		return t.lost <= maxLostTold
	}
	for _, f := range t.fallen {
		if sameFact(f, n.Fact) {
			return false
		}
	}
	if len(t.fallen) < maxFacts {
		t.fallen = append(t.fallen, n.Fact)
	}
	return true
}

func sameFact(a, b quorum.Fact) bool {
	return a.Kind == b.Kind && a.Step == b.Step && a.QuorumID == b.QuorumID && slices.Equal(a.Digests, b.Digests)
}
