package manager

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/quorum"
)

// full is a lighthouse that refuses every join for now.
type full struct {
	lighthouse

	joins chan time.Time
}

func (f full) Join(ctx context.Context, _ quorum.Join) (quorum.Quorum, error) {
	select {
	case f.joins <- time.Now():
	case <-ctx.Done():
	}
	return quorum.Quorum{}, quorum.ErrFull
}

// A join that is refused for now is made again after a pause, not at once: the
// lighthouse had ten thousand a second of one replica.
func TestRefusedJoinPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(serverConfig{replica: "a:1", address: "http://h:1", store: "h:2", size: 1, log: zerolog.Nop()})
		f := full{joins: make(chan time.Time)}
		s.session = f
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = s.run(ctx) })
		wg.Go(func() { _, _ = s.report(ctx, quorum.RankReport{Kind: quorum.JoinFall, Attempt: 1}) })
		last := <-f.joins
		for range 3 {
			next := <-f.joins
			if took := next.Sub(last); took != refusedPause {
				t.Errorf("joined again after %v, want a pause of %v", took, refusedPause)
			}
			last = next
		}
		cancel()
		wg.Wait()
	})
}

// The word that a trainer is away was on its way when the trainer moved, and arrives
// behind its report. It is old.
func TestLateWordOfAbsenceDoesNotOutliveTheReport(t *testing.T) {
	t.Parallel()
	s := newServer(serverConfig{replica: "a:1", address: "http://h:1", store: "h:2", size: 1, log: zerolog.Nop()})
	d, ctx := direct{s}, limited(t)
	looked, goOn, told := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(told)
		d.away(ctx, func() bool {
			close(looked)
			<-goOn
			return true
		})
	}()
	<-looked
	go func() { _, _ = s.report(ctx, quorum.RankReport{Kind: quorum.JoinFall, Attempt: 1}) }()
	eventually(t, "it reports", func() bool { r, _ := s.complete(); return r != nil })
	close(goOn)
	<-told
	if s.isAway() {
		t.Error("the rank has reported, and its replica's beats say that it is away")
	}
}
