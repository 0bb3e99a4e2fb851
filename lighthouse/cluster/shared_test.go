package cluster

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Everybody gets a check that began after he asked, and as few are made as that
// allows.
func TestSharedCheck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s shared
		var checks atomic.Int64
		refused := errors.New("refused")
		check := func() error {
			n := checks.Add(1)
			<-time.After(time.Second) // in the bubble's time
			if n == 2 {
				return refused
			}
			return nil
		}
		var asking sync.WaitGroup
		ask := func(want error) {
			asking.Go(func() {
				before := checks.Load()
				err := s.do(check)
				if !errors.Is(err, want) {
					t.Errorf("check %d: %v, want %v", before+1, err, want)
				}
				if checks.Load() == before {
					t.Error("the check had begun before")
				}
			})
		}
		ask(nil)
		synctest.Wait() // the first has begun
		for range 100 {
			ask(refused)
		}
		synctest.Wait()
		<-time.After(1500 * time.Millisecond) // the second has
		for range 100 {
			ask(nil)
		}
		asking.Wait()
		if n := checks.Load(); n != 3 {
			t.Errorf("%d checks for 201 callers, want 3", n)
		}
		if err := s.do(check); err != nil || checks.Load() != 4 {
			t.Errorf("a caller later: %v after %d checks", err, checks.Load())
		}
	})
}
