package guard_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/guard"
)

// TestSampledLogStaysSmall: what a flood makes a port log is less than 1 MB a
// minute, nothing of it goes uncounted, and the log says that there was more.
func TestSampledLogStaysSmall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var written bytes.Buffer
		log, sampler := guard.Sampled(zerolog.New(&written))
		<-time.After(time.Second) // a sampler's first period begins with its first line
		long := strings.Repeat("ä", 64<<10)
		const ticks, each = 600, 500
		for range ticks {
			for range each {
				log.Warn().Err(errors.New(guard.Shown(long))).Str("method", guard.Shown(long)).Msg("call denied")
			}
			<-time.After(100 * time.Millisecond)
		}
		lines := bytes.Count(written.Bytes(), []byte("\n"))
		if written.Len() > 1_000_000 || lines < 10 {
			t.Errorf("%d bytes in %d lines within a minute, want some, and less than 1 MB", written.Len(), lines)
		}
		if got := sampler.LeftOut() + uint64(lines); got != ticks*each {
			t.Errorf("%d lines logged or counted, want %d", got, ticks*each)
		}
		if !strings.Contains(written.String(), `"left_out":`) {
			t.Error("the log does not say how many lines were left out")
		}
	})
}
