package connect

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/skerry-ft/skerry/lighthouse/api"
)

// eventServer answers with the oldest events of a time and later, as a lighthouse does.
type eventServer struct {
	mu     sync.Mutex
	events []api.Event
	since  []string // of all requests
	fails  bool
}

func (s *eventServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := r.URL.Query().Get("since")
	s.since = append(s.since, since)
	if s.fails {
		http.Error(w, "away", http.StatusBadGateway)
		return
	}
	from, _ := strconv.ParseInt(strings.TrimPrefix(since, "t"), 10, 64) // 0 where there is none
	found := slices.DeleteFunc(slices.Clone(s.events), func(e api.Event) bool { return e.AtMs < from })
	_ = json.NewEncoder(w).Encode(found[:min(len(found), eventsPage)]) // a test that fails sees it
}

// A reader asks for what it has not read, over answers that hold a part of it, and passes
// each event on once.
func TestReader(t *testing.T) {
	t.Parallel()
	s := &eventServer{}
	for i := range int64(2_500) {
		s.events = append(s.events, api.Event{Job: "digits", Seq: i + 1, AtMs: 1_000_000 + i/2*200})
	}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	r := (&Flags{list: web.URL, timeout: answerTimeout}).Reader("")
	next := func(want int, since ...string) {
		t.Helper()
		got, err := r.Next(t.Context())
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.fails != (err != nil) || len(got) != want || !slices.IsSortedFunc(got, func(a, b api.Event) int { return int(a.Seq - b.Seq) }) {
			t.Fatalf("%d events, %v; want %d in order", len(got), err, want)
		}
		if !slices.Equal(s.since, since) {
			t.Errorf("asked since %q, want %q", s.since, since)
		}
		s.since = nil
	}
	next(2_500, "", "t1099800", "t1199600")
	next(0, "t1189800") // the newest is of 1,249,800, and clocks may differ by a minute
	s.events = append(s.events, api.Event{Job: "digits", Seq: 2_501, AtMs: 1_300_000}, api.Event{Job: "other", Seq: 1, AtMs: 1_200_000})
	slices.SortStableFunc(s.events, func(a, b api.Event) int { return int(a.AtMs - b.AtMs) })
	s.fails = true
	next(0, "t1189800")
	s.fails = false
	got, err := r.Next(t.Context())
	if err != nil || len(got) != 2 || got[0].Job != "other" || got[1].Seq != 2_501 {
		t.Errorf("read %v, %v; want the two that are new", got, err)
	}
}
