package changes

import (
	"slices"

	"github.com/skerry-ft/skerry/lighthouse/api"
)

// mostKept bounds the jobs whose last change is known: those that changed last.
const mostKept = 1 << 12

// Latest has each job's last change, from events that come a part at a time. The zero value
// has none. It is owned by one goroutine, and what Add returns is the caller's.
type Latest struct {
	kept []api.Event
}

// Add takes in what happened since the last call, oldest first, and returns each job's last
// change, oldest first.
func (l *Latest) Add(events []api.Event) []api.Event {
	all := Of(slices.Concat(l.kept, events))
	slices.Reverse(all)
	seen := make(map[string]bool)
	all = slices.DeleteFunc(all, func(e api.Event) bool {
		old := seen[e.Job]
		seen[e.Job] = true
		return old
	})
	l.kept = all[:min(len(all), mostKept)]
	slices.Reverse(l.kept)
	return slices.Clone(l.kept)
}
