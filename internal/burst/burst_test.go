package burst_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/burst"
)

func TestSampler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := burst.Sampler{Lines: 3, Period: time.Second}
		for period := range 3 {
			for i := range 5 {
				if got, want := s.Sample(zerolog.WarnLevel), i < 3; got != want {
					t.Errorf("line %d of period %d: %v, want %v", i, period, got, want)
				}
			}
			<-time.After(999 * time.Millisecond)
			if s.Sample(zerolog.WarnLevel) {
				t.Errorf("period %d is over early", period)
			}
			<-time.After(time.Millisecond)
		}
	})
}
