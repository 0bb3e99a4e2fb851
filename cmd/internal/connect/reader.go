package connect

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/lighthouse/api"
)

// eventsPage is how many events a server answers with at most: the oldest of those that are
// asked for.
const eventsPage = 1_000

// Reader reads what happened in a job, or in all, a part at a time. It is owned by one
// goroutine.
type Reader struct {
	l *Flags
	f follower
}

// Reader returns one that has read nothing yet; job may be empty.
func (l *Flags) Reader(job string) *Reader {
	return &Reader{l: l, f: follower{job: job, seen: make(map[eventKey]bool)}}
}

// Events returns what happened in a job, or in all if none is named, oldest first.
func (l *Flags) Events(ctx context.Context, job string) ([]api.Event, error) {
	return l.Reader(job).Next(ctx)
}

// Next returns what happened since the last call, oldest first; the first call all that the
// lighthouse knows. It asks for no more than that, and a minute before it. After an error the
// next call returns what this one would have.
func (r *Reader) Next(ctx context.Context) ([]api.Event, error) {
	read := []api.Event{}
	since := r.f.since()
	for {
		page, err := r.l.page(ctx, r.f.job, since)
		if err != nil {
			return nil, err
		}
		read = append(read, page...)
		if len(page) < eventsPage {
			break
		}
		// There may be more of that millisecond; of one that fills a page no more can be asked for.
		since = max(page[len(page)-1].AtMs, since+1)
	}
	return slices.DeleteFunc(read, func(e api.Event) bool { return !r.f.note(e) }), nil
}

// page asks for the events from a time on, in Unix milliseconds.
func (l *Flags) page(ctx context.Context, job string, sinceMs int64) (events []api.Event, err error) {
	query := url.Values{}
	if job != "" {
		query.Set("job", job)
	}
	if sinceMs > 0 {
		query.Set("since", sinceTime(sinceMs))
	}
	err = l.first(ctx, func(ctx context.Context, g *guard.Guard, addr string) error {
		body, err := l.fetch(ctx, g, addr, eventsPath, query)
		if err != nil {
			return tooOld(err)
		}
		events = nil
		if err := json.Unmarshal(body, &events); err != nil {
			return fmt.Errorf("lighthouse %s did not answer with events: %w", addr, err)
		}
		return nil
	})
	return events, err
}
