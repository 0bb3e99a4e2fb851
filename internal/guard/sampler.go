package guard

import (
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/burst"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/printable"
)

// What strangers may cause to be logged: with lines of 1 KiB at most, 300 KiB a
// minute.
const (
	sampleBurst  = 50
	samplePeriod = 10 * time.Second

	// MaxShownBytes bounds what one field of such a line repeats of what a
	// stranger said.
	MaxShownBytes = 128
)

// Sampler lets through some lines of those that anybody who reaches a port can
// cause, and counts the others. Safe for concurrent use.
type Sampler struct {
	burst   burst.Sampler
	all     atomic.Uint64
	pending atomic.Uint64 // since the last line
}

// Sampled returns log for the lines that strangers cause: denied calls, refused
// requests, connections that were cut. Of each period the first lines are logged;
// the next line says how many were left out, and the Sampler counts them all. A
// port needs one, for all of its lines.
func Sampled(log zerolog.Logger) (zerolog.Logger, *Sampler) {
	s := &Sampler{burst: burst.Sampler{Lines: sampleBurst, Period: samplePeriod}}
	return log.Sample(s).Hook(s), s
}

// Sample implements zerolog.Sampler.
func (s *Sampler) Sample(level zerolog.Level) bool {
	if s.burst.Sample(level) {
		return true
	}
	s.all.Add(1)
	s.pending.Add(1)
	return false
}

// Run implements zerolog.Hook: a line says how many before it were left out.
func (s *Sampler) Run(e *zerolog.Event, _ zerolog.Level, _ string) {
	if s.pending.Load() == 0 {
		return
	}
	if n := s.pending.Swap(0); n > 0 {
		e.Uint64(logkey.LeftOut, n)
	}
}

// LeftOut is how many lines were not logged.
func (s *Sampler) LeftOut() uint64 { return s.all.Load() }

// Shown cuts what a stranger said to what a line may repeat of it.
func Shown(text string) string { return printable.Cut(text, MaxShownBytes) }
