package prober

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/manager/internal/tasks"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/quorum"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// told is a lighthouse that keeps what it is told.
type told struct {
	mu    sync.Mutex
	links []quorum.LinkReport
	ends  []quorum.ReplicaID
}

func (l *told) ReportLink(r quorum.LinkReport) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.links = append(l.links, r)
}

func (l *told) ForgetLink(peer quorum.ReplicaID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ends = append(l.ends, peer)
}

// reports is what was told so far.
func (l *told) reports() []quorum.LinkReport {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.links)
}

func (l *told) forgot() []quorum.ReplicaID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.ends)
}

// probing runs f beside a prober's tasks, in virtual time.
func probing(t *testing.T, f func(p *Prober, l *told)) {
	synctest.Test(t, func(t *testing.T) {
		l, work := &told{}, tasks.New()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			work.Run(ctx)
		}()
		f(New("a", l, work, zerolog.Nop()), l)
		cancel()
		<-done
	})
}

func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestProbesUntilReached(t *testing.T) {
	t.Parallel()
	probing(t, func(p *Prober, l *told) {
		var mended atomic.Bool
		p.Probe("b", Group, func(context.Context) error {
			if mended.Load() {
				return nil
			}
			return errors.New("cut")
		})
		p.Probe("b", Store, func(context.Context) error { return nil })
		after(time.Minute)
		if n := len(l.reports()); n < 8 || n > 20 {
			t.Errorf("told %d times in a minute, want a growing pause of at most %v", n, last)
		}
		want := quorum.LinkReport{By: "a", To: "b", Evidence: "cut"}
		if i := slices.IndexFunc(l.reports(), func(r quorum.LinkReport) bool { return r != want }); i >= 0 {
			t.Errorf("told %+v, want %+v while one of the two cannot be reached", l.reports()[i], want)
		}
		mended.Store(true)
		after(2 * last)
		if all := l.reports(); !all[len(all)-1].Holds {
			t.Errorf("told %+v once both are reached, want that it holds", all[len(all)-1])
		}
		p.Reached("b", "c")
		n := len(l.reports())
		after(time.Minute)
		if len(l.reports()) != n || p.Len() != 0 || !slices.Equal(l.forgot(), []quorum.ReplicaID{"b"}) {
			t.Errorf("%d words after b was reached, %d peers, forgot %v", len(l.reports())-n, p.Len(), l.forgot())
		}
	})
}

func TestProbesEnd(t *testing.T) {
	t.Parallel()
	probing(t, func(p *Prober, l *told) {
		p.Probe("silent", Group, func(context.Context) error { return fmt.Errorf("no probes: %w", pg.ErrUnsupported) })
		for i := range 2 * maxPeers {
			p.Probe(quorum.ReplicaID(fmt.Sprint(i)), Store, func(context.Context) error { return nil })
		}
		if p.Len() != maxPeers {
			t.Errorf("%d peers are probed, want %d", p.Len(), maxPeers)
		}
		after(2 * probeFor)
		if slices.ContainsFunc(l.reports(), func(r quorum.LinkReport) bool { return r.To == "silent" }) {
			t.Error("the link of a peer that cannot be probed was told")
		}
		if p.Len() != 1 { // that one, which is forgotten as it is reached
			t.Errorf("%d peers are probed after %v", p.Len(), 2*probeFor)
		}
	})
}

func TestNoLighthouse(t *testing.T) {
	t.Parallel()
	p := New("a", nil, tasks.New(), zerolog.Nop())
	p.Probe("b", Group, func(context.Context) error { return nil })
	if p.Reached("b"); p.Len() != 0 {
		t.Errorf("%d peers are probed for nobody", p.Len())
	}
}
