package guard

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A call whose transport ends is over, also if one of its messages came whole in a read
// that the transport dropped, so that nobody ever takes it: its handler waited for ever.
func TestCallEndsThoughItsMessageWasDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		call, cut := context.WithCancel(t.Context())
		s := newIncoming(call, nil)
		s.carried([]byte{0, 0, 0, 0, 2, 'h', 'i'})
		cut()
		<-time.After(lastWords / 2)
		if err := s.Err(); err != nil {
			t.Errorf("%v before the message could be read", err)
		}
		<-time.After(lastWords)
		if s.Err() == nil {
			t.Error("the call is not over")
		}
	})
}

// One whose messages were read is over at once.
func TestCallEndsWithItsLastMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		call, cut := context.WithCancel(t.Context())
		s := newIncoming(call, nil)
		s.carried([]byte{0, 0, 0, 0, 2, 'h', 'i'})
		cut()
		synctest.Wait()
		s.count(-1, false)
		if s.Err() == nil {
			t.Error("the call is not over")
		}
	})
}
