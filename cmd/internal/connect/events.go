package connect

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/lighthouse/api"
)

// eventsPath is where a lighthouse tells what happened.
const eventsPath = "/api/v1/events"

const (
	// maxEventBytes bounds one event: its names and texts are bounded by the server.
	maxEventBytes = 1 << 20
	// again is the pause before a stream that broke is asked for anew.
	again = 500 * time.Millisecond
)

// Events returns what happened in a job, or in all if none is named, oldest first: of one
// job after the event of that number.
func (l *Flags) Events(ctx context.Context, job string, since int64) (events []api.Event, err error) {
	query := url.Values{}
	if job != "" {
		query.Set("job", job)
		query.Set("since", strconv.FormatInt(since, 10))
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

// Follow passes on what happens in a job, or in all if none is named, after the events
// that were seen already, over the death of servers and other leaders, until ctx ends or
// told returns an error. Trouble is told what comes between, once: that no server
// answers, or "" when one does again. It returns nil when ctx ends.
func (l *Flags) Follow(ctx context.Context, job string, seen []api.Event, told func(api.Event) error, trouble func(string)) error {
	f := follower{job: job, last: make(map[string]int64), told: told}
	for _, e := range seen {
		f.note(e)
	}
	said := ""
	for {
		err := l.inTurn(ctx, func(ctx context.Context, g *guard.Guard, addr string) error {
			opened := func() {
				if said != "" {
					said = ""
					trouble("")
				}
			}
			return tooOld(l.stream(ctx, g, addr, f.query(), opened, f.take))
		})
		stopped, fatal := errors.AsType[stoppedError](err)
		switch {
		case fatal:
			return stopped.error
		case ctx.Err() != nil:
			return nil
		case err != nil && cli.StatusOf(err) != cli.StatusNoLeader:
			return err
		}
		if err != nil && err.Error() != said {
			said = err.Error()
			trouble(said)
		}
		if backoff.Sleep(ctx, again) != nil {
			return nil
		}
	}
}

// stoppedError is what a callback ended a stream with.
type stoppedError struct{ error }

// follower knows which events were passed on. It is owned by one goroutine.
type follower struct {
	job  string
	last map[string]int64 // seq, by job
	atMs int64            // of the newest
	told func(api.Event) error
}

// note remembers an event; it tells whether it is new.
func (f *follower) note(e api.Event) bool {
	if last, known := f.last[e.Job]; known && e.Seq <= last {
		return false
	}
	f.last[e.Job] = e.Seq
	f.atMs = max(f.atMs, e.AtMs)
	return true
}

// query asks for what comes after what was passed on. Of all jobs the newest event's time
// says so, and what comes twice is left out.
func (f *follower) query() url.Values {
	q := url.Values{"follow": {"1"}}
	if f.job != "" {
		q.Set("job", f.job)
		q.Set("since", strconv.FormatInt(f.last[f.job], 10))
	} else if f.atMs > 0 {
		q.Set("since", "t"+strconv.FormatInt(f.atMs, 10))
	}
	return q
}

func (f *follower) take(line []byte) error {
	var e api.Event
	if err := json.Unmarshal(line, &e); err != nil {
		return fmt.Errorf("the lighthouse told of no event: %w", err)
	}
	if e.Job == "" {
		e.Job = f.job // a stream of one job may leave it out
	}
	if !f.note(e) {
		return nil
	}
	if err := f.told(e); err != nil {
		return stoppedError{err}
	}
	return nil
}

// stream reads lines of JSON from a server until it ends them: then another one leads, or
// it stops.
func (l *Flags) stream(ctx context.Context, g *guard.Guard, addr string, query url.Values, opened func(), take func(line []byte) error) error {
	resp, err := l.open(ctx, g, addr, eventsPath, query)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	opened()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxEventBytes)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue
		}
		if err := take(lines.Bytes()); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return unreachable(addr, l.timeout, networkCause(err))
	}
	return nil
}

// tooOld explains the answer of a server that has no events.
func tooOld(err error) error {
	if e, ok := errors.AsType[*answerError](err); ok && e.noPage() {
		return fmt.Errorf("lighthouse %s has no %s: its build is of before 28 November 2026; upgrade it, or see skerry status and skerry why", e.addr, eventsPath)
	}
	return err
}
