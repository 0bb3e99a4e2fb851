package web

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/lighthouse/internal/live"
)

// The events in one answer, and in one piece of a stream.
const (
	maxEvents   = 1_000
	eventsBatch = 256
)

// query is which events are wanted.
type query struct {
	job     string // empty: all
	since   int64  // those with a higher seq
	sinceMs int64  // or, if not 0, those of that time and later
	limit   int
	resumes bool // a stream goes on where an earlier one ended
}

// queryOf reads a request's query. The job has to be there.
func (s *Server) queryOf(r *http.Request) (query, error) {
	values := r.URL.Query()
	q := query{job: values.Get("job"), limit: maxEvents}
	if q.job != "" {
		if _, err := wire.CheckJob(q.job); err != nil {
			return q, err
		}
		switch known, err := s.lighthouse.Known(r.Context(), q.job); {
		case err != nil:
			return q, err
		case !known:
			return q, unknownJob(q.job)
		}
	}
	since := values.Get("since")
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		since, q.resumes = last, true
	}
	if err := q.from(since); err != nil {
		return q, err
	}
	if text := values.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxEvents {
			return q, invalid("limit = %s, want 1 to %d", guard.Shown(text), maxEvents)
		}
		q.limit = n
	}
	if f := values.Get("follow"); f != "" && f != "0" && f != "1" {
		return q, invalid("follow = %s, want 0 or 1", guard.Shown(f))
	}
	return q, nil
}

// from reads where the events begin: a seq, or, as the ids of a stream of all jobs are, a
// "t" and a time in Unix milliseconds.
func (q *query) from(text string) error {
	if text == "" {
		return nil
	}
	digits, timed := strings.CutPrefix(text, "t")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 {
		return invalid("since = %s, want the seq of an event, 0 to %d, or t and a time in Unix milliseconds", guard.Shown(text), int64(1<<63-1))
	}
	if timed {
		q.sinceMs = n
		if q.resumes {
			q.sinceMs = max(0, n-resumeOverlapMs)
		}
	} else {
		q.since = n
	}
	return nil
}

// resumeOverlapMs is how far before its id a stream of all jobs is taken up again: of two jobs
// the event that is told later may be older. Readers know by job and seq what they have.
const resumeOverlapMs = 2_000

// cursor is how far the events of each job were read. It is owned by one goroutine.
type cursor struct {
	query
	read map[string]int64 // seq, by job
	feed Feed
}

func newCursor(q query, f Feed) *cursor {
	return &cursor{query: q, read: make(map[string]int64), feed: f}
}

// jobs are those that are read, sorted.
func (c *cursor) jobs() ([]string, error) {
	if c.job != "" {
		return []string{c.job}, nil
	}
	newest, err := c.feed.Newest()
	return slices.Sorted(maps.Keys(newest)), err
}

// skimmed is how many events are read at a time to find the first after a time.
const skimmed = 256

// next returns up to most further events of a job.
func (c *cursor) next(job string, most int) ([]api.Event, error) {
	read, begun := c.read[job]
	if !begun {
		read = c.since
	}
	timed, page := !begun && c.sinceMs > 0, most
	if timed {
		page = max(most, skimmed)
	}
	for {
		events, err := c.feed.Events(job, read, page)
		if err != nil || len(events) == 0 {
			return nil, err
		}
		read = events[len(events)-1].Seq
		c.read[job] = read
		if timed {
			events = slices.DeleteFunc(events, func(e api.Event) bool { return e.AtMs < c.sinceMs })
		}
		if len(events) > 0 {
			events = events[:min(len(events), most)]
			c.read[job] = events[len(events)-1].Seq
			return events, nil
		}
	}
}

// serveEvents answers with the events that there are, or goes on with those that come.
func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request) {
	q, err := s.queryOf(r)
	if err != nil {
		fail(w, r, err)
		return
	}
	if form := formOf(r); form != "" {
		s.follow(w, r, q, form)
		return
	}
	all := []api.Event{}
	c := newCursor(q, s.feed)
	jobs, err := c.jobs()
	for _, job := range jobs {
		var events []api.Event
		if events, err = c.next(job, q.limit); err != nil {
			break
		}
		// Of several jobs by time; those of one are in order already. What is too late for the answer
		// goes at once: there may be many jobs.
		all = append(all, events...)
		slices.SortStableFunc(all, func(a, b api.Event) int { return cmp.Compare(a.AtMs, b.AtMs) })
		all = slices.Clip(all[:min(len(all), q.limit)])
	}
	if err != nil {
		fail(w, r, err)
		return
	}
	answer(w, r, all, all)
}

// follow answers with events as they come, until the client ends it, the server stops, or
// another one leads.
func (s *Server) follow(w http.ResponseWriter, r *http.Request, q query, form string) {
	place, err := s.enterStream(w, r)
	if err != nil {
		fail(w, r, err)
		return
	}
	defer place.Leave()
	st, err := beginStream(w, form)
	if err != nil {
		return
	}
	defer st.wind() // for what ends the answer
	if r.Method == http.MethodHead {
		return
	}
	pings := time.NewTicker(pingEvery)
	defer pings.Stop()
	c := newCursor(q, s.feed)
	for {
		told := s.feed.Told()
		if s.tell(st, c) != nil {
			return
		}
		select {
		case <-told:
		case <-pings.C:
			ping := "\n" // an empty line: a reader that is gone is noticed
			if form == typeSSE {
				ping = ": ping\n\n"
			}
			if st.send([]byte(ping)) != nil {
				return
			}
		case <-s.stopping:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// tell sends the events that c has not read.
func (s *Server) tell(st stream, c *cursor) error {
	jobs, err := c.jobs()
	for _, job := range jobs {
		for {
			events, err := c.next(job, eventsBatch)
			if err != nil {
				return err
			}
			if len(events) == 0 {
				break
			}
			var text []byte
			for _, e := range events {
				text = append(text, st.event(e, c.job != "")...)
			}
			if err := st.send(text); err != nil {
				return err
			}
		}
	}
	return err
}

// catchUp sends what was told since the id that a client names which comes again.
func (s *Server) catchUp(st stream, q query) error { return s.tell(st, newCursor(q, s.feed)) }

// event is one event in the stream's form.
func (st stream) event(e api.Event, one bool) []byte {
	if st.form == typeSSE {
		return live.Told(e, one)
	}
	text, err := json.Marshal(e)
	if err != nil { // an Event is numbers and texts
		return nil
	}
	return append(text, '\n')
}
