package scaling

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/quorum"
)

// ledger keeps one number. It is safe for concurrent use.
type ledger struct {
	mu     sync.Mutex
	number *api.Wanted
}

func (l *ledger) set(w *api.Wanted) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.number = w
}

func (l *ledger) wanted() *api.Wanted {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.number
}

// An answer waits for news, no longer than its hold, and never if there is news already.
func TestAwait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{}
		b := New(l.wanted)
		began := time.Now()
		if w := b.Await(t.Context(), Query{Nodes: 1, Hold: 20 * time.Second}); w != (api.Wanted{}) || time.Since(began) != 20*time.Second {
			t.Errorf("of no number: %+v after %v", w, time.Since(began))
		}
		began = time.Now()
		time.AfterFunc(3*time.Second, func() {
			l.set(&api.Wanted{Replicas: 12, AtMs: 7})
			b.Tell()
		})
		if w := b.Await(t.Context(), Query{Nodes: 1, Hold: 20 * time.Second}); w.Replicas != 12 || time.Since(began) != 3*time.Second {
			t.Errorf("of a number that comes: %+v after %v", w, time.Since(began))
		}
		began = time.Now()
		if w := b.Await(t.Context(), Query{Nodes: 1, SeenMs: 6, Hold: time.Hour}); w.AtMs != 7 || time.Since(began) != 0 {
			t.Errorf("of one that is there: %+v after %v", w, time.Since(began))
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if w := b.Await(ctx, Query{Nodes: 1, SeenMs: 7, Hold: time.Hour}); w.AtMs != 7 || time.Since(began) != time.Second {
			t.Errorf("when the caller has gone: %+v after %v", w, time.Since(began))
		}
	})
}

// A launcher counts as there for a while after it has asked, and one order is refused where there
// is none: but not by a leader that may only not have heard of it yet.
func TestLaunchersAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := New((&ledger{}).wanted)
		order := Order{Replicas: 3, Name: "vision", Most: 10, Leads: kept - 1}
		if err := b.Check(order); err != nil {
			t.Errorf("at a new leader: %v", err)
		}
		order.Leads = kept
		if err := b.Check(order); status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), `job "vision" has no launcher`) {
			t.Errorf("without a launcher: %v", err)
		}
		for node := range 3 {
			b.Await(t.Context(), Query{Node: node, Nodes: 3})
			b.Await(t.Context(), Query{Node: node, Nodes: 3})
		}
		if n, err := b.Launchers(), b.Check(order); n != 3 || err != nil {
			t.Errorf("%d launchers, want 3; %v", n, err)
		}
		<-time.After(kept / 2)
		b.Await(t.Context(), Query{Node: 1, Nodes: 3})
		<-time.After(kept/2 + 1)
		if n := b.Launchers(); n != 1 {
			t.Errorf("%d launchers have asked of late, want 1", n)
		}
	})
}

// Of many answers that are to wait some are given at once, and one address counts as no more than
// some launchers, whatever nodes it names.
func TestCallersAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := New((&ledger{}).wanted)
		var atOnce atomic.Int64
		var calls sync.WaitGroup
		for node := range maxWaiting + 10 {
			calls.Go(func() {
				began := time.Now()
				b.Await(t.Context(), Query{From: "10.0.0.1", Node: node, Nodes: maxNodes, Hold: MaxHold})
				if time.Since(began) == 0 {
					atOnce.Add(1)
				}
			})
		}
		calls.Wait()
		if n := atOnce.Load(); n != 10 {
			t.Errorf("%d answers came at once, want 10", n)
		}
		if n := b.Launchers(); n != maxOfCaller {
			t.Errorf("one address is %d launchers, want %d", n, maxOfCaller)
		}
		b.Await(t.Context(), Query{From: "10.0.0.2", Node: maxNodes - 1, Nodes: maxNodes})
		if n := b.Launchers(); n != maxOfCaller+1 {
			t.Errorf("with another address: %d launchers, want %d", n, maxOfCaller+1)
		}
		began := time.Now()
		b.Await(t.Context(), Query{From: "10.0.0.1", Nodes: 1, Hold: MaxHold})
		if time.Since(began) != MaxHold {
			t.Errorf("afterwards an answer waits %v, want %v", time.Since(began), MaxHold)
		}
	})
}

// A number that cannot be had is refused with the bound that it breaks.
func TestCheck(t *testing.T) {
	t.Parallel()
	b := New((&ledger{}).wanted)
	job := quorum.Status{Config: quorum.Config{MinReplicas: 2, MaxReplicas: 8}}
	finished := quorum.Status{State: quorum.JobFinished}
	for _, c := range []struct {
		replicas int
		job      quorum.Status
		want     string
	}{
		{2, job, ""},
		{8, job, ""},
		{1, job, "replicas = 1, want 2 or more: the job's min_replicas"},
		{0, job, ""},
		{-1, quorum.Status{}, "replicas = -1, want 1 or more"},
		{9, job, "replicas = 9, want 8 at most: the job's max_replicas"},
		{101, quorum.Status{}, "replicas = 101, want 100 at most"},
		{2, finished, `job "j" has finished: its replicas left in good order`},
	} {
		err := b.Check(Order{Replicas: c.replicas, Name: "j", Job: c.job, Most: 100})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d: %v, want %q", c.replicas, err, c.want)
		}
	}
}

// What a launcher says of itself is bounded.
func TestQueryOf(t *testing.T) {
	t.Parallel()
	q, err := QueryOf(&skerrypb.WantedRequest{Job: "j", Node: 2, Nodes: 3, SeenAtMs: 9, HoldMs: 3_600_000})
	if err != nil || q != (Query{Job: "j", Node: 2, Nodes: 3, SeenMs: 9, Hold: MaxHold}) {
		t.Errorf("%+v, %v", q, err)
	}
	for _, req := range []*skerrypb.WantedRequest{{}, {Node: 1, Nodes: 1}, {Nodes: maxNodes + 1}, {Node: 1<<32 - 1, Nodes: 1<<32 - 1}} {
		if _, err := QueryOf(req); !errors.Is(err, quorum.ErrInvalid) {
			t.Errorf("%v: %v", req, err)
		}
	}
}
