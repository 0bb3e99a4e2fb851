package logline_test

import (
	"bytes"
	"encoding/json"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/logline"
)

// Lines of one second are told apart, by loggers of all kinds and by those made from
// them; all stamps have one width, also those of a full second.
func TestMilliseconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // begins with a full second, in UTC
		var out bytes.Buffer
		log := logline.JSON(&out)
		child := log.With().Str("component", "pg").Logger().Level(zerolog.InfoLevel)
		var stamps []string
		for _, l := range []zerolog.Logger{log, child} {
			out.Reset()
			l.Info().Msg("group broken")
			l.Debug().Msg("not of the child")
			var line struct{ Time, Message string }
			if err := json.NewDecoder(&out).Decode(&line); err != nil || line.Message != "group broken" {
				t.Fatalf("%+v, %v", line, err)
			}
			stamps = append(stamps, line.Time)
			<-time.After(7 * time.Millisecond)
		}
		if stamps[0] != "2000-01-01T00:00:00.000Z" || stamps[1] != "2000-01-01T00:00:00.007Z" {
			t.Errorf("times %q, want them 7 ms apart", stamps)
		}
		for _, color := range []bool{false, true} {
			out.Reset()
			console := logline.Console(&out, color)
			console.Info().Str("peer", "a\u202eb").Msg("peer accused")
			want := regexp.MustCompile(`^(\x1b\[90m)?\d\d:\d\d:00\.014(\x1b\[0m)? .*INF.*peer accused.*a\\u202eb`)
			if line := out.String(); !want.MatchString(line) {
				t.Errorf("console line %q, want %v", line, want)
			}
		}
	})
}

// A peer's text in a line of JSON does nothing to a terminal.
func TestJSONIsHarmless(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := logline.JSON(&out)
	log.Warn().Str("peer", "\u202eevil\u009b2J").Msg("join refused")
	if !bytes.Contains(out.Bytes(), []byte(`"\u202eevil\u009b2J"`)) {
		t.Errorf("line %q, want the id escaped", out.String())
	}
}
