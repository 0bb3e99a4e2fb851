package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/ckpttest"
	"github.com/skerry-ft/skerry/internal/nettest"
	"github.com/skerry-ft/skerry/tensor"
)

// Turns that no reader takes are spent by none: a reader that would wait for longer than it may is
// told so at once, and one that leaves gives its turn back.
func TestTurnsThatAreNotTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const second = 1 << 20
		wait := checkpoint.PacerForTest(second)
		if err := wait(t.Context(), second); err != nil { // the next turn is in a second, less the burst
			t.Fatal(err)
		}
		began := time.Now()
		soon, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		for range 100 {
			if err := wait(soon, second); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 0 {
				t.Fatalf("a turn after the deadline: %v after %v, want DeadlineExceeded at once", err, time.Since(began))
			}
		}
		leaves, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if err := wait(leaves, second); !errors.Is(err, context.Canceled) {
					t.Errorf("a reader that left: %v", err)
				}
			})
		}
		synctest.Wait()
		leave()
		wg.Wait()
		if err := wait(t.Context(), second); err != nil || time.Since(began) > time.Second {
			t.Errorf("the turn after all those: %v after %v, want it within a second", err, time.Since(began))
		}
	})
}

// A crowd of newcomers that copies from one donor takes as long as the donor's rate says. None
// gives the donor up for that.
func TestCrowdOfNewcomers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const newcomers, chunk, chunks, perSecond = 24, 64 << 10, 32, 3 << 20
		wire := nettest.New()
		open := func(name string) *checkpoint.HTTP {
			host := wire.Host(name)
			ln, err := host.Listen("10.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			tr, err := checkpoint.NewHTTP(checkpoint.HTTPConfig{
				Listener: ln, Open: true, ChunkBytes: chunk, AnyBytesPerSecond: perSecond, Timeout: 500 * time.Millisecond,
				Dial: func(ctx context.Context, _, address string) (c net.Conn, err error) { return host.Dial(ctx, address) },
			})
			if err != nil {
				t.Fatal(err)
			}
			return tr
		}
		donor := open("donor")
		ctx, stop := context.WithCancel(t.Context())
		var runs, wg sync.WaitGroup
		runs.Go(func() { _ = donor.Run(ctx) }) // it ends with ctx
		s := checkpoint.State{Tensors: map[string]tensor.Tensor{"x": tensor.New(tensor.Uint8, chunks*chunk)}}
		for i := range s.Tensors["x"].Bytes() {
			s.Tensors["x"].Bytes()[i] = byte(1 + i%251)
		}
		if err := donor.Serve("v", ckpttest.Saves(s)); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for i := range newcomers {
			wg.Go(func() {
				target, into := open(fmt.Sprint("newcomer", i)), ckpttest.Blank(s)
				if _, err := ckpttest.Fetch(t.Context(), target, checkpoint.Any, []string{donor.Metadata()}, into); err != nil {
					t.Errorf("newcomer %d, after %v: %v", i, time.Since(began), err)
				}
				if err := target.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		least := time.Duration(newcomers*chunks*chunk) * time.Second / perSecond
		if took := time.Since(began); took < least*9/10 || took > least*3/2 {
			t.Errorf("took %v, want what the rate says: %v or a little more", took, least)
		}
		stop()
		runs.Wait()
	})
}
