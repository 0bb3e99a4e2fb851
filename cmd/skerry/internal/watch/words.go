package watch

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/skerry-ft/skerry/cmd/internal/connect"
	"github.com/skerry-ft/skerry/internal/printable"
	"github.com/skerry-ft/skerry/lighthouse/api"
)

// Told is an event in one sentence, the lighthouse's, that does harm on no terminal.
func Told(e api.Event, wide bool) string {
	return called(cmp.Or(e.Text, strings.TrimSpace(e.Kind+" "+e.Replica)), wide)
}

// called is a text with replicas called by their names, unless it is wide.
func called(text string, wide bool) string {
	if !wide {
		text = connect.Named(text)
	}
	return printable.Line(text)
}

// Quorum is a job's quorum as it is called: by its number among the job's, where that is
// known.
func Quorum(j api.Job, wide bool) string {
	if j.Ordinal > 0 && !wide {
		return fmt.Sprintf("#%d", j.Ordinal)
	}
	return fmt.Sprint(j.QuorumID)
}

// Took is a time that is known, as people say it.
func Took(ms float64) string {
	switch {
	case ms <= 0:
		return "-"
	case ms < 10:
		return fmt.Sprintf("%.1f ms", ms)
	}
	return fmt.Sprintf("%.0f ms", ms)
}
