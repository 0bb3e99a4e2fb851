// Package logline makes the loggers of programs. A change of membership takes some
// twenty milliseconds and is told by several processes: each line carries its time to
// the millisecond, in JSON in UTC and in one width, so that the logs of all processes,
// put together, sort into one story.
//
// What came from a peer is shown harmlessly, see package printable. The loggers are
// values; they are as safe for concurrent use as their writer is.
package logline

import (
	"io"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/printable"
)

// TimeFormat is how a JSON line tells its time: as RFC 3339, whose fraction
// time.RFC3339Nano would shorten.
const TimeFormat = "2006-01-02T15:04:05.000Z07:00"

// consoleTime is how a line for people tells it, in their own time.
const consoleTime = "15:04:05.000"

// JSON logs to w in lines of JSON.
func JSON(w io.Writer) zerolog.Logger { return timed(printable.JSONWriter(w)) }

// Console logs to w for people at a terminal, in color or without.
func Console(w io.Writer, color bool) zerolog.Logger {
	return timed(zerolog.ConsoleWriter{Out: w, TimeFormat: consoleTime, NoColor: !color, FormatPrepare: printable.Event})
}

// timed is not zerolog's own Timestamp, whose format is one for the whole process and
// belongs to the program: libraries make loggers too.
func timed(w io.Writer) zerolog.Logger {
	return zerolog.New(w).Hook(zerolog.HookFunc(func(e *zerolog.Event, _ zerolog.Level, _ string) {
		e.Str(zerolog.TimestampFieldName, time.Now().UTC().Format(TimeFormat))
	}))
}
