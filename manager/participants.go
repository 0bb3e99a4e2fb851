package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/skerry-ft/skerry/internal/monitor"
	"github.com/skerry-ft/skerry/quorum"
)

// Participants says whose gradients count in a step, and so how its data are
// shared out.
type Participants struct {
	Rank     int   // this replica's index among them; -1: it heals, or is a spare
	Count    int   // how many there are: the divisor of averages
	QuorumID int64 // of the step's quorum
}

// errShares discards a step whose data were shared out for another quorum.
var errShares = errors.New("the data of this step were shared out among other participants")

// WaitParticipants says who takes part in the step that StartQuorum began. It
// waits until the step's quorum is there, as torchft's num_participants,
// participating_rank and is_participating do. It belongs to the trainer's
// goroutine, like StartQuorum.
//
// What it says holds for the step: if the quorum falls, and the step would go on
// with other participants, it is discarded (else data that were shared out among
// three would be averaged over two). A step for which nobody asked goes on.
//
// Errors: ErrStepFailed: the step is lost already, compute nothing for it and
// call ShouldCommit; what ended training; ctx's cause.
func (m *Manager) WaitParticipants(ctx context.Context) (Participants, error) {
	p := Participants{Rank: -1}
	var lost error
	look := func() (known bool) {
		p, known, lost = m.participantsLocked()
		return known || lost != nil
	}
	err := m.await(ctx, "the participants", m.timeouts.Quorum, look)
	if errors.Is(err, monitor.ErrTimeout) {
		m.fail(m.noQuorum())
		err = m.await(ctx, "the participants", 0, look) // which sees that
	}
	return p, cmp.Or(err, lost)
}

// participantsLocked says who takes part in the attempt under way, and holds it to
// that; ok is false until its quorum is there.
func (m *Manager) participantsLocked() (p Participants, ok bool, err error) {
	p.Rank = -1
	switch {
	case !m.openLocked():
		return p, false, errors.New("manager: WaitParticipants without StartQuorum")
	case m.mu.attempt.cut:
		return p, false, fmt.Errorf("%w: %w", ErrStepFailed, m.mu.attempt.err)
	case !m.mu.rank.Usable():
		return p, false, nil
	}
	s := m.mu.rank.ShareOut()
	return Participants{Rank: s.Rank, Count: s.Count, QuorumID: m.mu.rank.Quorum().ID}, true, nil
}

// sharedOut is why a step fails whose data were shared out otherwise.
func sharedOut(was, now quorum.Shares) error {
	return fmt.Errorf("%w: was %d of %d, is %d of %d", errShares, was.Rank, was.Count, now.Rank, now.Count)
}
