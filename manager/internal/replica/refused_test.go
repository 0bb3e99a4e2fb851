package replica

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/manager/internal/final"
	"github.com/skerry-ft/skerry/manager/internal/session"
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
		wg.Go(func() { _, _ = s.Report(ctx, quorum.RankReport{Kind: quorum.JoinFall, Attempt: 1}) })
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
		d.Away(ctx, func() bool {
			close(looked)
			<-goOn
			return true
		})
	}()
	<-looked
	go func() { _, _ = s.Report(ctx, quorum.RankReport{Kind: quorum.JoinFall, Attempt: 1}) }()
	testkit.Eventually(t, "it reports", func() bool { return complete(s) != nil })
	close(goOn)
	<-told
	if s.isAway() {
		t.Error("the rank has reported, and its replica's beats say that it is away")
	}
}

// A quorum in which the replica cannot train ends it before its ranks are told of it, in
// all of them.
func TestQuorumThatIsNotAdmitted(t *testing.T) {
	t.Parallel()
	elsewhere := errors.New("out of reach")
	var final error
	r, err := New(Config{
		ID: "a:1", GroupWorldSize: 1, Lighthouse: []string{"127.0.0.1:1"}, Listen: "127.0.0.1:0", Guard: &guard.Guard{}, Log: zerolog.Nop(),
		Admit: func(*quorum.Quorum) error { return elsewhere }, Final: func(err error) { final = err },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // it never ran
	r.server.joined(t.Context(), nil, quorum.Quorum{ID: 7}, nil)
	if _, err := r.Link().Report(limited(t), quorum.RankReport{Attempt: 1}); !errors.Is(err, elsewhere) || !errors.Is(final, elsewhere) {
		t.Errorf("a rank is told %v, and the manager %v; want both %v", err, final, elsewhere)
	}
}

// A list that names no server reaches no session, which would have nobody to ask.
func TestNoLighthouseIsRefused(t *testing.T) {
	t.Parallel()
	r, err := New(Config{ID: "a:1", GroupWorldSize: 1, Lighthouse: []string{","}, Listen: "127.0.0.1:0", Guard: &guard.Guard{}, Log: zerolog.Nop()})
	if err == nil || !strings.Contains(err.Error(), `Lighthouse = [","], want the address of at least one`) {
		t.Errorf("%v, want a refusal", err)
	}
	if err == nil {
		_ = r.Close() // it never ran
	}
}

// A rank that has not come yet is not gone.
func TestRankThatHasNotComeIsNotGone(t *testing.T) {
	t.Parallel()
	s := newServer(serverConfig{replica: "a:1", size: 2})
	if rank, down := s.brokenLink(); rank >= 0 {
		t.Errorf("rank %d counts as gone for %v before it came", rank, down)
	}
	s.linkOpened(1)
	s.linkBroke(1)
	if rank, _ := s.brokenLink(); rank != 1 {
		t.Errorf("rank %d counts as gone, want 1", rank)
	}
}

// patient is a lighthouse that answers no join.
type patient struct{ lighthouse }

func (patient) Join(ctx context.Context, _ quorum.Join) (quorum.Quorum, error) {
	<-ctx.Done()
	return quorum.Quorum{}, session.ErrWithdrawn
}

// The server ends with its ctx, also while all ranks have reported and none of them takes
// its report back.
func TestServerEndsWhileAllReport(t *testing.T) {
	t.Parallel()
	s := newServer(serverConfig{replica: "a:1", size: 1, log: zerolog.Nop()})
	s.session = patient{}
	told := make(chan error, 1)
	go func() {
		_, err := s.Report(limited(t), quorum.RankReport{Kind: quorum.JoinFall, Attempt: 1})
		told <- err
	}()
	testkit.Eventually(t, "it reports", func() bool { return complete(s) != nil })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx) }()
	cancel()
	select {
	case <-ended:
	case <-time.After(testkit.Patience):
		t.Fatal("the server does not end")
	}
	if err := <-told; !errors.Is(err, final.ErrClosed) {
		t.Errorf("the rank is told %v, want ErrClosed", err)
	}
}
