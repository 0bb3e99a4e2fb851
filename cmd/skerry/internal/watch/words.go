package watch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/internal/connect"
	"github.com/skerry-ft/skerry/internal/printable"
	"github.com/skerry-ft/skerry/lighthouse/api"
)

// Told is an event in one sentence, the lighthouse's, that does harm on no terminal.
func Told(e api.Event, wide bool) string {
	return Called(cmp.Or(e.Text, strings.TrimSpace(e.Kind+" "+e.Replica)), wide)
}

// Called is a text with replicas called by their names, unless it is wide.
func Called(text string, wide bool) string {
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

// Step is how far a job is, and of how many steps, where that is known.
func Step(j api.Job) string {
	if j.StepsTotal > 0 {
		return fmt.Sprintf("step %d of %d", j.MaxStep, j.StepsTotal)
	}
	return fmt.Sprintf("step %d", j.MaxStep)
}

// WantedReplicas is how many replicas an operator wants of a job, and how many launchers see to it;
// "": no number was asked for.
func WantedReplicas(j api.Job) string {
	w := j.WantedReplicas
	if w == nil {
		return ""
	}
	text := fmt.Sprintf("%d, by %s", w.Replicas, cli.Plural(j.Launchers, "launcher"))
	if w.Reason != "" {
		text += ": " + printable.Line(w.Reason)
	}
	return text
}

// Left is how long a job takes from here, "": that is not known.
func Left(j api.Job) string {
	if j.EtaMs <= 0 {
		return ""
	}
	d := time.Duration(j.EtaMs) * time.Millisecond
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.0f s to go", max(d.Seconds(), 1))
	case d < time.Hour:
		return fmt.Sprintf("%.0f min to go", d.Minutes())
	case d < 48*time.Hour:
		return fmt.Sprintf("%.1f h to go", d.Hours())
	}
	return fmt.Sprintf("%.0f days to go", d.Hours()/24)
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

// Gone tells the states of replicas that will not be back.
func Gone(state string) bool {
	return slices.Contains([]string{"lost", "left", "drained", "evicted"}, state)
}

// Here are the names that replicas have which are not gone: of an incarnation that is, one
// of them has taken the place.
func Here(all []api.Replica) map[string]bool {
	here := make(map[string]bool)
	for _, r := range all {
		if !Gone(r.State) {
			here[name(r.ReplicaID)] = true
		}
	}
	return here
}

// name is a replica's id without its incarnation.
func name(id string) string {
	name, _, _ := strings.Cut(id, ":")
	return name
}
