// Package burst bounds what strangers cause in a log: Sampler their lines, of which the
// first of each period are written, and Short what a line repeats of what they said.
//
// zerolog's own BurstSampler goes by the wall clock, and is silent until that is back
// where it was when it jumps back.
package burst

import (
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// Sampler lets the first Lines lines of each Period through. A period begins with the
// first line after the last one; it is measured by the monotonic clock. Set the fields
// before use. Safe for concurrent use.
type Sampler struct {
	Lines  int
	Period time.Duration

	mu sync.Mutex

	began time.Time
	count int // of this period
}

// Sample implements zerolog.Sampler.
func (s *Sampler) Sample(zerolog.Level) bool {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.began.IsZero() || now.Sub(s.began) >= s.Period {
		s.began, s.count = now, 0
	}
	s.count++
	return s.count <= s.Lines
}
