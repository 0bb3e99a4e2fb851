package nccl

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
)

// An op that comes while Configure is under way ends with it, if that fails.
func TestSubmitDuringConfigure(t *testing.T) {
	f := open(t)
	w := pgtest.NewWorld(t, pgtest.StartStore(t))
	b := patientFor(t, f, pgtest.PromptBound)
	w.Next()
	f.fault(initNeverEnds)
	ctx, cancel := context.WithCancel(t.Context())
	configured := make(chan error, 1)
	go func() { configured <- b.Configure(ctx, w.Config([]pgtest.Member{{ID: "solo", Backend: b}}, 0)) }()
	for until := time.Now().Add(time.Minute); ; {
		if e, err := b.current(); err == nil && e.cause() == nil {
			break
		}
		if time.Now().After(until) {
			t.Fatal("Configure does not begin")
		}
		select {
		case err := <-configured:
			t.Fatalf("configure ended: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	work := b.Submit(&pg.Op{Kind: pg.KindBarrier})
	cancel()
	if err := <-configured; !errors.Is(err, context.Canceled) {
		t.Errorf("configure: %v, want context.Canceled", err)
	}
	select {
	case <-work.Done():
		if work.Err() == nil {
			t.Error("a barrier of no group succeeded")
		}
	case <-time.After(time.Minute):
		t.Error("the barrier never ends")
	}
	if err := b.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}
