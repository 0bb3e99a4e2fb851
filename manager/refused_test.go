package manager

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/quorum"
)

// A join that is refused for now is made again after a pause, not at once: the
// lighthouse had ten thousand a second of one replica.
func TestRefusedJoinPauses(t *testing.T) {
	t.Parallel()
	const joins = 4
	var times [joins]time.Time
	var n atomic.Int32
	addr := serveScript(t, func(_ int, st *scriptedStream) error {
		if err := st.welcome(); err != nil {
			return err
		}
		for {
			up, err := st.await(isJoin)
			if err != nil {
				return err
			}
			if i := n.Load(); i < joins {
				times[i] = time.Now()
				n.Add(1)
			}
			refused := wire.RefusalOf(up.GetJoin().GetNumber(), quorum.ErrFull)
			if err := st.Send(&skerrypb.Down{Message: &skerrypb.Down_Refused{Refused: refused}}); err != nil {
				return err
			}
		}
	})
	s := newServer(serverConfig{replica: "a:1", address: "http://h:1", store: "h:2", size: 1, log: zerolog.Nop()})
	s.session, _ = runSession(t, nil, addr)
	ctx := limited(t)
	go func() { _ = s.run(ctx) }()
	go func() { _, _ = s.report(ctx, quorum.RankReport{Kind: quorum.JoinFall, Attempt: 1}) }()
	eventually(t, "it has joined often enough", func() bool { return n.Load() == joins })
	// A busy machine makes this longer, never shorter.
	if took, want := times[joins-1].Sub(times[0]), (joins-1)*refusedPause; took < want {
		t.Errorf("%d joins within %v, want a pause of %v between two", joins, took, refusedPause)
	}
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
