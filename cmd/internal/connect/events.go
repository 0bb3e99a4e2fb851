package connect

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
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

// maxEventBytes bounds one event: its names and texts are bounded by the server.
const maxEventBytes = 1 << 20

// Follow passes on what happens in a job, or in all if none is named, after the events
// that were seen already, over the death of servers, other leaders and answers that mean
// "not now", with pauses, until ctx ends or told returns an error. Trouble is told what comes between, once: that no server
// answers, or "" when one does again. It returns nil when ctx ends.
func (l *Flags) Follow(ctx context.Context, job string, seen []api.Event, told func(api.Event) error, trouble func(string)) error {
	f := follower{job: job, seen: make(map[eventKey]bool), told: told}
	for _, e := range seen {
		f.note(e)
	}
	said, tries := "", newRetry()
	for {
		err := l.inTurn(ctx, func(ctx context.Context, g *guard.Guard, addr string) error {
			opened := func() {
				tries = newRetry()
				if said != "" {
					said = ""
					trouble("")
				}
			}
			return tries.later(tooOld(l.stream(ctx, g, addr, f.query(), opened, f.take)))
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
		if backoff.Sleep(ctx, tries.next()) != nil {
			return nil
		}
	}
}

// stoppedError is what a callback ended a stream with.
type stoppedError struct{ error }

// follower knows which events were passed on. It is owned by one goroutine.
type follower struct {
	job    string
	seen   map[eventKey]bool // those of overlap before the newest, and some more
	newest int64             // Unix milliseconds
	told   func(api.Event) error
}

// eventKey is an event. Its number alone is not enough: what a leader told and could not
// save before it died, the next one does not know, and may give the number to another.
type eventKey struct {
	job       string
	seq, atMs int64
}

const (
	// overlap is how far before the newest event a stream begins that goes on: so much may
	// the clocks of two servers differ. What comes twice is left out.
	overlap = time.Minute
	// mostSeen bounds the events that are remembered.
	mostSeen = 1 << 14
)

// note remembers an event; it tells whether it is new.
func (f *follower) note(e api.Event) bool {
	key := eventKey{e.Job, e.Seq, e.AtMs}
	if f.seen[key] {
		return false
	}
	f.newest = max(f.newest, e.AtMs)
	if len(f.seen) >= mostSeen {
		maps.DeleteFunc(f.seen, func(k eventKey, _ bool) bool { return k.atMs < f.newest-overlap.Milliseconds() })
		if len(f.seen) >= mostSeen {
			clear(f.seen) // so many within the overlap: a server that is asked anew may tell some twice
		}
	}
	f.seen[key] = true
	return true
}

// query asks for what comes after what was passed on.
func (f *follower) query() url.Values {
	q := url.Values{"follow": {"1"}}
	if f.job != "" {
		q.Set("job", f.job)
	}
	if f.newest > 0 {
		q.Set("since", sinceTime(f.since()))
	}
	return q
}

// since is from when on there may be events that are new, in Unix milliseconds.
func (f *follower) since() int64 { return max(f.newest-overlap.Milliseconds(), 0) }

// sinceTime is how the API is asked for the events of a time and later.
func sinceTime(ms int64) string { return "t" + strconv.FormatInt(ms, 10) }

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
	lines.Split(wholeLines)
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

// wholeLines is bufio.ScanLines without what a broken stream leaves of its last line.
func wholeLines(data []byte, atEOF bool) (int, []byte, error) {
	if at := bytes.IndexByte(data, '\n'); at >= 0 {
		return at + 1, data[:at], nil
	}
	if atEOF {
		return len(data), nil, nil
	}
	return 0, nil, nil
}

// tooOld explains the answer of a server that has no events.
func tooOld(err error) error {
	if e, ok := errors.AsType[*answerError](err); ok && e.noPage() {
		return fmt.Errorf("lighthouse %s has no %s: its build is of before 28 November 2026; upgrade it, or see skerry status and skerry why", e.addr, eventsPath)
	}
	return err
}
