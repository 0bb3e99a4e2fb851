package quorum_test

import (
	"testing"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// L1, §4.1: a process that is started twice by mistake does not put out the one that
// trains, however rarely that one beats: it is waited for as long as three beats take.
func TestL1_StartedTwiceWithRareBeats(t *testing.T) {
	t.Parallel()
	const trains, mistake = quorum.ReplicaID("a:00000000-0000-4000-8000-000000000001"), quorum.ReplicaID("a:00000000-0000-4000-8000-000000000002")
	const beat = 800 * time.Millisecond
	for _, silent := range []bool{false, true} {
		s, q := standingScene(t, trains)
		s.Beats(beat)
		s.open(mistake)
		s.join(skerryJoin(mistake, 1))
		s.now = s.now.Add(beat - time.Millisecond)
		s.Advance(s.now)
		if !silent {
			if err := s.Beat(s.now, trains, quorum.Beat{QuorumID: q.ID}); err != nil {
				t.Fatalf("the one that trains is told %v at its next beat", err)
			}
		}
		s.now = s.now.Add(2*beat + time.Millisecond)
		s.Advance(s.now)
		refused, took := false, stateOf(s, trains).State == quorum.StateLost
		for _, n := range s.Notices() {
			refused = refused || n.Kind == quorum.NoticeRefused && n.To[0] == mistake
		}
		if refused == silent || took != silent {
			t.Errorf("the one that trains is silent: %v; the other one is refused: %v, takes its place: %v", silent, refused, took)
		}
	}
}
