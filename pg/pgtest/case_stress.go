package pgtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// testAbortStress: an abort may come at any moment of any op, from any
// goroutine and several ranks at once; every op under way ends, the memory is
// the caller's again, and the next epoch works with it.
func testAbortStress(t *testing.T, h Harness) {
	const worldSize, epochs = 3, 12
	w := NewWorld(t, h.storeAddress(t))
	members := make([]Member, worldSize)
	for i := range members {
		members[i] = w.Join(fmt.Sprintf("replica-%d", i), h.New(t))
	}
	for epoch := range epochs {
		w.Configure(members...)
		works(w)
		var others sync.WaitGroup
		fire := make(chan struct{})
		for rank := range 1 + epoch%worldSize {
			others.Go(func() {
				<-fire
				w.Groups[rank].Abort(fmt.Errorf("rank %d ends epoch %d", rank, epoch))
			})
		}
		started := make(chan struct{}, worldSize)
		within(t, Bound, "aborted epoch", func() {
			var ranks sync.WaitGroup
			for rank, g := range w.Groups {
				ranks.Go(func() { reduceUntilBroken(t, g, rank+epoch, started) })
			}
			for range worldSize {
				<-started
			}
			// Some way into the traffic, a different one each time.
			timer := time.NewTimer(time.Duration(epoch) * time.Millisecond)
			<-timer.C
			close(fire)
			ranks.Wait()
			others.Wait()
		})
	}
	w.Configure(members...)
	works(w)
}

// reduceUntilBroken keeps three ops under way until one fails, and waits for
// all of them.
func reduceUntilBroken(t *testing.T, g *pg.Group, seed int, started chan<- struct{}) {
	var under []*pg.Work
	var memory [][]float32
	ctx := context.Background()
	for i := 0; ; i++ {
		x := make([]float32, 1+(i+seed)%3*60_000)
		memory = append(memory, x)
		under = append(under, g.AllReduceAsync(tensor.Of(x), tensor.Sum))
		if i == 3 {
			started <- struct{}{}
		}
		if len(under) < 3 {
			continue
		}
		if err := under[len(under)-3].Wait(ctx); err != nil && i >= 3 {
			break
		}
		memory = memory[max(len(memory)-3, 0):]
		under = under[max(len(under)-3, 0):]
	}
	for _, work := range under {
		if err := work.Wait(ctx); err == nil && g.Err() == nil {
			t.Error("an op succeeded after one that failed, in a group that is not broken")
		}
	}
	for _, x := range memory {
		clear(x) // a race, if anybody still touches it
	}
}

// testToken: ranks with one token form a group; one with another token does
// not get in, and nobody hangs.
func testToken(t *testing.T, h Harness) {
	w := newWorld(t, h, 2)
	try := func(tokens [2]string, limit time.Duration) error {
		w.Next()
		return w.Try(func(ctx context.Context, rank int, g *pg.Group) error {
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			c := w.Config(w.Members, rank)
			c.Token = []byte(tokens[rank])
			return g.Configure(ctx, c)
		})
	}
	const secret = "0123456789abcdef"
	if err := try([2]string{secret, secret}, Bound); err != nil {
		t.Fatalf("with one token: %v", err)
	}
	works(w)
	for _, wrong := range []string{"fedcba9876543210", ""} {
		if err := try([2]string{secret, wrong}, 200*time.Millisecond); err == nil {
			t.Errorf("a rank with token %q got into a group with another", wrong)
		}
	}
	if err := try([2]string{secret, secret}, Bound); err != nil {
		t.Fatalf("with one token again: %v", err)
	}
	works(w)
}

// testCloseEnds: Close ends a Configure that waits for its peers.
func testCloseEnds(t *testing.T, h Harness) {
	w := NewWorld(t, h.storeAddress(t))
	a, b := w.Join("a", h.New(t)), w.Join("b", h.New(t))
	w.Next()
	c := w.Config([]Member{a, b}, 0)
	done := make(chan error, 1)
	go func() { done <- a.Backend.Configure(context.Background(), c) }()
	within(t, PromptBound, "close during configure", func() {
		if err := a.Backend.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := <-done; !errors.Is(err, pg.ErrClosed) {
			t.Errorf("configure of a backend that closes: %v, want ErrClosed", err)
		}
	})
}
