package serverbeat

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
)

// A stream is told when it beats, and again when that changes; 0 ends it.
func TestBeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b Beats
		if b.Due != nil {
			t.Fatal("it beats before a welcome")
		}
		b.Sent(&skerrypb.Down{Message: &skerrypb.Down_Welcome{Welcome: &skerrypb.Welcome{ServerBeatMs: 300}}})
		began := time.Now()
		<-b.Due
		<-b.Due
		b.Sent(&skerrypb.Down{Message: &skerrypb.Down_Drain{}}) // says nothing of times
		<-b.Due
		if took := time.Since(began); took != 900*time.Millisecond {
			t.Errorf("three beats took %v, want 900 ms", took)
		}
		b.Sent(&skerrypb.Down{Message: &skerrypb.Down_Timing{Timing: &skerrypb.Timing{ServerBeatMs: 0}}})
		if b.Due != nil {
			t.Error("it beats, though it was told not to")
		}
		if b.Next().GetServerBeat() == nil {
			t.Errorf("a beat is %v", b.Next())
		}
	})
}
