package state

import (
	"context"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/tensor"
)

// Once the trainer may write to its tensors, nothing reads them.
func TestComparisonEnds(t *testing.T) {
	t.Parallel()
	var s Parts
	reads := 0
	save := func() checkpoint.State {
		reads++
		return checkpoint.State{Tensors: map[string]tensor.Tensor{"w": tensor.Of(make([]float32, 4))}}
	}
	if err := s.Add("model", save, nil, Options{}); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	c := s.Compare(quorum.Position{}, 8, false)
	first := c.Result(ctx)
	if again := c.Result(ctx); again != first || !first.Digest.Valid || reads != 1 {
		t.Errorf("%+v, then %+v by %d reads; want one digest by one read", first, again, reads)
	}
	late := s.Compare(quorum.Position{}, 8, false)
	late.End()
	if got := late.Result(ctx); got.Digest.Valid || reads != 1 {
		t.Errorf("%+v after the end, by %d reads", got, reads)
	}
}

// A save callback takes its time. Who waits for the digest does so no longer than its
// ctx says, and the tensors are the trainer's again only when the callback is done.
func TestComparisonWaitsNoLongerThanCtx(t *testing.T) {
	t.Parallel()
	var s Parts
	called, goOn := make(chan struct{}), make(chan struct{})
	save := func() checkpoint.State {
		close(called)
		<-goOn
		return checkpoint.State{Tensors: map[string]tensor.Tensor{"w": tensor.Of(make([]float32, 4))}}
	}
	if err := s.Add("model", save, nil, Options{}); err != nil {
		t.Fatal(err)
	}
	c := s.Compare(quorum.Position{}, 8, false)
	go c.Result(context.Background())
	<-called
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := c.Result(ctx); got.Digest.Valid {
		t.Errorf("%+v of a callback that has not returned", got)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.End()
	}()
	select {
	case <-ended:
		t.Error("the comparison has ended, and its callback reads the state")
	case <-time.After(20 * time.Millisecond):
	}
	close(goOn)
	<-ended
}
